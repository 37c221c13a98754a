//! One request and its answer on one connection: what is read, what it means, and whether the
//! connection is kept. Called by the [`crate::sender`] with a kept connection or a fresh one.

use std::error::Error as _;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{
    CONNECTION, CONTENT_LENGTH, EXPECT, HOST, RETRY_AFTER, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, Uri};
use http_body_util::Full;
use hyper::body::Incoming;
use posthaste_core::outcome::Failure;
use tokio::time::timeout;

use super::ReadUpTo;
use super::connection::{BodyEnd, Connection, NoAnswer};
use super::pool::Pool;
use super::wire::Track;
use crate::egress::Destination;

/// The most that is read of a body that nobody asked for, so that its connection can be used again.
const IGNORED_BODY_BYTES_MAX: usize = 16 * 1024;
/// How long such a body is waited for. The status has decided: a receiver that dawdles over the rest
/// must not sit on a worker's slot until the deadline.
const IGNORED_BODY_WAIT: Duration = Duration::from_millis(500);

/// What belongs to the connection and the framing, and so to the sender.
const NOT_THE_CALLERS: [HeaderName; 7] =
    [CONNECTION, CONTENT_LENGTH, EXPECT, TE, TRAILER, TRANSFER_ENCODING, UPGRADE];

const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");

/// What is known of an exchange while it goes on. It outlives the exchange when the deadline ends it.
#[derive(Debug, Default)]
pub(super) struct Progress {
    track: Option<Track>,
    pub(super) status: Option<u16>,
    pub(super) retry_after: Option<HeaderValue>,
    pub(super) body: Vec<u8>,
    pub(super) body_complete: bool,
}

impl Progress {
    pub(super) fn bytes_written(&self) -> bool {
        self.track.as_ref().is_some_and(|track| track.lock().bytes_written > 0)
    }
}

/// Why a connection gave no answer.
#[derive(Debug)]
pub(super) enum ExchangeError {
    /// It had been closed while it was idle, and no byte left: the request may go out on another.
    Unsent,
    Failed(Failure),
}

#[derive(Debug)]
pub(super) struct ExchangeAttempt<'a> {
    pub(super) pool: &'a Arc<Pool>,
    pub(super) origin: &'a str,
    pub(super) wanted: ReadUpTo,
    /// How long the connection had been idle, if it was a kept one.
    pub(super) was_idle: Option<Duration>,
}

/// The request in the form that goes to an origin: the path alone, and the host as a header.
pub(super) fn request(to: &Destination, mut headers: HeaderMap, body: Bytes) -> Request<Full<Bytes>> {
    for name in NOT_THE_CALLERS {
        headers.remove(name);
    }
    headers.insert(HOST, to.authority.clone());
    let mut request = Request::new(Full::new(body));
    *request.method_mut() = Method::POST;
    *request.uri_mut() = Uri::from(to.path.clone());
    *request.headers_mut() = headers;
    request
}

impl ExchangeAttempt<'_> {
    pub(super) async fn hold(
        &self,
        mut connection: Connection,
        request: Request<Full<Bytes>>,
        progress: &mut Progress,
    ) -> Result<(), ExchangeError> {
        connection.track().begin(self.was_idle.is_some());
        progress.track = Some(connection.track().clone());
        match connection.request(request).await {
            Ok(response) => {
                self.hear(connection, response, progress).await;
                Ok(())
            }
            Err(no_answer) => self.judge(&connection, &no_answer, progress),
        }
    }

    /// Reads what is wanted of the body, and keeps the connection if all of it came.
    async fn hear(&self, mut connection: Connection, response: Response<Incoming>, progress: &mut Progress) {
        if let Some(idle) = self.was_idle {
            self.pool.answered(self.origin, idle);
        }
        let (head, body) = response.into_parts();
        progress.status = Some(head.status.as_u16());
        progress.retry_after = head.headers.get(RETRY_AFTER).cloned();
        let end = match self.wanted {
            ReadUpTo::Body { bytes_max } => {
                connection.read_body(body, bytes_max, Some(&mut progress.body)).await
            }
            ReadUpTo::Status => {
                let ignored = connection.read_body(body, IGNORED_BODY_BYTES_MAX, None);
                timeout(IGNORED_BODY_WAIT, ignored).await.unwrap_or(BodyEnd::BrokenOff)
            }
        };
        progress.body_complete = end == BodyEnd::Complete;
        if progress.body_complete && connection.is_reusable().await {
            let offered = head.headers.get(KEEP_ALIVE).and_then(offered_idle);
            self.pool.put(self.origin, connection, offered);
        }
    }

    /// What a missing answer means. A status line that came before the connection broke still counts;
    /// an answer that is not HTTP, or has no end, does not, whatever its first line says.
    fn judge(
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
                // What a dying TLS session may have written was no part of the request.
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

/// Whether the connection ended, rather than said something that is no answer.
fn is_break(error: &hyper::Error) -> bool {
    error.is_incomplete_message() || error.is_canceled() || error.is_closed() || io_error(error).is_some()
}

fn io_error(error: &hyper::Error) -> Option<&io::Error> {
    error.source().and_then(|source| source.downcast_ref())
}

fn is_tls_error(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<rustls::Error>())
}

/// How long a receiver says that it keeps an idle connection (`Keep-Alive: timeout=5`), less a fifth of
/// it for the way.
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
    fn what_receivers_say_about_keeping_connections() {
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
