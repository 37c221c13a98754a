//! The method `cloudevents`: the handshake of CloudEvents webhooks (HTTP 1.1 Web Hooks for Event Delivery, section 4).
//! An OPTIONS request asks the receiver whether it agrees to requests from our origin. `posthaste_core` decides by the
//! headers of the response; its status does not count. The callback of the specification is not offered.

use super::Finding;
use crate::problem::{Problem, ProblemKind};
use crate::state::ApiState;
use crate::subscriptions::challenge::failure;
use http::header::USER_AGENT;
use http::{HeaderMap, HeaderName, HeaderValue};
use posthaste_core::outcome::Failure;
use posthaste_core::ports::Stores;
use posthaste_core::request::Auth;
use posthaste_core::subscription::{Secrets, Subscription};
use posthaste_core::verification::{REQUESTED_PER_MINUTE, allowed_per_minute};
use posthaste_services::sender::{AGENT, Exchange, OutgoingRequest};

const REQUEST_ORIGIN: HeaderName = HeaderName::from_static("webhook-request-origin");
const REQUEST_RATE: HeaderName = HeaderName::from_static("webhook-request-rate");
const ALLOWED_ORIGIN: HeaderName = HeaderName::from_static("webhook-allowed-origin");
const ALLOWED_RATE: HeaderName = HeaderName::from_static("webhook-allowed-rate");

/// Sends the OPTIONS request and decides by the headers of the response.
pub(super) async fn send<S: Stores>(
    api: &ApiState<S>,
    subscription: &Subscription,
    secrets: &Secrets,
) -> Result<Finding, Problem> {
    let origin = api.verification.origin.as_deref().unwrap_or_default();
    let Ok(_slot) = api.outgoing_slots.try_acquire() else {
        let detail = "too many verifications and test events are in flight: try again in a moment";
        return Err(Problem::try_again(ProblemKind::ServerBusy, detail));
    };
    let exchange = match request(api, subscription, secrets, origin)? {
        Some(request) => {
            let url = subscription.callback_url.as_str();
            api.outgoing.sender.send_to_url(url, request, api.clock.now()).await
        }
        None => Exchange::refused(Failure::CredentialsInvalid),
    };
    let allowed_per_minute = match (exchange.status(), failure(&exchange)) {
        (None, Some(failure)) => Err(failure),
        (Some(_), _) | (None, None) => allowed_per_minute(
            origin,
            &exchange.header_values(&ALLOWED_ORIGIN),
            &exchange.header_values(&ALLOWED_RATE),
        )
        .map_err(|error| error.to_string()),
    };
    Ok(Finding { exchange: Some(exchange), status_counts: false, allowed_per_minute })
}

/// Creates the request. It contains no credentials, because the handshake is not authenticated; only a client
/// certificate is presented, without which there is no connection. Returns `None` if the certificate cannot be used.
fn request<S: Stores>(
    api: &ApiState<S>,
    subscription: &Subscription,
    secrets: &Secrets,
    origin: &str,
) -> Result<Option<OutgoingRequest>, Problem> {
    let origin = HeaderValue::from_str(origin)
        .map_err(|error| Problem::broken("POSTHASTE_WEBHOOK_ORIGIN cannot be sent", &error))?;
    let headers = HeaderMap::from_iter([
        (USER_AGENT, HeaderValue::from_static(AGENT)),
        (REQUEST_ORIGIN, origin),
        (REQUEST_RATE, REQUESTED_PER_MINUTE.into()),
    ]);
    let request = OutgoingRequest::options(headers, api.outgoing.timeouts.of(subscription.timeout));
    let Some(Auth::Mtls { certificate }) = &subscription.auth else { return Ok(Some(request)) };
    let credentials = api.outgoing.sealer.open_credentials(secrets).map_err(|error| {
        let detail = "the private key of the client certificate cannot be decrypted: check POSTHASTE_SECRET_KEY, or \
                      set auth again";
        Problem::broken(detail, &error)
    })?;
    let key = credentials.auth.as_deref().unwrap_or_default();
    let identity = api.outgoing.sender.identity(certificate, key).ok();
    Ok(identity.map(|identity| request.with_identity(identity)))
}
