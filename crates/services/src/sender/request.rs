//! A request to send, and the part of its response to read. Created by the worker, the API, the outbox and
//! [`crate::oauth2`]; sent by the [`Sender`](super::Sender).

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Method};
use url::form_urlencoded;

use super::identity::ClientIdentity;

/// A request. Host, framing and connection headers are set by the sender.
#[derive(Clone)]
pub struct OutgoingRequest {
    pub(super) method: Method,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
    pub(super) answer: ReadUpTo,
    pub(super) deadline: Duration,
    pub(super) identity: Option<ClientIdentity>,
}

/// Omits the headers, which may contain credentials, and the body.
impl fmt::Debug for OutgoingRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (method, answer, deadline) = (&self.method, &self.answer, &self.deadline);
        f.debug_struct("OutgoingRequest")
            .field("method", method)
            .field("answer", answer)
            .field("deadline", deadline)
            .finish_non_exhaustive()
    }
}

/// The part of a response to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadUpTo {
    /// The status line only. [`Exchange::body`](super::Exchange::body) is empty.
    Status,
    /// The status line and the headers, which [`Exchange::header`](super::Exchange::header) returns.
    Head,
    /// The status line and up to `bytes_max` bytes of the body.
    Body { bytes_max: usize },
}

impl OutgoingRequest {
    /// Creates a POST request. `deadline` is the time limit for the whole exchange: DNS lookup, connection, TLS
    /// handshake, request and response.
    pub const fn post(headers: HeaderMap, body: Bytes, answer: ReadUpTo, deadline: Duration) -> Self {
        Self { method: Method::POST, headers, body, answer, deadline, identity: None }
    }

    /// Creates a POST request with a form (`application/x-www-form-urlencoded`) as its body.
    pub fn form<'a>(
        mut headers: HeaderMap,
        fields: impl IntoIterator<Item = (&'a str, &'a str)>,
        answer: ReadUpTo,
        deadline: Duration,
    ) -> Self {
        let mut body = form_urlencoded::Serializer::new(String::new());
        body.extend_pairs(fields);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded"));
        Self::post(headers, Bytes::from(body.finish()), answer, deadline)
    }

    /// Creates an OPTIONS request without a body. The headers of the response are kept.
    pub const fn options(headers: HeaderMap, deadline: Duration) -> Self {
        let answer = ReadUpTo::Head;
        Self { method: Method::OPTIONS, headers, body: Bytes::new(), answer, deadline, identity: None }
    }

    /// Presents a client certificate in the TLS handshake, if the receiver requests one. The request is refused
    /// for a destination without TLS.
    #[must_use]
    pub fn with_identity(mut self, identity: ClientIdentity) -> Self {
        self.identity = Some(identity);
        self
    }
}
