//! Port of the role key_keeper: API keys, stored as hashes, and the dashboard sessions that were started with
//! them.

use super::StoreResult;
use crate::audit::Actor;
use crate::ids::KeyId;
use crate::time::Timestamp;
use std::net::IpAddr;
use std::time::Duration;

/// What the holder of a key may do.
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

/// The SHA-256 of a key of 256 random bits. The key itself is never stored.
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

/// The lifetime of a session. A session that ends later than this from now is invalid: no process created it.
pub const SESSION_LENGTH: Duration = Duration::from_secs(12 * 3_600);
/// The maximum number of sessions of one key. Beyond it, the oldest are ended.
pub const SESSIONS_PER_KEY_MAX: u32 = 100;

/// The SHA-256 of a session's random token. The token itself is never stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionHash(pub [u8; 32]);
/// A number of failed sign-ins to the dashboard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FailedSignIns {
    /// `None` if the address is unknown, or for the sum of several addresses.
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

    /// Returns the key with that hash, unless it was revoked.
    fn find_key(&self, hash: KeyHash) -> impl Future<Output = StoreResult<Option<ApiKey>>> + Send;

    fn list_keys(&self) -> impl Future<Output = StoreResult<Vec<ApiKey>>> + Send;

    /// Revokes a key. Returns whether there was one to revoke.
    fn revoke_key(
        &self,
        id: KeyId,
        by: Actor,
        now: Timestamp,
    ) -> impl Future<Output = StoreResult<bool>> + Send;

    /// Records a sign-in to the dashboard in the audit.
    fn record_sign_in(&self, by: Actor, now: Timestamp) -> impl Future<Output = StoreResult<()>> + Send;

    /// Writes the number of failed sign-ins from one address since the last row to the audit.
    fn record_failed_sign_ins(
        &self,
        failed: FailedSignIns,
        now: Timestamp,
    ) -> impl Future<Output = StoreResult<()>> + Send;

    /// Records that a key was used. Writes at most once a minute for each key.
    fn touch_key(&self, id: KeyId, now: Timestamp) -> impl Future<Output = StoreResult<()>> + Send;

    /// Starts a session of [`SESSION_LENGTH`] for the holder of a key. Removes expired sessions, and the
    /// oldest ones of the key beyond [`SESSIONS_PER_KEY_MAX`].
    fn create_session(
        &self,
        session: SessionHash,
        key: KeyHash,
        now: Timestamp,
    ) -> impl Future<Output = StoreResult<()>> + Send;

    /// Returns the key that a session was started with, or `None` if the session does not exist or has
    /// expired.
    fn find_session(
        &self,
        session: SessionHash,
        now: Timestamp,
    ) -> impl Future<Output = StoreResult<Option<KeyHash>>> + Send;

    /// Ends a session for all processes. Ending one that does not exist is not an error.
    fn end_session(&self, session: SessionHash) -> impl Future<Output = StoreResult<()>> + Send;
}
