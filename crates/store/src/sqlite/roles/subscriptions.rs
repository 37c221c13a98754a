//! Stores the configuration of subscriptions, for the API. The router and the workers read it; a trigger records
//! every change.

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
use rusqlite::{OptionalExtension as _, Row, params};
use std::time::Duration;

use crate::columns::{SqlText, sql};
use crate::grants::DbRole;
use crate::sqlite::SqliteStore;
use crate::sqlite::conn::error::Answer;
use crate::sqlite::conn::session::Session;
use crate::sqlite::conn::value::{self, get};
use crate::sqlite::roles::audit::Writer;

static CREATE_SUBSCRIPTION: SqlText = sql!("../sql/subscriptions/create_subscription.sql");
static LOAD_SUBSCRIPTION: SqlText = sql!("../sql/subscriptions/load_subscription.sql");
const UPDATE_SUBSCRIPTION: &str = include_str!("../sql/subscriptions/update_subscription.sql");
const DELETE_SUBSCRIPTION: &str = include_str!("../sql/subscriptions/delete_subscription.sql");
const MARK_VERIFIED: &str = include_str!("../sql/subscriptions/mark_verified.sql");
static LOAD_SECRETS: SqlText = sql!("../sql/subscriptions/load_secrets.sql");
const RESEAL_SECRETS: &str = include_str!("../sql/subscriptions/reseal_secrets.sql");
static ROTATE_SECRET: SqlText = sql!("../sql/subscriptions/rotate_secret.sql");

const ROLE: DbRole = DbRole::SubscriptionAdmin;
const WRITER: Writer = Writer::SubscriptionAdmin;

/// The SQLite implementation of [`SubscriptionStore`], with the rights of the role `subscription_admin`.
#[derive(Debug, Clone)]
pub struct SqliteSubscriptions(pub(crate) SqliteStore);

impl SubscriptionStore for SqliteSubscriptions {
    async fn create_subscription(
        &self,
        subscription: NewSubscription,
        by: Actor,
        now: Timestamp,
    ) -> StoreResult<Subscription> {
        self.0
            .write_audited(WRITER, "creating a subscription", (by, now), move |session| {
                let values = params![
                    subscription.event_type.as_str(),
                    subscription.callback_url.as_str(),
                    subscription.max_retry_limit,
                    subscription.timeout.map(millis),
                    subscription.description,
                    value::secret_ref(subscription.secret_ref),
                    subscription.secret.expose(),
                    now.micros(),
                ];
                let created =
                    session.statement(&CREATE_SUBSCRIPTION)?.query_row(values, read_subscription)?;
                let change = Change::subscription_created(&created);
                Ok((created, Some(change)))
            })
            .await
    }

    async fn load_subscription(&self, id: SubscriptionId) -> StoreResult<Option<(Subscription, Secrets)>> {
        self.0.read(ROLE, "loading a subscription", move |session| load(session, id)).await
    }

    async fn update_subscription(
        &self,
        id: SubscriptionId,
        patch: SubscriptionPatch,
        by: Actor,
        now: Timestamp,
    ) -> StoreResult<Option<Subscription>> {
        self.0
            .write_audited(WRITER, "updating a subscription", (by, now), move |session| {
                let Some((before, _)) = load(session, id)? else { return Ok((None, None)) };
                let Some(after) = patch.apply(&before, now) else { return Ok((Some(before), None)) };
                let values = params![
                    id.get(),
                    after.event_type.as_str(),
                    after.callback_url.as_str(),
                    after.active,
                    after.verified,
                    after.max_retry_limit,
                    after.timeout.map(millis),
                    after.description,
                    now.micros(),
                ];
                session.change_all(UPDATE_SUBSCRIPTION, 1, values)?;
                let change = Change::subscription_changed(&before, &after);
                Ok((Some(after), Some(change)))
            })
            .await
    }

    async fn delete_subscription(&self, id: SubscriptionId, by: Actor, now: Timestamp) -> StoreResult<bool> {
        self.0
            .write_audited(WRITER, "deleting a subscription", (by, now), move |session| {
                let Some((before, _)) = load(session, id)? else { return Ok((false, None)) };
                session.change_all(DELETE_SUBSCRIPTION, 1, params![id.get(), now.micros()])?;
                Ok((true, Some(Change::subscription_deleted(&before))))
            })
            .await
    }

    async fn mark_verified(
        &self,
        id: SubscriptionId,
        challenged: Verification,
        by: Actor,
        now: Timestamp,
    ) -> StoreResult<bool> {
        self.0
            .write_audited(WRITER, "verifying a subscription", (by, now), move |session| {
                let Some((before, _)) = load(session, id)? else { return Ok((false, None)) };
                let (url, secret) = (challenged.callback_url.as_str(), challenged.secret.expose());
                let verified = session.run(MARK_VERIFIED, params![id.get(), url, secret, now.micros()])? > 0;
                Ok((verified, verified.then(|| Change::subscription_verified(&before))))
            })
            .await
    }

    async fn rotate_secret(
        &self,
        id: SubscriptionId,
        rotation: SecretRotation,
        by: Actor,
        now: Timestamp,
    ) -> StoreResult<Rotated> {
        self.0
            .write_audited(WRITER, "rotating a secret", (by, now), move |session| {
                if load(session, id)?.is_none() {
                    return Ok((Rotated::NotFound, None));
                }
                let previous = rotation.previous.as_ref();
                let previous_until = previous.map(|(_, until)| *until);
                let values = params![
                    id.get(),
                    rotation.replaced.expose(),
                    rotation.secret.expose(),
                    previous.map(|(secret, _)| secret.expose()),
                    previous_until.map(Timestamp::micros),
                    now.micros(),
                ];
                let rotated = session.statement(&ROTATE_SECRET)?.query_row(values, read_subscription);
                let Some(rotated) = rotated.optional()? else { return Ok((Rotated::Changed, None)) };
                Ok((Rotated::Rotated(rotated), Some(Change::secret_rotated(id, previous_until))))
            })
            .await
    }

    async fn load_secrets(&self, after: i64, rows_max: u32) -> StoreResult<Vec<(SubscriptionId, Secrets)>> {
        self.0
            .read(ROLE, "loading secrets", move |session| {
                let mut load = session.statement(&LOAD_SECRETS)?;
                let found = load.query_map(params![after, rows_max], |row| {
                    Ok((SubscriptionId::from_store(get(row, "id")?), read_secrets(row)?))
                })?;
                Ok(found.collect::<rusqlite::Result<_>>()?)
            })
            .await
    }

    async fn reseal_secrets(
        &self,
        resealed: Vec<ResealedSecrets>,
        key_id: String,
        by: Actor,
        now: Timestamp,
    ) -> StoreResult<Vec<SubscriptionId>> {
        self.0
            .write_audited(WRITER, "storing resealed secrets", (by, now), move |session| {
                let mut stored = Vec::with_capacity(resealed.len());
                for row in &resealed {
                    let values = params![
                        row.id.get(),
                        row.before.current.expose(),
                        row.before.previous.as_ref().map(|(secret, _)| secret.expose()),
                        row.current.expose(),
                        row.previous.as_ref().map(SealedSecret::expose),
                    ];
                    if session.run(RESEAL_SECRETS, values)? > 0 {
                        stored.push(row.id);
                    }
                }
                let change = Change::secrets_resealed(&stored, &key_id);
                Ok((stored, change))
            })
            .await
    }
}

/// Returns a subscription with its secrets, or `None` if it is deleted.
fn load(session: &Session<'_>, id: SubscriptionId) -> Answer<Option<(Subscription, Secrets)>> {
    let mut load = session.statement(&LOAD_SUBSCRIPTION)?;
    let found = load.query_row([id.get()], |row| Ok((read_subscription(row)?, read_secrets(row)?)));
    Ok(found.optional()?)
}

pub(crate) fn read_subscription(row: &Row<'_>) -> rusqlite::Result<Subscription> {
    Ok(Subscription {
        id: SubscriptionId::from_store(get(row, "id")?),
        event_type: EventType::from_store(get(row, "event_type")?),
        callback_url: CallbackUrl::from_store(get(row, "callback_url")?),
        active: get(row, "active")?,
        verified: get(row, "verified")?,
        max_retry_limit: get(row, "max_retry_limit")?,
        timeout: read_timeout(row)?,
        description: get(row, "description")?,
        created_at: value::time(row, "created_at")?,
        updated_at: value::time(row, "updated_at")?,
        deleted_at: value::maybe_time(row, "deleted_at")?,
    })
}

fn read_timeout(row: &Row<'_>) -> rusqlite::Result<Option<Duration>> {
    Ok(get::<Option<u32>>(row, "timeout_ms")?.map(|ms| Duration::from_millis(ms.into())))
}

pub(crate) fn target(row: &Row<'_>) -> rusqlite::Result<Target> {
    Ok(Target {
        subscription_id: SubscriptionId::from_store(get(row, "id")?),
        callback_url: CallbackUrl::from_store(get(row, "callback_url")?),
        verified: get(row, "verified")?,
        timeout: read_timeout(row)?,
        secrets: read_secrets(row)?,
    })
}

/// Reads the current secret, and the previous secret with its expiry time.
fn read_secrets(row: &Row<'_>) -> rusqlite::Result<Secrets> {
    let secret_ref = SecretRef::from_bits(u128::from_be_bytes(get(row, "secret_ref")?));
    let current = SealedSecret::new(get::<String>(row, "secret")?);
    let previous = get::<Option<String>>(row, "previous_secret")?.map(SealedSecret::new);
    let previous = previous.zip(value::maybe_time(row, "previous_secret_expires_at")?);
    Ok(Secrets { secret_ref, current, previous })
}
