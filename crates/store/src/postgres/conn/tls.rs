//! TLS for connections to PostgreSQL, with the semantics of libpq: what is verified depends on `sslmode` and
//! `sslrootcert`. With everything on one machine, deliveries over TLS reach 0.97 of the throughput of plain text
//! (`posthaste bench one`, medians of six runs each, in turns).

mod certificate;
mod files;
mod verify;

use crate::postgres::conn::monitor::{TlsSession, Verified};
use crate::postgres::conn::socket::Socket;
use crate::postgres::conn::url::{RootCertificates, SslMode, TlsParameters};
use certificate::{ServerCertificate, end_point_hash};
use files::Stamp;
use rustls::ClientConfig;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::ServerName;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::tls::{ChannelBinding, TlsConnect, TlsStream};
use tokio_rustls::TlsConnector;
pub(crate) use verify::CertificateRefused;
use verify::ServerVerifier;

/// The application protocol that a client must announce for `sslnegotiation=direct`.
const ALPN: &[u8] = b"postgresql";

/// The TLS configuration of a URL. The files are read again when they change, so that certificates can be renewed
/// without a restart.
pub(crate) struct TlsContext {
    parameters: TlsParameters,
    loaded: Mutex<Loaded>,
}

struct Loaded {
    stamps: Vec<Stamp>,
    config: Arc<ClientConfig>,
}

impl TlsContext {
    /// Reads the certificates and the private key.
    ///
    /// # Errors
    ///
    /// Returns a text that names the file and the reason.
    pub(crate) fn load(parameters: &TlsParameters) -> Result<Self, String> {
        Ok(Self { parameters: parameters.clone(), loaded: Mutex::new(Loaded::read(parameters)?) })
    }

    /// Returns the configuration for the current content of the files, or the one before if they cannot be used: a
    /// certificate and its key are replaced one after the other.
    pub(crate) fn config(&self) -> Arc<ClientConfig> {
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        if loaded.stamps != files::stamps(&self.parameters) {
            match Loaded::read(&self.parameters) {
                Ok(current) => *loaded = current,
                Err(error) => tracing::warn!(error, "changed TLS files of the database cannot be used"),
            }
        }
        Arc::clone(&loaded.config)
    }

    pub(crate) const fn verified(&self) -> Verified {
        match (self.parameters.mode, &self.parameters.roots) {
            (SslMode::VerifyFull, _) => Verified::Host,
            (_, RootCertificates::Unset) => Verified::No,
            (_, RootCertificates::System | RootCertificates::File(_)) => Verified::Authority,
        }
    }
}

impl Loaded {
    fn read(parameters: &TlsParameters) -> Result<Self, String> {
        // Taken before reading: a file that changes meanwhile is read again.
        let stamps = files::stamps(parameters);
        let provider = Arc::new(aws_lc_rs::default_provider());
        let verifier = ServerVerifier::new(parameters, &provider)?;
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| format!("TLS cannot be set up: {error}"))?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier));
        let mut config = match &parameters.client {
            None => builder.with_no_client_auth(),
            Some(client) => {
                let (chain, key) =
                    (files::certificates(&client.certificate)?, files::private_key(&client.key)?);
                builder.with_client_auth_cert(chain, key).map_err(|error| {
                    let (certificate, key) = (client.certificate.display(), client.key.display());
                    format!("the private key {key} does not fit the certificate {certificate}: {error}")
                })?
            }
        };
        config.alpn_protocols = vec![ALPN.to_vec()];
        Ok(Self { stamps, config: Arc::new(config) })
    }
}

/// The TLS handshake of one connection.
pub(crate) struct Handshake {
    pub(crate) config: Arc<ClientConfig>,
    pub(crate) name: ServerName<'static>,
    pub(crate) verified: Verified,
    /// Whether the server must confirm the application protocol. Otherwise it may be a server of another kind.
    pub(crate) needs_alpn: bool,
    /// Set after the handshake.
    pub(crate) session: Arc<OnceLock<TlsSession>>,
}

/// The handshake of a connection, or `None` if it is not encrypted.
pub(crate) struct MaybeHandshake(pub(crate) Option<Handshake>);

impl TlsConnect<Socket> for MaybeHandshake {
    type Stream = EncryptedSocket;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<EncryptedSocket>> + Send>>;

    fn connect(self, socket: Socket) -> Self::Future {
        Box::pin(async move {
            match self.0 {
                Some(handshake) => handshake.run(socket).await,
                None => Err(io::Error::other("TLS is disabled")),
            }
        })
    }
}

impl Handshake {
    async fn run(self, socket: Socket) -> io::Result<EncryptedSocket> {
        let stream = TlsConnector::from(self.config).connect(self.name, socket).await?;
        let (_, tls) = stream.get_ref();
        if self.needs_alpn && tls.alpn_protocol() != Some(ALPN) {
            return Err(io::Error::other(NoAlpn));
        }
        let certificate = tls.peer_certificates().and_then(<[_]>::first);
        let session = TlsSession {
            version: if tls.protocol_version() == Some(rustls::ProtocolVersion::TLSv1_2) {
                "TLSv1.2"
            } else {
                "TLSv1.3"
            },
            verified: self.verified,
            expires: certificate
                .and_then(|der| ServerCertificate::parse(der))
                .and_then(|certificate| certificate.expires()),
        };
        let _ = self.session.set(session);
        Ok(EncryptedSocket(Box::new(stream)))
    }
}

#[derive(Debug, thiserror::Error)]
#[error(
    "the server did not confirm the protocol postgresql, which sslnegotiation=direct requires (PostgreSQL 17)"
)]
pub(crate) struct NoAlpn;

/// A socket after the TLS handshake. Boxed, because its state is large and is moved between futures.
pub(crate) struct EncryptedSocket(Box<tokio_rustls::client::TlsStream<Socket>>);

impl TlsStream for EncryptedSocket {
    fn channel_binding(&self) -> ChannelBinding {
        let (_, tls) = self.0.get_ref();
        let certificate = tls.peer_certificates().and_then(<[_]>::first);
        certificate
            .and_then(|der| end_point_hash(der))
            .map_or_else(ChannelBinding::none, ChannelBinding::tls_server_end_point)
    }
}

impl AsyncRead for EncryptedSocket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl AsyncWrite for EncryptedSocket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, data)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
