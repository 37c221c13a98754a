//! The certificate of the TLS receiver, and the CA file with which the measured server trusts it. Both are
//! constants: the key is public, and only the benchmark's own server trusts the certificate.

use anyhow::Context as _;
use std::path::Path;
use std::sync::Arc;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

/// The host name of the certificate.
pub const HOST: &str = "localhost";

/// Self-signed for [`HOST`], valid until 2120.
const CERTIFICATE: &str = include_str!("tls/certificate.pem");
const KEY: &[u8] = include_bytes!("tls/key.der");

/// Returns the acceptor for connections, and the path of the file with the certificate.
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
