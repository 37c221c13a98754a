//! Verifies callback URLs with one of the methods that the server allows: [`challenge`], [`handshake`] of CloudEvents,
//! or the word of an administrator. A verification is stored only if the URL is still the one that was verified. Called
//! by the API and the dashboard.

mod challenge;
mod handshake;

use super::{not_found, subscription_id};
use crate::auth::Scope;
use crate::body::receive_json;
use crate::fields::Fields;
use crate::problem::Problem;
use crate::query::ok;
use crate::state::{Api, ApiResult, ApiState, VerificationOptions};
use crate::values::body;
use axum::Extension;
use axum::extract::{Path, Request, State};
use posthaste_core::SubscriptionId;
use posthaste_core::audit::Actor;
use posthaste_core::ports::{Stage, Stores, SubscriptionStore as _, Verification};
use posthaste_core::subscription::{SecretColumn, Secrets, VerificationMethod};
use posthaste_services::sender::Exchange;
use serde::{Serialize, Serializer};
use utoipa::ToSchema;

body! {
    /// The options of a verification.
    #[schema(as = VerificationRequest, example = json!({"method": "challenge"}))]
    struct VerificationBody {
        /// The method. With `challenge`, the receiver returns a random text. With `cloudevents`, it agrees in the
        /// handshake of CloudEvents webhooks. With `asserted`, nothing is sent, and the caller vouches for the URL. The
        /// server must allow the method (`POSTHASTE_VERIFICATION_METHODS`). The default is `challenge` if it is
        /// allowed, otherwise the first method that is.
        #[schema(value_type = Option<String>)]
        method: Option<VerificationMethod>,
    }
}

/// The result of a verification.
#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({
    "verified": false, "method": "challenge", "allowed_per_second": null, "response_status": 404,
    "error_code": "HTTP_404", "reason": "the receiver returned status 404 instead of 2xx", "duration_ms": 12
}))]
pub(crate) struct Verified {
    /// Whether the URL is now verified.
    pub(crate) verified: bool,
    /// The method that was used.
    #[serde(serialize_with = "method_text")]
    #[schema(value_type = String)]
    pub(crate) method: VerificationMethod,
    /// The number of requests per second that the receiver allows; null if it sets no limit. Only the method
    /// `cloudevents` asks for it.
    pub(crate) allowed_per_second: Option<f64>,
    /// The HTTP status of the receiver's response; null if there was none.
    pub(crate) response_status: Option<u16>,
    /// The error code of the request; null if it succeeded, or if the status does not count.
    pub(crate) error_code: Option<String>,
    /// The reason why the URL is not verified; null if it is.
    pub(crate) reason: Option<String>,
    /// The duration of the request, in milliseconds.
    pub(crate) duration_ms: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn method_text<S: Serializer>(method: &VerificationMethod, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(method.as_str())
}

/// What a method found out about a URL.
struct Finding {
    /// The response of the receiver. `None` if nothing was sent.
    exchange: Option<Exchange>,
    /// Whether a status other than 2xx is an error.
    status_counts: bool,
    /// The number of requests per minute that the receiver allows, or the reason why the URL is not verified.
    allowed_per_minute: Result<Option<u32>, String>,
}

#[utoipa::path(
    post,
    path = "/v1/subscriptions/{id}/verify",
    tag = "subscriptions",
    operation_id = "verify_subscription",
    summary = "Verify the URL of a subscription",
    description = "Marks the callback URL as verified if the receiver returns a challenge, or agrees in the handshake \
                   of CloudEvents webhooks, or if the caller vouches for it. The server allows some of these methods.",
    security(("api_key" = ["admin"])),
    params(("id" = i64, Path, description = "The id of the subscription.")),
    request_body = Option<VerificationBody>,
    responses((status = 200, description = "The result, also if the receiver did not pass", body = Verified)),
)]
pub(crate) async fn verify<S: Stores>(
    State(api): Api<S>,
    Extension(by): Extension<Actor>,
    Extension(scope): Extension<Scope>,
    Path(text): Path<String>,
    request: Request,
) -> ApiResult {
    let id = subscription_id(&text)?;
    let upload = receive_json(&api.uploads, request).await?;
    ok(&verify_url(&api, by, &scope, id, Fields::parse_optional(upload.text()?)?).await?)
}

/// Verifies the URL of a subscription with the method that `fields` names.
pub(crate) async fn verify_url<S: Stores>(
    api: &ApiState<S>,
    by: Actor,
    scope: &Scope,
    id: SubscriptionId,
    mut fields: Fields<'_>,
) -> Result<Verified, Problem> {
    let method = usable_method(&api.verification, VerificationBody::read(&mut fields)?.method)?;
    let found = api.subscriptions.load_subscription(id).await?;
    let found = found.filter(|(subscription, _)| scope.allows(subscription.tenant.as_ref()));
    let (subscription, secrets) = found.ok_or_else(not_found)?;
    let finding = match method {
        VerificationMethod::Challenge => challenge::send(api, &subscription, &secrets).await?,
        VerificationMethod::Cloudevents => handshake::send(api, &subscription, &secrets).await?,
        VerificationMethod::Asserted => {
            Finding { exchange: None, status_counts: false, allowed_per_minute: Ok(None) }
        }
    };
    let (allowed_per_minute, mut reason) = match finding.allowed_per_minute {
        Ok(allowed) => (allowed, None),
        Err(reason) => (None, Some(reason)),
    };
    if reason.is_none() {
        let verification = Verification {
            callback_url: subscription.callback_url,
            secret: secrets.current.clone(),
            method,
            allowed_per_minute,
        };
        if mark_verified(api, by, id, &secrets, verification).await? {
            api.wake_ups.wake(Stage::Admission);
        } else {
            let changed = "the URL or the secret changed during the verification, or the subscription was deleted: \
                           verify it again";
            reason = Some(changed.to_owned());
        }
    }
    let exchange = finding.exchange.as_ref();
    let outcome = exchange.map(|exchange| exchange.outcome);
    let counts =
        |_: &_| finding.status_counts || exchange.is_some_and(|exchange| exchange.status().is_none());
    Ok(Verified {
        verified: reason.is_none(),
        method,
        allowed_per_second: allowed_per_minute
            .filter(|_| reason.is_none())
            .map(|rate| f64::from(rate) / 60.0),
        response_status: exchange.and_then(Exchange::status),
        error_code: outcome.filter(counts).and_then(|outcome| outcome.code()).map(|code| code.to_string()),
        reason,
        duration_ms: exchange.map_or(0, super::challenge::millis),
    })
}

/// Returns the method to use: the requested one, or the default of the server.
///
/// # Errors
///
/// Returns a problem if the server does not allow the method, or has no origin for the handshake of CloudEvents.
fn usable_method(
    options: &VerificationOptions,
    requested: Option<VerificationMethod>,
) -> Result<VerificationMethod, Problem> {
    let method = requested.unwrap_or_else(|| options.methods.default_method());
    if !options.methods.allows(method) {
        let allowed: Vec<&str> = options.methods.as_slice().iter().map(|one| one.as_str()).collect();
        return Err(Problem::invalid(
            "method",
            format!(
                "method must be one that the server allows: {}; add {} to POSTHASTE_VERIFICATION_METHODS of the server \
                 to use it",
                allowed.join(", "),
                method.as_str()
            ),
        ));
    }
    if method == VerificationMethod::Cloudevents && options.origin.is_none() {
        let detail = "the method cloudevents needs an origin: set POSTHASTE_WEBHOOK_ORIGIN of the server to its host \
                      name, such as events.example.com";
        return Err(Problem::invalid("method", detail));
    }
    Ok(method)
}

/// Stores a verification, if the URL is still the one that was verified. A challenge also verifies the secret with
/// which it was signed. Returns whether the verification was stored.
async fn mark_verified<S: Stores>(
    api: &ApiState<S>,
    by: Actor,
    id: SubscriptionId,
    secrets: &Secrets,
    verification: Verification,
) -> Result<bool, Problem> {
    let now = api.clock.now();
    if api.subscriptions.mark_verified(id, verification.clone(), by.clone(), now).await? {
        return Ok(true);
    }
    let Some((_, stored)) = api.subscriptions.load_subscription(id).await? else { return Ok(false) };
    if stored.current == secrets.current || !is_secret_verified(api, verification.method, secrets, &stored) {
        return Ok(false);
    }
    let verification = Verification { secret: stored.current, ..verification };
    Ok(api.subscriptions.mark_verified(id, verification, by, now).await?)
}

/// Returns whether a verification with `secrets` is valid for `stored`, which was read afterwards. The same secret may
/// have been encrypted again during a challenge; other methods do not depend on the secret.
fn is_secret_verified<S: Stores>(
    api: &ApiState<S>,
    method: VerificationMethod,
    secrets: &Secrets,
    stored: &Secrets,
) -> bool {
    let open = |secrets: &Secrets| {
        api.outgoing.sealer.open(&secrets.current, secrets.place(SecretColumn::Current)).ok()
    };
    match method {
        VerificationMethod::Challenge => open(stored) == open(secrets),
        VerificationMethod::Cloudevents | VerificationMethod::Asserted => true,
    }
}
