//! Tests the cache of access tokens against a token endpoint: how often it is called, and how long tokens and errors
//! are kept. Times are arguments; only the sockets are real.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use http::{HeaderMap, HeaderValue};
use posthaste_core::Timestamp;
use posthaste_core::outcome::Failure;
use posthaste_services::egress::EgressPolicy;
use posthaste_services::oauth2::{AccessToken, ClientCredentials, TokenCache, TokenError};
use posthaste_services::sender::{KeepAlive, OutgoingRequest, ReadUpTo, Sender, Trust};
use posthaste_testkit::receiver::{Act, Answer, Receiver, closed_port};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::senders::{PATIENT, sender};

fn credentials(token_url: &str) -> ClientCredentials<'_> {
    let (client_id, client_secret) = ("posthaste", "s3cret:+");
    ClientCredentials { token_url, client_id, client_secret, scope: None, audience: None }
}

fn response(status: u16, body: impl Into<Vec<u8>>) -> Answer {
    Answer::With { status, headers: Vec::new(), body: body.into() }
}

/// Starts a token endpoint whose tokens are numbered from one and live for an hour.
async fn endpoint() -> Receiver {
    let count = AtomicUsize::new(0);
    Receiver::start(move |_| {
        let number = count.fetch_add(1, Ordering::SeqCst) + 1;
        response(200, format!(r#"{{"access_token":"t{number}","token_type":"Bearer","expires_in":3600}}"#))
    })
    .await
}

/// Asks for a token at the time `at`, in seconds after `start`.
async fn token_at(
    cache: &TokenCache,
    credentials: &ClientCredentials<'_>,
    start: Instant,
    at: f64,
) -> Result<AccessToken, TokenError> {
    let now = start + Duration::from_secs_f64(at);
    cache.token(credentials, now, Instant::now() + PATIENT).await
}

fn text(token: &Result<AccessToken, TokenError>) -> &str {
    token.as_ref().map_or("no token", AccessToken::authorization)
}

#[tokio::test]
async fn concurrent_callers_share_one_request() {
    let gate = Arc::new(Semaphore::new(0));
    let held = Arc::clone(&gate);
    let receiver = Receiver::start(move |_| {
        let token = response(200, r#"{"access_token":"t1","token_type":"bearer","expires_in":0}"#);
        Answer::Gate(Arc::clone(&held), Box::new(token))
    })
    .await;
    let (url, cache, start) = (receiver.url("/token?tenant=1"), TokenCache::new(sender()), Instant::now());
    let scoped = ClientCredentials {
        scope: Some("hooks write"),
        audience: Some("https://receiver.example/"),
        ..credentials(&url)
    };
    let callers = join_all((0..50).map(|_| token_at(&cache, &scoped, start, 0.0)));
    let open = async {
        receiver.wait_for(1).await;
        gate.add_permits(1);
    };
    let (tokens, ()) = tokio::join!(callers, open);
    assert!(tokens.iter().all(|token| text(token) == "Bearer t1"), "{tokens:?}");
    let [request] = &receiver.received()[..] else { panic!("not one request") };
    let rows = [
        ("content-type", "application/x-www-form-urlencoded"),
        ("accept", "application/json"),
        // posthaste:s3cret%3A%2B
        ("authorization", "Basic cG9zdGhhc3RlOnMzY3JldCUzQSUyQg=="),
    ];
    for (name, expected) in rows {
        assert_eq!(request.header(name), expected, "{name}");
    }
    assert_eq!(request.path, "/token?tenant=1");
    let expected =
        "grant_type=client_credentials&scope=hooks+write&audience=https%3A%2F%2Freceiver.example%2F";
    assert_eq!(request.body, expected);

    // A token without a lifetime serves those who waited for it, and no later caller.
    gate.add_permits(1);
    assert_eq!(text(&token_at(&cache, &scoped, start, 0.0).await), "Bearer t1");
    assert_eq!(receiver.received().len(), 2);
}

#[tokio::test]
async fn token_is_kept_until_a_minute_before_it_expires() {
    let receiver = endpoint().await;
    let (url, cache, start) = (receiver.url("/token"), TokenCache::new(sender()), Instant::now());
    let plain = credentials(&url);
    let other_secret = ClientCredentials { client_secret: "another", ..plain };
    let other_scope = ClientCredentials { scope: Some("read"), ..plain };
    let rows = [
        (0.0, &plain, "Bearer t1"),
        (1.0, &plain, "Bearer t1"),
        (1.0, &other_secret, "Bearer t2"),
        (1.0, &other_scope, "Bearer t3"),
        (3539.9, &plain, "Bearer t1"),
        (3540.0, &plain, "Bearer t4"),
        (3540.0, &other_secret, "Bearer t2"),
        (7079.9, &plain, "Bearer t4"),
        (7080.0, &plain, "Bearer t5"),
    ];
    for (at, credentials, expected) in rows {
        assert_eq!(text(&token_at(&cache, credentials, start, at).await), expected, "at {at} s");
    }
    assert_eq!(receiver.received().len(), 5);
}

#[tokio::test]
async fn each_failure_has_its_own_error_and_is_remembered() {
    let good =
        |expires_in| format!(r#"{{"access_token":"t","token_type":"bearer","expires_in":{expires_in}}}"#);
    let refused =
        |status, error: Option<&str>| TokenError::Refused { status, error: error.map(str::to_owned) };
    let rows: [(Answer, TokenError); 10] = [
        (response(200, "<html><body>Sign in</body></html>"), TokenError::Html),
        (response(200, good(-1)), TokenError::BadLifetime),
        (response(200, r#"{"access_token":"t","token_type":"mac"}"#), TokenError::NotBearer),
        (response(200, "token"), TokenError::NotJson),
        (response(200, "{}"), TokenError::NoToken),
        (response(200, vec![b' '; 16 * 1024 + 1]), TokenError::TooLong),
        (response(401, r#"{"error":"invalid_client"}"#), refused(401, Some("invalid_client"))),
        (response(500, "<html></html>"), refused(500, None)),
        (response(302, ""), refused(302, None)),
        (Answer::Reset, TokenError::NoResponse(Failure::ConnectFailed)),
    ];
    for (answer, expected) in rows {
        let receiver = Receiver::start(move |_| answer.clone()).await;
        let (url, cache, start) = (receiver.url("/token"), TokenCache::new(sender()), Instant::now());
        for at in [0.0, 0.1, 4.9] {
            let found = token_at(&cache, &credentials(&url), start, at).await;
            assert_eq!(found.as_ref().err(), Some(&expected), "at {at} s");
            assert_eq!(found.err().map(|error| error.failure()), Some(Failure::AuthFailed));
        }
        assert_eq!(receiver.received().len(), 1, "{expected}");
        // The fetch itself took a moment, after which the five seconds began.
        let later = start.elapsed().as_secs_f64() + 5.0;
        assert_eq!(token_at(&cache, &credentials(&url), start, later).await.err(), Some(expected));
        assert_eq!(receiver.received().len(), 2);
    }
}

#[tokio::test]
async fn broken_and_refused_connections_are_errors() {
    let head = b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{";
    let receiver = Receiver::scripted(vec![Act::Say(head), Act::Close]).await;
    let public = EgressPolicy { allow_http: true, ..EgressPolicy::default() };
    let guarded = Sender::new(public, Trust::nobody(), KeepAlive::default()).expect("a sender");
    let rows = [
        (sender(), receiver.url("/"), TokenError::BrokenOff),
        (sender(), closed_port("/").await, TokenError::NoResponse(Failure::ConnectFailed)),
        (sender(), "ftp://login.example/".to_owned(), TokenError::NoResponse(Failure::UrlInvalid)),
        (guarded, receiver.url("/"), TokenError::NoResponse(Failure::BlockedAddress)),
    ];
    for (sender, url, expected) in rows {
        let found = token_at(&TokenCache::new(sender), &credentials(&url), Instant::now(), 0.0).await;
        assert_eq!(found.err(), Some(expected));
    }
    assert_eq!(receiver.accepted(), 1, "none from the sender that may not connect to it");
}

#[tokio::test]
async fn token_refused_by_the_receiver_is_replaced() {
    let tokens = endpoint().await;
    let receiver = Receiver::start(|request| {
        Answer::Status(if request.header("authorization") == "Bearer t2" { 200 } else { 401 })
    })
    .await;
    let (url, sender, start) = (tokens.url("/token"), sender(), Instant::now());
    let (cache, credentials) = (TokenCache::new(sender.clone()), credentials(&url));
    let mut statuses = Vec::new();
    for at in [0.0, 1.0, 10.0, 11.0, 12.0] {
        let token = token_at(&cache, &credentials, start, at).await.expect("a token");
        let mut headers = HeaderMap::new();
        headers.insert("authorization", HeaderValue::from_str(token.authorization()).expect("a header"));
        let request = OutgoingRequest::post(headers, "{}".into(), ReadUpTo::Status, PATIENT);
        let exchange = sender.send_to_url(&receiver.url("/"), request, Timestamp::from_micros(0)).await;
        if exchange.status() == Some(401) {
            cache.invalidate(&credentials, &token, start + Duration::from_secs_f64(at));
        }
        statuses.push(exchange.status().expect("a status"));
    }
    // The token of the first two attempts is too new to be replaced.
    assert_eq!(statuses, [401, 401, 401, 200, 200]);
    assert_eq!(tokens.received().len(), 2);

    let new = token_at(&cache, &credentials, start, 20.0).await.expect("a token");
    let refused_late = TokenCache::new(sender).token(&credentials, start, Instant::now() + PATIENT).await;
    cache.invalidate(&credentials, &refused_late.expect("a token"), start + Duration::from_secs(30));
    assert_eq!(token_at(&cache, &credentials, start, 40.0).await, Ok(new), "another token was refused");
}
