//! Subscriptions: made, looked at, changed and deleted. A secret leaves here twice: when it is made, and
//! when it is rotated. [`challenge`] talks to the receivers.

pub(crate) mod challenge;

use crate::body::receive_json;
use crate::fields::Fields;
use crate::problem::Problem;
use crate::query::{Listed, Query, id, json, ok};
use crate::state::{Api, ApiResult, ApiState};
use crate::time::Utc;
use crate::values::{Number, Text, body, parameters};
use axum::Extension;
use axum::extract::{Path, Request, State};
use axum::response::IntoResponse as _;
use http::{StatusCode, Uri};
use posthaste_core::SubscriptionId;
use posthaste_core::audit::Actor;
use posthaste_core::duration;
use posthaste_core::event::EventType;
use posthaste_core::ports::{
    EXAMINED_MAX, ReaderStore as _, Stage, Stores, SubscriptionFilter, SubscriptionStore as _,
};
use posthaste_core::signature::SigningSecret;
use posthaste_core::subscription::{
    CallbackUrl, NewSubscription, SealedSecret, Standing, Subscription, SubscriptionPatch, check_description,
};
use posthaste_services::egress::EgressPolicy;
use serde::Serialize;
use std::time::Duration;
use utoipa::ToSchema;

pub(crate) use challenge::{test, verify};

pub(crate) const LIST: &str = "subscriptions";
/// The most attempts that a subscription may ask for.
const RETRY_LIMIT_MAX: u32 = 100;
/// How long the secret before goes on signing, unless the caller says otherwise.
const OVERLAP_S: u32 = 24 * 3_600;
const OVERLAP_S_MAX: u32 = 30 * 24 * 3_600;

#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({
    "id": 3, "event_type": "order.paid", "callback_url": "https://example.com/hook", "active": true, "verified": true,
    "max_retry_limit": null, "timeout": null, "description": "the shop", "created_at": "2026-01-31T12:00:00.000000Z",
    "updated_at": "2026-01-31T12:00:05.000000Z"
}))]
pub(crate) struct SubscriptionView {
    pub(crate) id: i64,
    pub(crate) event_type: String,
    pub(crate) callback_url: String,
    pub(crate) active: bool,
    pub(crate) verified: bool,
    pub(crate) max_retry_limit: Option<u32>,
    /// The longest time for one request, such as 30s; null: the server's setting (POSTHASTE_REQUEST_TIMEOUT).
    pub(crate) timeout: Option<String>,
    pub(crate) description: Option<String>,
    pub(crate) created_at: Utc,
    pub(crate) updated_at: Utc,
    /// At creation and rotation only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) secret: Option<String>,
}

impl SubscriptionView {
    fn of(subscription: Subscription) -> Self {
        Self {
            id: subscription.id.get(),
            event_type: subscription.event_type.into_string(),
            callback_url: subscription.callback_url.as_str().to_owned(),
            active: subscription.active,
            verified: subscription.verified,
            max_retry_limit: subscription.max_retry_limit,
            timeout: subscription.timeout.map(duration::format),
            description: subscription.description,
            created_at: Utc(subscription.created_at),
            updated_at: Utc(subscription.updated_at),
            secret: None,
        }
    }

    fn with_secret(subscription: Subscription, secret: &SigningSecret) -> Self {
        Self { secret: Some(secret.reveal()), ..Self::of(subscription) }
    }
}

body! {
    #[schema(
        as = NewSubscription,
        example = json!({"event_type": "order.paid", "callback_url": "https://example.com/hook"})
    )]
    struct NewSubscriptionBody {
        #[schema(value_type = String)]
        event_type: EventType,
        /// https; its address must be public.
        #[schema(max_length = 2000)]
        callback_url: String,
        /// How many attempts are made in all.
        #[schema(value_type = Option<u32>, minimum = 1, maximum = 100)]
        max_retry_limit: Option<Number<1, RETRY_LIMIT_MAX>>,
        /// The longest time for one request, from 1s to 5s less than POSTHASTE_LEASE. The default is the server's
        /// setting (POSTHASTE_REQUEST_TIMEOUT).
        #[schema(example = "30s")]
        timeout: Option<String>,
        #[schema(value_type = Option<String>, max_length = 1000)]
        description: Option<Description>,
    }
}

body! {
    /// What is left out stays as it is.
    #[schema(example = json!({"active": false}))]
    struct SubscriptionChange {
        #[schema(value_type = Option<String>)]
        event_type: Option<EventType>,
        /// A changed URL must be verified again.
        callback_url: Option<String>,
        /// False holds what was routed, and routes no more.
        active: Option<bool>,
        #[schema(value_type = Option<u32>, minimum = 1, maximum = 100)]
        max_retry_limit: Option<Option<Number<1, RETRY_LIMIT_MAX>>>,
        /// The longest time for one request, from 1s to 5s less than POSTHASTE_LEASE. Null: the server's setting.
        #[schema(value_type = Option<String>, example = "30s")]
        timeout: Option<Option<String>>,
        #[schema(value_type = Option<String>, max_length = 1000)]
        description: Option<Option<Description>>,
    }
}

body! {
    #[schema(example = json!({"overlap_s": 3600}))]
    struct Rotation {
        /// How long the secret before goes on signing; a day unless said otherwise.
        #[schema(value_type = Option<u32>, minimum = 0, maximum = 2_592_000)]
        overlap_s: Option<Number<0, OVERLAP_S_MAX>>,
    }
}

#[derive(Debug)]
pub(crate) struct Description(String);

impl Text for Description {
    fn read_text(_: &str, text: String) -> Result<Self, String> {
        check_description(&text).map_err(|error| error.to_string())?;
        Ok(Self(text))
    }
}

parameters! {
    struct Parameters(LIST) -> SubscriptionFilter {
        event_type: EventType,
        /// active, paused or unverified
        standing as "state": Standing,
    }
}

#[utoipa::path(
    get,
    path = "/v1/subscriptions",
    tag = "subscriptions",
    summary = "List subscriptions (role viewer)",
    params(Parameters),
    responses((status = 200, description = "A page", body = Listed<SubscriptionView>)),
)]
pub(crate) async fn list<S: Stores>(State(api): Api<S>, uri: Uri) -> ApiResult {
    ok(&find(&api, &uri, EXAMINED_MAX).await?)
}

/// What the parameters of an address ask for.
pub(crate) async fn find<S: Stores>(
    api: &ApiState<S>,
    uri: &Uri,
    examined_max: u32,
) -> Result<Listed<SubscriptionView>, Problem> {
    let (filter, page) = Parameters::read(Query::of(uri)?)?;
    let found = api.reader.subscriptions(filter, page.looking_at(examined_max)).await?;
    Ok(Listed::of(LIST, found, SubscriptionView::of))
}

#[utoipa::path(
    get,
    path = "/v1/subscriptions/{id}",
    tag = "subscriptions",
    summary = "A subscription (role viewer)",
    params(("id" = i64, Path)),
    responses((status = 200, description = "The subscription", body = SubscriptionView)),
)]
pub(crate) async fn show<S: Stores>(State(api): Api<S>, Path(text): Path<String>) -> ApiResult {
    ok(&find_one(&api, &text).await?)
}

pub(crate) async fn find_one<S: Stores>(api: &ApiState<S>, text: &str) -> Result<SubscriptionView, Problem> {
    let found = api.reader.subscription(subscription_id(text)?).await?;
    let found = found.filter(|subscription| subscription.deleted_at.is_none());
    Ok(SubscriptionView::of(found.ok_or_else(not_found)?))
}

#[utoipa::path(
    post,
    path = "/v1/subscriptions",
    tag = "subscriptions",
    summary = "Subscribe a URL to a type of event (role admin)",
    request_body = NewSubscriptionBody,
    responses((status = 201, description = "Made; the secret is shown once", body = SubscriptionView)),
)]
pub(crate) async fn create<S: Stores>(
    State(api): Api<S>,
    Extension(by): Extension<Actor>,
    request: Request,
) -> ApiResult {
    let upload = receive_json(&api.uploads, request).await?;
    json(StatusCode::CREATED, &make(&api, by, Fields::parse(upload.text()?)?).await?)
}

/// A new subscription, with its secret.
pub(crate) async fn make<S: Stores>(
    api: &ApiState<S>,
    by: Actor,
    mut fields: Fields<'_>,
) -> Result<SubscriptionView, Problem> {
    let body = NewSubscriptionBody::read(&mut fields)?;
    fields.finish()?;
    let (secret, sealed) = draw_secret(api);
    let new = NewSubscription {
        event_type: body.event_type,
        callback_url: allowed_url(&body.callback_url, api.outgoing.sender.policy())?,
        max_retry_limit: body.max_retry_limit.map(|limit| limit.0),
        timeout: timeout_of(api, body.timeout)?,
        description: body.description.map(|text| text.0),
        secret: sealed,
    };
    let made = api.subscriptions.create_subscription(new, by, api.clock.now()).await?;
    Ok(SubscriptionView::with_secret(made, &secret))
}

#[utoipa::path(
    patch,
    path = "/v1/subscriptions/{id}",
    tag = "subscriptions",
    summary = "Change a subscription (role admin)",
    params(("id" = i64, Path)),
    request_body = SubscriptionChange,
    responses((status = 200, description = "As it is now", body = SubscriptionView)),
)]
pub(crate) async fn update<S: Stores>(
    State(api): Api<S>,
    Extension(by): Extension<Actor>,
    Path(text): Path<String>,
    request: Request,
) -> ApiResult {
    let id = subscription_id(&text)?;
    let upload = receive_json(&api.uploads, request).await?;
    ok(&change(&api, by, id, Fields::parse(upload.text()?)?).await?)
}

pub(crate) async fn change<S: Stores>(
    api: &ApiState<S>,
    by: Actor,
    id: SubscriptionId,
    mut fields: Fields<'_>,
) -> Result<SubscriptionView, Problem> {
    let body = SubscriptionChange::read(&mut fields)?;
    fields.finish()?;
    let allowed = |url: String| allowed_url(&url, api.outgoing.sender.policy());
    let patch = SubscriptionPatch {
        event_type: body.event_type,
        callback_url: body.callback_url.map(allowed).transpose()?,
        active: body.active,
        max_retry_limit: body.max_retry_limit.map(|limit| limit.map(|limit| limit.0)),
        timeout: body.timeout.map(|timeout| timeout_of(api, timeout)).transpose()?,
        description: body.description.map(|text| text.map(|text| text.0)),
    };
    let changed = api.subscriptions.update_subscription(id, patch, by, api.clock.now()).await?;
    // What was held may go on.
    api.wake_ups.wake(Stage::Admission);
    Ok(SubscriptionView::of(changed.ok_or_else(not_found)?))
}

#[utoipa::path(
    delete,
    path = "/v1/subscriptions/{id}",
    tag = "subscriptions",
    summary = "Delete a subscription (role admin)",
    params(("id" = i64, Path)),
    responses((status = 204, description = "Deleted")),
)]
pub(crate) async fn remove<S: Stores>(
    State(api): Api<S>,
    Extension(by): Extension<Actor>,
    Path(text): Path<String>,
) -> ApiResult {
    end(&api, by, subscription_id(&text)?).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Deletes it: what it still has to deliver is held for good.
pub(crate) async fn end<S: Stores>(api: &ApiState<S>, by: Actor, id: SubscriptionId) -> Result<(), Problem> {
    let deleted = api.subscriptions.delete_subscription(id, by, api.clock.now()).await?;
    if deleted { Ok(()) } else { Err(not_found()) }
}

#[utoipa::path(
    post,
    path = "/v1/subscriptions/{id}/rotate-secret",
    tag = "subscriptions",
    summary = "Give a subscription a new secret (role admin)",
    params(("id" = i64, Path)),
    request_body = Option<Rotation>,
    responses((status = 200, description = "With the new secret, shown once", body = SubscriptionView)),
)]
pub(crate) async fn rotate_secret<S: Stores>(
    State(api): Api<S>,
    Extension(by): Extension<Actor>,
    Path(text): Path<String>,
    request: Request,
) -> ApiResult {
    let id = subscription_id(&text)?;
    let upload = receive_json(&api.uploads, request).await?;
    ok(&rotate(&api, by, id, Fields::parse_optional(upload.text()?)?).await?)
}

/// The subscription with its new secret.
pub(crate) async fn rotate<S: Stores>(
    api: &ApiState<S>,
    by: Actor,
    id: SubscriptionId,
    mut fields: Fields<'_>,
) -> Result<SubscriptionView, Problem> {
    let overlap_s = Rotation::read(&mut fields)?.overlap_s.map_or(OVERLAP_S, |overlap_s| overlap_s.0);
    fields.finish()?;
    let (secret, sealed) = draw_secret(api);
    let now = api.clock.now();
    let previous_until = now.after(Duration::from_secs(overlap_s.into()));
    let rotated = api.subscriptions.rotate_secret(id, sealed, previous_until, by, now).await?;
    Ok(SubscriptionView::with_secret(rotated.ok_or_else(not_found)?, &secret))
}

fn not_found() -> Problem {
    Problem::not_found("subscription")
}

pub(crate) fn subscription_id(text: &str) -> Result<SubscriptionId, Problem> {
    id("id", text, SubscriptionId::new)
}

fn draw_secret<S: Stores>(api: &ApiState<S>) -> (SigningSecret, SealedSecret) {
    let secret = SigningSecret::from_random(api.draw());
    let sealed = api.outgoing.sealer.seal(&secret, api.draw());
    (secret, sealed)
}

fn timeout_of<S: Stores>(api: &ApiState<S>, text: Option<String>) -> Result<Option<Duration>, Problem> {
    let parsed = text.map(|text| api.outgoing.timeouts.parse(&text)).transpose();
    parsed.map_err(|error| Problem::invalid("timeout", error.to_string()))
}

/// Checks its form, and every rule of the policy that needs no look-up; the rest is checked before each request.
fn allowed_url(text: &str, policy: &EgressPolicy) -> Result<CallbackUrl, Problem> {
    let wrong = |detail: String| Problem::invalid("callback_url", detail);
    let url = CallbackUrl::parse(text, policy.allow_http).map_err(|error| wrong(error.to_string()))?;
    let checked = policy.check_url(url.as_str());
    checked.map_err(|error| wrong(format!("callback_url is not allowed: {error}")))?;
    Ok(url)
}
