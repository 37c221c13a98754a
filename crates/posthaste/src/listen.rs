//! `posthaste listen`: a webhook receiver for testing. It prints one line per request, echoes verification challenges,
//! and can fail or delay its responses. `posthaste dev` uses it as the demo receiver.

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
use posthaste_core::signature::{Ed25519PublicKey, SigningSecret};
use request::{Received, TrustedKeys, event_type};
use serde_json::json;
use std::convert::Infallible;
use std::net::Ipv4Addr;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

/// The maximum size of a request body, in bytes: twice the largest payload that a store accepts.
const BODY_BYTES_MAX: usize = 2 << 20;
/// The maximum number of concurrent connections.
const CONNECTIONS_MAX: usize = 4_096;
/// The time limit for receiving the head of a request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// The delay before `accept` is retried after a failure, such as a lack of file descriptors.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(50);
/// The maximum value of `--delay`.
const DELAY_MAX: Duration = Duration::from_secs(3_600);

#[derive(Debug, Args)]
pub(crate) struct ListenFlags {
    /// Port on 127.0.0.1; 0 selects a free port
    #[arg(short, long, default_value_t = 8081)]
    port: u16,
    /// Signing secret of the subscription, for verifying signatures; several are separated by commas
    #[arg(long = "secret", value_name = "whsec_…", value_parser = SigningSecret::parse)]
    #[arg(value_delimiter = ',')]
    secrets: Vec<SigningSecret>,
    /// Public key of the subscription, for verifying Ed25519 signatures; several are separated by commas
    #[arg(long = "public-key", value_name = "whpk_…", value_parser = Ed25519PublicKey::parse)]
    #[arg(value_delimiter = ',')]
    public_keys: Vec<Ed25519PublicKey>,
    #[command(flatten)]
    behaviour: Behaviour,
}

/// The flags that control the responses of a receiver. Failures and delays do not apply to challenges, so that a
/// failing receiver can still be verified.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Behaviour {
    /// Respond with this status instead of 200
    #[arg(long, value_name = "STATUS", value_parser = clap::value_parser!(u16).range(200..=599))]
    fail: Option<u16>,
    /// Fail only the first N requests, with the status of --fail or 500
    #[arg(long, value_name = "N")]
    fail_first: Option<u64>,
    /// Wait before each response, such as 2s or 500ms; at most 1h
    #[arg(long, value_name = "DURATION", value_parser = parse_delay)]
    delay: Option<Duration>,
    /// Do not echo challenges, so that verification fails
    #[arg(long)]
    no_echo: bool,
}

impl Behaviour {
    /// Returns the response status for a request that was preceded by `before` other requests.
    fn status(&self, before: u64) -> u16 {
        match (self.fail, self.fail_first) {
            (None, None) => 200,
            (Some(status), None) => status,
            (status, Some(first)) if before < first => status.unwrap_or(500),
            (_, Some(_)) => 200,
        }
    }
}

fn parse_delay(text: &str) -> Result<Duration, String> {
    let delay = duration::parse(text).filter(|delay| *delay <= DELAY_MAX);
    delay.ok_or_else(|| format!("expected a duration up to 1h: {}", duration::NOTATION))
}

/// Serves requests until a signal arrives. With `json`, each printed line is a JSON object.
pub(crate) fn run(flags: ListenFlags, json: bool) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.context("starting the runtime")?.block_on(async {
        let mut signals = Signals::new()?;
        let listener = bind(flags.port).await?;
        let address = listener.local_addr().context("reading the local address")?;
        let receiver = Receiver::new(flags.behaviour, json);
        let url = format!("http://{address}/");
        let verifies = !flags.secrets.is_empty() || !flags.public_keys.is_empty();
        let signatures = match verifies {
            true => "verifying signatures",
            false => "signatures are not verified: no --secret or --public-key",
        };
        print_line(&match json {
            true => json!({"listening": url, "verifies": verifies}).to_string(),
            false => format!("listening on {url} ({signatures}); press Ctrl-C to stop"),
        });
        receiver.set_keys(TrustedKeys { secrets: flags.secrets, public_keys: flags.public_keys });
        signals.or(receiver.run(listener)).await;
        Ok(ExitCode::SUCCESS)
    })
}

/// Binds a socket to the loopback interface, which only this machine can reach.
pub(crate) async fn bind(port: u16) -> anyhow::Result<TcpListener> {
    let context = || {
        format!("cannot listen on 127.0.0.1:{port}: stop the process that uses it, or choose another --port")
    };
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await.with_context(context)
}

/// Prints a line. Errors are ignored, so that the receiver keeps running after its output is closed.
fn print_line(line: &str) {
    let _ = stdout::print(&format!("{line}\n"));
}

/// A webhook receiver. Clones share their state.
#[derive(Debug, Clone)]
pub(crate) struct Receiver(Arc<Shared>);

/// The state shared by all connections.
#[derive(Debug)]
struct Shared {
    behaviour: Behaviour,
    json: bool,
    keys: RwLock<TrustedKeys>,
    /// The number of requests received so far, not counting challenges.
    requests: AtomicU64,
    connections: Arc<Semaphore>,
}

impl Receiver {
    pub(crate) fn new(behaviour: Behaviour, json: bool) -> Self {
        let (keys, requests) = (RwLock::default(), AtomicU64::new(0));
        let connections = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        Self(Arc::new(Shared { behaviour, json, keys, requests, connections }))
    }

    /// Sets the secrets for verifying signatures. An empty list disables verification.
    pub(crate) fn trust(&self, secrets: Vec<SigningSecret>) {
        self.set_keys(TrustedKeys { secrets, public_keys: Vec::new() });
    }

    fn set_keys(&self, keys: TrustedKeys) {
        *self.0.keys.write().unwrap_or_else(PoisonError::into_inner) = keys;
    }

    /// Serves connections until the future is dropped.
    pub(crate) async fn run(&self, listener: TcpListener) {
        loop {
            let Ok(permit) = Arc::clone(&self.0.connections).acquire_owned().await else { return };
            let Ok((stream, _)) = listener.accept().await else {
                tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
                continue;
            };
            let receiver = self.clone();
            tokio::spawn(async move {
                receiver.serve(stream).await;
                drop(permit);
            });
        }
    }

    async fn serve(&self, stream: TcpStream) {
        let service = service_fn(|request| async { Ok::<_, Infallible>(self.respond(request).await) });
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT);
        // An error means that the client closed the connection early.
        let _ = http.serve_connection(TokioIo::new(stream), service).await;
    }

    async fn respond(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let (head, body) = request.into_parts();
        let Ok(body) = Limited::new(body, BODY_BYTES_MAX).collect().await else {
            let event_type = event_type(&head.headers);
            print_line(&match self.0.json {
                true => {
                    json!({"event_type": event_type, "error": "body incomplete or too large", "status": 413})
                        .to_string()
                }
                false => format!("{event_type}  body incomplete or too large  -> 413"),
            });
            return response(413, String::new());
        };
        let received = Received { headers: head.headers, body: body.to_bytes() };
        let checked = {
            let keys = self.0.keys.read().unwrap_or_else(PoisonError::into_inner);
            received.check(&keys, now())
        };
        let (status, body) = match received.challenge() {
            Some(echo) if !self.0.behaviour.no_echo && checked.is_trusted() => (200, echo),
            Some(_) => (if checked.is_trusted() { 200 } else { 401 }, String::new()),
            None => {
                let before = self.0.requests.fetch_add(1, Ordering::Relaxed);
                if let Some(delay) = self.0.behaviour.delay {
                    tokio::time::sleep(delay).await;
                }
                (if checked.is_trusted() { self.0.behaviour.status(before) } else { 401 }, String::new())
            }
        };
        print_line(&match self.0.json {
            true => received.json(&checked, status).to_string(),
            false => received.line(&checked, status),
        });
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
    fn status_follows_the_failure_flags() {
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
    fn delays_have_a_unit_and_a_limit() {
        assert_eq!(parse_delay("2s"), Ok(Duration::from_secs(2)));
        assert_eq!(parse_delay("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(parse_delay("60m"), Ok(DELAY_MAX));
        for text in ["", "2", "s", "-1s", "1.5s", "3601s", "61m", "1d"] {
            assert!(parse_delay(text).is_err(), "{text}");
        }
    }
}
