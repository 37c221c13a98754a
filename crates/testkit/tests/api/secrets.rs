//! Checks that keys, signing secrets and payloads do not appear in log lines, problems or metrics.

use crate::server::{ROOT_KEY, TestApi};
use posthaste_testkit::captured_log::CapturedLog;
use posthaste_testkit::harness::Harness;
use posthaste_testkit::receiver::{Answer, Receiver};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn secrets_are_never_logged_or_returned() {
    let log = CapturedLog::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt().with_max_level(tracing_subscriber::filter::LevelFilter::TRACE);
    // Captures the log of the whole process; other tests can only add lines.
    subscriber.with_writer(move || writer.clone()).with_ansi(false).try_init().expect("the only subscriber");

    let api = TestApi::start(Harness::sqlite("secrets").await).await;
    let receiver = Receiver::start(|_| Answer::Status(500)).await;
    let mut responses = String::new();
    let made = api.post("/v1/keys").json(r#"{"name":"marked","role":"ingest"}"#).expect(201).await;
    let key = made["key"].as_str().expect("a key").to_owned();
    let url = receiver.url("/hook?token=MARKER-QUERY");
    let body = format!(r#"{{"event_type":"a","callback_url":"{url}"}}"#);
    let made = api.post("/v1/subscriptions").json(body).expect(201).await;
    let secret = made["secret"].as_str().expect("a secret").to_owned();
    let path = format!("/v1/subscriptions/{}", made["id"]);
    let event = r#"{"event_type":"a","payload":"MARKER-PAYLOAD"}"#;
    for call in [
        api.post("/v1/events").key(&key).json(event),
        api.post("/v1/events").key(&key).json(event.replace("\"a\"", "\"\"")),
        api.post("/v1/events").key(&key).json(event.replace('}', "")),
        api.get("/v1/events").key(&key),
        api.get("/v1/events").key("MARKER-WRONG-KEY"),
        api.get("/v1/events/MARKER-PATH"),
        api.get("/v1/events?cursor=MARKER-PARAMETER"),
        api.post(&format!("{path}/verify")),
        api.post(&format!("{path}/test")),
        api.get("/v1/keys"),
        api.get("/v1/nowhere/MARKER-PATH"),
        api.get("/metrics"),
        api.get("/readyz"),
    ] {
        responses.push_str(&call.send().await.text());
    }
    let logged = log.text();
    assert!(logged.contains("request completed") && logged.contains("/v1/events"), "nothing was logged");
    let hidden = [key.as_str(), ROOT_KEY, &secret, "MARKER-WRONG-KEY", "MARKER-PAYLOAD"];
    for marker in hidden {
        assert!(!responses.contains(marker), "{marker} was returned");
    }
    for marker in hidden.into_iter().chain(["MARKER-PATH", "MARKER-PARAMETER", "MARKER-QUERY"]) {
        let line = logged.lines().find(|line| line.contains(marker));
        assert_eq!(line, None, "{marker} was logged");
    }
}
