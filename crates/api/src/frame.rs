//! Middleware around every request: assigns the request id, writes the log line, records metrics, converts every
//! failure to problem details, and catches panics.

use crate::auth::Caller;
use crate::dashboard::PAGE_TYPE;
use crate::openapi;
use crate::problem::{LoggedCause, MEDIA_TYPE, Problem};
use axum::extract::{MatchedPath, Request};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use futures_util::FutureExt as _;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HOST};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Version};
use posthaste_core::event::CorrelationId;
use posthaste_services::metrics::Metrics;
use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// The maximum length of a request id sent by a client, in bytes. Longer ids are replaced.
const REQUEST_ID_BYTES_MAX: usize = 128;

/// Generates ids for requests that have none: 64 random bits per process, and a counter. The ids are unique without a
/// system call per request.
#[derive(Debug)]
pub(crate) struct RequestIds {
    process: u64,
    last: AtomicU64,
}

impl RequestIds {
    pub(crate) fn new(random: fn(&mut [u8])) -> Self {
        let mut bits = [0; 8];
        random(&mut bits);
        Self { process: u64::from_be_bytes(bits), last: AtomicU64::new(0) }
    }

    fn next(&self) -> HeaderValue {
        let number = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let id = format!("{:032x}", (u128::from(self.process) << 64) | u128::from(number));
        HeaderValue::try_from(id).unwrap_or(HeaderValue::from_static("-"))
    }
}

/// Runs a request, logs and counts it, and converts every failure to a problem.
pub(crate) async fn frame(ids: Arc<RequestIds>, metrics: Metrics, request: Request, next: Next) -> Response {
    let began = Instant::now();
    let request_id = request_id(request.headers(), &ids);
    let correlation_id = correlation_id(request.headers());
    let method = request.method().clone();
    // Uses the pattern, because the path contains client data.
    let route = request.extensions().get::<MatchedPath>().cloned();
    let handled = async {
        match check_host(&request) {
            Ok(()) => next.run(request).await,
            Err(problem) => problem.into_response(),
        }
    };
    let mut response = match AssertUnwindSafe(handled).catch_unwind().await {
        Ok(response) => explained(response, route.as_ref().map(MatchedPath::as_str)),
        Err(panic) => {
            let text = panic_text(&*panic).to_owned();
            let detail = "an unexpected error: the log has the cause under the x-request-id of this response";
            Problem::broken(detail, &format_args!("panic: {text}")).into_response()
        }
    };
    let status = response.status().as_u16();
    let cause = response.extensions_mut().remove::<LoggedCause>().map(|LoggedCause(cause)| cause);
    let key_id = response.extensions_mut().remove::<Caller>().and_then(|Caller(id)| id);
    let key_id = key_id.map(tracing::field::display);
    let route = route.as_ref().map(MatchedPath::as_str);
    metrics.answered(call(&method, route), status, began.elapsed());
    let duration_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
    let id = request_id.to_str().unwrap_or_default();
    let correlation_id = correlation_id.as_ref().map(CorrelationId::as_str);
    if status >= 500 {
        tracing::warn!(
            request_id = id, correlation_id, %method, route, status, duration_ms, key_id, cause, "request failed"
        );
    } else {
        tracing::debug!(
            request_id = id, correlation_id, %method, route, status, duration_ms, key_id, cause, "request completed"
        );
    }
    response.headers_mut().insert(REQUEST_ID, request_id);
    // Responses may contain keys and secrets.
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Checks that a request has exactly one `host` header, as HTTP/1.1 requires. If there were two, a proxy and this
/// server might each use a different one.
fn check_host(request: &Request) -> Result<(), Problem> {
    let count = request.headers().get_all(HOST).iter().count();
    let is_old = matches!(request.version(), Version::HTTP_09 | Version::HTTP_10);
    if count == 1 || (count == 0 && is_old) {
        return Ok(());
    }
    Err(Problem::malformed(format!("a request must have exactly one host header, this one has {count}")))
}

/// Returns the correlation id of a request, or `None` if it is missing or invalid.
fn correlation_id(headers: &HeaderMap) -> Option<CorrelationId> {
    CorrelationId::parse(headers.get("x-correlation-id")?.to_str().ok()?).ok()
}

/// Returns the metric label of a request: its method and pattern, or `other`, so that clients cannot create new labels.
fn call(method: &Method, route: Option<&str>) -> String {
    let known = [Method::GET, Method::POST, Method::PATCH, Method::DELETE, Method::HEAD].contains(method);
    match route {
        Some(route) if known => [method.as_str(), " ", route].concat(),
        Some(_) | None => "other".to_owned(),
    }
}

/// Returns the request id sent by the client if it is short and has no special characters, and a new id otherwise.
fn request_id(headers: &HeaderMap, ids: &RequestIds) -> HeaderValue {
    let sane = |value: &&HeaderValue| {
        let fits = (1..=REQUEST_ID_BYTES_MAX).contains(&value.len());
        let harmless = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.:/+=".contains(byte);
        fits && value.as_bytes().iter().all(harmless)
    };
    if let Some(given) = headers.get(REQUEST_ID).filter(sane) {
        return given.clone();
    }
    ids.next()
}

/// Replaces an error response that is neither a problem nor a page, such as one from the router, with a problem.
fn explained(response: Response, route: Option<&str>) -> Response {
    let status = response.status();
    // Dashboard pages contain their own message.
    let explains = |media: &HeaderValue| media == MEDIA_TYPE || media == PAGE_TYPE;
    let is_explained = response.headers().get(CONTENT_TYPE).is_some_and(explains);
    if is_explained || !(status.is_client_error() || status.is_server_error()) {
        return response;
    }
    let mut problem = Problem::of_status(status);
    match (status.as_u16(), route) {
        (404, _) => problem.detail = "this path does not exist: see /docs for all calls".to_owned(),
        // The router adds the `Allow` header later.
        (405, Some(route)) => {
            let methods = openapi::methods_of(route).join(", ");
            problem.detail = format!("this path does not support the method: use {methods}");
        }
        _ => {}
    }
    problem.into_response()
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_short_request_ids_without_special_characters_are_kept() {
        let ids = RequestIds { process: 0xab, last: AtomicU64::new(0) };
        let made = format!("{:016x}{:016x}", 0xab, 1);
        let long = "x".repeat(129);
        for (given, expected) in [
            (Some("req-1/2:3"), "req-1/2:3"),
            (Some(""), made.as_str()),
            (Some("two words"), made.as_str()),
            (Some("\"quoted\""), made.as_str()),
            (Some(long.as_str()), made.as_str()),
            (None, made.as_str()),
        ] {
            let mut headers = HeaderMap::new();
            if let Some(given) = given {
                headers.insert(REQUEST_ID, HeaderValue::from_str(given).expect("a header"));
            }
            ids.last.store(0, Ordering::Relaxed);
            assert_eq!(request_id(&headers, &ids), expected, "{given:?}");
        }
    }

    #[test]
    fn an_invalid_correlation_id_is_ignored() {
        let long = "x".repeat(10_000);
        for (given, is_valid) in [("checkout-7", true), ("", false), (long.as_str(), false)] {
            let mut headers = HeaderMap::new();
            headers.insert("x-correlation-id", HeaderValue::from_str(given).expect("a header"));
            let found = correlation_id(&headers);
            assert_eq!(found.as_ref().map(CorrelationId::as_str), is_valid.then_some(given));
        }
    }

    #[tokio::test]
    async fn a_panic_becomes_a_problem_and_the_server_continues() {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        let boom = || async {
            if true {
                panic!("a secret detail")
            }
        };
        let draw: fn(&mut [u8]) = |bytes| bytes.fill(1);
        let ids = Arc::new(RequestIds::new(draw));
        let layer = axum::middleware::from_fn(move |request, next| {
            frame(Arc::clone(&ids), Metrics::new(), request, next)
        });
        let router = axum::Router::new().route("/boom", axum::routing::get(boom)).layer(layer);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let _server = crate::server::Server::start(listener, router);
        for _ in 0..2 {
            let mut stream = tokio::net::TcpStream::connect(address).await.expect("a connection");
            let request = b"GET /boom HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
            stream.write_all(request).await.expect("to ask");
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.expect("an answer");
            assert!(answer.starts_with("HTTP/1.1 500 ") && answer.contains(MEDIA_TYPE), "{answer}");
            assert!(!answer.contains("secret detail"), "{answer}");
        }
    }
}
