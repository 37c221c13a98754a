//! Sends signed requests to receivers: test events, and the challenges of [`super::verification`]. Both are signed like
//! deliveries and subject to the same address policy.

use super::{check_scope, not_found, subscription_id};
use crate::auth::Scope;
use crate::problem::{Problem, ProblemKind};
use crate::query::ok;
use crate::state::{Api, ApiResult, ApiState, Outgoing};
use crate::time::Utc;
use axum::Extension;
use axum::extract::{Path, State};
use bytes::Bytes;
use posthaste_core::attributes::Attributes;
use posthaste_core::event::EventType;
use posthaste_core::outcome::{AttemptOutcome, Failure};
use posthaste_core::ports::{Stores, SubscriptionStore as _};
use posthaste_core::subscription::{CallbackUrl, Secrets, Subscription};
use posthaste_core::{SubscriptionId, Timestamp};
use posthaste_services::seal::UnsealError;
use posthaste_services::sender::{Exchange, ReadUpTo};
use posthaste_services::webhook_request::{
    OpenError, OpenedRequest, RequestParts, WebhookMessage, WebhookSender,
};
use serde::Serialize;
use utoipa::ToSchema;

const TEST: &str = "posthaste.test";
/// The maximum number of bytes of a test response that are returned: enough for an error message.
const SHOWN_BYTES_MAX: usize = 1_024;

#[derive(Debug, Serialize)]
struct TestEvent {
    #[serde(rename = "type")]
    kind: &'static str,
    subscription_id: i64,
    sent_at: Utc,
}

/// The result of a test event.
#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({
    "delivered": true, "response_status": 200, "error_code": null, "reason": null, "duration_ms": 12,
    "response_body": "{\"ok\":true}"
}))]
pub(crate) struct Tested {
    /// Whether the receiver accepted the event.
    pub(crate) delivered: bool,
    /// The HTTP status of the receiver's response; null if there was none.
    pub(crate) response_status: Option<u16>,
    /// The error code of the request; null if it succeeded.
    pub(crate) error_code: Option<String>,
    /// A description of the error in one sentence; null if the request succeeded.
    pub(crate) reason: Option<String>,
    /// The duration of the request, in milliseconds.
    pub(crate) duration_ms: u64,
    /// The first 1,024 bytes of the receiver's response, with invalid UTF-8 replaced. Not stored.
    pub(crate) response_body: Option<String>,
}

#[utoipa::path(
    post,
    path = "/v1/subscriptions/{id}/test",
    tag = "subscriptions",
    operation_id = "test_subscription",
    summary = "Send a test event",
    description = "Sends a signed test event to the callback URL and returns the response. Nothing is stored.",
    security(("api_key" = ["admin"])),
    params(("id" = i64, Path, description = "The id of the subscription.")),
    responses(
        (status = 200, description = "The result, also if the receiver refused the event", body = Tested),
        (
            status = 409,
            description = "The URL is not verified",
            body = Problem,
            content_type = "application/problem+json",
        ),
    ),
)]
pub(crate) async fn test<S: Stores>(
    State(api): Api<S>,
    Extension(scope): Extension<Scope>,
    Path(text): Path<String>,
) -> ApiResult {
    check_scope(&api, &scope, subscription_id(&text)?).await?;
    ok(&send_test(&api, subscription_id(&text)?).await?)
}

/// Sends a test event. Fails if the URL is not verified.
pub(crate) async fn send_test<S: Stores>(api: &ApiState<S>, id: SubscriptionId) -> Result<Tested, Problem> {
    let (subscription, secrets) = api.subscriptions.load_subscription(id).await?.ok_or_else(not_found)?;
    if !subscription.verified {
        return Err(Problem::conflict(format!(
            "the callback URL is not verified: call POST /v1/subscriptions/{id}/verify first"
        )));
    }
    let now = api.clock.now();
    let body = written(&TestEvent { kind: TEST, subscription_id: id.get(), sent_at: Utc(now) })?;
    let answer = ReadUpTo::Body { bytes_max: SHOWN_BYTES_MAX };
    let message = Message { kind: TEST, body, answer, in_envelope: true };
    let exchange = send(api, &subscription, &secrets, message).await?;
    Ok(Tested {
        response_body: shown(&exchange),
        delivered: exchange.outcome.code().is_none(),
        response_status: exchange.status(),
        error_code: exchange.outcome.code().map(|code| code.to_string()),
        reason: failure(&exchange),
        duration_ms: millis(&exchange),
    })
}

/// A request to send.
pub(super) struct Message {
    /// The value of the header `posthaste-event-type`.
    pub(super) kind: &'static str,
    pub(super) body: Bytes,
    pub(super) answer: ReadUpTo,
    /// Whether the body is sent in the envelope of the subscription.
    pub(super) in_envelope: bool,
}

pub(super) async fn send<S: Stores>(
    api: &ApiState<S>,
    subscription: &Subscription,
    secrets: &Secrets,
    message: Message,
) -> Result<Exchange, Problem> {
    let Ok(_slot) = api.outgoing_slots.try_acquire() else {
        let detail = "too many challenges and test events are in flight: try again in a moment";
        return Err(Problem::try_again(ProblemKind::ServerBusy, detail));
    };
    let now = api.clock.now();
    let opened = match open(api, subscription, secrets, now)? {
        opened if message.in_envelope => opened,
        opened => opened.without_envelope(),
    };
    let to = match api.outgoing.sender.aim(CallbackUrl::as_str(&subscription.callback_url)) {
        Ok(to) => to,
        Err(failure) => return Ok(Exchange::refused(failure)),
    };
    let chance = u64::from_be_bytes(api.draw());
    let message_id = format!("msg_{}_{chance:016x}_{}", message.kind.replace('.', "_"), subscription.id);
    let outgoing = WebhookMessage {
        message_id: &message_id,
        event_type: &EventType::from_store(message.kind.to_owned()),
        payload: &message.body,
        attributes: &Attributes::default(),
        external_event_id: None,
        created_at: now,
        attempt: None,
        traceparent: None,
        tracestate: None,
    };
    let Outgoing { sender, tokens, names, timeouts, .. } = &api.outgoing;
    let sender = WebhookSender { sender, tokens, names, clock: &api.clock };
    let deadline = timeouts.of(subscription.timeout);
    Ok(sender.send(&opened, &to, &outgoing, message.answer, deadline, now).await)
}

/// Decrypts the secrets that are valid now, for requests to the receiver.
pub(super) fn open<S: Stores>(
    api: &ApiState<S>,
    subscription: &Subscription,
    secrets: &Secrets,
    now: Timestamp,
) -> Result<OpenedRequest, Problem> {
    let parts = RequestParts::of(subscription, secrets);
    let opened = OpenedRequest::open(parts, &api.outgoing.sealer, &api.outgoing.sender, now);
    opened.map_err(|error| {
        let id = subscription.id;
        let detail = match &error {
            OpenError::Sealed(UnsealError::Plain) => error.to_string(),
            OpenError::Certificate(cause) => {
                return Problem::conflict(format!(
                    "the client certificate cannot be used ({cause}): set auth.mtls again"
                ));
            }
            OpenError::Header(_) | OpenError::NoAuthSecret(_) => {
                format!("{error}: set headers and auth of the subscription again")
            }
            OpenError::NoSigningKey | OpenError::SigningKey(_) => {
                format!("{error}: call POST /v1/subscriptions/{id}/rotate-secret with a signing_key")
            }
            OpenError::Secret(_) => {
                format!("{error}: call POST /v1/subscriptions/{id}/rotate-secret with an overlap_s of 0")
            }
            OpenError::Sealed(_) => format!(
                "the signing secret cannot be decrypted: check POSTHASTE_SECRET_KEY, or call \
                 POST /v1/subscriptions/{id}/rotate-secret with an overlap_s of 0"
            ),
        };
        Problem { cause: Some(error.to_string().into()), ..Problem::of(ProblemKind::InternalError, detail) }
    })
}

pub(super) fn written(message: &impl Serialize) -> Result<Bytes, Problem> {
    let text = serde_json::to_vec(message);
    text.map(Bytes::from).map_err(|error| Problem::broken("the message could not be serialized", &error))
}

pub(super) fn millis(exchange: &Exchange) -> u64 {
    u64::try_from(exchange.duration.as_millis()).unwrap_or(u64::MAX)
}

/// Returns the beginning of the response body as text, or `None` if the body is empty.
fn shown(exchange: &Exchange) -> Option<String> {
    let body = exchange.body.get(..SHOWN_BYTES_MAX).unwrap_or(&exchange.body);
    (!body.is_empty()).then(|| String::from_utf8_lossy(body).into_owned())
}

/// Returns the reason why a request failed, or `None` if it succeeded.
pub(super) fn failure(exchange: &Exchange) -> Option<String> {
    let AttemptOutcome::Failed { failure, .. } = exchange.outcome else { return None };
    Some(match failure {
        Failure::Http(status) => format!("the receiver returned status {status} instead of 2xx"),
        Failure::Timeout => "the receiver did not respond in time".to_owned(),
        Failure::ConnectFailed => "the connection failed, or was closed before the response".to_owned(),
        Failure::DnsFailed => "the host name did not resolve".to_owned(),
        Failure::TlsFailed => "the TLS handshake failed: check the certificate and its chain".to_owned(),
        Failure::BlockedAddress => {
            "the host has a private or reserved address: use a public one, or add it to POSTHASTE_ALLOW_CIDRS"
                .to_owned()
        }
        Failure::ResponseInvalid => "the response is not HTTP, or its headers are too large".to_owned(),
        Failure::UrlInvalid => "the URL does not conform to the current rules: change it".to_owned(),
        Failure::AuthFailed => {
            "no access token could be obtained: check token_url, client_id and client_secret".to_owned()
        }
        Failure::CredentialsInvalid => {
            "the client certificate cannot be used: set certificate and key again".to_owned()
        }
        Failure::NotVerified
        | Failure::LeaseExpired
        | Failure::EventGone
        | Failure::SubscriptionGone
        | Failure::SecretUnreadable => format!("nothing was sent: {}", failure.code()),
    })
}
