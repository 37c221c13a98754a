//! Builds the requests to the receiver of a subscription: the body in its envelope, the signatures of exactly these
//! bytes, the authentication and the custom headers. The worker and the API pass a subscription with its secrets and
//! the event; [`WebhookSender`] sends the result, and [`preview`] shows it.

mod open;
mod preview;
mod send;
#[cfg(test)]
mod tests;

use bytes::Bytes;
use http::HeaderMap;
use posthaste_core::Timestamp;
use posthaste_core::attributes::Attributes;
use posthaste_core::envelope::{ContextValue, Envelope, EventContent, Rendered, render};
use posthaste_core::event::{EventType, ExternalEventId, TraceParent, TraceState};
use posthaste_core::ports::Target;
use posthaste_core::request::{Auth, RequestHeaders};
use posthaste_core::signature::{Ed25519Key, Keys, Message, Signatures, SigningSecret, sign};
use posthaste_core::subscription::{Secrets, Subscription};
use std::fmt;

use crate::oauth2::AccessToken;
use crate::sender::RequestHeadersBuilder;
use open::OpenedAuth;

pub use open::OpenError;
pub use preview::{Preview, SECRET_MASK, preview};
pub use send::WebhookSender;

/// The content type of a payload without an envelope.
const JSON: &str = "application/json";

/// The names by which this installation identifies itself to receivers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstallationNames {
    /// The `source` of CloudEvents that were not received with one, a URI reference.
    pub cloudevents_source: String,
    /// The DNS name that is sent as `webhook-request-origin` with every request. `None` omits the header.
    pub webhook_origin: Option<String>,
}

impl InstallationNames {
    /// The `source` of CloudEvents if none is configured.
    pub const DEFAULT_SOURCE: &str = "posthaste";
}

impl Default for InstallationNames {
    fn default() -> Self {
        Self { cloudevents_source: Self::DEFAULT_SOURCE.to_owned(), webhook_origin: None }
    }
}

/// The parts of a subscription that determine its requests.
#[derive(Debug, Clone, Copy)]
pub struct RequestParts<'a> {
    pub signatures: &'a Signatures,
    pub headers: &'a RequestHeaders,
    pub auth: Option<&'a Auth>,
    pub envelope: Envelope,
    pub secrets: &'a Secrets,
}

impl<'a> From<&'a Target> for RequestParts<'a> {
    fn from(target: &'a Target) -> Self {
        Self {
            signatures: &target.signatures,
            headers: &target.headers,
            auth: target.auth.as_ref(),
            envelope: target.envelope,
            secrets: &target.secrets,
        }
    }
}

impl<'a> RequestParts<'a> {
    pub fn of(subscription: &'a Subscription, secrets: &'a Secrets) -> Self {
        Self {
            signatures: &subscription.signatures,
            headers: &subscription.headers,
            auth: subscription.auth.as_ref(),
            envelope: subscription.envelope,
            secrets,
        }
    }
}

/// A header of the subscription, with its value.
#[derive(Clone)]
struct CustomHeader {
    name: String,
    value: String,
    is_secret: bool,
}

/// The parts of a subscription's requests that are the same for all of them, with decrypted secrets.
#[derive(Clone)]
pub struct OpenedRequest {
    signatures: Signatures,
    secrets: Vec<SigningSecret>,
    ed25519: Vec<Ed25519Key>,
    headers: Vec<CustomHeader>,
    auth: OpenedAuth,
    envelope: Envelope,
}

/// Omits the secrets.
impl fmt::Debug for OpenedRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenedRequest").field("envelope", &self.envelope).finish_non_exhaustive()
    }
}

/// One event to send.
#[derive(Clone, Copy)]
pub struct WebhookMessage<'a> {
    pub message_id: &'a str,
    pub event_type: &'a EventType,
    /// Valid JSON, byte for byte as submitted.
    pub payload: &'a Bytes,
    pub attributes: &'a Attributes,
    pub external_event_id: Option<&'a ExternalEventId>,
    /// The time at which the event was accepted.
    pub created_at: Timestamp,
    /// The number of the attempt, starting at one. `None` for a request that is not a delivery.
    pub attempt: Option<u32>,
    pub traceparent: Option<&'a TraceParent>,
    pub tracestate: Option<&'a TraceState>,
}

/// Omits the payload and the attributes, because they must not be logged.
impl fmt::Debug for WebhookMessage<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebhookMessage").field("message_id", &self.message_id).finish_non_exhaustive()
    }
}

/// A request without its destination. The sender adds the host and the framing.
#[derive(Clone)]
pub struct BuiltRequest {
    pub headers: HeaderMap,
    pub body: Bytes,
}

/// Omits the headers, which may contain credentials, and the body.
impl fmt::Debug for BuiltRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BuiltRequest").finish_non_exhaustive()
    }
}

impl OpenedRequest {
    /// Sends the payload without an envelope. A challenge is sent like this, because receivers compare its body.
    #[must_use]
    pub fn without_envelope(mut self) -> Self {
        self.envelope = Envelope::Raw;
        self
    }

    /// Builds a request. `token` is the access token if the subscription authenticates with OAuth 2. `now` is the time
    /// in the signatures.
    pub fn build(
        &self,
        message: &WebhookMessage<'_>,
        token: Option<&AccessToken>,
        names: &InstallationNames,
        now: Timestamp,
    ) -> BuiltRequest {
        let (body, content_type, context) = match self.render(message, names) {
            None => (message.payload.clone(), JSON, Vec::new()),
            Some(Rendered { body, content_type, headers }) => {
                let body = body.map_or_else(|| message.payload.clone(), Bytes::from);
                (body, content_type, headers)
            }
        };
        let timestamp_s = now.micros().div_euclid(1_000_000);
        let event_type = message.event_type.as_str();
        let signed = Message { id: message.message_id, timestamp_s, event_type, body: &body };
        let keys = Keys { secrets: &self.secrets, ed25519: &self.ed25519 };
        let signatures = sign(&self.signatures, &keys, &signed);
        let mut headers =
            RequestHeadersBuilder::new(message.message_id, timestamp_s, content_type).event_type(event_type);
        if let Some(attempt) = message.attempt {
            headers = headers.attempt(attempt);
        }
        headers = headers
            .trace(message.traceparent.map(TraceParent::as_str), message.tracestate.map(TraceState::as_str));
        if let Some(origin) = &names.webhook_origin {
            headers = headers.request_origin(origin);
        }
        headers = headers.cloudevent(pairs(&context)).signatures(pairs(&signatures));
        if let Some((name, value)) = self.auth.header(token) {
            headers = headers.auth(name, value);
        }
        let custom = self.headers.iter().map(|header| (header.name.as_str(), header.value.as_str()));
        BuiltRequest { headers: headers.finish(custom), body }
    }

    /// Returns the content in its envelope, or `None` if it is the payload alone.
    fn render(&self, message: &WebhookMessage<'_>, names: &InstallationNames) -> Option<Rendered> {
        if self.envelope == Envelope::Raw {
            return None;
        }
        // The payload is text of the store, so nothing is replaced.
        let payload = String::from_utf8_lossy(message.payload);
        let attributes: Vec<(&str, ContextValue<'_>)> =
            message.attributes.iter().map(|(name, value)| (name, value.into())).collect();
        let content = EventContent {
            event_type: message.event_type,
            payload: &payload,
            attributes: &attributes,
            external_event_id: message.external_event_id,
            created_at: message.created_at,
        };
        Some(render(self.envelope, &content, message.message_id, &names.cloudevents_source))
    }
}

fn pairs(headers: &[(String, String)]) -> impl Iterator<Item = (&str, &str)> {
    headers.iter().map(|(name, value)| (name.as_str(), value.as_str()))
}
