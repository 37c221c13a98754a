//! Stores the configuration of subscriptions, for the API. Nothing is cached: the router and the worker see a change
//! with their next statement.

use crate::columns::{SqlText, sql};
use crate::grants::DbRole;
use crate::postgres::PostgresStore;
use crate::postgres::conn::pool::RolePool;
use crate::postgres::conn::session::{Session, TransactionMode};
use crate::postgres::conn::value::{
    Instant, count_or_none, get, instant, instant_or_none, int, secret_ref, take,
};
use crate::postgres::roles::audit::{self, Writer};
use crate::remote::{Call, Fault};
use posthaste_core::audit::{Actor, Change};
use posthaste_core::event::EventType;
use posthaste_core::job::millis;
use posthaste_core::ports::{
    ResealedSecrets, Rotated, SecretRotation, StoreResult, SubscriptionStore, Target, Verification,
};
use posthaste_core::subscription::{
    CallbackUrl, NewSubscription, SealedSecret, Secrets, Subscription, SubscriptionPatch,
};
use posthaste_core::{SecretRef, SubscriptionId, Timestamp};
use std::time::Duration;
use tokio_postgres::Row;
use uuid::Uuid;

static LOCK_SUBSCRIPTION: SqlText = sql!("../sql/subscriptions/lock_subscription.sql");
static CREATE_SUBSCRIPTION: SqlText = sql!("../sql/subscriptions/create_subscription.sql");
static LOAD_SUBSCRIPTION: SqlText = sql!("../sql/subscriptions/load_subscription.sql");
static LOAD_SECRETS: SqlText = sql!("../sql/subscriptions/load_secrets.sql");
static ROTATE_SECRET: SqlText = sql!("../sql/subscriptions/rotate_secret.sql");

const WRITER: Writer = Writer::SubscriptionAdmin;

/// The PostgreSQL implementation of [`SubscriptionStore`], with the rights of the role `subscription_admin`.
#[derive(Debug, Clone)]
pub struct PostgresSubscriptions {
    pool: RolePool,
}

impl PostgresSubscriptions {
    pub(crate) fn new(store: &PostgresStore) -> Self {
        Self { pool: store.pool(DbRole::SubscriptionAdmin) }
    }
}

impl SubscriptionStore for PostgresSubscriptions {
    async fn create_subscription(
        &self,
        subscription: NewSubscription,
        by: Actor,
        now: Timestamp,
    ) -> StoreResult<Subscription> {
        let call = Call::once("creating a subscription");
        self.pool.call(call, |session| create(session, &subscription, &by, now)).await
    }

    async fn load_subscription(&self, id: SubscriptionId) -> StoreResult<Option<(Subscription, Secrets)>> {
        self.pool.call(Call::repeatable("loading a subscription"), |session| load(session, id)).await
    }

    async fn update_subscription(
        &self,
        id: SubscriptionId,
        patch: SubscriptionPatch,
        by: Actor,
        now: Timestamp,
    ) -> StoreResult<Option<Subscription>> {
        let call = Call::once("changing a subscription");
        self.pool.call(call, |session| update(session, id, &patch, &by, now)).await
    }

    async fn delete_subscription(&self, id: SubscriptionId, by: Actor, now: Timestamp) -> StoreResult<bool> {
        let call = Call::once("deleting a subscription");
        self.pool.call(call, |session| delete(session, id, &by, now)).await
    }

    async fn mark_verified(
        &self,
        id: SubscriptionId,
        challenged: Verification,
        by: Actor,
        now: Timestamp,
    ) -> StoreResult<bool> {
        let call = Call::repeatable("marking a subscription verified");
        self.pool.call(call, |session| mark_verified(session, id, &challenged, &by, now)).await
    }

    async fn rotate_secret(
        &self,
        id: SubscriptionId,
        rotation: SecretRotation,
        by: Actor,
        now: Timestamp,
    ) -> StoreResult<Rotated> {
        let call = Call::once("rotating a secret");
        self.pool.call(call, |session| rotate(session, id, &rotation, &by, now)).await
    }

    async fn load_secrets(&self, after: i64, rows_max: u32) -> StoreResult<Vec<(SubscriptionId, Secrets)>> {
        let call = Call::repeatable("loading secrets");
        self.pool.call(call, |session| load_secrets(session, after, rows_max)).await
    }

    async fn reseal_secrets(
        &self,
        resealed: Vec<ResealedSecrets>,
        key_id: String,
        by: Actor,
        _: Timestamp,
    ) -> StoreResult<Vec<SubscriptionId>> {
        let call = Call::repeatable("storing resealed secrets");
        self.pool.call(call, |session| reseal(session, &resealed, &key_id, &by)).await
    }
}

pub(crate) fn subscription(row: &Row) -> Result<Subscription, Fault> {
    Ok(Subscription {
        id: SubscriptionId::from_store(get(row, "id")?),
        event_type: EventType::from_store(get(row, "event_type")?),
        callback_url: CallbackUrl::from_store(get(row, "callback_url")?),
        active: get(row, "active")?,
        verified: get(row, "verified")?,
        max_retry_limit: count_or_none(row, "max_retry_limit")?,
        timeout: timeout(row)?,
        description: get(row, "description")?,
        created_at: instant(row, "created_at")?,
        updated_at: instant(row, "updated_at")?,
        deleted_at: instant_or_none(row, "deleted_at")?,
    })
}

fn timeout(row: &Row) -> Result<Option<Duration>, Fault> {
    Ok(count_or_none(row, "timeout_ms")?.map(|ms| Duration::from_millis(ms.into())))
}

pub(crate) fn target(row: &Row) -> Result<Target, Fault> {
    Ok(Target {
        subscription_id: SubscriptionId::from_store(get(row, "id")?),
        callback_url: CallbackUrl::from_store(get(row, "callback_url")?),
        verified: get(row, "verified")?,
        timeout: timeout(row)?,
        secrets: secrets(row)?,
    })
}

/// Reads the current secret, and the previous secret with its expiry time.
fn secrets(row: &Row) -> Result<Secrets, Fault> {
    let previous = get::<Option<String>>(row, "previous_secret")?.map(SealedSecret::new);
    Ok(Secrets {
        secret_ref: SecretRef::from_bits(get::<Uuid>(row, "secret_ref")?.as_u128()),
        current: SealedSecret::new(get::<String>(row, "secret")?),
        previous: previous.zip(instant_or_none(row, "previous_secret_expires_at")?),
    })
}

/// Begins a transaction and locks the subscription. If it does not exist, rolls back and returns `None`.
async fn lock(session: &mut Session, id: SubscriptionId) -> Result<Option<Subscription>, Fault> {
    let rows = session.begin(TransactionMode::Flushed, &LOCK_SUBSCRIPTION, &[&id.get()]).await?;
    if rows.is_empty() {
        session.roll_back().await?;
    }
    rows.first().map(subscription).transpose()
}

async fn create(
    mut session: Session,
    new: &NewSubscription,
    by: &Actor,
    now: Timestamp,
) -> Result<Subscription, Fault> {
    let (limit, timeout) = (new.max_retry_limit.map(int), new.timeout.map(millis).map(int));
    let rows = session
        .begin(
            TransactionMode::Flushed,
            &CREATE_SUBSCRIPTION,
            &[
                &new.event_type.as_str(),
                &new.callback_url.as_str(),
                &limit,
                &timeout,
                &new.description,
                &secret_ref(new.secret_ref),
                &new.secret.expose(),
                &Instant(now),
            ],
        )
        .await?;
    let row = rows.first().ok_or_else(|| Fault::Unreadable("the insert returned no row".to_owned()))?;
    let created = subscription(row)?;
    audit::commit(&mut session, WRITER, by, &Change::subscription_created(&created)).await?;
    Ok(created)
}

async fn load(mut session: Session, id: SubscriptionId) -> Result<Option<(Subscription, Secrets)>, Fault> {
    let rows = session.read(&LOAD_SUBSCRIPTION, &[&id.get()]).await?;
    rows.first().map(|row| Ok((subscription(row)?, secrets(row)?))).transpose()
}

async fn update(
    mut session: Session,
    id: SubscriptionId,
    patch: &SubscriptionPatch,
    by: &Actor,
    now: Timestamp,
) -> Result<Option<Subscription>, Fault> {
    let Some(before) = lock(&mut session, id).await? else { return Ok(None) };
    let Some(after) = patch.clone().apply(&before, now) else {
        session.roll_back().await?;
        return Ok(Some(before));
    };
    let sql = include_str!("../sql/subscriptions/update_subscription.sql");
    let (limit, timeout) = (after.max_retry_limit.map(int), after.timeout.map(millis).map(int));
    session
        .go_on(
            sql,
            &[
                &id.get(),
                &after.event_type.as_str(),
                &after.callback_url.as_str(),
                &after.active,
                &after.verified,
                &limit,
                &timeout,
                &after.description,
                &Instant(now),
            ],
        )
        .await?;
    audit::commit(&mut session, WRITER, by, &Change::subscription_changed(&before, &after)).await?;
    Ok(Some(after))
}

async fn delete(mut session: Session, id: SubscriptionId, by: &Actor, now: Timestamp) -> Result<bool, Fault> {
    let Some(before) = lock(&mut session, id).await? else { return Ok(false) };
    let sql = include_str!("../sql/subscriptions/delete_subscription.sql");
    session.go_on(sql, &[&id.get(), &Instant(now)]).await?;
    audit::commit(&mut session, WRITER, by, &Change::subscription_deleted(&before)).await?;
    Ok(true)
}

async fn mark_verified(
    mut session: Session,
    id: SubscriptionId,
    challenged: &Verification,
    by: &Actor,
    now: Timestamp,
) -> Result<bool, Fault> {
    let Some(before) = lock(&mut session, id).await? else { return Ok(false) };
    let sql = include_str!("../sql/subscriptions/mark_verified.sql");
    let (url, secret) = (challenged.callback_url.as_str(), challenged.secret.expose());
    if session.go_on(sql, &[&id.get(), &url, &secret, &Instant(now)]).await?.is_empty() {
        session.roll_back().await?;
        return Ok(false);
    }
    audit::commit(&mut session, WRITER, by, &Change::subscription_verified(&before)).await?;
    Ok(true)
}

async fn rotate(
    mut session: Session,
    id: SubscriptionId,
    rotation: &SecretRotation,
    by: &Actor,
    now: Timestamp,
) -> Result<Rotated, Fault> {
    let Some(_) = lock(&mut session, id).await? else { return Ok(Rotated::NotFound) };
    let previous = rotation.previous.as_ref().map(|(secret, _)| secret.expose());
    let previous_until = rotation.previous.as_ref().map(|(_, until)| *until);
    let (replaced, secret) = (rotation.replaced.expose(), rotation.secret.expose());
    let rows = session
        .go_on(
            &ROTATE_SECRET,
            &[&id.get(), &replaced, &secret, &previous, &previous_until.map(Instant), &Instant(now)],
        )
        .await?;
    let Some(row) = rows.first() else {
        session.roll_back().await?;
        return Ok(Rotated::Changed);
    };
    let after = subscription(row)?;
    audit::commit(&mut session, WRITER, by, &Change::secret_rotated(id, previous_until)).await?;
    Ok(Rotated::Rotated(after))
}

async fn load_secrets(
    mut session: Session,
    after: i64,
    rows_max: u32,
) -> Result<Vec<(SubscriptionId, Secrets)>, Fault> {
    let rows = session.read(&LOAD_SECRETS, &[&after, &take(rows_max)]).await?;
    rows.iter().map(|row| Ok((SubscriptionId::from_store(get(row, "id")?), secrets(row)?))).collect()
}

async fn reseal(
    mut session: Session,
    resealed: &[ResealedSecrets],
    key_id: &str,
    by: &Actor,
) -> Result<Vec<SubscriptionId>, Fault> {
    let ids: Vec<i64> = resealed.iter().map(|row| row.id.get()).collect();
    let lock = include_str!("../sql/subscriptions/lock_secrets.sql");
    session.begin(TransactionMode::Flushed, lock, &[&ids]).await?;
    let exposed = |secret: &'_ SealedSecret| secret.expose().to_owned();
    let current_before: Vec<String> = resealed.iter().map(|row| exposed(&row.before.current)).collect();
    let previous_before: Vec<Option<String>> =
        resealed.iter().map(|row| row.before.previous.as_ref().map(|(secret, _)| exposed(secret))).collect();
    let current: Vec<String> = resealed.iter().map(|row| exposed(&row.current)).collect();
    let previous: Vec<Option<String>> =
        resealed.iter().map(|row| row.previous.as_ref().map(exposed)).collect();
    let sql = include_str!("../sql/subscriptions/reseal_secrets.sql");
    let rows = session.go_on(sql, &[&ids, &current_before, &previous_before, &current, &previous]).await?;
    let id = |row: &Row| Ok(SubscriptionId::from_store(get(row, "id")?));
    let stored: Vec<SubscriptionId> = rows.iter().map(id).collect::<Result<_, Fault>>()?;
    match Change::secrets_resealed(&stored, key_id) {
        Some(change) => audit::commit(&mut session, WRITER, by, &change).await?,
        None => session.roll_back().await?,
    }
    Ok(stored)
}
