//! Client certificates for TLS: parses the certificate chain and the private key of a subscription (PEM text from
//! the API or the store) into an identity that the [`Sender`](super::Sender) presents to receivers.

use std::fmt;
use std::sync::Arc;

use aws_lc_rs::digest::{Context, SHA256};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::ParsedCertificate;
use rustls::sign::CertifiedKey;
use rustls::{Error, InconsistentKeys};

/// The maximum length of a certificate chain in PEM, in bytes.
const CERTIFICATE_BYTES_MAX: usize = 32 * 1024;
/// The maximum length of a private key in PEM, in bytes. A key of RSA with 8,192 bits has 6,400.
const KEY_BYTES_MAX: usize = 16 * 1024;
/// The maximum number of certificates in a chain.
const CHAIN_MAX: usize = 10;

/// The reason why a certificate and a key are not an identity. The messages contain no part of either.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum IdentityError {
    #[error("certificate must be at most {CERTIFICATE_BYTES_MAX} bytes long")]
    CertificateTooLong,
    #[error("certificate must not contain the private key: send it as key")]
    KeyInCertificate,
    #[error("certificate must be PEM text with at least one block BEGIN CERTIFICATE")]
    NoCertificate,
    #[error("certificate is not valid PEM text")]
    CertificatePem,
    #[error("certificate must contain at most {CHAIN_MAX} certificates")]
    ChainTooLong,
    #[error("certificate {position} of the chain is not a valid X.509 certificate of version 3")]
    CertificateInvalid { position: usize },
    #[error("key must be at most {KEY_BYTES_MAX} bytes long")]
    KeyTooLong,
    #[error("key is encrypted: send it without a passphrase")]
    KeyEncrypted,
    #[error(
        "key must be PEM text with one block BEGIN PRIVATE KEY, BEGIN RSA PRIVATE KEY or BEGIN EC PRIVATE KEY"
    )]
    NoKey,
    #[error("key must contain one private key, not several")]
    SeveralKeys,
    #[error("key is not valid PEM text")]
    KeyPem,
    #[error("key must be a key of RSA (2,048 to 8,192 bits), ECDSA (P-256, P-384 or P-521) or Ed25519")]
    KeyUnsupported,
    #[error("key does not belong to the first certificate of the chain")]
    Mismatch,
}

/// The SHA-256 digest of the certificate chain and the public key of an identity. Displayed in hexadecimal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint([u8; 32]);

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// A certificate chain with its private key. Cheap to clone.
#[derive(Clone)]
pub struct ClientIdentity {
    certified: Arc<CertifiedKey>,
    fingerprint: Fingerprint,
}

/// Omits the key.
impl fmt::Debug for ClientIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ClientIdentity").field(&format_args!("{}", self.fingerprint)).finish()
    }
}

impl ClientIdentity {
    /// Parses a certificate chain, which starts with the client's certificate, and the key of that certificate
    /// (PKCS #8, PKCS #1 or SEC 1).
    ///
    /// # Errors
    ///
    /// Returns an error if a certificate or the key is invalid, or if the key belongs to another certificate.
    pub fn from_pem(certificate: &str, key: &str) -> Result<Self, IdentityError> {
        let chain = parse_chain(certificate)?;
        let key = parse_key(key)?;
        let key = default_provider().key_provider.load_private_key(key);
        let certified = CertifiedKey::new(chain, key.map_err(|_| IdentityError::KeyUnsupported)?);
        // The certificates are valid, so any other error concerns the key.
        certified.keys_match().map_err(|error| {
            let is_other_key = error == Error::InconsistentKeys(InconsistentKeys::KeyMismatch);
            if is_other_key { IdentityError::Mismatch } else { IdentityError::KeyUnsupported }
        })?;
        let fingerprint = fingerprint(&certified);
        Ok(Self { certified: Arc::new(certified), fingerprint })
    }

    pub const fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    pub(super) fn certified(&self) -> Arc<CertifiedKey> {
        Arc::clone(&self.certified)
    }
}

fn parse_chain(text: &str) -> Result<Vec<CertificateDer<'static>>, IdentityError> {
    if text.len() > CERTIFICATE_BYTES_MAX {
        return Err(IdentityError::CertificateTooLong);
    }
    // The certificate is stored and displayed as public data.
    if text.contains("PRIVATE KEY-----") {
        return Err(IdentityError::KeyInCertificate);
    }
    let mut chain = Vec::new();
    for certificate in CertificateDer::pem_slice_iter(text.as_bytes()) {
        let certificate = certificate.map_err(|_| IdentityError::CertificatePem)?;
        let position = chain.len() + 1;
        if position > CHAIN_MAX {
            return Err(IdentityError::ChainTooLong);
        }
        let parsed = ParsedCertificate::try_from(&certificate).map(|_| ());
        parsed.map_err(|_| IdentityError::CertificateInvalid { position })?;
        chain.push(certificate);
    }
    if chain.is_empty() { Err(IdentityError::NoCertificate) } else { Ok(chain) }
}

fn parse_key(text: &str) -> Result<PrivateKeyDer<'static>, IdentityError> {
    if text.len() > KEY_BYTES_MAX {
        return Err(IdentityError::KeyTooLong);
    }
    // The second form is that of OpenSSL before PKCS #8.
    if text.contains("BEGIN ENCRYPTED PRIVATE KEY") || text.contains("Proc-Type: 4,ENCRYPTED") {
        return Err(IdentityError::KeyEncrypted);
    }
    let mut keys = PrivateKeyDer::pem_slice_iter(text.as_bytes());
    let read = |key: Result<_, pem::Error>| key.map_err(|_| IdentityError::KeyPem);
    let key = keys.next().map(read).transpose()?.ok_or(IdentityError::NoKey)?;
    if keys.next().is_some() { Err(IdentityError::SeveralKeys) } else { Ok(key) }
}

/// Returns the digest of everything that a receiver can see of an identity. Each part is preceded by its length.
fn fingerprint(certified: &CertifiedKey) -> Fingerprint {
    let mut digest = Context::new(&SHA256);
    let public_key = certified.key.public_key();
    let chain = certified.cert.iter().map(|certificate| certificate.as_ref());
    for part in chain.chain(public_key.as_ref().map(|key| key.as_ref())) {
        digest.update(&(part.len() as u64).to_be_bytes());
        digest.update(part);
    }
    let mut bytes = [0; 32];
    bytes.copy_from_slice(digest.finish().as_ref());
    Fingerprint(bytes)
}

#[cfg(test)]
mod tests;
