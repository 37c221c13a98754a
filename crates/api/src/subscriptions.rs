//! Lists, creates, changes and deletes subscriptions. A secret is returned only when it is created or rotated.
//! [`challenge`] sends requests to receivers, [`rotation`] replaces a secret, [`reseal`] encrypts all secrets again.

pub(crate) mod challenge;
pub(crate) mod preview;
pub(crate) mod reseal;
pub(crate) mod rotation;

use crate::body::{receive_json, receive_merge_patch};
use crate::fields::Fields;
use crate::problem::Problem;
use crate::query::{Listed, Query, id, json, ok};
use crate::state::{Api, ApiResult, ApiState};
use crate::time::Utc;
use crate::values::{NotNull, Number, Text, body, parameters};
use axum::Extension;
use axum::extract::{Path, Request, State};
use axum::response::IntoResponse as _;
use http::{StatusCode, Uri};
use posthaste_core::audit::Actor;
use posthaste_core::duration;
use posthaste_core::event::EventType;
use posthaste_core::identity::{SubscriptionName, Uid};
use posthaste_core::pattern::EventTypePatterns;
use posthaste_core::ports::{
    Created, EXAMINED_MAX, ReaderStore as _, Stage, Stores, SubscriptionFilter, SubscriptionStore as _,
    Updated,
};
use posthaste_core::signature::SigningSecret;
use posthaste_core::subscription::{
    CallbackUrl, NewSubscription, SecretColumn, SecretPlace, Standing, Subscription, SubscriptionPatch,
    check_description,
};
use posthaste_core::tenant::Tenant;
use posthaste_core::{SecretRef, SubscriptionId};
use posthaste_services::sender::Sender;
use serde::Serialize;
use std::time::Duration;
use utoipa::ToSchema;

pub(crate) use challenge::{test, verify};
pub(crate) use reseal::reseal_secrets;
pub(crate) use rotation::{rotate, rotate_secret};

pub(crate) const LIST: &str = "subscriptions";
/// The maximum `max_retry_limit` of a subscription.
const RETRY_LIMIT_MAX: u32 = 100;
/// A subscription.
#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({
    "id": 3, "event_type": "order.paid", "callback_url": "https://example.com/hook", "active": true, "verified": true,
    "max_retry_limit": null, "timeout": null, "description": "the shop", "created_at": "2026-01-31T12:00:00.000000Z",
    "updated_at": "2026-01-31T12:00:05.000000Z"
}))]
pub(crate) struct SubscriptionView {
    /// The id of the subscription.
    pub(crate) id: i64,
    /// The event types and patterns of the events to deliver.
    pub(crate) event_types: Vec<String>,
    /// The entry of `event_types` if there is exactly one; null otherwise.
    pub(crate) event_type: Option<String>,
    /// The URL to which events are sent.
    pub(crate) callback_url: String,
    /// Whether events are routed and delivered. An inactive subscription gets no new deliveries, and its existing
    /// deliveries are held.
    pub(crate) active: bool,
    /// Whether the receiver has confirmed the URL. Events are sent only to a verified URL.
    pub(crate) verified: bool,
    /// The number of attempts after which a delivery is dead-lettered; null for the server default.
    pub(crate) max_retry_limit: Option<u32>,
    /// The request timeout, such as `30s`; null for the server default (`POSTHASTE_REQUEST_TIMEOUT`).
    pub(crate) timeout: Option<String>,
    /// A description for display.
    pub(crate) description: Option<String>,
    /// The time at which the subscription was created.
    pub(crate) created_at: Utc,
    /// The time of the last change to the subscription.
    pub(crate) updated_at: Utc,
    /// The signing secret (`whsec_…`). Included only in the responses to creation and rotation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) secret: Option<String>,
}

impl SubscriptionView {
    fn of(subscription: Subscription) -> Self {
        Self {
            id: subscription.id.get(),
            event_types: subscription
                .event_types
                .as_slice()
                .iter()
                .map(|one| one.as_str().to_owned())
                .collect(),
            event_type: subscription.event_types.single().map(str::to_owned),
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
    /// A new subscription.
    #[schema(
        as = NewSubscription,
        example = json!({"event_type": "order.paid", "callback_url": "https://example.com/hook"})
    )]
    struct NewSubscriptionBody {
        /// The type of the events to deliver.
        #[schema(value_type = String, max_length = 200, pattern = "^[A-Za-z0-9][A-Za-z0-9_.:/-]*$")]
        event_type: EventType,
        /// The URL to which events are sent. It must use `https` and a host with a public address.
        #[schema(max_length = 2000)]
        callback_url: String,
        /// The number of attempts after which a delivery is dead-lettered. The default is set by the server.
        #[schema(value_type = Option<u32>, minimum = 1, maximum = 100)]
        max_retry_limit: Option<Number<1, RETRY_LIMIT_MAX>>,
        /// The request timeout, from 1s to 5s less than the lease. The default is set by the server
        /// (`POSTHASTE_REQUEST_TIMEOUT`).
        #[schema(example = "30s")]
        timeout: Option<String>,
        /// A description for display.
        #[schema(value_type = Option<String>, max_length = 1000)]
        description: Option<Description>,
    }
}

body! {
    /// A merge patch (RFC 7396). Null resets a field to its default; absent fields are unchanged.
    #[schema(example = json!({"active": false}))]
    struct SubscriptionChange {
        /// The type of the events to deliver. There is no default, so null is rejected.
        #[schema(value_type = String, required = false, max_length = 200, pattern = "^[A-Za-z0-9][A-Za-z0-9_.:/-]*$")]
        event_type: NotNull<EventType>,
        /// The URL to which events are sent. A new URL must be verified. There is no default, so null is rejected.
        #[schema(value_type = String, required = false, max_length = 2000)]
        callback_url: NotNull<String>,
        /// Whether events are routed and delivered. If false, existing deliveries are held. The default is true.
        #[schema(value_type = Option<bool>)]
        active: Option<Option<bool>>,
        /// The number of attempts after which a delivery is dead-lettered. The default is set by the server.
        #[schema(value_type = Option<u32>, minimum = 1, maximum = 100)]
        max_retry_limit: Option<Option<Number<1, RETRY_LIMIT_MAX>>>,
        /// The request timeout, from 1s to 5s less than the lease. The default is set by the server.
        #[schema(value_type = Option<String>, example = "30s")]
        timeout: Option<Option<String>>,
        /// A description for display. The default is no description.
        #[schema(value_type = Option<String>, max_length = 1000)]
        description: Option<Option<Description>>,
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
        /// Returns only subscriptions of this tenant.
        tenant: Tenant,
        /// Returns only the subscriptions with this uid, at most one for each tenant.
        uid: Uid,
        /// Returns only subscriptions with this name.
        name: SubscriptionName,
        /// Returns only subscriptions with a pattern that matches this event type.
        event_type: EventType,
        /// Returns only subscriptions in this state.
        standing as "state": Standing,
    }
}

#[utoipa::path(
    get,
    path = "/v1/subscriptions",
    tag = "subscriptions",
    operation_id = "list_subscriptions",
    summary = "List subscriptions",
    description = "Returns subscriptions in the order of their ids, newest first. Deleted ones are left out.",
    security(("api_key" = ["viewer"])),
    params(Parameters),
    responses((status = 200, description = "A page of subscriptions", body = Listed<SubscriptionView>)),
)]
pub(crate) async fn list<S: Stores>(State(api): Api<S>, uri: Uri) -> ApiResult {
    ok(&find(&api, &uri, EXAMINED_MAX).await?)
}

/// Returns the page selected by the query parameters of `uri`.
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
    operation_id = "get_subscription",
    summary = "Get a subscription",
    description = "Returns one subscription, without its secret.",
    security(("api_key" = ["viewer"])),
    params(("id" = i64, Path, description = "The id of the subscription.")),
    responses((status = 200, description = "The subscription", body = SubscriptionView)),
)]
pub(crate) async fn show<S: Stores>(State(api): Api<S>, Path(text): Path<String>) -> ApiResult {
    ok(&find_one(&api, &text).await?)
}

/// Returns a subscription, unless it was deleted.
pub(crate) async fn find_one<S: Stores>(api: &ApiState<S>, text: &str) -> Result<SubscriptionView, Problem> {
    let found = api.reader.subscription(subscription_id(text)?).await?;
    let found = found.filter(|subscription| subscription.deleted_at.is_none());
    Ok(SubscriptionView::of(found.ok_or_else(not_found)?))
}

#[utoipa::path(
    post,
    path = "/v1/subscriptions",
    tag = "subscriptions",
    operation_id = "create_subscription",
    summary = "Create a subscription",
    description = "Subscribes a URL to a type of events. The response contains the signing secret, which is shown only \
                   once. Nothing is delivered until the URL is verified.",
    security(("api_key" = ["admin"])),
    request_body = NewSubscriptionBody,
    responses((status = 201, description = "Created; contains the secret", body = SubscriptionView)),
)]
pub(crate) async fn create<S: Stores>(
    State(api): Api<S>,
    Extension(by): Extension<Actor>,
    request: Request,
) -> ApiResult {
    let upload = receive_json(&api.uploads, request).await?;
    json(StatusCode::CREATED, &make(&api, by, Fields::parse(upload.text()?)?).await?)
}

/// Creates a subscription and returns it with its secret.
pub(crate) async fn make<S: Stores>(
    api: &ApiState<S>,
    by: Actor,
    mut fields: Fields<'_>,
) -> Result<SubscriptionView, Problem> {
    let body = NewSubscriptionBody::read(&mut fields)?;
    let secret = SigningSecret::from_random(api.draw());
    let secret_ref = SecretRef::from_bits(u128::from_be_bytes(api.draw()));
    let place = SecretPlace { secret_ref, column: SecretColumn::Current };
    let callback_url = allowed_url(&body.callback_url, &api.outgoing.sender)?;
    let sealed = api.outgoing.sealer.seal(&secret, place, api.draw());
    let new = NewSubscription {
        max_retry_limit: body.max_retry_limit.map(|limit| limit.0),
        timeout: timeout_of(api, body.timeout)?,
        description: body.description.map(|text| text.0),
        ..NewSubscription::new(EventTypePatterns::of(body.event_type), callback_url, secret_ref, sealed)
    };
    match api.subscriptions.create_subscription(new, by, api.clock.now()).await? {
        Created::Created(made) => Ok(SubscriptionView::with_secret(*made, &secret)),
        Created::UidTaken => Err(uid_taken()),
    }
}

#[utoipa::path(
    patch,
    path = "/v1/subscriptions/{id}",
    tag = "subscriptions",
    operation_id = "update_subscription",
    summary = "Change a subscription",
    description = "Applies a merge patch (RFC 7396). A new callback URL must be verified again before anything is sent \
                   to it.",
    security(("api_key" = ["admin"])),
    params(("id" = i64, Path, description = "The id of the subscription.")),
    request_body(
        content(
            (SubscriptionChange = "application/merge-patch+json"),
            (SubscriptionChange = "application/json"),
        ),
    ),
    responses((status = 200, description = "The changed subscription", body = SubscriptionView)),
)]
pub(crate) async fn update<S: Stores>(
    State(api): Api<S>,
    Extension(by): Extension<Actor>,
    Path(text): Path<String>,
    request: Request,
) -> ApiResult {
    let id = subscription_id(&text)?;
    let upload = receive_merge_patch(&api.uploads, request).await?;
    ok(&change(&api, by, id, Fields::parse(upload.text()?)?).await?)
}

/// Applies a merge patch to a subscription and returns the result.
pub(crate) async fn change<S: Stores>(
    api: &ApiState<S>,
    by: Actor,
    id: SubscriptionId,
    mut fields: Fields<'_>,
) -> Result<SubscriptionView, Problem> {
    let body = SubscriptionChange::read(&mut fields)?;
    let allowed = |url: String| allowed_url(&url, &api.outgoing.sender);
    let patch = SubscriptionPatch {
        event_types: body.event_type.0.map(EventTypePatterns::of),
        callback_url: body.callback_url.0.map(allowed).transpose()?,
        active: body.active.map(|active| active.unwrap_or(true)),
        max_retry_limit: body.max_retry_limit.map(|limit| limit.map(|limit| limit.0)),
        timeout: body.timeout.map(|timeout| timeout_of(api, timeout)).transpose()?,
        description: body.description.map(|text| text.map(|text| text.0)),
        ..SubscriptionPatch::default()
    };
    let changed = api.subscriptions.update_subscription(id, patch, None, by, api.clock.now()).await?;
    // Held deliveries may be due now.
    api.wake_ups.wake(Stage::Admission);
    match changed {
        Updated::Updated(changed) => Ok(SubscriptionView::of(*changed)),
        Updated::UidTaken => Err(uid_taken()),
        Updated::OtherRevision(_) | Updated::NotFound => Err(not_found()),
    }
}

#[utoipa::path(
    delete,
    path = "/v1/subscriptions/{id}",
    tag = "subscriptions",
    operation_id = "delete_subscription",
    summary = "Delete a subscription",
    description = "Deletes a subscription for good. Its unfinished deliveries are held and never sent; its history \
                   remains visible.",
    security(("api_key" = ["admin"])),
    params(("id" = i64, Path, description = "The id of the subscription.")),
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

/// Deletes a subscription. Its unfinished deliveries are held permanently.
pub(crate) async fn end<S: Stores>(api: &ApiState<S>, by: Actor, id: SubscriptionId) -> Result<(), Problem> {
    let deleted = api.subscriptions.delete_subscription(id, by, api.clock.now()).await?;
    if deleted { Ok(()) } else { Err(not_found()) }
}

fn uid_taken() -> Problem {
    Problem::conflict("another subscription of the tenant has this uid: use its uid, or delete it first")
}

fn not_found() -> Problem {
    Problem::not_found("subscription")
}

pub(crate) fn subscription_id(text: &str) -> Result<SubscriptionId, Problem> {
    id("id", text, SubscriptionId::new)
}

fn timeout_of<S: Stores>(api: &ApiState<S>, text: Option<String>) -> Result<Option<Duration>, Problem> {
    let parsed = text.map(|text| api.outgoing.timeouts.parse(&text)).transpose();
    parsed.map_err(|error| Problem::invalid("timeout", error.to_string()))
}

/// Parses a URL and checks the parts of the address policy that need no DNS lookup. The resolved addresses are checked
/// when a request is sent.
fn allowed_url(text: &str, sender: &Sender) -> Result<CallbackUrl, Problem> {
    let wrong = |detail: String| Problem::invalid("callback_url", detail);
    let allow_http = sender.policy().allow_http;
    let url = CallbackUrl::parse(text, allow_http).map_err(|error| wrong(error.to_string()))?;
    let checked = sender.check_url(url.as_str());
    checked.map_err(|error| wrong(format!("callback_url is not allowed: {error}")))?;
    Ok(url)
}
