//! The certificate authorities trusted for TLS: those of the system and those in an optional file
//! (`POSTHASTE_CA_FILE`). Read once at startup.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::WantsClientCert;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, ConfigBuilder, RootCertStore};

/// An error in the TLS configuration, which prevents the process from starting.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    #[error("{path} does not contain valid PEM certificates")]
    File { path: PathBuf, source: rustls::pki_types::pem::Error },
    #[error("{path} contains no certificate")]
    Empty { path: PathBuf },
    #[error("{path} contains a certificate that is not a valid certificate authority")]
    Certificate { path: PathBuf, source: rustls::Error },
    #[error("TLS cannot be set up")]
    Setup(#[from] rustls::Error),
}

/// A set of trusted certificate authorities.
#[derive(Debug, Clone)]
pub struct Trust {
    roots: RootCertStore,
}

impl Trust {
    /// Creates an empty set, with which every TLS handshake fails.
    pub fn nobody() -> Self {
        Self { roots: RootCertStore::empty() }
    }

    /// Loads the authorities of the system, except those that cannot be read. Check [`Trust::authorities`]:
    /// if the set is empty (as in a minimal container), no delivery over https can succeed.
    pub fn system() -> Self {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        Self { roots }
    }

    /// Adds the authorities in a PEM file.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be read, contains no certificate, or contains an invalid
    /// certificate.
    pub fn with_ca_file(mut self, path: &Path) -> Result<Self, TrustError> {
        let unreadable = |source| TrustError::File { path: path.to_owned(), source };
        let before = self.authorities();
        for certificate in CertificateDer::pem_file_iter(path).map_err(unreadable)? {
            let refused = |source| TrustError::Certificate { path: path.to_owned(), source };
            self.roots.add(certificate.map_err(unreadable)?).map_err(refused)?;
        }
        if self.authorities() == before {
            return Err(TrustError::Empty { path: path.to_owned() });
        }
        Ok(self)
    }

    /// Returns the number of trusted authorities.
    pub fn authorities(&self) -> usize {
        self.roots.len()
    }

    /// Creates the TLS client configuration, which offers only HTTP/1.1.
    pub fn client_config(self) -> Result<Arc<ClientConfig>, TrustError> {
        let mut config = builder(self.into_roots())?.with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }

    pub(super) fn into_roots(self) -> Arc<RootCertStore> {
        Arc::new(self.roots)
    }
}

/// Returns a TLS client configuration that trusts `roots` and lacks only the client certificate.
pub(super) fn builder(
    roots: Arc<RootCertStore>,
) -> Result<ConfigBuilder<ClientConfig, WantsClientCert>, rustls::Error> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    Ok(builder.with_root_certificates(roots))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ca_file_must_be_valid() {
        let folder = tempfile::tempdir().expect("a folder");
        let check = |content: Option<&str>| {
            let path = folder.path().join("ca.pem");
            let _ = std::fs::remove_file(&path);
            if let Some(content) = content {
                std::fs::write(&path, content).expect("a file");
            }
            Trust::nobody().with_ca_file(&path)
        };
        assert!(matches!(check(None), Err(TrustError::File { .. })));
        assert!(matches!(check(Some("")), Err(TrustError::Empty { .. })));
        assert!(matches!(check(Some("no certificate")), Err(TrustError::Empty { .. })));
        let broken = "-----BEGIN CERTIFICATE-----\n!!\n-----END CERTIFICATE-----\n";
        assert!(matches!(check(Some(broken)), Err(TrustError::File { .. })));
        let foreign = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        assert!(matches!(check(Some(foreign)), Err(TrustError::Certificate { .. })));
        let good = rcgen::generate_simple_self_signed(["example.com".to_owned()]).expect("a certificate");
        assert_eq!(check(Some(&good.cert.pem())).expect("an authority").authorities(), 1);
    }
}
