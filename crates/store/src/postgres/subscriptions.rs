//! Keeps the configuration of subscriptions, for the API. What changes here is read by the router and
//! by the worker with their next statement; nothing is cached.

use crate::grants::Role;
use crate::postgres::PostgresStore;
use crate::postgres::error::Fault;
use crate::postgres::pool::{RolePool, Verb};
use crate::postgres::session::Session;
use crate::postgres::value::{Instant, count_or_none, get, instant, instant_or_none, int};
use crate::postgres::worker::secrets;
use posthaste_core::event::EventType;
use posthaste_core::ports::{StoreResult, SubscriptionStore, Verification};
use posthaste_core::subscription::{
    CallbackUrl, NewSubscription, SealedSecret, Secrets, Subscription, SubscriptionPatch,
};
use posthaste_core::{SubscriptionId, Timestamp};
use tokio_postgres::Row;

/// Port of the role subscription_admin.
#[derive(Debug, Clone)]
pub struct PostgresSubscriptions {
    pool: RolePool,
}

impl PostgresSubscriptions {
    pub(super) fn new(store: &PostgresStore) -> Self {
        Self { pool: store.pool(Role::SubscriptionAdmin) }
    }
}

impl SubscriptionStore for PostgresSubscriptions {
    async fn create_subscription(
        &self,
        subscription: NewSubscription,
        now: Timestamp,
    ) -> StoreResult<Subscription> {
        let verb = Verb::once("creating a subscription");
        self.pool.call(verb, |session| create(session, &subscription, now)).await
    }

    async fn load_subscription(&self, id: SubscriptionId) -> StoreResult<Option<(Subscription, Secrets)>> {
        self.pool.call(Verb::repeatable("loading a subscription"), |session| load(session, id)).await
    }

    async fn update_subscription(
        &self,
        id: SubscriptionId,
        patch: SubscriptionPatch,
        now: Timestamp,
    ) -> StoreResult<Option<Subscription>> {
        let verb = Verb::once("changing a subscription");
        self.pool.call(verb, |session| update(session, id, &patch, now)).await
    }

    async fn delete_subscription(&self, id: SubscriptionId, now: Timestamp) -> StoreResult<bool> {
        let verb = Verb::once("deleting a subscription");
        self.pool.call(verb, |session| delete(session, id, now)).await
    }

    async fn mark_verified(
        &self,
        id: SubscriptionId,
        challenged: Verification,
        now: Timestamp,
    ) -> StoreResult<bool> {
        let verb = Verb::repeatable("marking a subscription verified");
        self.pool.call(verb, |session| mark_verified(session, id, &challenged, now)).await
    }

    async fn rotate_secret(
        &self,
        id: SubscriptionId,
        secret: SealedSecret,
        previous_until: Timestamp,
        now: Timestamp,
    ) -> StoreResult<Option<Subscription>> {
        let verb = Verb::once("rotating a secret");
        self.pool.call(verb, |session| rotate(session, id, &secret, previous_until, now)).await
    }
}

/// A subscription, from the columns that every statement answering one has.
pub(super) fn subscription(row: &Row) -> Result<Subscription, Fault> {
    Ok(Subscription {
        id: SubscriptionId::from_store(get(row, 0)?),
        event_type: EventType::from_store(get(row, 1)?),
        callback_url: CallbackUrl::from_store(get(row, 2)?),
        active: get(row, 3)?,
        verified: get(row, 4)?,
        max_retry_limit: count_or_none(row, 5)?,
        description: get(row, 6)?,
        created_at: instant(row, 7)?,
        updated_at: instant(row, 8)?,
        deleted_at: instant_or_none(row, 9)?,
    })
}

async fn create(mut session: Session, new: &NewSubscription, now: Timestamp) -> Result<Subscription, Fault> {
    let limit = new.max_retry_limit.map(int);
    let sql = include_str!("sql/subscriptions/create_subscription.sql");
    let rows = session
        .run(
            sql,
            &[
                &new.event_type.as_str(),
                &new.callback_url.as_str(),
                &limit,
                &new.description,
                &new.secret.expose(),
                &Instant(now),
            ],
        )
        .await?;
    let row = rows.first().ok_or_else(|| Fault::Unreadable("nothing came back".to_owned()))?;
    subscription(row)
}

async fn load(mut session: Session, id: SubscriptionId) -> Result<Option<(Subscription, Secrets)>, Fault> {
    let sql = include_str!("sql/subscriptions/load_subscription.sql");
    let rows = session.read(sql, &[&id.get()]).await?;
    rows.first().map(|row| Ok((subscription(row)?, secrets(row, 10)?))).transpose()
}

async fn update(
    mut session: Session,
    id: SubscriptionId,
    patch: &SubscriptionPatch,
    now: Timestamp,
) -> Result<Option<Subscription>, Fault> {
    let event_type = patch.event_type.as_ref().map(EventType::as_str);
    let url = patch.callback_url.as_ref().map(CallbackUrl::as_str);
    let limit = patch.max_retry_limit.flatten().map(int);
    let description = patch.description.as_ref().and_then(Option::as_deref);
    let sql = include_str!("sql/subscriptions/update_subscription.sql");
    let rows = session
        .run(
            sql,
            &[
                &id.get(),
                &event_type,
                &url,
                &patch.active,
                &patch.max_retry_limit.is_some(),
                &limit,
                &patch.description.is_some(),
                &description,
                &Instant(now),
            ],
        )
        .await?;
    rows.first().map(subscription).transpose()
}

async fn delete(mut session: Session, id: SubscriptionId, now: Timestamp) -> Result<bool, Fault> {
    let sql = include_str!("sql/subscriptions/delete_subscription.sql");
    Ok(!session.run(sql, &[&id.get(), &Instant(now)]).await?.is_empty())
}

async fn mark_verified(
    mut session: Session,
    id: SubscriptionId,
    challenged: &Verification,
    now: Timestamp,
) -> Result<bool, Fault> {
    let sql = include_str!("sql/subscriptions/mark_verified.sql");
    let (url, secret) = (challenged.callback_url.as_str(), challenged.secret.expose());
    Ok(!session.run(sql, &[&id.get(), &url, &secret, &Instant(now)]).await?.is_empty())
}

async fn rotate(
    mut session: Session,
    id: SubscriptionId,
    secret: &SealedSecret,
    previous_until: Timestamp,
    now: Timestamp,
) -> Result<Option<Subscription>, Fault> {
    let sql = include_str!("sql/subscriptions/rotate_secret.sql");
    let rows =
        session.run(sql, &[&id.get(), &secret.expose(), &Instant(previous_until), &Instant(now)]).await?;
    rows.first().map(subscription).transpose()
}
