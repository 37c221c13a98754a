//! Stores the configuration of subscriptions, for the API. Nothing is cached: the router and the worker see a change
//! with their next statement.

use crate::columns::{SqlText, sql};
use crate::grants::DbRole;
use crate::postgres::PostgresStore;
use crate::postgres::conn::pool::RolePool;
use crate::postgres::conn::session::{Params, Session, TransactionMode};
use crate::postgres::conn::value::{
    Instant, count_or_none, get, instant, instant_or_none, int, secret_ref, take,
};
use crate::postgres::roles::audit::{self, Writer};
use crate::remote::{Call, Fault};
use crate::stored::{
    RequestColumns, SubscriptionTexts, read_metadata, read_verification, stored_fingerprint,
};
use posthaste_core::audit::{Actor, Change};
use posthaste_core::filter::Filter;
use posthaste_core::identity::{SubscriptionName, Uid};
use posthaste_core::job::millis;
use posthaste_core::pattern::EventTypePatterns;
use posthaste_core::ports::{
    Created, ResealedSecrets, Rotated, SecretRotation, StoreResult, SubscriptionStore, Target, Updated,
    Verification,
};
use posthaste_core::subscription::{
    CallbackUrl, ExpiringSecret, NewSubscription, Revision, SealedSecret, Secrets, Subscription,
    SubscriptionPatch,
};
use posthaste_core::tenant::Tenant;
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
    ) -> StoreResult<Created> {
        let call = Call::once("creating a subscription");
        self.pool.call(call, |session| create(session, &subscription, &by, now)).await
    }

    async fn find_uid(&self, tenant: Option<Tenant>, uid: Uid) -> StoreResult<Option<SubscriptionId>> {
        let call = Call::repeatable("looking up a uid");
        let (tenant, uid) = (tenant.as_ref(), &uid);
        self.pool.call(call, |mut session| async move { find_uid(&mut session, tenant, uid).await }).await
    }

    async fn load_subscription(&self, id: SubscriptionId) -> StoreResult<Option<(Subscription, Secrets)>> {
        self.pool.call(Call::repeatable("loading a subscription"), |session| load(session, id)).await
    }

    async fn update_subscription(
        &self,
        id: SubscriptionId,
        patch: SubscriptionPatch,
        expected: Option<Revision>,
        by: Actor,
        now: Timestamp,
    ) -> StoreResult<Updated> {
        let call = Call::once("changing a subscription");
        self.pool.call(call, |session| update(session, id, &patch, expected, &by, now)).await
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
    let id: i64 = get(row, "id")?;
    let request = request(row)?;
    let filter = get::<Option<&str>>(row, "filter")?.map(Filter::from_store).transpose();
    Ok(Subscription {
        id: SubscriptionId::from_store(id),
        tenant: get::<Option<String>>(row, "tenant")?.map(Tenant::from_store),
        uid: get::<Option<String>>(row, "uid")?.map(Uid::from_store),
        name: get::<Option<String>>(row, "name")?.map(SubscriptionName::from_store),
        metadata: read_metadata(get(row, "metadata")?).map_err(Fault::Unreadable)?,
        event_types: EventTypePatterns::from_store(get(row, "event_types")?),
        filter: filter
            .map_err(|error| Fault::Unreadable(format!("the filter of subscription {id}: {error}")))?,
        callback_url: CallbackUrl::from_store(get(row, "callback_url")?),
        active: get(row, "active")?,
        verified: get(row, "verified")?,
        verification: read_verification(
            get(row, "verification_method")?,
            instant_or_none(row, "verified_at")?,
            get(row, "verified_by")?,
            count_or_none(row, "allowed_per_minute")?,
        ),
        max_retry_limit: count_or_none(row, "max_retry_limit")?,
        timeout: timeout(row)?,
        description: get(row, "description")?,
        signatures: request.signatures,
        public_key: get(row, "public_key")?,
        headers: request.headers,
        auth: request.auth,
        envelope: request.envelope,
        revision: get(row, "revision")?,
        created_at: instant(row, "created_at")?,
        updated_at: instant(row, "updated_at")?,
        deleted_at: instant_or_none(row, "deleted_at")?,
    })
}

fn timeout(row: &Row) -> Result<Option<Duration>, Fault> {
    Ok(count_or_none(row, "timeout_ms")?.map(|ms| Duration::from_millis(ms.into())))
}

fn request(row: &Row) -> Result<RequestColumns, Fault> {
    let read = RequestColumns::read(
        get(row, "signatures")?,
        get(row, "headers")?,
        get(row, "auth")?,
        get(row, "envelope")?,
    );
    read.map_err(Fault::Unreadable)
}

pub(crate) fn target(row: &Row) -> Result<Target, Fault> {
    let RequestColumns { signatures, headers, auth, envelope } = request(row)?;
    Ok(Target {
        subscription_id: SubscriptionId::from_store(get(row, "id")?),
        callback_url: CallbackUrl::from_store(get(row, "callback_url")?),
        verified: get(row, "verified")?,
        timeout: timeout(row)?,
        signatures,
        headers,
        auth,
        envelope,
        secrets: secrets(row)?,
    })
}

fn secrets(row: &Row) -> Result<Secrets, Fault> {
    let sealed = |column: &str| Ok::<_, Fault>(get::<Option<String>>(row, column)?.map(SealedSecret::new));
    Ok(Secrets {
        secret_ref: SecretRef::from_bits(get::<Uuid>(row, "secret_ref")?.as_u128()),
        current: SealedSecret::new(get::<String>(row, "secret")?),
        previous: sealed("previous_secret")?.zip(instant_or_none(row, "previous_secret_expires_at")?),
        older: sealed("older_secret")?.zip(instant_or_none(row, "older_secret_expires_at")?),
        credentials: sealed("credentials")?,
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
) -> Result<Created, Fault> {
    let (limit, timeout) = (new.max_retry_limit.map(int), new.timeout.map(millis).map(int));
    let texts = SubscriptionTexts::of_new(new);
    let values: Params<'_> = &[
        &texts.tenant,
        &texts.uid,
        &texts.name,
        &texts.metadata,
        &texts.event_type,
        &texts.event_types,
        &texts.filter,
        &new.callback_url.as_str(),
        &new.active,
        &limit,
        &timeout,
        &new.description,
        &texts.signatures,
        &new.public_key,
        &texts.headers,
        &texts.auth,
        &new.envelope.as_str(),
        &secret_ref(new.secret_ref),
        &new.secret.expose(),
        &new.credentials.as_ref().map(SealedSecret::expose),
        &Instant(now),
        &texts.public_key_fingerprint,
    ];
    let rows = session.begin(TransactionMode::Flushed, &CREATE_SUBSCRIPTION, values).await?;
    let Some(row) = rows.first() else {
        session.roll_back().await?;
        return Ok(Created::UidTaken);
    };
    let created = subscription(row)?;
    audit::commit(&mut session, WRITER, by, &Change::subscription_created(&created)).await?;
    Ok(Created::Created(Box::new(created)))
}

/// Returns the id of the subscription with a uid. If a transaction is open, the statement is part of it.
async fn find_uid(
    session: &mut Session,
    tenant: Option<&Tenant>,
    uid: &Uid,
) -> Result<Option<SubscriptionId>, Fault> {
    let sql = include_str!("../sql/subscriptions/find_uid.sql");
    let rows = session.go_on(sql, &[&tenant.map_or("", Tenant::as_str), &uid.as_str()]).await?;
    rows.first().map(|row| Ok(SubscriptionId::from_store(get(row, "id")?))).transpose()
}

async fn load(mut session: Session, id: SubscriptionId) -> Result<Option<(Subscription, Secrets)>, Fault> {
    let rows = session.read(&LOAD_SUBSCRIPTION, &[&id.get()]).await?;
    rows.first().map(|row| Ok((subscription(row)?, secrets(row)?))).transpose()
}

async fn update(
    mut session: Session,
    id: SubscriptionId,
    patch: &SubscriptionPatch,
    expected: Option<Revision>,
    by: &Actor,
    now: Timestamp,
) -> Result<Updated, Fault> {
    let Some(before) = lock(&mut session, id).await? else { return Ok(Updated::NotFound) };
    if expected.is_some_and(|expected| expected != before.revision) {
        session.roll_back().await?;
        return Ok(Updated::OtherRevision(before.revision));
    }
    let Some(after) = patch.clone().apply(&before, now) else {
        session.roll_back().await?;
        return Ok(Updated::Updated(Box::new(before)));
    };
    if let Some(uid) = after.uid.as_ref().filter(|_| after.uid != before.uid)
        && find_uid(&mut session, after.tenant.as_ref(), uid).await?.is_some()
    {
        session.roll_back().await?;
        return Ok(Updated::UidTaken);
    }
    write(&mut session, &after, patch).await?;
    audit::commit(&mut session, WRITER, by, &Change::subscription_changed(&before, &after)).await?;
    Ok(Updated::Updated(Box::new(after)))
}

/// Writes a subscription, and the credentials of the patch if it has any.
async fn write(session: &mut Session, after: &Subscription, patch: &SubscriptionPatch) -> Result<(), Fault> {
    let sql = include_str!("../sql/subscriptions/update_subscription.sql");
    let (limit, timeout) = (after.max_retry_limit.map(int), after.timeout.map(millis).map(int));
    let texts = SubscriptionTexts::of(after);
    let verification = after.verification.as_ref();
    let values: Params<'_> = &[
        &after.id.get(),
        &texts.uid,
        &texts.name,
        &texts.metadata,
        &texts.event_type,
        &texts.event_types,
        &texts.filter,
        &after.callback_url.as_str(),
        &after.active,
        &after.verified,
        &verification.map(|record| record.method.as_str()),
        &verification.map(|record| Instant(record.verified_at)),
        &verification.and_then(|record| record.verified_by.as_deref()),
        &verification.and_then(|record| record.allowed_per_minute).map(int),
        &limit,
        &timeout,
        &after.description,
        &texts.signatures,
        &after.public_key,
        &texts.headers,
        &texts.auth,
        &after.envelope.as_str(),
        &after.revision,
        &Instant(after.updated_at),
        &patch.credentials.is_some(),
        &patch.credentials.as_ref().and_then(Option::as_ref).map(SealedSecret::expose),
        &texts.public_key_fingerprint,
    ];
    session.go_on(sql, values).await?;
    Ok(())
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
    let (method, allowed) = (challenged.method.as_str(), challenged.allowed_per_minute.map(int));
    let values: Params<'_> = &[&id.get(), &url, &secret, &method, &by.key_name, &allowed, &Instant(now)];
    if session.go_on(sql, values).await?.is_empty() {
        session.roll_back().await?;
        return Ok(false);
    }
    audit::commit(&mut session, WRITER, by, &Change::subscription_verified(&before, challenged.method))
        .await?;
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
    let text = |secret: &Option<ExpiringSecret>| secret.as_ref().map(|(text, _)| text.expose().to_owned());
    let until = |secret: &Option<ExpiringSecret>| secret.as_ref().map(|(_, until)| *until);
    let previous_until = until(&rotation.previous);
    let signing_key = rotation.signing_key.as_ref();
    let values: Params<'_> = &[
        &id.get(),
        &rotation.replaced.expose(),
        &rotation.secret.expose(),
        &text(&rotation.previous),
        &previous_until.map(Instant),
        &text(&rotation.older),
        &until(&rotation.older).map(Instant),
        &signing_key.map(|key| key.credentials.expose()),
        &signing_key.map(|key| key.public_key.as_str()),
        &Instant(now),
        &signing_key.and_then(|key| stored_fingerprint(&key.public_key)),
        &signing_key.and_then(|key| key.replaced.as_ref()).map(SealedSecret::expose),
    ];
    let rows = session.go_on(&ROTATE_SECRET, values).await?;
    let Some(row) = rows.first() else {
        session.roll_back().await?;
        return Ok(Rotated::Changed);
    };
    let after = subscription(row)?;
    audit::commit(&mut session, WRITER, by, &Change::secret_rotated(id, previous_until)).await?;
    Ok(Rotated::Rotated(Box::new(after)))
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
    let exposed = |secret: &SealedSecret| secret.expose().to_owned();
    let replaced = |secret: &Option<ExpiringSecret>| secret.as_ref().map(|(secret, _)| exposed(secret));
    let column = |text: &dyn Fn(&ResealedSecrets) -> Option<String>| -> Vec<Option<String>> {
        resealed.iter().map(text).collect()
    };
    let values: Params<'_> = &[
        &ids,
        &column(&|row| Some(exposed(&row.before.current))),
        &column(&|row| replaced(&row.before.previous)),
        &column(&|row| replaced(&row.before.older)),
        &column(&|row| row.before.credentials.as_ref().map(exposed)),
        &column(&|row| Some(exposed(&row.current))),
        &column(&|row| row.previous.as_ref().map(exposed)),
        &column(&|row| row.older.as_ref().map(exposed)),
        &column(&|row| row.credentials.as_ref().map(exposed)),
    ];
    let sql = include_str!("../sql/subscriptions/reseal_secrets.sql");
    let rows = session.go_on(sql, values).await?;
    let id = |row: &Row| Ok(SubscriptionId::from_store(get(row, "id")?));
    let stored: Vec<SubscriptionId> = rows.iter().map(id).collect::<Result<_, Fault>>()?;
    match Change::secrets_resealed(&stored, key_id) {
        Some(change) => audit::commit(&mut session, WRITER, by, &change).await?,
        None => session.roll_back().await?,
    }
    Ok(stored)
}
