//! The headers of outgoing requests: those of Standard Webhooks, and some that describe the delivery.

use http::header::{CONTENT_TYPE, USER_AGENT};
use http::{HeaderMap, HeaderName, HeaderValue};
use posthaste_core::Timestamp;
use posthaste_core::event::{EventType, TraceParent};
use posthaste_core::signature::{Keys, Message, Signatures, sign};

/// The value of the `User-Agent` header.
pub const AGENT: &str = concat!("posthaste/", env!("CARGO_PKG_VERSION"));

const WEBHOOK_ID: HeaderName = HeaderName::from_static("webhook-id");
const WEBHOOK_TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
const EVENT_TYPE: HeaderName = HeaderName::from_static("posthaste-event-type");
const ATTEMPT: HeaderName = HeaderName::from_static("posthaste-attempt");
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// The attempt described by the headers.
#[derive(Debug, Clone, Copy)]
pub struct Delivery<'a> {
    pub message_id: &'a str,
    pub event_type: &'a EventType,
    /// The number of the attempt, starting at one.
    pub attempt: u32,
    pub traceparent: Option<&'a TraceParent>,
}

/// The formats and keys that sign a request.
#[derive(Debug, Clone, Copy)]
pub struct Signer<'a> {
    pub signatures: &'a Signatures,
    pub keys: Keys<'a>,
}

/// Returns the headers of a delivery, with the signatures of `signer`.
pub fn delivery_headers(
    delivery: &Delivery<'_>,
    signer: Signer<'_>,
    body: &[u8],
    now: Timestamp,
) -> HeaderMap {
    let mut headers = signed_headers(delivery.message_id, delivery.event_type.as_str(), signer, body, now);
    headers.insert(ATTEMPT, delivery.attempt.into());
    if let Some(traceparent) = delivery.traceparent {
        put(&mut headers, TRACEPARENT, traceparent.as_str());
    }
    headers
}

/// Returns the headers common to all signed requests: verifications, tests and deliveries.
pub fn signed_headers(
    message_id: &str,
    event_type: &str,
    signer: Signer<'_>,
    body: &[u8],
    now: Timestamp,
) -> HeaderMap {
    let timestamp_s = now.micros().div_euclid(1_000_000);
    let mut headers = HeaderMap::with_capacity(16);
    let message = Message { id: message_id, timestamp_s, event_type, body };
    for (name, value) in sign(signer.signatures, &signer.keys, &message) {
        if let Ok(name) = HeaderName::try_from(name) {
            put(&mut headers, name, &value);
        }
    }
    headers.insert(USER_AGENT, HeaderValue::from_static(AGENT));
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    put(&mut headers, WEBHOOK_ID, message_id);
    headers.insert(WEBHOOK_TIMESTAMP, timestamp_s.into());
    put(&mut headers, EVENT_TYPE, event_type);
    headers
}

/// Inserts a header. An invalid value can only come from a row written by another program. In that case the
/// header is omitted, and the request is still sent.
fn put(headers: &mut HeaderMap, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use posthaste_core::signature::{SigningSecret, verify};
    use std::time::Duration;

    #[test]
    fn delivery_has_its_headers_and_either_secret_verifies_it() {
        let (new, old) = (SigningSecret::from_random([1; 32]), SigningSecret::from_random([2; 32]));
        let event_type = EventType::parse("order.paid").expect("a type");
        let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let traceparent = TraceParent::parse(trace).expect("a trace");
        let delivery = Delivery {
            message_id: "msg_41_7",
            event_type: &event_type,
            attempt: 3,
            traceparent: Some(&traceparent),
        };
        let now = Timestamp::from_micros(1_700_000_000_999_999);
        let (signatures, secrets) = (Signatures::default(), [new.clone(), old.clone()]);
        let signer = Signer { signatures: &signatures, keys: Keys { secrets: &secrets, ed25519: &[] } };
        let headers = delivery_headers(&delivery, signer, b"{}", now);
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let rows = [
            ("webhook-id", "msg_41_7"),
            ("webhook-timestamp", "1700000000"),
            ("user-agent", AGENT),
            ("content-type", "application/json"),
            ("posthaste-event-type", "order.paid"),
            ("posthaste-attempt", "3"),
            ("traceparent", trace),
        ];
        for (name, expected) in rows {
            assert_eq!(text(name), expected, "{name}");
        }
        assert_eq!(headers.len(), rows.len() + 1, "and the signature");
        let signature = text("webhook-signature");
        assert_eq!(signature.split(' ').count(), 2);
        for secret in [&new, &old] {
            let tolerance = Duration::from_secs(300);
            let verified = verify(&[secret], "msg_41_7", 1_700_000_000, b"{}", signature, tolerance, now);
            assert_eq!(verified, Ok(()));
        }
    }

    #[test]
    fn value_that_is_invalid_in_a_header_is_left_out() {
        let event_type = EventType::from_store("zwei\nZeilen".to_owned());
        let delivery =
            Delivery { message_id: "msg_1_2", event_type: &event_type, attempt: 1, traceparent: None };
        let signer = Signer { signatures: &Signatures::default(), keys: Keys { secrets: &[], ed25519: &[] } };
        let headers = delivery_headers(&delivery, signer, b"{}", Timestamp::from_micros(0));
        assert!(!headers.contains_key("posthaste-event-type") && !headers.contains_key("traceparent"));
        assert!(headers.contains_key("webhook-id"));
    }
}
