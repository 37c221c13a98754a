//! The certificate of the TLS receiver, and the CA file that makes the measured server trust it. The private key
//! may be public, because only the measured server trusts the certificate.

use anyhow::Context as _;
use std::path::Path;
use std::sync::Arc;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

/// The host name in the certificate.
pub const HOST: &str = "localhost";

/// A self-signed certificate for [`HOST`], valid until 2120.
const CERTIFICATE: &str = include_str!("tls/certificate.pem");
const KEY: &[u8] = include_bytes!("tls/key.der");

/// Writes a CA file to `folder`. Returns the TLS acceptor of the receiver and the path of the file.
pub fn make(folder: &Path) -> anyhow::Result<(TlsAcceptor, String)> {
    let certificate =
        CertificateDer::from_pem_slice(CERTIFICATE.as_bytes()).context("reading the certificate")?;
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(KEY));
    let config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .context("using the certificate")?;
    let file = folder.join("ca.pem");
    std::fs::write(&file, CERTIFICATE).with_context(|| format!("writing {}", file.display()))?;
    Ok((TlsAcceptor::from(Arc::new(config)), file.display().to_string()))
}
