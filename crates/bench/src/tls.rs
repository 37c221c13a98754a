//! The certificate of a receiver that speaks TLS, and the file by which the server under test trusts it. Both are
//! constants: the key is public, and nothing but a benchmark's own server trusts the certificate.

use anyhow::Context as _;
use std::path::Path;
use std::sync::Arc;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

/// The name that the certificate is for.
pub const HOST: &str = "localhost";

/// Self-signed for [`HOST`], valid until 2120.
const CERTIFICATE: &str = include_str!("tls/certificate.pem");
const KEY: &[u8] = include_bytes!("tls/key.der");

/// Returns what accepts connections, and the path of the file with the certificate.
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
