//! Shows the request of a subscription exactly as it would be sent, with a mask in place of each secret value. Nothing
//! is sent and no access token is fetched. The dashboard shows the result next to the form.

use super::challenge::open;
use super::{not_found, subscription_id};
use crate::auth::Scope;
use crate::body::receive_json;
use crate::fields::Fields;
use crate::problem::Problem;
use crate::query::ok;
use crate::state::{Api, ApiResult, ApiState};
use crate::values::body;
use axum::Extension;
use axum::extract::{Path, Request, State};
use bytes::Bytes;
use posthaste_core::attributes::Attributes;
use posthaste_core::event::EventType;
use posthaste_core::json::JsonText;
use posthaste_core::pattern::EventTypePatterns;
use posthaste_core::ports::{ReaderStore as _, StoredEvent, Stores, SubscriptionStore as _};
use posthaste_core::subscription::{Secrets, Subscription};
use posthaste_core::{EventId, SubscriptionId, Timestamp};
use posthaste_services::webhook_request::{WebhookMessage, preview as preview_request};
use serde::Serialize;
use utoipa::ToSchema;

/// The payload of the sample event.
const SAMPLE_PAYLOAD: &str = r#"{"sample":true}"#;
/// The last segment of the type of the sample event if the subscription has no exact type.
const SAMPLE_TYPE: &str = "sample";

body! {
    /// The event to show.
    #[schema(example = json!({"event_id": 41}))]
    struct PreviewBody {
        /// The id of a stored event. Without it, a sample event is shown.
        #[schema(value_type = Option<i64>, minimum = 1)]
        event_id: Option<EventId>,
    }
}

/// A request as it would be sent.
#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({
    "method": "POST", "url": "https://example.com/hook",
    "headers": [{"name": "content-type", "value": "application/json"}, {"name": "x-token", "value": "•••"}],
    "body": "{\"sample\":true}"
}))]
pub(crate) struct PreviewView {
    /// The method of the request.
    pub(crate) method: &'static str,
    /// The URL to which the request is sent.
    pub(crate) url: String,
    /// The headers in the order in which they are sent. Secret values are replaced by `•••`. The `webhook-id` and with
    /// it the signatures are those of a sample: the id of a delivery is known only to the worker.
    pub(crate) headers: Vec<PreviewHeader>,
    /// The body in the envelope of the subscription.
    pub(crate) body: String,
}

/// A header of a request.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PreviewHeader {
    /// The name, in lower case.
    pub(crate) name: String,
    /// The value, or `•••` in place of a secret.
    pub(crate) value: String,
}

#[utoipa::path(
    post,
    path = "/v1/subscriptions/{id}/preview",
    tag = "subscriptions",
    operation_id = "preview_subscription",
    summary = "Preview the request of a subscription",
    description = "Returns the request that would be sent for an event, with the current signatures, headers, \
                   authentication and envelope. Nothing is sent.",
    security(("api_key" = ["admin"])),
    params(("id" = i64, Path, description = "The id of the subscription.")),
    request_body = Option<PreviewBody>,
    responses((status = 200, description = "The request", body = PreviewView)),
)]
pub(crate) async fn preview<S: Stores>(
    State(api): Api<S>,
    Extension(scope): Extension<Scope>,
    Path(text): Path<String>,
    request: Request,
) -> ApiResult {
    let id = subscription_id(&text)?;
    let upload = receive_json(&api.uploads, request).await?;
    let body = PreviewBody::read(&mut Fields::parse_optional(upload.text()?)?)?;
    ok(&show_request(&api, &scope, id, body.event_id).await?)
}

/// Returns the request of a subscription for a stored event, or for a sample event.
pub(crate) async fn show_request<S: Stores>(
    api: &ApiState<S>,
    scope: &Scope,
    id: SubscriptionId,
    event_id: Option<EventId>,
) -> Result<PreviewView, Problem> {
    let found = api.subscriptions.load_subscription(id).await?;
    let (subscription, secrets) =
        found.filter(|(found, _)| scope.allows(found.tenant.as_ref())).ok_or_else(not_found)?;
    let now = api.clock.now();
    let event = match event_id {
        Some(event_id) => {
            let event = api.reader.event(event_id).await?;
            let event = event.filter(|event| scope.allows(event.tenant.as_ref()));
            event.ok_or_else(|| Problem::not_found("event"))?
        }
        None => sample(&subscription.event_types, now),
    };
    render(api, &subscription, &secrets, event, now)
}

fn render<S: Stores>(
    api: &ApiState<S>,
    subscription: &Subscription,
    secrets: &Secrets,
    event: StoredEvent,
    now: Timestamp,
) -> Result<PreviewView, Problem> {
    let opened = open(api, subscription, secrets, now)?;
    let to = api.outgoing.sender.check_url(subscription.callback_url.as_str());
    let to = to.map_err(|error| {
        Problem::conflict(format!("callback_url is not allowed ({error}), so nothing would be sent"))
    })?;
    let message_id = format!("msg_sample{:016x}", u64::from_be_bytes(api.draw()));
    let payload = Bytes::from(event.payload.into_string());
    let message = WebhookMessage {
        message_id: &message_id,
        event_type: &event.event_type,
        payload: &payload,
        attributes: &event.attributes,
        external_event_id: event.external_event_id.as_ref(),
        created_at: event.created_at,
        attempt: Some(1),
        traceparent: event.traceparent.as_ref(),
        tracestate: event.tracestate.as_ref(),
    };
    let shown = preview_request(&opened, &to, &message, &api.outgoing.names, now);
    let headers = shown.headers.into_iter().map(|(name, value)| PreviewHeader { name, value });
    Ok(PreviewView {
        method: "POST",
        url: subscription.callback_url.as_str().to_owned(),
        headers: headers.collect(),
        body: shown.body,
    })
}

/// Returns an event that the patterns match.
fn sample(patterns: &EventTypePatterns, now: Timestamp) -> StoredEvent {
    let first = patterns.as_slice().first().map_or("*", |pattern| pattern.as_str());
    let event_type = match first.strip_suffix('*') {
        Some(prefix) => format!("{prefix}{SAMPLE_TYPE}"),
        None => first.to_owned(),
    };
    StoredEvent {
        id: EventId::from_store(0),
        external_event_id: None,
        event_type: EventType::from_store(event_type),
        payload: JsonText::from_store(SAMPLE_PAYLOAD.to_owned()),
        correlation_id: None,
        traceparent: None,
        tracestate: None,
        tenant: None,
        attributes: Attributes::default(),
        created_at: now,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sample_matches_the_first_pattern() {
        let rows =
            [(&["order.paid"][..], "order.paid"), (&["order.*", "a"], "order.sample"), (&["*"], "sample")];
        for (patterns, expected) in rows {
            let patterns = patterns.iter().map(|&pattern| pattern.to_owned()).collect();
            let patterns = EventTypePatterns::parse(patterns).expect("patterns");
            let event = sample(&patterns, Timestamp::from_micros(0));
            assert_eq!(event.event_type.as_str(), expected);
            assert!(patterns.find(&event.event_type).is_some());
        }
    }
}
