//! The outcome of one request, for webhooks and for the broker adapter.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use posthaste_core::broker::BrokerFault;
use posthaste_core::outcome::{AttemptOutcome, Failure};

#[derive(Debug, Clone)]
pub struct Exchange {
    pub outcome: AttemptOutcome,
    /// Whether any byte of the request was sent.
    pub bytes_written: bool,
    /// The unparsed `Retry-After` header of the response.
    pub retry_after: Option<HeaderValue>,
    pub(super) headers: Option<Box<HeaderMap>>,
    /// The received body, up to the requested size.
    pub body: Bytes,
    pub body_complete: bool,
    pub duration: Duration,
}

impl Exchange {
    /// Creates the outcome of a request that was refused before it was sent.
    pub const fn refused(failure: Failure) -> Self {
        Self {
            outcome: AttemptOutcome::failed(failure),
            bytes_written: false,
            retry_after: None,
            headers: None,
            body: Bytes::new(),
            body_complete: false,
            duration: Duration::ZERO,
        }
    }

    /// Returns the HTTP status of the response, or `None` if there was no response.
    pub const fn status(&self) -> Option<u16> {
        self.outcome.status()
    }

    /// Returns the first value of a header of the response. Returns `None` if there is none, or if the request
    /// did not ask for the headers with [`ReadUpTo::Head`](super::ReadUpTo::Head).
    pub fn header(&self, name: &HeaderName) -> Option<&HeaderValue> {
        self.headers.as_ref()?.get(name)
    }

    /// Returns all values of a header of the response, in their order. Invalid UTF-8 is replaced.
    pub fn header_values(&self, name: &HeaderName) -> Vec<String> {
        let headers = self.headers.as_deref();
        let values = headers.into_iter().flat_map(|headers| headers.get_all(name));
        values.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()).collect()
    }

    /// Returns the reason why there was no valid response, or `None` if there was one.
    pub const fn broker_fault(&self) -> Option<BrokerFault> {
        let AttemptOutcome::Failed { failure, status: None, .. } = self.outcome else { return None };
        let bytes_written = self.bytes_written;
        Some(match failure {
            Failure::Timeout => BrokerFault::TimedOut { bytes_written },
            // A TLS session that fails after the order was sent is not a failed handshake.
            Failure::ConnectFailed | Failure::TlsFailed if bytes_written => {
                BrokerFault::Reset { bytes_written }
            }
            Failure::ConnectFailed => BrokerFault::ConnectFailed,
            Failure::TlsFailed => BrokerFault::TlsFailed,
            Failure::DnsFailed => BrokerFault::DnsFailed,
            Failure::Http(_) | Failure::ResponseInvalid => BrokerFault::Unreadable,
            // Of these, the sender returns only those that the policy refuses before a byte is sent.
            Failure::BlockedAddress
            | Failure::UrlInvalid
            | Failure::NotVerified
            | Failure::LeaseExpired
            | Failure::EventGone
            | Failure::SubscriptionGone
            | Failure::SecretUnreadable
            | Failure::AuthFailed
            | Failure::CredentialsInvalid => BrokerFault::BlockedAddress,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broker_fault_shows_whether_the_order_may_have_arrived() {
        let exchange = |outcome, bytes_written| Exchange {
            outcome,
            bytes_written,
            retry_after: None,
            headers: None,
            body: Bytes::new(),
            body_complete: false,
            duration: Duration::ZERO,
        };
        let rows = [
            (Failure::Timeout, false, BrokerFault::TimedOut { bytes_written: false }),
            (Failure::Timeout, true, BrokerFault::TimedOut { bytes_written: true }),
            (Failure::ConnectFailed, false, BrokerFault::ConnectFailed),
            (Failure::ConnectFailed, true, BrokerFault::Reset { bytes_written: true }),
            (Failure::TlsFailed, false, BrokerFault::TlsFailed),
            (Failure::TlsFailed, true, BrokerFault::Reset { bytes_written: true }),
            (Failure::DnsFailed, false, BrokerFault::DnsFailed),
            (Failure::BlockedAddress, false, BrokerFault::BlockedAddress),
            (Failure::UrlInvalid, false, BrokerFault::BlockedAddress),
            (Failure::ResponseInvalid, true, BrokerFault::Unreadable),
        ];
        for (failure, bytes_written, fault) in rows {
            let found = exchange(AttemptOutcome::failed(failure), bytes_written).broker_fault();
            assert_eq!(found, Some(fault), "{failure:?} {bytes_written}");
            assert_eq!(fault.may_have_executed(), bytes_written, "{failure:?}");
        }
        let answered = exchange(AttemptOutcome::Delivered { status: 200 }, true);
        assert_eq!((answered.broker_fault(), answered.status()), (None, Some(200)));
    }
}
