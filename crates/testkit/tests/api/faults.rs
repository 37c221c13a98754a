//! Faults during requests: slow uploads, full queues, shutdown and an unavailable store.

use crate::server::{Options, TestApi};
use posthaste_core::ports::Stores;
use posthaste_store::grants::DbRole;
use posthaste_store::postgres::{PostgresOptions, PostgresStore};
use posthaste_testkit::client::Answer;
use posthaste_testkit::harness::Harness;
use posthaste_testkit::postgres::url_with;
use std::time::Duration;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

const EVENT: &str = r#"{"event_type":"a","payload":{"a":1}}"#;

pub(crate) async fn slow_uploads_do_not_block_others<S: Stores>(api: &TestApi<S>) {
    let mut slow = Vec::new();
    for _ in 0..300 {
        slow.push(api.post("/v1/events").json(EVENT).begin(10).await);
    }
    api.post("/v1/events").json(EVENT).expect(202).await;
    api.get("/healthz").expect(200).await;
    // Uploads that continue get a response; aborted uploads are discarded.
    let (mut stream, rest) = slow.pop().expect("one of them");
    drop(slow);
    stream.write_all(&rest).await.expect("to write the rest");
    assert_eq!(Answer::read(&mut stream).await.status, 202);
    assert_eq!(api.count("events").await, 2);
}

pub(crate) async fn a_full_queue_returns_503<S: Stores>(api: &TestApi<S>) {
    // The engine makes no difference here, so a single server is enough.
    let options = Options { waiting_max: 1, runs_ingest: false, ..Options::default() };
    let full = TestApi::start_with(Harness::sqlite("full").await, options).await;
    let waiting = tokio::spawn(full.post("/v1/events").json(EVENT).send());
    let bound = std::time::Instant::now() + Duration::from_secs(30);
    loop {
        // Until the first request is queued, the second one may be queued instead.
        let call = full.post("/v1/events").json(EVENT).send();
        if let Ok(answer) = tokio::time::timeout(Duration::from_secs(1), call).await {
            assert_eq!((answer.status, answer.header("retry-after")), (503, "1"), "{}", answer.text());
            break;
        }
        assert!(std::time::Instant::now() < bound, "no request was refused because of the full queue");
    }
    waiting.abort();
    assert_eq!(full.count("events").await, 0);
    assert_eq!(api.count("events").await, 0);
}

pub(crate) async fn requests_in_progress_are_finished_at_shutdown<S: Stores>(api: &TestApi<S>) {
    let (mut stream, rest) = api.post("/v1/events").json(EVENT).begin(10).await;
    // Once this request has a response, the previous connection has also been accepted.
    api.post("/v1/events").json(EVENT).expect(202).await;
    let server = api.server.lock().expect("the server").take().expect("a server");
    let stopping = tokio::spawn(server.stop(Duration::from_secs(30)));
    let bound = std::time::Instant::now() + Duration::from_secs(30);
    while TcpStream::connect(api.address).await.is_ok() {
        assert!(std::time::Instant::now() < bound, "the server still accepts connections");
        tokio::task::yield_now().await;
    }
    stream.write_all(&rest).await.expect("to write the rest");
    assert_eq!(Answer::read(&mut stream).await.status, 202);
    assert!(stopping.await.expect("the end"));
    assert_eq!(api.count("events").await, 2);
}

/// Checks that every acknowledged event is stored and that retries succeed while database connections fail repeatedly.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn broken_connections_lose_no_acknowledged_event() {
    let api = TestApi::start(Harness::postgres_cut("api").await).await;
    for number in 0..60 {
        let event = format!(r#"{{"event_type":"a","payload":1,"external_event_id":"e-{number}"}}"#);
        let mut tries = 0;
        loop {
            let answer = api.post("/v1/events").json(event.as_str()).send().await;
            match answer.status {
                200 | 202 => break,
                status => assert_eq!((status, answer.header("retry-after")), (503, "1"), "{}", answer.text()),
            }
            tries += 1;
            assert!(tries < 200, "event {number} was never accepted");
        }
        let stored = format!("SELECT count(*) FROM events WHERE external_event_id = 'e-{number}'");
        assert_eq!(api.h.direct.number(&stored).await, 1, "event {number} was acknowledged");
    }
    assert!(api.h.proxy.as_ref().is_some_and(|proxy| proxy.cuts() > 0), "no connection was cut");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unavailable_store_returns_503() {
    let mut api = TestApi::start(Harness::postgres_cut("away").await).await;
    let event = r#"{"event_type":"a","payload":1}"#;
    // Open connections survive for a few messages; new ones cannot be opened.
    drop(api.h.proxy.take());
    let mut accepted = 0;
    let answer = loop {
        let answer = api.post("/v1/events").json(event).send().await;
        if answer.status != 202 {
            break answer;
        }
        accepted += 1;
        assert!(accepted < 500, "the store never became unavailable");
    };
    assert_eq!((answer.status, answer.header("retry-after")), (503, "1"), "{}", answer.text());
    assert!(!answer.text().contains("127.0.0.1"), "{}", answer.text());
    // The last event may have been stored when the connection failed. No acknowledged event is missing.
    let stored = api.count("events").await;
    assert!(stored == accepted || stored == accepted + 1, "{accepted} acknowledged, {stored} stored");
    // The key cannot be looked up now, which must not be reported as an unknown key.
    let answer = loop {
        let answer = api.get("/v1/events").key("some-key").send().await;
        if answer.status != 401 {
            break answer;
        }
    };
    assert_eq!((answer.status, answer.header("retry-after")), (503, "1"), "{}", answer.text());
    let answer = loop {
        let answer = api.get("/readyz").no_key().send().await;
        if answer.status != 200 {
            break answer;
        }
    };
    assert_eq!(answer.status, 503, "{}", answer.text());
    assert_eq!(api.get("/healthz").no_key().send().await.status, 200);
}

/// Checks that a client without a key does not see PostgreSQL's message about a rejected login.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_login_of_the_database_is_not_shown() {
    let mut h = Harness::postgres("refused_login").await;
    let login = h.url().rsplit('/').next().expect("a database").to_owned() + "_keys";
    let mut options = PostgresOptions::new(h.url());
    options.role_urls.push((DbRole::KeyKeeper, url_with(h.url(), Some(&login), None)));
    let admin = h.admin().await;
    admin.run(&format!("CREATE ROLE {login} LOGIN IN ROLE key_keeper")).await;
    h.store = PostgresStore::connect(&options).await.expect("the store");
    admin.run(&format!("ALTER ROLE {login} NOLOGIN")).await;
    let api = TestApi::start(h).await;
    for answer in [
        api.get("/v1/events").key("some-key").send().await,
        api.post("/sign-in").no_key().body("key=some-key").send().await,
    ] {
        assert_eq!((answer.status, answer.header("retry-after")), (503, "1"), "{}", answer.text());
        assert!(answer.text().contains("has the cause"), "{}", answer.text());
        assert!(!answer.text().contains(&login) && !answer.text().contains("log in"), "{}", answer.text());
    }
    admin.run(&format!("DROP ROLE {login}")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stalled_service_is_named() {
    let options = Options { has_a_late_service: true, ..Options::default() };
    let api = TestApi::start_with(Harness::sqlite("late").await, options).await;
    api.post("/v1/events").json(EVENT).expect(202).await;
    let problem = api.get("/readyz").no_key().refused(503, "").await;
    let detail = problem["detail"].as_str().expect("a detail");
    assert!(detail.contains("stuck (no step completed yet)") && !detail.contains("ingest"), "{detail}");
}

/// Checks that an external id held by an open transaction blocks only the request that uses it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_held_external_id_blocks_only_its_own_request() {
    let api = TestApi::start(Harness::postgres("held").await).await;
    let held = r#"{"event_type":"a","payload":1,"external_event_id":"held"}"#;
    api.h.direct.run("BEGIN").await;
    api.h.direct.run("SELECT posthaste.publish('a', '1', 'held')").await;
    let (blocked, beside) = tokio::join!(
        api.post("/v1/events").json(held).send(),
        api.post("/v1/events").json(EVENT).expect(202),
    );
    assert_eq!((blocked.status, blocked.header("retry-after")), (503, "1"), "{}", blocked.text());
    assert_eq!(beside["duplicate"], false);
    api.h.direct.run("ROLLBACK").await;
    api.post("/v1/events").json(held).expect(202).await;
    assert_eq!(api.count("events").await, 2);
}
