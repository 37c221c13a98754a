//! What stands around every call: a request id, one log line, a problem for every failure, and a wall
//! against panics.

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
const REQUEST_ID_BYTES_MAX: usize = 128;

/// Names requests that come without a name: what this process drew at its start, and a number. No call to the
/// system for each request, and none is ever named like another.
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

pub(crate) async fn frame(ids: Arc<RequestIds>, metrics: Metrics, request: Request, next: Next) -> Response {
    let began = Instant::now();
    let request_id = request_id(request.headers(), &ids);
    let correlation_id = correlation_id(request.headers());
    let method = request.method().clone();
    // The pattern and not the path: what callers put into a path is theirs.
    let route = request.extensions().get::<MatchedPath>().cloned();
    let answered = async {
        match check_host(&request) {
            Ok(()) => next.run(request).await,
            Err(problem) => problem.into_response(),
        }
    };
    let mut response = match AssertUnwindSafe(answered).catch_unwind().await {
        Ok(response) => explained(response, route.as_ref().map(MatchedPath::as_str)),
        Err(panic) => {
            let text = panic_text(&*panic).to_owned();
            let detail = "a fault of ours; the log tells more under this request's x-request-id";
            let problem = Problem::new(500, "Something broke", detail);
            Problem { cause: Some(format!("panic: {text}")), ..problem }.into_response()
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
            request_id = id, correlation_id, %method, route, status, duration_ms, key_id, cause, "request answered"
        );
    }
    response.headers_mut().insert(REQUEST_ID, request_id);
    // Answers hold keys and secrets now and then, and are never worth keeping.
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// HTTP/1.1 asks for exactly one `host`. A proxy and we could each believe another one of two.
fn check_host(request: &Request) -> Result<(), Problem> {
    let count = request.headers().get_all(HOST).iter().count();
    let is_old = matches!(request.version(), Version::HTTP_09 | Version::HTTP_10);
    if count == 1 || (count == 0 && is_old) {
        return Ok(());
    }
    Err(Problem::unreadable(format!("a request must have one header host, this one has {count}")))
}

/// The correlation id of what a request brings, if it has one that may be kept.
fn correlation_id(headers: &HeaderMap) -> Option<CorrelationId> {
    CorrelationId::parse(headers.get("x-correlation-id")?.to_str().ok()?).ok()
}

/// What a request counts as: methods and patterns that we know, and one name for all the rest.
fn call(method: &Method, route: Option<&str>) -> String {
    let known = [Method::GET, Method::POST, Method::PATCH, Method::DELETE, Method::HEAD].contains(method);
    match route {
        Some(route) if known => [method.as_str(), " ", route].concat(),
        Some(_) | None => "other".to_owned(),
    }
}

/// The caller's own, if it is short and harmless.
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

/// Whatever refuses a request, it does so in one form.
fn explained(response: Response, route: Option<&str>) -> Response {
    let status = response.status();
    // A page of the dashboard explains itself to a person.
    let explains = |media: &HeaderValue| media == MEDIA_TYPE || media == PAGE_TYPE;
    let is_explained = response.headers().get(CONTENT_TYPE).is_some_and(explains);
    if is_explained || !(status.is_client_error() || status.is_server_error()) {
        return response;
    }
    let mut problem = Problem::of_status(status);
    match (status.as_u16(), route) {
        (404, _) => problem.detail = "there is nothing at this address".to_owned(),
        // The header `Allow` is added further out, after this.
        (405, Some(route)) => {
            problem.detail = format!("this address answers to {}", openapi::methods_of(route).join(", "));
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
    fn only_harmless_request_ids_are_taken_over() {
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
    fn the_correlation_id_of_a_request_is_told_if_it_may_be_kept() {
        let long = "x".repeat(10_000);
        for (given, is_told) in [("checkout-7", true), ("", false), (long.as_str(), false)] {
            let mut headers = HeaderMap::new();
            headers.insert("x-correlation-id", HeaderValue::from_str(given).expect("a header"));
            let told = correlation_id(&headers);
            assert_eq!(told.as_ref().map(CorrelationId::as_str), is_told.then_some(given));
        }
    }

    #[tokio::test]
    async fn a_panic_is_a_problem_and_the_server_lives() {
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
