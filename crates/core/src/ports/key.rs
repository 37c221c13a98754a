//! Port of the role key_keeper: manages API keys, which are stored as hashes, and dashboard sessions.

use super::StoreResult;
use crate::audit::Actor;
use crate::ids::KeyId;
use crate::tenant::Tenant;
use crate::time::Timestamp;
use std::net::IpAddr;
use std::time::Duration;

/// The permissions of an API key.
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

/// The SHA-256 hash of an API key, which has 256 random bits. The key itself is never stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyHash(pub [u8; 32]);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiKey {
    pub id: KeyId,
    pub name: String,
    pub role: KeyRole,
    /// The tenant whose objects the key may see and change. `None` for all tenants.
    pub tenant: Option<Tenant>,
    pub created_at: Timestamp,
    pub last_used_at: Option<Timestamp>,
    pub revoked_at: Option<Timestamp>,
}

/// The lifetime of a dashboard session. A session that expires further in the future is invalid, because no
/// process creates such a session.
pub const SESSION_LENGTH: Duration = Duration::from_secs(12 * 3_600);
/// The maximum number of sessions per key. When it is exceeded, the oldest sessions end.
pub const SESSIONS_PER_KEY_MAX: u32 = 100;

/// The SHA-256 hash of a session's random token. The token itself is never stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionHash(pub [u8; 32]);
/// A count of failed sign-ins to the dashboard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FailedSignIns {
    /// The client's address. `None` if it is unknown, or if the count is the sum over several addresses.
    pub address: Option<IpAddr>,
    pub count: u32,
}

pub trait KeyStore: Send + Sync + 'static {
    fn create_key(
        &self,
        name: String,
        role: KeyRole,
        tenant: Option<Tenant>,
        hash: KeyHash,
        by: Actor,
        now: Timestamp,
    ) -> impl Future<Output = StoreResult<ApiKey>> + Send;

    /// Returns the key with the given hash, or `None` if it does not exist or was revoked.
    fn find_key(&self, hash: KeyHash) -> impl Future<Output = StoreResult<Option<ApiKey>>> + Send;

    fn list_keys(&self) -> impl Future<Output = StoreResult<Vec<ApiKey>>> + Send;

    /// Revokes a key. Returns `false` if the key does not exist or was already revoked.
    fn revoke_key(
        &self,
        id: KeyId,
        by: Actor,
        now: Timestamp,
    ) -> impl Future<Output = StoreResult<bool>> + Send;

    /// Records a sign-in to the dashboard in the audit.
    fn record_sign_in(&self, by: Actor, now: Timestamp) -> impl Future<Output = StoreResult<()>> + Send;

    /// Records in the audit the number of failed sign-ins from one address since the last record.
    fn record_failed_sign_ins(
        &self,
        failed: FailedSignIns,
        now: Timestamp,
    ) -> impl Future<Output = StoreResult<()>> + Send;

    /// Records that a key was used. Writes at most once per minute for each key.
    fn touch_key(&self, id: KeyId, now: Timestamp) -> impl Future<Output = StoreResult<()>> + Send;

    /// Creates a session that expires after [`SESSION_LENGTH`]. Removes expired sessions, and the oldest
    /// sessions of the key if it has more than [`SESSIONS_PER_KEY_MAX`].
    fn create_session(
        &self,
        session: SessionHash,
        key: KeyHash,
        now: Timestamp,
    ) -> impl Future<Output = StoreResult<()>> + Send;

    /// Returns the hash of the key with which a session was created, or `None` if the session does not exist or
    /// has expired.
    fn find_session(
        &self,
        session: SessionHash,
        now: Timestamp,
    ) -> impl Future<Output = StoreResult<Option<KeyHash>>> + Send;

    /// Ends a session for all processes. Has no effect if the session does not exist.
    fn end_session(&self, session: SessionHash) -> impl Future<Output = StoreResult<()>> + Send;
}
