//! The TLS configurations for outgoing connections: one without a client certificate, and one for each
//! [`ClientIdentity`]. Sessions are resumed within a configuration only, so never under another identity. Used by
//! [`connect`](super::connect).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aws_lc_rs::digest::{Context, SHA256};
use rustls::client::Resumption;
use rustls::sign::SingleCertAndKey;
use rustls::{ClientConfig, RootCertStore};
use tokio_rustls::TlsConnector;

use super::identity::{ClientIdentity, Fingerprint, IdentityError};
use super::trust::{Trust, TrustError, builder};
use crate::lru::LruMap;

/// The maximum number of cached identities, and of TLS configurations for them.
const IDENTITIES_MAX: usize = 1_000;
/// The number of TLS sessions kept for resumption per identity. Most identities are used at one host.
const SESSIONS_PER_IDENTITY: usize = 8;

pub(super) struct TlsClients {
    anonymous: TlsConnector,
    roots: Arc<RootCertStore>,
    /// Parsed identities, by a digest of their PEM text.
    parsed: Mutex<LruMap<[u8; 32], ClientIdentity>>,
    configured: Mutex<LruMap<Fingerprint, TlsConnector>>,
}

impl TlsClients {
    pub(super) fn new(trust: Trust) -> Result<Self, TrustError> {
        let roots = trust.into_roots();
        let anonymous = connector(builder(Arc::clone(&roots))?.with_no_client_auth());
        let (parsed, configured) = (LruMap::new(IDENTITIES_MAX), LruMap::new(IDENTITIES_MAX));
        Ok(Self { anonymous, roots, parsed: Mutex::new(parsed), configured: Mutex::new(configured) })
    }

    /// Parses an identity, unless it is cached. Checking an RSA key takes 0.4 ms, too long for every delivery.
    pub(super) fn identity(&self, certificate: &str, key: &str) -> Result<ClientIdentity, IdentityError> {
        let mut digest = Context::new(&SHA256);
        digest.update(&(certificate.len() as u64).to_be_bytes());
        digest.update(certificate.as_bytes());
        digest.update(key.as_bytes());
        let mut pem = [0; 32];
        pem.copy_from_slice(digest.finish().as_ref());
        if let Some(identity) = lock(&self.parsed).get(&pem) {
            return Ok(identity.clone());
        }
        let identity = ClientIdentity::from_pem(certificate, key)?;
        lock(&self.parsed).insert(pem, identity.clone());
        Ok(identity)
    }

    /// Returns the configuration that presents `identity`, or the one without a client certificate.
    pub(super) fn connector(&self, identity: Option<&ClientIdentity>) -> Result<TlsConnector, TrustError> {
        let Some(identity) = identity else { return Ok(self.anonymous.clone()) };
        let mut configured = lock(&self.configured);
        if let Some(known) = configured.get(&identity.fingerprint()) {
            return Ok(known.clone());
        }
        let resolver = Arc::new(SingleCertAndKey::from(identity.certified()));
        let mut config = builder(Arc::clone(&self.roots))?.with_client_cert_resolver(resolver);
        config.resumption = Resumption::in_memory_sessions(SESSIONS_PER_IDENTITY);
        let connector = connector(config);
        configured.insert(identity.fingerprint(), connector.clone());
        Ok(connector)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn connector(mut config: ClientConfig) -> TlsConnector {
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    TlsConnector::from(Arc::new(config))
}
