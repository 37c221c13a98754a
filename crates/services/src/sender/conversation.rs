//! Performs one exchange on one connection: sends the request, reads the response, classifies failures, and
//! returns the connection to the pool if it can be reused. Called by the [`crate::sender`] with a pooled or a
//! new connection.

use std::error::Error as _;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{
    CONNECTION, CONTENT_LENGTH, EXPECT, HOST, RETRY_AFTER, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, Uri};
use http_body_util::Full;
use hyper::body::Incoming;
use posthaste_core::outcome::Failure;
use tokio::time::timeout;

use super::connection::{BodyEnd, Connection, NoAnswer};
use super::pool::Pool;
use super::request::{OutgoingRequest, ReadUpTo};
use super::wire::Track;
use crate::egress::Destination;

/// The maximum size of an unneeded body that is read so that its connection can be reused, in bytes.
const IGNORED_BODY_BYTES_MAX: usize = 16 * 1024;
/// The maximum time for reading an unneeded body. The outcome is already known, so a slow body must not
/// occupy a worker's slot until the deadline.
const IGNORED_BODY_WAIT: Duration = Duration::from_millis(500);

/// Connection and framing headers, which only the sender sets.
const RESERVED_HEADERS: [HeaderName; 7] =
    [CONNECTION, CONTENT_LENGTH, EXPECT, TE, TRAILER, TRANSFER_ENCODING, UPGRADE];

const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");

/// The state of an exchange in progress. It remains available if the deadline cancels the exchange.
#[derive(Debug, Default)]
pub(super) struct Progress {
    track: Option<Track>,
    pub(super) status: Option<u16>,
    pub(super) retry_after: Option<HeaderValue>,
    /// The headers of the response, for [`ReadUpTo::Head`] only.
    pub(super) headers: Option<Box<HeaderMap>>,
    pub(super) body: Vec<u8>,
    pub(super) body_complete: bool,
}

impl Progress {
    pub(super) fn bytes_written(&self) -> bool {
        self.track.as_ref().is_some_and(|track| track.lock().bytes_written > 0)
    }
}

/// The reason why an exchange failed.
#[derive(Debug)]
pub(super) enum ExchangeError {
    /// The pooled connection was closed before a byte was sent, so the request may be sent on another
    /// connection.
    Unsent,
    Failed(Failure),
}

#[derive(Debug)]
pub(super) struct ExchangeAttempt<'a> {
    pub(super) pool: &'a Arc<Pool>,
    /// The key of the connection in the pool.
    pub(super) origin: &'a str,
    pub(super) wanted: ReadUpTo,
    /// The time for which the connection was idle, or `None` if it is new.
    pub(super) was_idle: Option<Duration>,
}

/// Builds a request in origin form, with the path as the target and the host as a header.
pub(super) fn request(to: &Destination, outgoing: OutgoingRequest) -> Request<Full<Bytes>> {
    let mut headers = outgoing.headers;
    for name in RESERVED_HEADERS {
        headers.remove(name);
    }
    headers.insert(HOST, to.authority.clone());
    let mut request = Request::new(Full::new(outgoing.body));
    *request.method_mut() = outgoing.method;
    *request.uri_mut() = Uri::from(to.path.clone());
    *request.headers_mut() = headers;
    request
}

impl ExchangeAttempt<'_> {
    pub(super) async fn run(
        &self,
        mut connection: Connection,
        request: Request<Full<Bytes>>,
        progress: &mut Progress,
    ) -> Result<(), ExchangeError> {
        connection.track().begin(self.was_idle.is_some());
        progress.track = Some(connection.track().clone());
        match connection.request(request).await {
            Ok(response) => {
                self.read_response(connection, response, progress).await;
                Ok(())
            }
            Err(no_answer) => self.classify(&connection, &no_answer, progress),
        }
    }

    /// Reads the requested part of the body, and returns the connection to the pool if the body is complete.
    async fn read_response(
        &self,
        mut connection: Connection,
        response: Response<Incoming>,
        progress: &mut Progress,
    ) {
        if let Some(idle) = self.was_idle {
            self.pool.answered(self.origin, idle);
        }
        let (mut head, body) = response.into_parts();
        progress.status = Some(head.status.as_u16());
        progress.retry_after = head.headers.get(RETRY_AFTER).cloned();
        let offered = head.headers.get(KEEP_ALIVE).and_then(offered_idle);
        if self.wanted == ReadUpTo::Head {
            progress.headers = Some(Box::new(std::mem::take(&mut head.headers)));
        }
        let end = match self.wanted {
            ReadUpTo::Body { bytes_max } => {
                connection.read_body(body, bytes_max, Some(&mut progress.body)).await
            }
            ReadUpTo::Status | ReadUpTo::Head => {
                let ignored = connection.read_body(body, IGNORED_BODY_BYTES_MAX, None);
                timeout(IGNORED_BODY_WAIT, ignored).await.unwrap_or(BodyEnd::BrokenOff)
            }
        };
        progress.body_complete = end == BodyEnd::Complete;
        if progress.body_complete && connection.is_reusable().await {
            self.pool.put(self.origin, connection, offered);
        }
    }

    /// Classifies a failed request. A status line received before the connection broke still counts. A
    /// response that is not HTTP, or whose head is too long, is invalid regardless of its status line.
    fn classify(
        &self,
        connection: &Connection,
        no_answer: &NoAnswer,
        progress: &mut Progress,
    ) -> Result<(), ExchangeError> {
        let (unsolicited, flooded, status) = {
            let seen = connection.track().lock();
            (seen.unsolicited, seen.flooded, seen.status_line.status())
        };
        let broke_off = is_break(&no_answer.error);
        if let Some(idle) = self.was_idle
            && (no_answer.unsent || (broke_off && status.is_none()))
        {
            self.pool.found_closed(self.origin, idle);
            if no_answer.unsent {
                // Any bytes written came from the failing TLS session, not from the request.
                progress.track = None;
                return Err(ExchangeError::Unsent);
            }
        }
        if flooded || unsolicited || !broke_off {
            return Err(ExchangeError::Failed(Failure::ResponseInvalid));
        }
        if status.is_some() {
            progress.status = status;
            return Ok(());
        }
        let by_tls = io_error(&no_answer.error).is_some_and(is_tls_error);
        Err(ExchangeError::Failed(if by_tls { Failure::TlsFailed } else { Failure::ConnectFailed }))
    }
}

/// Returns whether the error is a broken connection, as opposed to an invalid response.
fn is_break(error: &hyper::Error) -> bool {
    error.is_incomplete_message() || error.is_canceled() || error.is_closed() || io_error(error).is_some()
}

fn io_error(error: &hyper::Error) -> Option<&io::Error> {
    error.source().and_then(|source| source.downcast_ref())
}

fn is_tls_error(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<rustls::Error>())
}

/// Returns the time for which the receiver keeps idle connections (`Keep-Alive: timeout=5`), less a fifth as
/// a margin for network latency.
fn offered_idle(header: &HeaderValue) -> Option<Duration> {
    let text = header.to_str().ok()?;
    let timeout = text.split(',').find_map(|part| part.trim().strip_prefix("timeout="))?;
    let seconds: u32 = timeout.trim().parse().ok()?;
    Some(Duration::from_secs(seconds.into()) * 4 / 5)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keep_alive_timeout_is_parsed() {
        let rows: &[(&'static str, Option<u64>)] = &[
            ("timeout=5", Some(4000)),
            ("timeout=5, max=100", Some(4000)),
            ("max=100, timeout=1", Some(800)),
            ("timeout=0", Some(0)),
            ("timeout=4294967295", Some(3_435_973_836_000)),
            ("timeout=4294967296", None),
            ("timeout=-1", None),
            ("timeout", None),
            ("max=5", None),
            ("", None),
        ];
        for (header, expected) in rows {
            let offered = offered_idle(&HeaderValue::from_static(header));
            assert_eq!(offered, expected.map(Duration::from_millis), "{header}");
        }
    }
}
