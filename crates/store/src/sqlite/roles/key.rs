//! Stores the hashes of API keys and sessions, with which the API authenticates callers.

use std::time::Duration;

use posthaste_core::audit::{Actor, Change};
use posthaste_core::ports::{
    ApiKey, FailedSignIns, KeyHash, KeyRole, KeyStore, SESSION_LENGTH, SESSIONS_PER_KEY_MAX, SessionHash,
    StoreResult,
};
use posthaste_core::tenant::Tenant;
use posthaste_core::{KeyId, Timestamp};
use rusqlite::{Params, Row, params};

use crate::grants::DbRole;
use crate::sqlite::SqliteStore;
use crate::sqlite::conn::error::{Answer, Fault};
use crate::sqlite::conn::session::Session;
use crate::sqlite::conn::value::{self, get};
use crate::sqlite::roles::audit::Writer;

const CREATE_KEY: &str = include_str!("../sql/key/create_key.sql");
const FIND_KEY: &str = include_str!("../sql/key/find_key.sql");
const LIST_KEYS: &str = include_str!("../sql/key/list_keys.sql");
const REVOKE_KEY: &str = include_str!("../sql/key/revoke_key.sql");
const TOUCH_KEY: &str = include_str!("../sql/key/touch_key.sql");
const CREATE_SESSION: &str = include_str!("../sql/key/create_session.sql");
const DELETE_ENDED_SESSIONS: &str = include_str!("../sql/key/delete_ended_sessions.sql");
const DELETE_SURPLUS_SESSIONS: &str = include_str!("../sql/key/delete_surplus_sessions.sql");
const FIND_SESSION: &str = include_str!("../sql/key/find_session.sql");
const END_SESSION: &str = include_str!("../sql/key/end_session.sql");

const ROLE: DbRole = DbRole::KeyKeeper;
const WRITER: Writer = Writer::KeyKeeper;

/// Minimum time between two updates of a key's last use, so that a busy key does not cost a write per request.
const TOUCH_PAUSE: Duration = Duration::from_secs(60);

/// The SQLite implementation of [`KeyStore`], with the rights of the role `key_keeper`.
#[derive(Debug, Clone)]
pub struct SqliteKeys(pub(crate) SqliteStore);

impl KeyStore for SqliteKeys {
    async fn create_key(
        &self,
        name: String,
        role: KeyRole,
        tenant: Option<Tenant>,
        hash: KeyHash,
        by: Actor,
        now: Timestamp,
    ) -> StoreResult<ApiKey> {
        self.0
            .write_audited(WRITER, "creating a key", (by, now), move |session| {
                let values =
                    params![name, role.as_str(), tenant.as_ref().map(Tenant::as_str), hash.0, now.micros()];
                let made = read_keys(session, CREATE_KEY, values)?.into_iter().next();
                let made = made.ok_or_else(|| Fault::Unreadable("the insert returned no row".to_owned()))?;
                let change = Change::key_created(&made);
                Ok((made, Some(change)))
            })
            .await
    }

    async fn find_key(&self, hash: KeyHash) -> StoreResult<Option<ApiKey>> {
        self.0
            .read_keys(ROLE, "looking up a key", move |session| {
                Ok(read_keys(session, FIND_KEY, params![hash.0])?.into_iter().next())
            })
            .await
    }

    async fn list_keys(&self) -> StoreResult<Vec<ApiKey>> {
        self.0.read_keys(ROLE, "listing keys", |session| read_keys(session, LIST_KEYS, [])).await
    }

    async fn revoke_key(&self, id: KeyId, by: Actor, now: Timestamp) -> StoreResult<bool> {
        self.0
            .write_audited(WRITER, "revoking a key", (by, now), move |session| {
                let revoked = read_keys(session, REVOKE_KEY, params![id.get(), now.micros()])?;
                let change = revoked.first().map(Change::key_revoked);
                Ok((change.is_some(), change))
            })
            .await
    }

    async fn record_sign_in(&self, by: Actor, now: Timestamp) -> StoreResult<()> {
        let change = Change::signed_in();
        self.0.write_audited(WRITER, "recording a sign-in", (by, now), move |_| Ok(((), Some(change)))).await
    }

    async fn record_failed_sign_ins(&self, failed: FailedSignIns, now: Timestamp) -> StoreResult<()> {
        let (by, change) = (Actor::unknown(failed.address), Change::sign_in_failed(failed.count));
        self.0
            .write_audited(WRITER, "recording failed sign-ins", (by, now), move |_| Ok(((), Some(change))))
            .await
    }

    async fn touch_key(&self, id: KeyId, now: Timestamp) -> StoreResult<()> {
        let noted_before = now.before(TOUCH_PAUSE);
        self.0
            .write(ROLE, "recording the use of a key", move |session| {
                session.run(TOUCH_KEY, params![id.get(), now.micros(), noted_before.micros()]).map(drop)
            })
            .await
    }

    async fn create_session(&self, token: SessionHash, key: KeyHash, now: Timestamp) -> StoreResult<()> {
        self.0
            .write(ROLE, "creating a session", move |session| {
                session.run(DELETE_ENDED_SESSIONS, params![now.micros()])?;
                session.run(DELETE_SURPLUS_SESSIONS, params![key.0, SESSIONS_PER_KEY_MAX - 1])?;
                let ends_at = now.after(SESSION_LENGTH);
                let values = params![token.0, key.0, now.micros(), ends_at.micros()];
                session.run(CREATE_SESSION, values).map(drop)
            })
            .await
    }

    async fn find_session(&self, token: SessionHash, now: Timestamp) -> StoreResult<Option<KeyHash>> {
        self.0
            .read(ROLE, "looking up a session", move |session| {
                let latest = now.after(SESSION_LENGTH);
                let mut statement = session.statement(FIND_SESSION)?;
                let mut found = statement.query(params![token.0, now.micros(), latest.micros()])?;
                let Some(row) = found.next()? else { return Ok(None) };
                Ok(Some(KeyHash(row.get(0)?)))
            })
            .await
    }

    async fn end_session(&self, token: SessionHash) -> StoreResult<()> {
        self.0
            .write(ROLE, "ending a session", move |session| {
                session.run(END_SESSION, params![token.0]).map(drop)
            })
            .await
    }
}

fn read_keys(session: &Session<'_>, sql: &'static str, values: impl Params) -> Answer<Vec<ApiKey>> {
    let mut keys = Vec::new();
    let mut list = session.statement(sql)?;
    let mut found = list.query(values)?;
    while let Some(row) = found.next()? {
        keys.push(read_key(row)?);
    }
    Ok(keys)
}

fn read_key(row: &Row<'_>) -> Answer<ApiKey> {
    Ok(ApiKey {
        id: KeyId::from_store(get(row, "id")?),
        name: get(row, "name")?,
        role: value::word(row, "role", KeyRole::parse)?,
        tenant: get::<Option<String>>(row, "tenant")?.map(Tenant::from_store),
        created_at: value::time(row, "created_at")?,
        last_used_at: value::maybe_time(row, "last_used_at")?,
        revoked_at: value::maybe_time(row, "revoked_at")?,
    })
}
