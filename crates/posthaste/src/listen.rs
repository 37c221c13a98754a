//! `posthaste listen`: a receiver of webhooks to try things with. It tells of each request on one line,
//! echoes challenges, and fails or dawdles when it is told to. `posthaste dev` has one of its own.

mod request;

use crate::signals::Signals;
use crate::stdout;
use anyhow::Context as _;
use bytes::Bytes;
use clap::Args;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use posthaste_core::Timestamp;
use posthaste_core::duration;
use posthaste_core::signature::SigningSecret;
use request::{Received, event_type};
use std::convert::Infallible;
use std::net::Ipv4Addr;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

/// Twice what a store can hold.
const BODY_BYTES_MAX: usize = 2 << 20;
const CONNECTIONS_MAX: usize = 4_096;
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a receiver waits before it takes the next connection when the system refuses one.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
const DELAY_MAX: Duration = Duration::from_secs(3_600);

#[derive(Debug, Args)]
pub(crate) struct ListenFlags {
    /// The port on 127.0.0.1; 0 takes a free one
    #[arg(long, default_value_t = 8081)]
    port: u16,
    /// The secret of the subscription, to verify signatures with; several while one rotates
    #[arg(long = "secret", value_name = "whsec_…", value_parser = SigningSecret::parse)]
    #[arg(value_delimiter = ',')]
    secrets: Vec<SigningSecret>,
    #[command(flatten)]
    behaviour: Behaviour,
}

/// How a receiver treats what comes. Challenges are answered at once whatever is said here, so that a
/// failing receiver can still be verified.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Behaviour {
    /// Answer with this status instead of 200
    #[arg(long, value_name = "STATUS", value_parser = clap::value_parser!(u16).range(200..=599))]
    fail: Option<u16>,
    /// Fail so many requests only, with --fail or 500, and take all that come after
    #[arg(long, value_name = "N")]
    fail_first: Option<u64>,
    /// Wait so long before each answer, such as 2s or 500ms
    #[arg(long, value_name = "TIME", value_parser = read_delay)]
    delay: Option<Duration>,
    /// Do not echo challenges, so that the URL cannot be verified
    #[arg(long)]
    no_echo: bool,
}

impl Behaviour {
    /// The status for one more request, of which `before` came earlier.
    fn status(&self, before: u64) -> u16 {
        match (self.fail, self.fail_first) {
            (None, None) => 200,
            (Some(status), None) => status,
            (status, Some(first)) if before < first => status.unwrap_or(500),
            (_, Some(_)) => 200,
        }
    }
}

fn read_delay(text: &str) -> Result<Duration, String> {
    let expected = || "expected a time up to an hour, such as 2s or 500ms".to_owned();
    duration::parse(text).filter(|delay| *delay <= DELAY_MAX).ok_or_else(expected)
}

pub(crate) fn run(flags: ListenFlags) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.context("starting the runtime")?.block_on(async {
        let mut signals = Signals::new()?;
        let listener = bind(flags.port).await?;
        let address = listener.local_addr().context("asking for the address")?;
        let receiver = Receiver::new(flags.behaviour);
        let verifies =
            if flags.secrets.is_empty() { "no --secret, so nothing is verified" } else { "verifies" };
        tell(&format!("listens on http://{address}/ ({verifies}); Ctrl-C ends it"));
        receiver.trust(flags.secrets);
        signals.or(receiver.run(listener)).await;
        Ok(ExitCode::SUCCESS)
    })
}

/// Only this machine can reach it.
pub(crate) async fn bind(port: u16) -> anyhow::Result<TcpListener> {
    let told =
        || format!("cannot listen on 127.0.0.1:{port}: end what listens there, or choose another --port");
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await.with_context(told)
}

/// Somebody who stops reading does not stop the receiver.
fn tell(line: &str) {
    let _ = stdout::print(&format!("{line}\n"));
}

#[derive(Debug, Clone)]
pub(crate) struct Receiver(Arc<Shared>);

/// What all connections share.
#[derive(Debug)]
struct Shared {
    behaviour: Behaviour,
    secrets: RwLock<Vec<SigningSecret>>,
    /// Requests that were no challenges.
    taken: AtomicU64,
    connections: Arc<Semaphore>,
}

impl Receiver {
    pub(crate) fn new(behaviour: Behaviour) -> Self {
        let (secrets, taken) = (RwLock::default(), AtomicU64::new(0));
        let connections = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        Self(Arc::new(Shared { behaviour, secrets, taken, connections }))
    }

    /// Messages are verified with these from now on; with none, they are not.
    pub(crate) fn trust(&self, secrets: Vec<SigningSecret>) {
        *self.0.secrets.write().unwrap_or_else(PoisonError::into_inner) = secrets;
    }

    /// Until it is dropped.
    pub(crate) async fn run(&self, listener: TcpListener) {
        loop {
            let Ok(permit) = Arc::clone(&self.0.connections).acquire_owned().await else { return };
            let Ok((stream, _)) = listener.accept().await else {
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            };
            let receiver = self.clone();
            tokio::spawn(async move {
                receiver.converse(stream).await;
                drop(permit);
            });
        }
    }

    async fn converse(&self, stream: TcpStream) {
        let answer = service_fn(|request| async { Ok::<_, Infallible>(self.answer(request).await) });
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT);
        // A peer that goes away has told us all it wanted.
        let _ = http.serve_connection(TokioIo::new(stream), answer).await;
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let (head, body) = request.into_parts();
        let Ok(body) = Limited::new(body, BODY_BYTES_MAX).collect().await else {
            tell(&format!("{}  the body broke off, or is too large  -> 413", event_type(&head.headers)));
            return response(413, String::new());
        };
        let received = Received { headers: head.headers, body: body.to_bytes() };
        let checked = {
            let secrets = self.0.secrets.read().unwrap_or_else(PoisonError::into_inner);
            received.check(&secrets, now())
        };
        let (status, body) = match received.challenge() {
            Some(echo) if !self.0.behaviour.no_echo && checked.is_trusted() => (200, echo),
            Some(_) => (if checked.is_trusted() { 200 } else { 401 }, String::new()),
            None => {
                let before = self.0.taken.fetch_add(1, Ordering::Relaxed);
                if let Some(delay) = self.0.behaviour.delay {
                    tokio::time::sleep(delay).await;
                }
                (if checked.is_trusted() { self.0.behaviour.status(before) } else { 401 }, String::new())
            }
        };
        tell(&received.line(&checked, status));
        response(status, body)
    }
}

fn response(status: u16, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(body));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response
}

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_micros(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_fails_as_it_was_told() {
        for (fail, fail_first, statuses) in [
            (None, None, [200, 200, 200]),
            (Some(503), None, [503, 503, 503]),
            (None, Some(2), [500, 500, 200]),
            (Some(410), Some(1), [410, 200, 200]),
        ] {
            let behaviour = Behaviour { fail, fail_first, ..Behaviour::default() };
            assert_eq!([0, 1, 2].map(|before| behaviour.status(before)), statuses);
        }
    }

    #[test]
    fn delays() {
        assert_eq!(read_delay("2s"), Ok(Duration::from_secs(2)));
        assert_eq!(read_delay("500ms"), Ok(Duration::from_millis(500)));
        for text in ["", "2", "s", "-1s", "1.5s", "3601s", "2m"] {
            assert!(read_delay(text).is_err(), "{text}");
        }
    }
}
