//! Subscriptions: made, looked at, changed and deleted. A secret leaves here twice: when it is made, and
//! when it is rotated. [`challenge`] talks to the receivers.

pub(crate) mod challenge;

use crate::bodies;
use crate::body::receive_json;
use crate::fields::Fields;
use crate::problem::Problem;
use crate::query::{Listed, Query, id, json, ok};
use crate::state::ApiState;
use crate::time::Utc;
use axum::Extension;
use axum::extract::{Path, Request, State};
use axum::response::{IntoResponse as _, Response};
use http::{StatusCode, Uri};
use posthaste_core::SubscriptionId;
use posthaste_core::audit::Actor;
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
use std::sync::Arc;
use std::time::Duration;
use utoipa::ToSchema;

pub(crate) use challenge::{test, verify};

pub(crate) const LIST: &str = "subscriptions";
/// The most attempts that a subscription may ask for.
const RETRY_LIMIT_MAX: u32 = 100;
/// How long the secret before goes on signing, unless the caller says otherwise.
const OVERLAP_S: u64 = 24 * 3_600;
const OVERLAP_S_MAX: u64 = 30 * 24 * 3_600;

#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({
    "id": 3, "event_type": "order.paid", "callback_url": "https://example.com/hook", "active": true, "verified": true,
    "max_retry_limit": null, "description": "the shop", "created_at": "2026-01-31T12:00:00.000000Z",
    "updated_at": "2026-01-31T12:00:05.000000Z"
}))]
pub(crate) struct SubscriptionView {
    pub(crate) id: i64,
    pub(crate) event_type: String,
    pub(crate) callback_url: String,
    pub(crate) active: bool,
    pub(crate) verified: bool,
    pub(crate) max_retry_limit: Option<u32>,
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

#[utoipa::path(
    get,
    path = "/v1/subscriptions",
    tag = "subscriptions",
    summary = "List subscriptions (role viewer)",
    params(
        ("event_type" = Option<String>, Query),
        ("state" = Option<String>, Query, description = "active, paused or unverified"),
        ("limit" = Option<u32>, Query, description = "1 to 200; 50 unless said otherwise"),
        ("cursor" = Option<String>, Query, description = "The next_cursor of the page before"),
    ),
    responses((status = 200, description = "A page", body = Listed<SubscriptionView>)),
)]
pub(crate) async fn list<S: Stores>(
    State(api): State<Arc<ApiState<S>>>,
    uri: Uri,
) -> Result<Response, Problem> {
    ok(&find(&api, &uri, EXAMINED_MAX).await?)
}

/// What the parameters of an address ask for.
pub(crate) async fn find<S: Stores>(
    api: &ApiState<S>,
    uri: &Uri,
    examined_max: u32,
) -> Result<Listed<SubscriptionView>, Problem> {
    let mut query = Query::of(uri)?;
    let standing =
        query.take("state").map(|text| Standing::parse(&text).ok_or_else(bad_state)).transpose()?;
    let filter = SubscriptionFilter { event_type: query.event_type()?, standing };
    let page = query.page(LIST)?.looking_at(examined_max);
    query.finish()?;
    let found = api.reader.subscriptions(filter, page).await?;
    Ok(Listed::of(LIST, found, SubscriptionView::of))
}

fn bad_state() -> Problem {
    let known = Standing::ALL.map(Standing::as_str).join(", ");
    Problem::invalid("state", format!("state must be one of {known}"))
}

#[utoipa::path(
    get,
    path = "/v1/subscriptions/{id}",
    tag = "subscriptions",
    summary = "A subscription (role viewer)",
    params(("id" = i64, Path)),
    responses((status = 200, description = "The subscription", body = SubscriptionView)),
)]
pub(crate) async fn show<S: Stores>(
    State(api): State<Arc<ApiState<S>>>,
    Path(text): Path<String>,
) -> Result<Response, Problem> {
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
    request_body = bodies::NewSubscriptionBody,
    responses((status = 201, description = "Made; the secret is shown once", body = SubscriptionView)),
)]
pub(crate) async fn create<S: Stores>(
    State(api): State<Arc<ApiState<S>>>,
    Extension(by): Extension<Actor>,
    request: Request,
) -> Result<Response, Problem> {
    let upload = receive_json(&api.uploads, request).await?;
    json(StatusCode::CREATED, &make(&api, by, Fields::parse(upload.text()?)?).await?)
}

/// A new subscription, with its secret.
pub(crate) async fn make<S: Stores>(
    api: &ApiState<S>,
    by: Actor,
    mut fields: Fields<'_>,
) -> Result<SubscriptionView, Problem> {
    let policy = api.outgoing.sender.policy();
    let event_type = event_type(&mut fields)?.ok_or_else(|| fields.missing("event_type"))?;
    let callback_url = callback_url(&mut fields, policy)?.ok_or_else(|| fields.missing("callback_url"))?;
    let max_retry_limit = max_retry_limit(&mut fields)?.flatten();
    let description = description(&mut fields)?.flatten();
    fields.finish()?;
    let (secret, sealed) = draw_secret(api);
    let new = NewSubscription { event_type, callback_url, max_retry_limit, description, secret: sealed };
    let made = api.subscriptions.create_subscription(new, by, api.clock.now()).await?;
    Ok(SubscriptionView::with_secret(made, &secret))
}

#[utoipa::path(
    patch,
    path = "/v1/subscriptions/{id}",
    tag = "subscriptions",
    summary = "Change a subscription (role admin)",
    params(("id" = i64, Path)),
    request_body = bodies::SubscriptionChange,
    responses((status = 200, description = "As it is now", body = SubscriptionView)),
)]
pub(crate) async fn update<S: Stores>(
    State(api): State<Arc<ApiState<S>>>,
    Extension(by): Extension<Actor>,
    Path(text): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
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
    let patch = SubscriptionPatch {
        event_type: event_type(&mut fields)?,
        callback_url: callback_url(&mut fields, api.outgoing.sender.policy())?,
        active: fields.take("active", "true or false")?,
        max_retry_limit: max_retry_limit(&mut fields)?,
        description: description(&mut fields)?,
    };
    fields.finish()?;
    // A change that changes nothing leaves no trace: neither a new time nor a row of history.
    let (present, _) = api.subscriptions.load_subscription(id).await?.ok_or_else(not_found)?;
    if patch.is_in_force(&present) {
        return Ok(SubscriptionView::of(present));
    }
    let changed = api.subscriptions.update_subscription(id, patch, by, api.clock.now()).await?;
    // What was held may go on.
    api.wakes.wake(Stage::Admission);
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
    State(api): State<Arc<ApiState<S>>>,
    Extension(by): Extension<Actor>,
    Path(text): Path<String>,
) -> Result<Response, Problem> {
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
    request_body = Option<bodies::Rotation>,
    responses((status = 200, description = "With the new secret, shown once", body = SubscriptionView)),
)]
pub(crate) async fn rotate_secret<S: Stores>(
    State(api): State<Arc<ApiState<S>>>,
    Extension(by): Extension<Actor>,
    Path(text): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
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
    let overlap_s: Option<u64> = fields.take("overlap_s", "a whole number of seconds")?;
    let overlap_s = overlap_s.unwrap_or(OVERLAP_S);
    if overlap_s > OVERLAP_S_MAX {
        let detail = format!("overlap_s must be at most {OVERLAP_S_MAX} (30 days)");
        return Err(fields.wrong("overlap_s", detail));
    }
    fields.finish()?;
    let (secret, sealed) = draw_secret(api);
    let now = api.clock.now();
    let previous_until = now.after(Duration::from_secs(overlap_s));
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

fn event_type(fields: &mut Fields<'_>) -> Result<Option<EventType>, Problem> {
    let text: Option<String> = fields.take("event_type", "text")?;
    text.map(EventType::parse).transpose().map_err(|error| fields.wrong("event_type", error))
}

/// Its form, and every rule of the policy that needs no look-up; the rest is checked before each request.
fn callback_url(fields: &mut Fields<'_>, policy: &EgressPolicy) -> Result<Option<CallbackUrl>, Problem> {
    let Some(text) = fields.take::<String>("callback_url", "text")? else { return Ok(None) };
    let url =
        CallbackUrl::parse(&text, policy.allow_http).map_err(|error| fields.wrong("callback_url", error))?;
    let blocked = |error| fields.wrong("callback_url", format_args!("callback_url is not allowed: {error}"));
    policy.check_url(url.as_str()).map_err(blocked)?;
    Ok(Some(url))
}

fn max_retry_limit(fields: &mut Fields<'_>) -> Result<Option<Option<u32>>, Problem> {
    let what = format!("a whole number from 1 to {RETRY_LIMIT_MAX}");
    let limit: Option<Option<u32>> = fields.take_nullable("max_retry_limit", &what)?;
    if limit.flatten().is_some_and(|limit| !(1..=RETRY_LIMIT_MAX).contains(&limit)) {
        return Err(fields.wrong("max_retry_limit", format_args!("max_retry_limit must be {what}")));
    }
    Ok(limit)
}

fn description(fields: &mut Fields<'_>) -> Result<Option<Option<String>>, Problem> {
    let text: Option<Option<String>> = fields.take_nullable("description", "text")?;
    if let Some(Some(text)) = &text {
        check_description(text).map_err(|error| fields.wrong("description", error))?;
    }
    Ok(text)
}
