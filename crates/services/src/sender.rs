//! Sends one request and returns its outcome. Used for deliveries, verification challenges, test requests and
//! orders, under one [`EgressPolicy`]. One deadline covers the whole exchange, and the size of the response
//! is bounded. Redirects, proxies and decompression are not supported. A request is never resent after a byte
//! of it was sent; retries are decided elsewhere.

mod connect;
mod connection;
mod conversation;
mod exchange;
mod headers;
mod idle_limit;
mod pool;
mod resolve;
mod status_line;
mod trust;
mod wire;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue};
use posthaste_core::Timestamp;
use posthaste_core::job::TIMEOUT_MAX;
use posthaste_core::outcome::{AttemptOutcome, Failure, classify};
use tokio::time::{Instant, timeout_at};
use tokio_rustls::TlsConnector;

use crate::egress::{Destination, EgressPolicy};
use connect::Connector;
use conversation::{ExchangeAttempt, ExchangeError, Progress, request};
use pool::{Pool, Reused};

pub use exchange::Exchange;
pub use headers::{AGENT, Delivery, Signer, delivery_headers, signed_headers};
pub use pool::KeepAlive;
pub use resolve::{Resolve, Resolving, SystemResolver};
pub use trust::{Trust, TrustError};

/// The default time limit for a whole exchange.
pub const DEADLINE: Duration = Duration::from_secs(15);

/// A POST request.
#[derive(Clone)]
pub struct Post {
    /// The headers of the request. Host, framing and connection headers are set by the sender.
    pub headers: HeaderMap,
    pub body: Bytes,
    pub answer: ReadUpTo,
    /// The time limit for the whole exchange: DNS lookup, connection, TLS handshake, request and response.
    pub deadline: Duration,
}

/// Omits the headers, which may contain credentials, and the body.
impl fmt::Debug for Post {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (answer, deadline) = (&self.answer, &self.deadline);
        f.debug_struct("Post").field("answer", answer).field("deadline", deadline).finish_non_exhaustive()
    }
}

/// The part of a response to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadUpTo {
    /// The status line only. [`Exchange::body`] is empty.
    Status,
    /// The status line and up to `bytes_max` bytes of the body.
    Body { bytes_max: usize },
}

/// An HTTP client for outgoing requests. Cheap to clone; clones share connections.
#[derive(Clone)]
pub struct Sender {
    connector: Arc<Connector>,
    pool: Arc<Pool>,
}

impl fmt::Debug for Sender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender").field("policy", &self.connector.policy).finish_non_exhaustive()
    }
}

impl Sender {
    pub fn new(policy: EgressPolicy, trust: Trust, keep_alive: KeepAlive) -> Result<Self, TrustError> {
        Self::with_resolver(policy, trust, keep_alive, SystemResolver::default())
    }

    pub fn with_resolver(
        policy: EgressPolicy,
        trust: Trust,
        keep_alive: KeepAlive,
        resolver: impl Resolve,
    ) -> Result<Self, TrustError> {
        let tls = TlsConnector::from(trust.client_config()?);
        let connector = Connector { policy, resolver: Box::new(resolver), tls };
        Ok(Self { connector: Arc::new(connector), pool: Arc::new(Pool::new(keep_alive)) })
    }

    pub fn policy(&self) -> &EgressPolicy {
        &self.connector.policy
    }

    /// Checks a URL as far as possible without a DNS lookup. The result can be used for several requests.
    pub fn aim(&self, url: &str) -> Result<Destination, Failure> {
        self.connector.policy.check_url(url).map_err(|blocked| blocked.failure())
    }

    /// Checks a URL and sends a request to it once.
    pub async fn send_to_url(&self, url: &str, post: Post, now: Timestamp) -> Exchange {
        match self.aim(url) {
            Ok(to) => self.send(&to, post, now).await,
            Err(failure) => Exchange::refused(failure),
        }
    }

    /// Sends a request once. `now` is used to interpret a date in `Retry-After`; the deadline is measured
    /// with the monotonic clock.
    pub async fn send(&self, to: &Destination, post: Post, now: Timestamp) -> Exchange {
        let started = Instant::now();
        let until = started + post.deadline.min(TIMEOUT_MAX);
        let mut progress = Progress::default();
        let exchange = self.exchange(to, post, until, &mut progress);
        let result = timeout_at(until, exchange).await.unwrap_or(Err(Failure::Timeout));
        let duration = started.elapsed();
        let header = progress.retry_after.as_ref().map(HeaderValue::as_bytes);
        let outcome = match (progress.status, result) {
            // A known status determines the outcome, even if the rest of the exchange failed.
            (Some(status), Ok(()) | Err(_)) => classify(status, header, now.after(duration)),
            (None, Err(failure)) => AttemptOutcome::failed(failure),
            (None, Ok(())) => AttemptOutcome::failed(Failure::ResponseInvalid),
        };
        Exchange {
            outcome,
            bytes_written: progress.bytes_written(),
            retry_after: progress.retry_after,
            body: progress.body.into(),
            body_complete: progress.body_complete,
            duration,
        }
    }

    /// Sends the request on a pooled connection, if there is one. If the peer closed that connection before
    /// the first byte was sent, sends the request on a new connection.
    async fn exchange(
        &self,
        to: &Destination,
        post: Post,
        until: Instant,
        progress: &mut Progress,
    ) -> Result<(), Failure> {
        let (origin, wanted) = (to.origin.as_str(), post.answer);
        let request = request(to, post.headers, post.body);
        if let Some(Reused { connection, idle }) = self.pool.take(origin, Instant::now()) {
            let conversation = ExchangeAttempt { pool: &self.pool, origin, wanted, was_idle: Some(idle) };
            match conversation.run(connection, request.clone(), progress).await {
                Ok(()) => return Ok(()),
                Err(ExchangeError::Failed(failure)) => return Err(failure),
                Err(ExchangeError::Unsent) => {}
            }
        }
        // Boxed because most exchanges reuse a connection, but every future would have to reserve the space.
        let connection = Box::pin(self.connector.connect(to, until)).await?;
        let conversation = ExchangeAttempt { pool: &self.pool, origin, wanted, was_idle: None };
        match conversation.run(connection, request, progress).await {
            Ok(()) => Ok(()),
            Err(ExchangeError::Failed(failure)) => Err(failure),
            Err(ExchangeError::Unsent) => Err(Failure::ConnectFailed),
        }
    }
}
