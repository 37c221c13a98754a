//! Stores the configuration of subscriptions, for the API. The router and the workers read it; a trigger records
//! every change.

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
use rusqlite::{OptionalExtension as _, Row, params};
use std::time::Duration;

use crate::columns::{SqlText, sql};
use crate::grants::DbRole;
use crate::sqlite::SqliteStore;
use crate::sqlite::conn::error::{Answer, Fault};
use crate::sqlite::conn::session::Session;
use crate::sqlite::conn::value::{self, get};
use crate::sqlite::roles::audit::Writer;
use crate::stored::{
    RequestColumns, SubscriptionTexts, read_metadata, read_verification, stored_fingerprint,
};

static CREATE_SUBSCRIPTION: SqlText = sql!("../sql/subscriptions/create_subscription.sql");
static LOAD_SUBSCRIPTION: SqlText = sql!("../sql/subscriptions/load_subscription.sql");
const UPDATE_SUBSCRIPTION: &str = include_str!("../sql/subscriptions/update_subscription.sql");
const DELETE_SUBSCRIPTION: &str = include_str!("../sql/subscriptions/delete_subscription.sql");
const FIND_UID: &str = include_str!("../sql/subscriptions/find_uid.sql");
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
    ) -> StoreResult<Created> {
        self.0
            .write_audited(WRITER, "creating a subscription", (by, now), move |session| {
                Ok(match create(session, &subscription, now)? {
                    Some(created) => {
                        let change = Change::subscription_created(&created);
                        (Created::Created(Box::new(created)), Some(change))
                    }
                    None => (Created::UidTaken, None),
                })
            })
            .await
    }

    async fn find_uid(&self, tenant: Option<Tenant>, uid: Uid) -> StoreResult<Option<SubscriptionId>> {
        self.0.read(ROLE, "looking up a uid", move |session| find_uid(session, tenant.as_ref(), &uid)).await
    }

    async fn load_subscription(&self, id: SubscriptionId) -> StoreResult<Option<(Subscription, Secrets)>> {
        self.0.read(ROLE, "loading a subscription", move |session| load(session, id)).await
    }

    async fn update_subscription(
        &self,
        id: SubscriptionId,
        patch: SubscriptionPatch,
        expected: Option<Revision>,
        by: Actor,
        now: Timestamp,
    ) -> StoreResult<Updated> {
        self.0
            .write_audited(WRITER, "updating a subscription", (by, now), move |session| {
                update(session, id, patch, expected, now)
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
        let verified_by = by.key_name.clone();
        self.0
            .write_audited(WRITER, "verifying a subscription", (by, now), move |session| {
                let Some((before, _)) = load(session, id)? else { return Ok((false, None)) };
                let (url, secret) = (challenged.callback_url.as_str(), challenged.secret.expose());
                let (method, allowed) = (challenged.method, challenged.allowed_per_minute);
                let values =
                    params![id.get(), url, secret, method.as_str(), verified_by, allowed, now.micros()];
                let verified = session.run(MARK_VERIFIED, values)? > 0;
                Ok((verified, verified.then(|| Change::subscription_verified(&before, method))))
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
                let text = |secret: &Option<ExpiringSecret>| {
                    secret.as_ref().map(|(text, _)| text.expose().to_owned())
                };
                let until = |secret: &Option<ExpiringSecret>| secret.as_ref().map(|(_, until)| *until);
                let previous_until = until(&rotation.previous);
                let signing_key = rotation.signing_key.as_ref();
                let values = params![
                    id.get(),
                    rotation.replaced.expose(),
                    rotation.secret.expose(),
                    text(&rotation.previous),
                    previous_until.map(Timestamp::micros),
                    text(&rotation.older),
                    until(&rotation.older).map(Timestamp::micros),
                    signing_key.map(|key| key.credentials.expose()),
                    signing_key.map(|key| key.public_key.as_str()),
                    now.micros(),
                    signing_key.and_then(|key| stored_fingerprint(&key.public_key)),
                    signing_key.and_then(|key| key.replaced.as_ref()).map(SealedSecret::expose),
                ];
                let mut rotate = session.statement(&ROTATE_SECRET)?;
                let mut rows = rotate.query(values)?;
                let Some(row) = rows.next()? else { return Ok((Rotated::Changed, None)) };
                let rotated = read_subscription(row)?;
                Ok((Rotated::Rotated(Box::new(rotated)), Some(Change::secret_rotated(id, previous_until))))
            })
            .await
    }

    async fn load_secrets(&self, after: i64, rows_max: u32) -> StoreResult<Vec<(SubscriptionId, Secrets)>> {
        self.0
            .read(ROLE, "loading secrets", move |session| {
                let mut load = session.statement(&LOAD_SECRETS)?;
                let mut rows = load.query(params![after, rows_max])?;
                let mut found = Vec::new();
                while let Some(row) = rows.next()? {
                    found.push((SubscriptionId::from_store(get(row, "id")?), read_secrets(row)?));
                }
                Ok(found)
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
                    let before = &row.before;
                    let values = params![
                        row.id.get(),
                        before.current.expose(),
                        before.previous.as_ref().map(|(secret, _)| secret.expose()),
                        before.older.as_ref().map(|(secret, _)| secret.expose()),
                        before.credentials.as_ref().map(SealedSecret::expose),
                        row.current.expose(),
                        row.previous.as_ref().map(SealedSecret::expose),
                        row.older.as_ref().map(SealedSecret::expose),
                        row.credentials.as_ref().map(SealedSecret::expose),
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

/// Creates a subscription, or returns `None` if another one of the tenant has its uid.
fn create(session: &Session<'_>, new: &NewSubscription, now: Timestamp) -> Answer<Option<Subscription>> {
    let texts = SubscriptionTexts::of_new(new);
    let values = params![
        texts.tenant,
        texts.uid,
        texts.name,
        texts.metadata,
        texts.event_type,
        texts.event_types_json(),
        texts.filter,
        new.callback_url.as_str(),
        new.active,
        new.max_retry_limit,
        new.timeout.map(millis),
        new.description,
        texts.signatures,
        new.public_key,
        texts.headers,
        texts.auth,
        new.envelope.as_str(),
        value::secret_ref(new.secret_ref),
        new.secret.expose(),
        new.credentials.as_ref().map(SealedSecret::expose),
        now.micros(),
        texts.public_key_fingerprint,
    ];
    let mut create = session.statement(&CREATE_SUBSCRIPTION)?;
    let mut created = create.query(values)?;
    created.next()?.map(read_subscription).transpose()
}

fn find_uid(session: &Session<'_>, tenant: Option<&Tenant>, uid: &Uid) -> Answer<Option<SubscriptionId>> {
    let values = params![tenant.map_or("", Tenant::as_str), uid.as_str()];
    let found = session.statement(FIND_UID)?.query_row(values, |row| get(row, "id")).optional()?;
    Ok(found.map(SubscriptionId::from_store))
}

fn update(
    session: &Session<'_>,
    id: SubscriptionId,
    patch: SubscriptionPatch,
    expected: Option<Revision>,
    now: Timestamp,
) -> Answer<(Updated, Option<Change>)> {
    let Some((before, _)) = load(session, id)? else { return Ok((Updated::NotFound, None)) };
    if expected.is_some_and(|expected| expected != before.revision) {
        return Ok((Updated::OtherRevision(before.revision), None));
    }
    let credentials = patch.credentials.clone();
    let Some(after) = patch.apply(&before, now) else {
        return Ok((Updated::Updated(Box::new(before)), None));
    };
    if let Some(uid) = after.uid.as_ref().filter(|_| after.uid != before.uid)
        && find_uid(session, after.tenant.as_ref(), uid)?.is_some()
    {
        return Ok((Updated::UidTaken, None));
    }
    write(session, &after, credentials.as_ref())?;
    let change = Change::subscription_changed(&before, &after);
    Ok((Updated::Updated(Box::new(after)), Some(change)))
}

/// Writes a subscription, and new credentials if there are any.
fn write(
    session: &Session<'_>,
    after: &Subscription,
    credentials: Option<&Option<SealedSecret>>,
) -> Answer<()> {
    let texts = SubscriptionTexts::of(after);
    let verification = after.verification.as_ref();
    let values = params![
        after.id.get(),
        texts.uid,
        texts.name,
        texts.metadata,
        texts.event_type,
        texts.event_types_json(),
        texts.filter,
        after.callback_url.as_str(),
        after.active,
        after.verified,
        verification.map(|record| record.method.as_str()),
        verification.map(|record| record.verified_at.micros()),
        verification.and_then(|record| record.verified_by.as_deref()),
        verification.and_then(|record| record.allowed_per_minute),
        after.max_retry_limit,
        after.timeout.map(millis),
        after.description,
        texts.signatures,
        after.public_key,
        texts.headers,
        texts.auth,
        after.envelope.as_str(),
        after.revision,
        after.updated_at.micros(),
        credentials.is_some(),
        credentials.and_then(Option::as_ref).map(SealedSecret::expose),
        texts.public_key_fingerprint,
    ];
    session.change_all(UPDATE_SUBSCRIPTION, 1, values)
}

/// Returns a subscription with its secrets, or `None` if it is deleted.
fn load(session: &Session<'_>, id: SubscriptionId) -> Answer<Option<(Subscription, Secrets)>> {
    let mut load = session.statement(&LOAD_SUBSCRIPTION)?;
    let mut found = load.query([id.get()])?;
    found.next()?.map(|row| Ok((read_subscription(row)?, read_secrets(row)?))).transpose()
}

pub(crate) fn read_subscription(row: &Row<'_>) -> Answer<Subscription> {
    let id: i64 = get(row, "id")?;
    let request = read_request(row)?;
    let filter = get::<Option<String>>(row, "filter")?.map(|text| Filter::from_store(&text)).transpose();
    Ok(Subscription {
        id: SubscriptionId::from_store(id),
        tenant: get::<Option<String>>(row, "tenant")?.map(Tenant::from_store),
        uid: get::<Option<String>>(row, "uid")?.map(Uid::from_store),
        name: get::<Option<String>>(row, "name")?.map(SubscriptionName::from_store),
        metadata: read_metadata(get::<Option<String>>(row, "metadata")?.as_deref())
            .map_err(Fault::Unreadable)?,
        event_types: read_event_types(row, id)?,
        filter: filter
            .map_err(|error| Fault::Unreadable(format!("the filter of subscription {id}: {error}")))?,
        callback_url: CallbackUrl::from_store(get(row, "callback_url")?),
        active: get(row, "active")?,
        verified: get(row, "verified")?,
        verification: read_verification(
            get::<Option<String>>(row, "verification_method")?.as_deref(),
            value::maybe_time(row, "verified_at")?,
            get(row, "verified_by")?,
            get(row, "allowed_per_minute")?,
        ),
        max_retry_limit: get(row, "max_retry_limit")?,
        timeout: read_timeout(row)?,
        description: get(row, "description")?,
        signatures: request.signatures,
        public_key: get(row, "public_key")?,
        headers: request.headers,
        auth: request.auth,
        envelope: request.envelope,
        revision: get(row, "revision")?,
        created_at: value::time(row, "created_at")?,
        updated_at: value::time(row, "updated_at")?,
        deleted_at: value::maybe_time(row, "deleted_at")?,
    })
}

pub(crate) fn read_event_types(row: &Row<'_>, id: i64) -> Answer<EventTypePatterns> {
    let read = serde_json::from_str(value::text(row, "event_types")?).map(EventTypePatterns::from_store);
    read.map_err(|error| Fault::Unreadable(format!("the event types of subscription {id}: {error}")))
}

fn read_timeout(row: &Row<'_>) -> rusqlite::Result<Option<Duration>> {
    Ok(get::<Option<u32>>(row, "timeout_ms")?.map(|ms| Duration::from_millis(ms.into())))
}

fn read_request(row: &Row<'_>) -> Answer<RequestColumns> {
    let text = |column: &str| get::<Option<String>>(row, column);
    let (signatures, headers, auth) = (text("signatures")?, text("headers")?, text("auth")?);
    let envelope = value::text(row, "envelope")?;
    let read = RequestColumns::read(signatures.as_deref(), headers.as_deref(), auth.as_deref(), envelope);
    read.map_err(Fault::Unreadable)
}

pub(crate) fn target(row: &Row<'_>) -> Answer<Target> {
    let RequestColumns { signatures, headers, auth, envelope } = read_request(row)?;
    Ok(Target {
        subscription_id: SubscriptionId::from_store(get(row, "id")?),
        callback_url: CallbackUrl::from_store(get(row, "callback_url")?),
        verified: get(row, "verified")?,
        timeout: read_timeout(row)?,
        signatures,
        headers,
        auth,
        envelope,
        secrets: read_secrets(row)?,
    })
}

fn read_secrets(row: &Row<'_>) -> Answer<Secrets> {
    let sealed = |column: &str| Ok::<_, Fault>(get::<Option<String>>(row, column)?.map(SealedSecret::new));
    Ok(Secrets {
        secret_ref: SecretRef::from_bits(u128::from_be_bytes(get(row, "secret_ref")?)),
        current: SealedSecret::new(get::<String>(row, "secret")?),
        previous: sealed("previous_secret")?.zip(value::maybe_time(row, "previous_secret_expires_at")?),
        older: sealed("older_secret")?.zip(value::maybe_time(row, "older_secret_expires_at")?),
        credentials: sealed("credentials")?,
    })
}
