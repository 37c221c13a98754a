//! Tests that the log messages of each stage contain the ids of the delivery, and times in RFC 3339 format.

use posthaste_core::KeyId;
use posthaste_core::audit::Actor;
use posthaste_core::event::{CorrelationId, NewEvent};
use posthaste_core::ports::{Stores as _, SubscriptionStore as _};
use posthaste_core::subscription::SubscriptionPatch;
use posthaste_testkit::captured_log::{CapturedLog, Lines};
use posthaste_testkit::fixtures::{LEASE, T0, event};
use posthaste_testkit::harness::Harness;
use posthaste_testkit::pipeline::Rig;
use posthaste_testkit::receiver::{Answer, Receiver};
use serde_json::{Value, json};
use std::time::Duration;
use tracing_subscriber::filter::LevelFilter;

const CORRELATION: &str = "checkout-7";

/// The start of each log message and the fields that it must contain.
const ROWS: &[(&str, &[&str])] = &[
    ("events routed", &["first_event_id", "events", "pairs"]),
    ("attempt admitted", &["event_id", "saga_id", "job_id", "subscription_id", "status"]),
    (
        "attempt finished",
        &["correlation_id", "event_id", "saga_id", "job_id", "worker_id", "status", "lease_expiration"],
    ),
    ("delivered", &["event_id", "saga_id", "job_id", "subscription_id", "status"]),
    ("attempt failed", &["event_id", "saga_id", "job_id", "subscription_id", "status", "error_code"]),
    ("dead-lettered, requeue", &["event_id", "saga_id", "job_id", "subscription_id", "status", "error_code"]),
    ("dead-lettered, its attempt limit", &["event_id", "saga_id", "subscription_id", "status"]),
    (
        "lease expired,",
        &["correlation_id", "event_id", "saga_id", "job_id", "worker_id", "status", "lease_expiration"],
    ),
    (
        "lease expired too often",
        &["correlation_id", "event_id", "saga_id", "job_id", "status", "error_code", "lease_expiration"],
    ),
];

fn fields(log: &CapturedLog) -> Vec<Value> {
    let lines = log.text();
    let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    lines.map(|line| line["fields"].clone()).collect()
}

fn correlated(kind: &str) -> NewEvent {
    NewEvent { correlation_id: Some(CorrelationId::parse(CORRELATION).expect("an id")), ..event(kind) }
}

/// Uses a single-threaded runtime, because the log is captured per thread.
#[tokio::test]
async fn each_operator_action_is_logged_once() {
    let (log, _capturing) = CapturedLog::of_this_thread(Lines::Json, LevelFilter::INFO);

    let h = Harness::sqlite("operator-logs").await;
    let address = "192.0.2.7".parse().expect("an address");
    let by = || Actor::key(KeyId::from_store(7), "ann", Some(address));
    let id = h.subscribe("a").await;
    let before = fields(&log).len();
    let pause = SubscriptionPatch { active: Some(false), ..SubscriptionPatch::default() };
    h.store.subscriptions().update_subscription(id, pause, None, by(), T0).await.expect("a change");
    assert!(h.store.subscriptions().delete_subscription(id, by(), T0).await.expect("a deletion"));
    assert!(!h.store.subscriptions().delete_subscription(id, by(), T0).await.expect("a result"));
    let expected = ["subscription_changed", "subscription_deleted"].map(|action| {
        json!({
            "message": "operator action", "action": action, "object": format!("subscriptions/{id}"),
            "key_id": 7, "key_name": "ann", "client_address": "192.0.2.7"
        })
    });
    assert_eq!(fields(&log)[before..], expected);
}

/// Uses a single-threaded runtime, because the log is captured per thread.
#[tokio::test]
async fn each_log_line_of_a_stage_carries_its_ids() {
    let (log, _capturing) = CapturedLog::of_this_thread(Lines::Json, LevelFilter::TRACE);

    let mut rig = Rig::new(Harness::sqlite("stage-logs").await);
    let receiver = Receiver::start(|request| match request.path.as_str() {
        "/well" => Answer::Status(200),
        _ => Answer::Status(500),
    })
    .await;
    rig.subscribe("well", &receiver.url("/well")).await;
    rig.subscribe_with("once", &receiver.url("/ill"), Some(1)).await;
    let lowered = rig.subscribe("lowered", &receiver.url("/ill")).await;
    for kind in ["well", "once", "lowered"] {
        rig.submit(correlated(kind)).await;
    }
    rig.until_quiet().await;
    let limit = SubscriptionPatch { max_retry_limit: Some(Some(1)), ..SubscriptionPatch::default() };
    rig.patch(lowered, limit).await;
    rig.move_by(Duration::from_secs(30));
    rig.until_quiet().await;
    // Simulates a job that kills its worker: it is claimed four times and never reported.
    rig.submit(correlated("well")).await;
    rig.route().await;
    rig.admit().await;
    for _ in 0..4 {
        rig.send().await;
        rig.kill_workers();
        rig.add_worker();
        rig.move_by(LEASE + Duration::from_micros(1));
        rig.clean().await;
    }

    let logged = fields(&log);
    for (words, fields) in ROWS {
        let begins =
            |line: &&Value| line["message"].as_str().is_some_and(|message| message.starts_with(words));
        let lines: Vec<_> = logged.iter().filter(begins).collect();
        assert!(!lines.is_empty(), "no line starts with {words:?}");
        for line in lines {
            let missing: Vec<_> = fields.iter().filter(|field| line[**field].is_null()).collect();
            assert!(missing.is_empty(), "{missing:?} in {line}");
            assert!(line["correlation_id"].is_null() || line["correlation_id"] == CORRELATION, "{line}");
            let until = &line["lease_expiration"];
            let is_readable =
                until.as_str().is_some_and(|at| at.starts_with("2027-01-1") && at.ends_with('Z'));
            assert!(until.is_null() || is_readable, "{line}");
        }
    }
}
