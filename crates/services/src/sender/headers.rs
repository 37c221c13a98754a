//! The headers of outgoing requests: those of Standard Webhooks, those that describe the delivery, and those that
//! the subscription defines. [`RequestHeadersBuilder`] decides which one is sent if two have the same name.

use http::header::{CONTENT_TYPE, USER_AGENT};
use http::{HeaderMap, HeaderName, HeaderValue};

/// The value of the `User-Agent` header.
pub const AGENT: &str = concat!("posthaste/", env!("CARGO_PKG_VERSION"));

const WEBHOOK_ID: HeaderName = HeaderName::from_static("webhook-id");
const WEBHOOK_TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
const WEBHOOK_REQUEST_ORIGIN: HeaderName = HeaderName::from_static("webhook-request-origin");
const EVENT_TYPE: HeaderName = HeaderName::from_static("posthaste-event-type");
const ATTEMPT: HeaderName = HeaderName::from_static("posthaste-attempt");
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");

/// The number of headers for which memory is reserved: those of a delivery in the standard format, and the host and
/// the length, which are added later.
const USUAL_COUNT: usize = 14;

/// Builds the headers of a signed request. A header that is set is never replaced: a header that describes the
/// request takes precedence over a signature, a signature over an authentication header, and all of them over a
/// custom header. Names are compared without regard to case.
///
/// An invalid name or value can only come from a row written by another program. In that case the header is omitted,
/// and the request is still sent.
#[derive(Debug)]
pub struct RequestHeadersBuilder {
    headers: HeaderMap,
}

impl RequestHeadersBuilder {
    /// Creates the headers that every signed request has.
    pub fn new(webhook_id: &str, timestamp_s: i64, content_type: &str) -> Self {
        let mut headers = HeaderMap::with_capacity(USUAL_COUNT);
        headers.insert(USER_AGENT, HeaderValue::from_static(AGENT));
        headers.insert(WEBHOOK_TIMESTAMP, timestamp_s.into());
        Self { headers }.add(CONTENT_TYPE, content_type).add(WEBHOOK_ID, webhook_id)
    }

    /// Adds the type of the event.
    #[must_use]
    pub fn event_type(self, event_type: &str) -> Self {
        self.add(EVENT_TYPE, event_type)
    }

    /// Adds the number of the attempt, starting at one.
    #[must_use]
    pub fn attempt(mut self, attempt: u32) -> Self {
        self.headers.insert(ATTEMPT, attempt.into());
        self
    }

    /// Adds the trace of the event. `tracestate` is sent only with a `traceparent`, without which it has no meaning.
    #[must_use]
    pub fn trace(self, traceparent: Option<&str>, tracestate: Option<&str>) -> Self {
        let Some(traceparent) = traceparent else { return self };
        let headers = self.add(TRACEPARENT, traceparent);
        match tracestate {
            Some(tracestate) => headers.add(TRACESTATE, tracestate),
            None => headers,
        }
    }

    /// Adds the origin that was confirmed in the handshake of CloudEvents webhooks.
    #[must_use]
    pub fn request_origin(self, origin: &str) -> Self {
        self.add(WEBHOOK_REQUEST_ORIGIN, origin)
    }

    /// Adds the attributes of a CloudEvent in binary mode, with their `ce-` names.
    #[must_use]
    pub fn cloudevent<'a>(self, attributes: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        self.add_all(attributes, false)
    }

    #[must_use]
    pub fn signatures<'a>(self, signatures: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        self.add_all(signatures, false)
    }

    /// Adds the header that authenticates us, such as `authorization`.
    #[must_use]
    pub fn auth(self, name: &str, value: &str) -> Self {
        self.add_all([(name, value)], true)
    }

    /// Adds the custom headers of the subscription where their names are free, and returns all headers.
    pub fn finish<'a>(self, custom: impl IntoIterator<Item = (&'a str, &'a str)>) -> HeaderMap {
        self.add_all(custom, true).headers
    }

    fn add_all<'a>(mut self, pairs: impl IntoIterator<Item = (&'a str, &'a str)>, sensitive: bool) -> Self {
        for (name, value) in pairs {
            let (Ok(name), Ok(mut value)) = (HeaderName::try_from(name), HeaderValue::from_str(value)) else {
                continue;
            };
            value.set_sensitive(sensitive);
            self.headers.entry(name).or_insert(value);
        }
        self
    }

    fn add(mut self, name: HeaderName, value: &str) -> Self {
        if let Ok(value) = HeaderValue::from_str(value) {
            self.headers.entry(name).or_insert(value);
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn value_that_is_invalid_in_a_header_is_left_out() {
        let headers = RequestHeadersBuilder::new("msg_1_2", 0, "application/json").event_type("zwei\nZeilen");
        let headers = headers.finish([]);
        assert!(!headers.contains_key("posthaste-event-type"));
        assert!(headers.contains_key("webhook-id"));
    }

    #[test]
    fn first_header_of_a_name_is_sent() {
        let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let headers = RequestHeadersBuilder::new("msg_1", 1_700_000_000, "application/cloudevents+json")
            .event_type("order.paid")
            .attempt(2)
            .trace(Some(trace), Some("vendor=1"))
            .request_origin("events.example")
            .cloudevent([("ce-id", "msg_1"), ("ce-source", "/orders")])
            .signatures([("webhook-signature", "v1,a"), ("X-Hub-Signature-256", "sha256=b"), ("ce-id", "no")])
            .auth("Authorization", "Bearer c")
            .finish([
                ("User-Agent", "mine"),
                ("Webhook-Id", "mine"),
                ("CONTENT-TYPE", "text/plain"),
                ("x-hub-signature-256", "mine"),
                ("authorization", "mine"),
                ("X-Mine", "stays"),
                ("x-mine", "is the second of its name"),
                ("not a name", "left out"),
                ("x-lines", "a\r\nx-evil: b"),
            ]);
        let rows = [
            ("user-agent", AGENT),
            ("content-type", "application/cloudevents+json"),
            ("webhook-id", "msg_1"),
            ("webhook-timestamp", "1700000000"),
            ("posthaste-event-type", "order.paid"),
            ("posthaste-attempt", "2"),
            ("traceparent", trace),
            ("tracestate", "vendor=1"),
            ("webhook-request-origin", "events.example"),
            ("ce-id", "msg_1"),
            ("ce-source", "/orders"),
            ("webhook-signature", "v1,a"),
            ("x-hub-signature-256", "sha256=b"),
            ("authorization", "Bearer c"),
            ("x-mine", "stays"),
        ];
        for (name, expected) in rows {
            let values: Vec<_> = headers.get_all(name).iter().collect();
            assert_eq!(values, [expected], "{name}");
        }
        assert_eq!(headers.len(), rows.len());
        let sensitive: Vec<_> = headers.iter().filter(|(_, value)| value.is_sensitive()).collect();
        assert_eq!(sensitive.len(), 2, "the authentication and the custom header: {sensitive:?}");
        let untraced =
            RequestHeadersBuilder::new("msg_1", 0, "application/json").trace(None, Some("vendor=1"));
        assert!(!untraced.finish([]).contains_key("tracestate"));
    }
}
