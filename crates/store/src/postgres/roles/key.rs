//! Stores the hashes of API keys and sessions, with which the API authenticates callers.

use crate::grants::DbRole;
use crate::postgres::PostgresStore;
use crate::postgres::conn::pool::RolePool;
use crate::postgres::conn::session::{Params, Session, TransactionMode};
use crate::postgres::conn::value::{Instant, get, instant, instant_or_none, word};
use crate::postgres::roles::audit::{self, Writer};
use crate::remote::{Call, Fault};
use posthaste_core::audit::{Actor, Change};
use posthaste_core::ports::{
    ApiKey, FailedSignIns, KeyHash, KeyRole, KeyStore, SESSION_LENGTH, SESSIONS_PER_KEY_MAX, SessionHash,
    StoreResult,
};
use posthaste_core::tenant::Tenant;
use posthaste_core::{KeyId, Timestamp};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

const WRITER: Writer = Writer::KeyKeeper;

/// The PostgreSQL implementation of [`KeyStore`], with the rights of the role `key_keeper`.
#[derive(Debug, Clone)]
pub struct PostgresKeys {
    pool: RolePool,
}

impl PostgresKeys {
    pub(crate) fn new(store: &PostgresStore) -> Self {
        Self { pool: store.pool(DbRole::KeyKeeper) }
    }
}

impl KeyStore for PostgresKeys {
    async fn create_key(
        &self,
        name: String,
        role: KeyRole,
        tenant: Option<Tenant>,
        hash: KeyHash,
        by: Actor,
        now: Timestamp,
    ) -> StoreResult<ApiKey> {
        let create = |session| create(session, (&name, role, tenant.as_ref(), hash), &by, now);
        self.pool.call(Call::once("creating a key"), create).await
    }

    async fn find_key(&self, hash: KeyHash) -> StoreResult<Option<ApiKey>> {
        self.pool.call(Call::repeatable("looking up a key"), |session| find(session, hash)).await
    }

    async fn list_keys(&self) -> StoreResult<Vec<ApiKey>> {
        self.pool.call(Call::repeatable("listing keys"), list).await
    }

    async fn revoke_key(&self, id: KeyId, by: Actor, now: Timestamp) -> StoreResult<bool> {
        self.pool.call(Call::once("revoking a key"), |session| revoke(session, id, &by, now)).await
    }

    async fn record_sign_in(&self, by: Actor, _now: Timestamp) -> StoreResult<()> {
        let call = Call::once("recording a sign-in");
        self.pool.call(call, |session| record(session, &by, Change::signed_in())).await
    }

    async fn record_failed_sign_ins(&self, failed: FailedSignIns, _now: Timestamp) -> StoreResult<()> {
        let (call, by) = (Call::once("recording failed sign-ins"), Actor::unknown(failed.address));
        self.pool.call(call, |session| record(session, &by, Change::sign_in_failed(failed.count))).await
    }

    async fn touch_key(&self, id: KeyId, now: Timestamp) -> StoreResult<()> {
        self.pool
            .call(Call::repeatable("recording the use of a key"), |session| touch(session, id, now))
            .await
    }

    async fn create_session(&self, token: SessionHash, key: KeyHash, now: Timestamp) -> StoreResult<()> {
        let call = Call::repeatable("creating a session");
        self.pool.call(call, |session| create_session(session, token, key, now)).await
    }

    async fn find_session(&self, token: SessionHash, now: Timestamp) -> StoreResult<Option<KeyHash>> {
        let call = Call::repeatable("looking up a session");
        self.pool.call(call, |session| find_session(session, token, now)).await
    }

    async fn end_session(&self, token: SessionHash) -> StoreResult<()> {
        self.pool.call(Call::repeatable("ending a session"), |session| end_session(session, token)).await
    }
}

fn key(row: &Row) -> Result<ApiKey, Fault> {
    Ok(ApiKey {
        id: KeyId::from_store(get(row, "id")?),
        name: get(row, "name")?,
        role: word(row, "role", KeyRole::parse)?,
        tenant: get::<Option<String>>(row, "tenant")?.map(Tenant::from_store),
        created_at: instant(row, "created_at")?,
        last_used_at: instant_or_none(row, "last_used_at")?,
        revoked_at: instant_or_none(row, "revoked_at")?,
    })
}

async fn create(
    mut session: Session,
    (name, role, tenant, hash): (&str, KeyRole, Option<&Tenant>, KeyHash),
    by: &Actor,
    now: Timestamp,
) -> Result<ApiKey, Fault> {
    let sql = include_str!("../sql/key/create_key.sql");
    let values: Params<'_> =
        &[&name, &role.as_str(), &tenant.map(Tenant::as_str), &&hash.0[..], &Instant(now)];
    let rows = session.begin(TransactionMode::Flushed, sql, values).await?;
    let row = rows.first().ok_or_else(|| Fault::Unreadable("the insert returned no row".to_owned()))?;
    let created = key(row)?;
    audit::commit(&mut session, WRITER, by, &Change::key_created(&created)).await?;
    Ok(created)
}

async fn record(mut session: Session, by: &Actor, change: Change) -> Result<(), Fault> {
    audit::record(&mut session, WRITER, by, &change).await
}

async fn find(mut session: Session, hash: KeyHash) -> Result<Option<ApiKey>, Fault> {
    let rows = session.read(include_str!("../sql/key/find_key.sql"), &[&&hash.0[..]]).await?;
    rows.first().map(key).transpose()
}

async fn list(mut session: Session) -> Result<Vec<ApiKey>, Fault> {
    let rows = session.read(include_str!("../sql/key/list_keys.sql"), &[]).await?;
    rows.iter().map(key).collect()
}

async fn revoke(mut session: Session, id: KeyId, by: &Actor, now: Timestamp) -> Result<bool, Fault> {
    let sql = include_str!("../sql/key/revoke_key.sql");
    let rows = session.begin(TransactionMode::Flushed, sql, &[&id.get(), &Instant(now)]).await?;
    let Some(revoked) = rows.first().map(key).transpose()? else {
        session.roll_back().await?;
        return Ok(false);
    };
    audit::commit(&mut session, WRITER, by, &Change::key_revoked(&revoked)).await?;
    Ok(true)
}

async fn touch(mut session: Session, id: KeyId, now: Timestamp) -> Result<(), Fault> {
    session.run(include_str!("../sql/key/touch_key.sql"), &[&id.get(), &Instant(now)]).await?;
    Ok(())
}

async fn create_session(
    mut session: Session,
    token: SessionHash,
    key: KeyHash,
    now: Timestamp,
) -> Result<(), Fault> {
    session.run(include_str!("../sql/key/delete_ended_sessions.sql"), &[&Instant(now)]).await?;
    let kept = i64::from(SESSIONS_PER_KEY_MAX - 1);
    session.run(include_str!("../sql/key/delete_surplus_sessions.sql"), &[&&key.0[..], &kept]).await?;
    let values: [&(dyn ToSql + Sync); 4] =
        [&&token.0[..], &&key.0[..], &Instant(now), &Instant(now.after(SESSION_LENGTH))];
    session.run(include_str!("../sql/key/create_session.sql"), &values).await?;
    Ok(())
}

async fn find_session(
    mut session: Session,
    token: SessionHash,
    now: Timestamp,
) -> Result<Option<KeyHash>, Fault> {
    let sql = include_str!("../sql/key/find_session.sql");
    let latest = Instant(now.after(SESSION_LENGTH));
    let rows = session.read(sql, &[&&token.0[..], &Instant(now), &latest]).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    let hash: &[u8] = get(row, 0)?;
    let hash =
        hash.try_into().map_err(|_| Fault::Unreadable("a key hash has the wrong length".to_owned()))?;
    Ok(Some(KeyHash(hash)))
}

async fn end_session(mut session: Session, token: SessionHash) -> Result<(), Fault> {
    session.run(include_str!("../sql/key/end_session.sql"), &[&&token.0[..]]).await?;
    Ok(())
}
