//! Stores the configuration of subscriptions, for the API. Nothing is cached: the router and the worker see a change
//! with their next statement.

use crate::columns::{SqlText, sql};
use crate::grants::DbRole;
use crate::postgres::PostgresStore;
use crate::postgres::conn::pool::RolePool;
use crate::postgres::conn::session::{Session, TransactionMode};
use crate::postgres::conn::value::{Instant, count_or_none, get, instant, instant_or_none, int};
use crate::postgres::roles::audit::{self, Writer};
use crate::remote::{Call, Fault};
use posthaste_core::audit::{Actor, Change};
use posthaste_core::event::EventType;
use posthaste_core::job::millis;
use posthaste_core::ports::{StoreResult, SubscriptionStore, Target, Verification};
use posthaste_core::subscription::{
    CallbackUrl, NewSubscription, SealedSecret, Secrets, Subscription, SubscriptionPatch,
};
use posthaste_core::{SubscriptionId, Timestamp};
use std::time::Duration;
use tokio_postgres::Row;

static LOCK_SUBSCRIPTION: SqlText = sql!("../sql/subscriptions/lock_subscription.sql");
static CREATE_SUBSCRIPTION: SqlText = sql!("../sql/subscriptions/create_subscription.sql");
static LOAD_SUBSCRIPTION: SqlText = sql!("../sql/subscriptions/load_subscription.sql");
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
        secret: SealedSecret,
        previous_until: Timestamp,
        by: Actor,
        now: Timestamp,
    ) -> StoreResult<Option<Subscription>> {
        let call = Call::once("rotating a secret");
        self.pool.call(call, |session| rotate(session, id, &secret, previous_until, &by, now)).await
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

/// Returns the changed subscription. The update must have returned it, because its row was locked.
fn changed(rows: &[Row]) -> Result<Subscription, Fault> {
    rows.first().map_or_else(|| Err(Fault::Unreadable("the update returned no row".to_owned())), subscription)
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
    secret: &SealedSecret,
    previous_until: Timestamp,
    by: &Actor,
    now: Timestamp,
) -> Result<Option<Subscription>, Fault> {
    let Some(_) = lock(&mut session, id).await? else { return Ok(None) };
    let rows = session
        .go_on(&ROTATE_SECRET, &[&id.get(), &secret.expose(), &Instant(previous_until), &Instant(now)])
        .await?;
    let after = changed(&rows)?;
    audit::commit(&mut session, WRITER, by, &Change::secret_rotated(id, previous_until)).await?;
    Ok(Some(after))
}
