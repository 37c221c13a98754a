//! Role key_keeper: API keys, stored as hashes, and the sessions of people who signed in with one.

use super::StoreResult;
use crate::audit::Actor;
use crate::ids::KeyId;
use crate::time::Timestamp;
use std::net::IpAddr;
use std::time::Duration;

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

/// How long a session lasts. One that ends later than this from now is not valid either: no process created it.
pub const SESSION_LENGTH: Duration = Duration::from_secs(12 * 3_600);
/// Sessions of one key at once; the oldest end when there are more.
pub const SESSIONS_PER_KEY_MAX: u32 = 100;

/// SHA-256 of a session's random token. The token itself is never stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionHash(pub [u8; 32]);
/// Sign-ins to the dashboard that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FailedSignIns {
    /// None where the address is unknown, or stands for several.
    pub address: Option<IpAddr>,
    pub count: u32,
}

pub trait KeyStore: Send + Sync + 'static {
    fn create_key(
        &self,
        name: String,
        role: KeyRole,
        hash: KeyHash,
        by: Actor,
        now: Timestamp,
    ) -> impl Future<Output = StoreResult<ApiKey>> + Send;

    /// The key of that hash, unless it was revoked.
    fn find_key(&self, hash: KeyHash) -> impl Future<Output = StoreResult<Option<ApiKey>>> + Send;

    fn list_keys(&self) -> impl Future<Output = StoreResult<Vec<ApiKey>>> + Send;

    /// Answers whether there was one to revoke.
    fn revoke_key(
        &self,
        id: KeyId,
        by: Actor,
        now: Timestamp,
    ) -> impl Future<Output = StoreResult<bool>> + Send;

    /// Records a sign-in to the dashboard in the audit.
    fn record_sign_in(&self, by: Actor, now: Timestamp) -> impl Future<Output = StoreResult<()>> + Send;

    /// Writes to the audit how many sign-ins from one address failed since it was last written.
    fn record_failed_sign_ins(
        &self,
        failed: FailedSignIns,
        now: Timestamp,
    ) -> impl Future<Output = StoreResult<()>> + Send;

    /// Notes that a key was used; writes at most once a minute for each key.
    fn touch_key(&self, id: KeyId, now: Timestamp) -> impl Future<Output = StoreResult<()>> + Send;

    /// Begins a session of [`SESSION_LENGTH`] for the holder of a key. Removes sessions that are over, and the oldest
    /// of the key beyond [`SESSIONS_PER_KEY_MAX`].
    fn create_session(
        &self,
        session: SessionHash,
        key: KeyHash,
        now: Timestamp,
    ) -> impl Future<Output = StoreResult<()>> + Send;

    /// Returns the key that a session was begun with. `None` if there is no such session, or if it is over.
    fn find_session(
        &self,
        session: SessionHash,
        now: Timestamp,
    ) -> impl Future<Output = StoreResult<Option<KeyHash>>> + Send;

    /// Ends a session for all processes. One that is over already is no error.
    fn end_session(&self, session: SessionHash) -> impl Future<Output = StoreResult<()>> + Send;
}
