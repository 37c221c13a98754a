//! Sends one request and returns its outcome. Used for deliveries, verification challenges, test requests and
//! orders, under one [`EgressPolicy`]. One deadline covers the whole exchange, and the size of the response
//! is bounded. Redirects and decompression are not supported, and a proxy is used only if the settings name
//! one. A request is never resent after a byte of it was sent; retries are decided elsewhere.

mod connect;
mod connection;
mod conversation;
mod exchange;
mod headers;
mod host_addresses;
mod identity;
mod idle_limit;
mod log_pause;
mod pool;
mod proxy;
mod request;
mod resolve;
mod status_line;
mod tls_clients;
mod trust;
mod wire;

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;
use posthaste_core::Timestamp;
use posthaste_core::job::TIMEOUT_MAX;
use posthaste_core::outcome::{AttemptOutcome, Failure, classify};
use tokio::time::{Instant, timeout_at};

use crate::egress::{Blocked, Destination, EgressPolicy};
use connect::Connector;
use conversation::{ExchangeAttempt, ExchangeError, Progress, request};
use pool::{Pool, Reused};
use tls_clients::TlsClients;

pub use connect::Egress;
pub use exchange::Exchange;
pub use headers::{AGENT, RequestHeadersBuilder};
pub use host_addresses::HostAddresses;
pub use identity::{ClientIdentity, Fingerprint, IdentityError};
pub use pool::KeepAlive;
pub use proxy::{BadProxyUrl, EgressProxy};
pub use request::{OutgoingRequest, ReadUpTo};
pub use resolve::{CachingResolver, Resolve, Resolving, SystemResolver};
pub use trust::{Trust, TrustError};

/// The default time limit for a whole exchange.
pub const DEADLINE: Duration = Duration::from_secs(15);

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
    pub fn new(egress: impl Into<Egress>, trust: Trust, keep_alive: KeepAlive) -> Result<Self, TrustError> {
        Self::with_resolver(egress, trust, keep_alive, CachingResolver::new(SystemResolver))
    }

    pub fn with_resolver(
        egress: impl Into<Egress>,
        trust: Trust,
        keep_alive: KeepAlive,
        resolver: impl Resolve,
    ) -> Result<Self, TrustError> {
        let tls = TlsClients::new(trust)?;
        let connector = Connector::new(egress.into(), resolver, tls);
        Ok(Self { connector: Arc::new(connector), pool: Arc::new(Pool::new(keep_alive)) })
    }

    pub fn policy(&self) -> &EgressPolicy {
        &self.connector.policy
    }

    /// Checks a URL with the current addresses of this host, as far as possible without a DNS lookup.
    pub fn check_url(&self, url: &str) -> Result<Destination, Blocked> {
        self.connector.check_url(url)
    }

    /// Checks a URL as far as possible without a DNS lookup. The result can be used for several requests.
    pub fn aim(&self, url: &str) -> Result<Destination, Failure> {
        self.check_url(url).map_err(|blocked| blocked.failure())
    }

    /// Returns the identity with this certificate chain and key, parsed at its first use and cached.
    ///
    /// # Errors
    ///
    /// Returns the error of [`ClientIdentity::from_pem`].
    pub fn identity(&self, certificate: &str, key: &str) -> Result<ClientIdentity, IdentityError> {
        self.connector.tls.identity(certificate, key)
    }

    /// Checks a URL and sends a request to it once.
    pub async fn send_to_url(&self, url: &str, request: OutgoingRequest, now: Timestamp) -> Exchange {
        match self.aim(url) {
            Ok(to) => self.send(&to, request, now).await,
            Err(failure) => Exchange::refused(failure),
        }
    }

    /// Sends a request once. `now` is used to interpret a date in `Retry-After`; the deadline is measured
    /// with the monotonic clock.
    pub async fn send(&self, to: &Destination, request: OutgoingRequest, now: Timestamp) -> Exchange {
        let started = Instant::now();
        let until = started + request.deadline.min(TIMEOUT_MAX);
        let mut progress = Progress::default();
        let exchange = self.exchange(to, request, until, &mut progress);
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
            headers: progress.headers,
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
        mut outgoing: OutgoingRequest,
        until: Instant,
        progress: &mut Progress,
    ) -> Result<(), Failure> {
        let (wanted, identity) = (outgoing.answer, outgoing.identity.take());
        if identity.is_some() && !to.tls {
            return Err(Failure::CredentialsInvalid);
        }
        let origin = &*pool_key(to, identity.as_ref());
        let request = request(to, outgoing);
        if let Some(Reused { connection, idle }) = self.take_allowed(origin) {
            let conversation = ExchangeAttempt { pool: &self.pool, origin, wanted, was_idle: Some(idle) };
            match conversation.run(connection, request.clone(), progress).await {
                Ok(()) => return Ok(()),
                Err(ExchangeError::Failed(failure)) => return Err(failure),
                Err(ExchangeError::Unsent) => {}
            }
        }
        // Boxed because most exchanges reuse a connection, but every future would have to reserve the space.
        let connection = Box::pin(self.connector.connect(to, identity.as_ref(), until)).await?;
        let conversation = ExchangeAttempt { pool: &self.pool, origin, wanted, was_idle: None };
        match conversation.run(connection, request, progress).await {
            Ok(()) => Ok(()),
            // With TLS 1.3, a receiver refuses a client certificate after the client has finished its handshake. If
            // the connection then ends before the alert is read, the refusal looks like a lost connection.
            Err(ExchangeError::Unsent | ExchangeError::Failed(Failure::ConnectFailed))
                if identity.is_some() =>
            {
                Err(Failure::TlsFailed)
            }
            Err(ExchangeError::Failed(failure)) => Err(failure),
            Err(ExchangeError::Unsent) => Err(Failure::ConnectFailed),
        }
    }

    /// Returns a pooled connection whose address the policy still allows. Closes the others that it finds.
    fn take_allowed(&self, origin: &str) -> Option<Reused> {
        loop {
            let reused = self.pool.take(origin, Instant::now())?;
            if self.connector.allows(reused.connection.peer()) {
                return Some(reused);
            }
        }
    }
}

/// Returns the key for pooled connections. It contains the identity, because a connection authenticates all its
/// requests.
fn pool_key<'a>(to: &'a Destination, identity: Option<&ClientIdentity>) -> Cow<'a, str> {
    match identity {
        None => Cow::Borrowed(&to.origin),
        Some(identity) => Cow::Owned(format!("{}#{}", to.origin, identity.fingerprint())),
    }
}
