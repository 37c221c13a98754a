//! What the API itself sends to a receiver: the challenge that verifies a URL, and a test event. Both are
//! signed as deliveries are, and leave through the same guard.

use super::{not_found, subscription_id};
use crate::problem::Problem;
use crate::query::ok;
use crate::state::{Api, ApiResult, ApiState};
use crate::time::Utc;
use axum::Extension;
use axum::extract::{Path, State};
use bytes::Bytes;
use http::{HeaderName, HeaderValue};
use posthaste_core::audit::Actor;
use posthaste_core::outcome::{AttemptOutcome, Failure};
use posthaste_core::ports::{Stage, Stores, SubscriptionStore as _, Verification};
use posthaste_core::signature::SigningSecret;
use posthaste_core::subscription::{CallbackUrl, Secrets, Subscription};
use posthaste_core::{SubscriptionId, Timestamp};
use posthaste_services::sender::{Exchange, Post, ReadUpTo, signed_headers};
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer, Serialize};
use subtle::ConstantTimeEq as _;
use utoipa::ToSchema;

const VERIFICATION: &str = "posthaste.verification";
const TEST: &str = "posthaste.test";
/// Of an answer to a challenge; more is no echo.
const ECHO_BYTES_MAX: usize = 4_096;
/// Of an answer to a test: enough for a message, too little for a page.
const SHOWN_BYTES_MAX: usize = 1_024;

#[derive(Debug, Serialize)]
struct Challenge<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    challenge: &'a str,
}

/// What a receiver answers to a [`Challenge`].
#[derive(Debug, Deserialize)]
struct Echo {
    challenge: String,
    /// Of a receiver that echoes requests as they come: it would consent to anything.
    #[serde(rename = "type", default, deserialize_with = "is_there")]
    has_type: bool,
}

fn is_there<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    IgnoredAny::deserialize(deserializer).map(|IgnoredAny| true)
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({
    "verified": false, "response_status": 404, "error_code": "HTTP_404",
    "reason": "the receiver answered 404", "duration_ms": 12
}))]
pub(crate) struct Verified {
    pub(crate) verified: bool,
    pub(crate) response_status: Option<u16>,
    pub(crate) error_code: Option<String>,
    /// Why not.
    pub(crate) reason: Option<String>,
    pub(crate) duration_ms: u64,
}

#[derive(Debug, Serialize)]
struct TestEvent {
    #[serde(rename = "type")]
    kind: &'static str,
    subscription_id: i64,
    sent_at: Utc,
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({
    "delivered": true, "response_status": 200, "error_code": null, "reason": null, "duration_ms": 12,
    "response_body": "{\"ok\":true}"
}))]
pub(crate) struct Tested {
    pub(crate) delivered: bool,
    pub(crate) response_status: Option<u16>,
    pub(crate) error_code: Option<String>,
    pub(crate) reason: Option<String>,
    pub(crate) duration_ms: u64,
    /// The beginning of what the receiver answered, at most 1,024 bytes; it is kept nowhere. Bytes that are no text are
    /// replaced.
    pub(crate) response_body: Option<String>,
}

#[utoipa::path(
    post,
    path = "/v1/subscriptions/{id}/verify",
    tag = "subscriptions",
    summary = "Challenge the receiver (role admin)",
    params(("id" = i64, Path)),
    responses((status = 200, description = "What came of it", body = Verified)),
)]
pub(crate) async fn verify<S: Stores>(
    State(api): Api<S>,
    Extension(by): Extension<Actor>,
    Path(text): Path<String>,
) -> ApiResult {
    ok(&challenge(&api, by, subscription_id(&text)?).await?)
}

/// Sends a challenge, and verifies the URL if it comes back.
pub(crate) async fn challenge<S: Stores>(
    api: &ApiState<S>,
    by: Actor,
    id: SubscriptionId,
) -> Result<Verified, Problem> {
    let (subscription, secrets) = api.subscriptions.load_subscription(id).await?.ok_or_else(not_found)?;
    let challenge = format!("{:032x}", u128::from_be_bytes(api.draw()));
    let body = written(&Challenge { kind: VERIFICATION, challenge: &challenge })?;
    let message = Message { kind: VERIFICATION, body, answer: ReadUpTo::Body { bytes_max: ECHO_BYTES_MAX } };
    let exchange = send(api, &subscription, &secrets, message).await?;
    let mut reason = why_not(&exchange, &challenge);
    if reason.is_none() {
        let Subscription { callback_url, .. } = subscription;
        let challenged = Verification { callback_url, secret: secrets.current };
        if api.subscriptions.mark_verified(id, challenged, by, api.clock.now()).await? {
            api.wake_ups.wake(Stage::Admission);
        } else {
            let changed =
                "the URL or the secret was changed meanwhile, or the subscription deleted: verify it again";
            reason = Some(changed.to_owned());
        }
    }
    Ok(Verified {
        verified: reason.is_none(),
        response_status: exchange.status(),
        error_code: exchange.outcome.code().map(|code| code.to_string()),
        reason,
        duration_ms: millis(&exchange),
    })
}

/// Nothing but a challenge goes to an unverified URL.
#[utoipa::path(
    post,
    path = "/v1/subscriptions/{id}/test",
    tag = "subscriptions",
    summary = "Send a test event (role admin)",
    params(("id" = i64, Path)),
    responses(
        (status = 200, description = "What came of it", body = Tested),
        (
            status = 409,
            description = "The URL is not verified",
            body = Problem,
            content_type = "application/problem+json",
        ),
    ),
)]
pub(crate) async fn test<S: Stores>(State(api): Api<S>, Path(text): Path<String>) -> ApiResult {
    ok(&send_test(&api, subscription_id(&text)?).await?)
}

pub(crate) async fn send_test<S: Stores>(api: &ApiState<S>, id: SubscriptionId) -> Result<Tested, Problem> {
    let (subscription, secrets) = api.subscriptions.load_subscription(id).await?.ok_or_else(not_found)?;
    if !subscription.verified {
        return Err(Problem::conflict(format!(
            "nothing is sent to a URL that is not verified: POST /v1/subscriptions/{id}/verify first"
        )));
    }
    let now = api.clock.now();
    let body = written(&TestEvent { kind: TEST, subscription_id: id.get(), sent_at: Utc(now) })?;
    let message = Message { kind: TEST, body, answer: ReadUpTo::Body { bytes_max: SHOWN_BYTES_MAX } };
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

struct Message {
    kind: &'static str,
    body: Bytes,
    answer: ReadUpTo,
}

async fn send<S: Stores>(
    api: &ApiState<S>,
    subscription: &Subscription,
    secrets: &Secrets,
    message: Message,
) -> Result<Exchange, Problem> {
    let Ok(_slot) = api.outgoing_slots.try_acquire() else {
        let detail = "too many challenges and tests are out already: try again in a moment";
        return Err(Problem::try_again("Too much at once", detail));
    };
    let now = api.clock.now();
    let opened = open(api, subscription.id, secrets, now)?;
    let signers: Vec<&SigningSecret> = opened.iter().collect();
    let chance = u64::from_be_bytes(api.draw());
    let webhook_id = format!("msg_{}_{chance:016x}_{}", message.kind.replace('.', "_"), subscription.id);
    let mut headers = signed_headers(&webhook_id, &signers, &message.body, now);
    headers.insert(HeaderName::from_static("posthaste-event-type"), HeaderValue::from_static(message.kind));
    let url = CallbackUrl::as_str(&subscription.callback_url);
    let (body, answer) = (message.body, message.answer);
    let deadline = api.outgoing.timeouts.of(subscription.timeout);
    Ok(api.outgoing.sender.send_to_url(url, Post { headers, body, answer, deadline }, now).await)
}

/// Every secret that signs now.
fn open<S: Stores>(
    api: &ApiState<S>,
    id: SubscriptionId,
    secrets: &Secrets,
    now: Timestamp,
) -> Result<Vec<SigningSecret>, Problem> {
    let previous = secrets.previous.as_ref().filter(|(_, until)| *until > now).map(|(secret, _)| secret);
    let live = std::iter::once(&secrets.current).chain(previous);
    let opened: Result<Vec<SigningSecret>, _> = live.map(|sealed| api.outgoing.sealer.open(sealed)).collect();
    opened.map_err(|error| Problem {
        cause: Some(error.to_string()),
        ..Problem::new(
            500,
            "The signing secret cannot be opened",
            format!("see the log and POSTHASTE_SECRET_KEY, or POST /v1/subscriptions/{id}/rotate-secret"),
        )
    })
}

fn written(message: &impl Serialize) -> Result<Bytes, Problem> {
    let text = serde_json::to_vec(message);
    text.map(Bytes::from)
        .map_err(|_| Problem::new(500, "Something broke", "the message could not be written"))
}

fn millis(exchange: &Exchange) -> u64 {
    u64::try_from(exchange.duration.as_millis()).unwrap_or(u64::MAX)
}

/// The beginning of the answer's body, as text.
fn shown(exchange: &Exchange) -> Option<String> {
    let body = exchange.body.get(..SHOWN_BYTES_MAX).unwrap_or(&exchange.body);
    (!body.is_empty()).then(|| String::from_utf8_lossy(body).into_owned())
}

/// Why an answer does not verify; nothing if it does.
fn why_not(exchange: &Exchange, challenge: &str) -> Option<String> {
    if let Some(failure) = failure(exchange) {
        return Some(failure);
    }
    if !exchange.body_complete {
        return Some(format!("the answer was cut off, or longer than {ECHO_BYTES_MAX} bytes"));
    }
    let body = exchange.body.trim_ascii();
    let same = |text: &[u8]| bool::from(text.ct_eq(challenge.as_bytes()));
    let echo = serde_json::from_slice::<Echo>(body).ok().filter(|echo| same(echo.challenge.as_bytes()));
    if same(body) || echo.as_ref().is_some_and(|echo| !echo.has_type) {
        return None;
    }
    if echo.is_some() {
        return Some(
            "the answer repeats the whole request, as a receiver does that echoes everything: answer with \
             {\"challenge\":\"…\"} without type, or with the bare text"
                .to_owned(),
        );
    }
    Some(
        "the answer does not hold the challenge: echo it as {\"challenge\":\"…\"} or as the bare text"
            .to_owned(),
    )
}

fn failure(exchange: &Exchange) -> Option<String> {
    let AttemptOutcome::Failed { failure, .. } = exchange.outcome else { return None };
    Some(match failure {
        Failure::Http(status) => format!("the receiver answered {status}; only 2xx counts"),
        Failure::Timeout => "the receiver did not answer in time".to_owned(),
        Failure::ConnectFailed => "no connection, or it broke off before the answer".to_owned(),
        Failure::DnsFailed => "the name of the host has no address".to_owned(),
        Failure::TlsFailed => "the TLS handshake failed: check the certificate and its chain".to_owned(),
        Failure::BlockedAddress => {
            "the address is private or reserved: POSTHASTE_ALLOW_CIDRS may allow it".to_owned()
        }
        Failure::ResponseInvalid => "what came back is not HTTP, or too much of it".to_owned(),
        Failure::UrlInvalid => "the URL does not pass today's rules: change it".to_owned(),
        Failure::NotVerified
        | Failure::LeaseExpired
        | Failure::EventGone
        | Failure::SubscriptionGone
        | Failure::SecretUnreadable => format!("nothing was sent: {}", failure.code()),
    })
}
