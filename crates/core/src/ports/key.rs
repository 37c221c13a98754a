//! Role key_keeper: API keys, stored as hashes.

use super::StoreResult;
use crate::ids::KeyId;
use crate::time::Timestamp;

/// What the bearer of a key may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KeyRole {
    Root,
    Admin,
    Operator,
    Viewer,
    Ingest,
    Orders,
}

impl KeyRole {
    pub const ALL: [Self; 6] =
        [Self::Root, Self::Admin, Self::Operator, Self::Viewer, Self::Ingest, Self::Orders];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Root => "root",
            Self::Admin => "admin",
            Self::Operator => "operator",
            Self::Viewer => "viewer",
            Self::Ingest => "ingest",
            Self::Orders => "orders",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.as_str() == text)
    }
}

/// SHA-256 of a key of 256 random bits. The key itself is never stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyHash(pub [u8; 32]);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiKey {
    pub id: KeyId,
    pub name: String,
    pub role: KeyRole,
    pub created_at: Timestamp,
    pub last_used_at: Option<Timestamp>,
    pub revoked_at: Option<Timestamp>,
}

pub trait KeyStore: Send + Sync + 'static {
    fn create_key(
        &self,
        name: String,
        role: KeyRole,
        hash: KeyHash,
        now: Timestamp,
    ) -> impl Future<Output = StoreResult<ApiKey>> + Send;

    /// The key of that hash, unless it was revoked.
    fn find_key(&self, hash: KeyHash) -> impl Future<Output = StoreResult<Option<ApiKey>>> + Send;

    fn list_keys(&self) -> impl Future<Output = StoreResult<Vec<ApiKey>>> + Send;

    /// Answers whether there was one to revoke.
    fn revoke_key(&self, id: KeyId, now: Timestamp) -> impl Future<Output = StoreResult<bool>> + Send;

    /// Notes that a key was used; writes at most once a minute for each key.
    fn touch_key(&self, id: KeyId, now: Timestamp) -> impl Future<Output = StoreResult<()>> + Send;
}
