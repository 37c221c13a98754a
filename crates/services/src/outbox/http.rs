//! The HTTP adapter for the broker. Sends one POST request with the canonical bytes of an order through the
//! shared [`Sender`] and its address policy. [`classify_answer`] interprets the response.

use super::broker::Broker;
use crate::sender::{AGENT, OutgoingRequest, ReadUpTo, Sender};
use bytes::Bytes;
use http::header::{CONTENT_TYPE, USER_AGENT};
use http::{HeaderMap, HeaderName, HeaderValue};
use posthaste_core::Timestamp;
use posthaste_core::broker::{ANSWER_BYTES_MAX, BrokerFault, BrokerOutcome, classify_answer};
use posthaste_core::event::TraceParent;
use posthaste_core::ports::ClaimedOrder;
use std::fmt;
use std::time::Duration;

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const TRACE_ID: HeaderName = HeaderName::from_static("x-trace-id");
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

#[derive(Clone)]
pub struct HttpBrokerOptions {
    /// The URL that orders are posted to.
    pub url: String,
    /// Headers sent with every order. They may contain credentials.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// The text in a response that indicates that the broker has already executed the order.
    pub processed_marker: String,
    /// The time limit for a whole exchange.
    pub deadline: Duration,
}

/// Omits the URL, which may contain a token, and the headers, which may contain credentials.
impl fmt::Debug for HttpBrokerOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpBrokerOptions").field("deadline", &self.deadline).finish_non_exhaustive()
    }
}

#[derive(Debug)]
pub struct HttpBroker {
    sender: Sender,
    options: HttpBrokerOptions,
}

impl HttpBroker {
    pub const fn new(sender: Sender, options: HttpBrokerOptions) -> Self {
        Self { sender, options }
    }

    /// Returns the configured headers together with those that settings cannot override. Returns `None` if
    /// the key is not a valid header value, because an order must not be sent without its key.
    fn headers(&self, order: &ClaimedOrder) -> Option<HeaderMap> {
        let key = HeaderValue::from_str(order.idempotency_key.as_str()).ok()?;
        let mut headers = HeaderMap::with_capacity(self.options.headers.len() + 5);
        headers.insert(USER_AGENT, HeaderValue::from_static(AGENT));
        for (name, value) in &self.options.headers {
            headers.insert(name, value.clone());
        }
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(IDEMPOTENCY_KEY, key);
        if let Some(trace_id) = &order.trace_id {
            // The body also contains the trace id, so an invalid header value is omitted.
            if let Ok(value) = HeaderValue::from_str(trace_id) {
                headers.insert(TRACE_ID, value.clone());
                if TraceParent::parse(trace_id.as_str()).is_ok() {
                    headers.insert(TRACEPARENT, value);
                }
            }
        }
        Some(headers)
    }
}

impl Broker for HttpBroker {
    async fn send_order(&self, order: &ClaimedOrder, now: Timestamp) -> BrokerOutcome {
        let Some(headers) = self.headers(order) else {
            return BrokerOutcome::NoAnswer(BrokerFault::ConnectFailed);
        };
        let body = Bytes::copy_from_slice(order.canonical.as_bytes());
        let answer = ReadUpTo::Body { bytes_max: ANSWER_BYTES_MAX };
        let request = OutgoingRequest::post(headers, body, answer, self.options.deadline);
        let exchange = self.sender.send_to_url(&self.options.url, request, now).await;
        match (exchange.status(), exchange.broker_fault()) {
            (Some(status), _) => {
                let (key, marker) = (&order.idempotency_key, self.options.processed_marker.as_str());
                let retry_after = exchange.retry_after.as_ref().map(HeaderValue::as_bytes);
                classify_answer(
                    status,
                    &exchange.body,
                    key,
                    marker,
                    retry_after,
                    now.after(exchange.duration),
                )
            }
            (None, Some(fault)) => BrokerOutcome::NoAnswer(fault),
            (None, None) => BrokerOutcome::NoAnswer(BrokerFault::Unreadable),
        }
    }

    fn deadline(&self) -> Duration {
        self.options.deadline
    }
}
