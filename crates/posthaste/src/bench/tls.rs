//! A certificate for the receiver of one run, and the file by which the server trusts it.

use anyhow::Context as _;
use rcgen::{CertifiedKey, generate_simple_self_signed};
use std::path::Path;
use std::sync::Arc;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

/// The name that the certificate is for.
pub(super) const HOST: &str = "localhost";

pub(super) fn make(folder: &Path) -> anyhow::Result<(TlsAcceptor, String)> {
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed([HOST.to_owned()]).context("making a certificate")?;
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(signing_key.serialize_der()));
    let config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key)
        .context("using the certificate")?;
    let file = folder.join("ca.pem");
    std::fs::write(&file, cert.pem()).with_context(|| format!("writing {}", file.display()))?;
    Ok((TlsAcceptor::from(Arc::new(config)), file.display().to_string()))
}
