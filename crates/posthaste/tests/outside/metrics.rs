//! What `/metrics` says: Prometheus's own tool finds nothing to say against it, and every number moves when
//! what it counts happens.

use crate::served::{Answer, Engine, Served};
use crate::{tools, world};
use posthaste_testkit::postgres::{admin_url, client};
use posthaste_testkit::receiver::{self, Receiver};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::process::Stdio;
use std::sync::Arc;
use tokio::sync::Semaphore;

/// These move in this test.
pub(crate) const MOVED_HERE: [&str; 15] = [
    "posthaste_attempt_seconds",
    "posthaste_attempts_total",
    "posthaste_batch_size",
    "posthaste_dead_letters_total",
    "posthaste_deliveries_total",
    "posthaste_delivery_seconds",
    "posthaste_events_accepted_total",
    "posthaste_events_duplicate_total",
    "posthaste_events_routed_total",
    "posthaste_jobs_admitted_total",
    "posthaste_lease_resets_total",
    "posthaste_leases_lost_total",
    "posthaste_pairs_routed_total",
    "posthaste_step_failures_total",
    "posthaste_step_seconds",
];

/// These move in tests of the parts that count them: panics cannot be caused from outside, the lane of orders
/// and the counts of queues have tests of their own.
pub(crate) const MOVED_ELSEWHERE: [&str; 18] = [
    "outbox_dequeue_total",
    "outbox_inflight",
    "outbox_lag_seconds",
    "outbox_lag_sla_seconds",
    "outbox_paused",
    "outbox_rate",
    "outbox_retry_count",
    "outbox_rewound_total",
    "outbox_send_total",
    "posthaste_held_deliveries",
    "posthaste_http_request_seconds",
    "posthaste_http_requests_total",
    "posthaste_queue_depth",
    "posthaste_queue_oldest_age_seconds",
    "posthaste_queue_sampled_timestamp_seconds",
    "posthaste_step_panics_total",
    "posthaste_store_seconds",
    "posthaste_stuck_rows",
];

/// The sum of the samples of each metric; of a histogram, how many were observed.
fn sums(answer: &Answer) -> BTreeMap<String, f64> {
    let types = answer.body().lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    let types: Vec<(&str, &str)> = types.collect();
    let mut sums: BTreeMap<String, f64> = types.iter().map(|(name, _)| ((*name).to_owned(), 0.0)).collect();
    for line in answer.body().lines().filter(|line| !line.starts_with('#')) {
        let (sample, value) = line.rsplit_once(' ').expect("a value");
        let name = sample.split('{').next().unwrap_or_default();
        let is_family = |(family, kind): &&(&str, &str)| match *kind {
            "histogram" => name.strip_suffix("_count") == Some(family),
            _ => name == *family,
        };
        if let Some((family, _)) = types.iter().find(is_family) {
            *sums.entry((*family).to_owned()).or_default() += value.parse::<f64>().expect("a number");
        }
    }
    sums
}

/// Until the sum of this metric is above zero.
fn wait_for(served: &Served, metric: &str) {
    served.get_until("/metrics", |answer| sums(answer).get(metric).is_some_and(|sum| *sum > 0.0));
}

fn send(served: &Served, event_type: &str, external_id: &str) {
    let event = json!({"event_type": event_type, "payload": 1, "external_event_id": external_id}).to_string();
    assert!(matches!(served.post("/v1/events", &event).status, 200 | 202));
}

#[tokio::test(flavor = "multi_thread")]
async fn every_metric_moves_and_prometheus_likes_them() {
    let settings = [("POSTHASTE_RETRY_BASE", "1ms"), ("POSTHASTE_CLEANER_INTERVAL", "20ms")];
    let served = Served::start(Engine::Postgres, &settings).await;
    let before = sums(&served.get("/metrics").expect(200));
    let gate = Arc::new(Semaphore::new(0));
    let held = Arc::clone(&gate);
    let receiver = Receiver::start(move |received| match received.path.as_str() {
        "/hold" if received.header("posthaste-event-type") != "posthaste.verification" => {
            receiver::Answer::Gate(Arc::clone(&held), Box::new(receiver::Answer::Status(200)))
        }
        _ => world::answer(received),
    })
    .await;
    world::deliver_and_give_up(&served, &receiver);
    world::subscribe(&served, "retried", &receiver.url("/refuse"), 2);
    for event_type in ["retried", "retried", "nobody"] {
        send(&served, event_type, event_type);
    }
    lose_a_lease(&served, &receiver, &gate).await;
    lose_the_store(&served, || wait_for(&served, "posthaste_step_failures_total")).await;

    let answer = served.get("/metrics").expect(200);
    let after = sums(&answer);
    for metric in MOVED_HERE {
        let value = |sums: &BTreeMap<String, f64>| sums.get(metric).copied().unwrap_or_default();
        assert!(
            value(&after) > value(&before),
            "{metric} did not move: {} to {}",
            value(&before),
            value(&after)
        );
    }
    for sample in [
        r#"posthaste_deliveries_total{outcome="completed"}"#,
        r#"posthaste_deliveries_total{outcome="retried"}"#,
        r#"posthaste_deliveries_total{outcome="dead_lettered"}"#,
        r#"posthaste_attempts_total{code="OK"}"#,
        r#"posthaste_attempts_total{code="HTTP_500"}"#,
    ] {
        assert!(answer.body().contains(sample), "no {sample}");
    }
    let known: BTreeSet<&str> = MOVED_HERE.into_iter().chain(MOVED_ELSEWHERE).collect();
    let unknown: Vec<&String> = after.keys().filter(|name| !known.contains(name.as_str())).collect();
    assert!(unknown.is_empty(), "{unknown:?}: nobody shows that they move");
    lint(&answer);
}

/// A worker that comes back after its job was given to another.
async fn lose_a_lease(served: &Served, receiver: &Receiver, gate: &Semaphore) {
    world::subscribe(served, "held", &receiver.url("/hold"), 5);
    let before = receiver.received().len();
    send(served, "held", "held");
    receiver.wait_for(before + 1).await;
    let database = client(&served.database).await;
    let expire = "UPDATE posthaste.webhook_delivery_jobs SET lease_until = now() - interval '1 minute'
        WHERE status = 'Leased'";
    assert_eq!(database.execute(expire, &[]).await.expect("to expire a lease"), 1);
    wait_for(served, "posthaste_lease_resets_total");
    gate.add_permits(2);
    wait_for(served, "posthaste_leases_lost_total");
}

/// Every connection breaks, and no new one is made while something is done.
pub(crate) async fn lose_the_store(served: &Served, meanwhile: impl FnOnce()) {
    let (admin, name) = (client(&admin_url()).await, served.database.rsplit('/').next().expect("a name"));
    let run = async |sql: String| admin.batch_execute(&sql).await.expect("to change the database");
    run(format!("ALTER DATABASE {name} ALLOW_CONNECTIONS false")).await;
    run(format!("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'")).await;
    meanwhile();
    run(format!("ALTER DATABASE {name} ALLOW_CONNECTIONS true")).await;
    served.get_until("/readyz", |answer| answer.status == 200);
}

fn lint(answer: &Answer) {
    let mut command = tools::promtool();
    command.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("promtool");
    child.stdin.take().expect("a pipe").write_all(answer.body().as_bytes()).expect("to hand it over");
    let output = child.wait_with_output().expect("an end");
    let told = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && told.is_empty(), "{told}");
    assert!(answer.text.contains("content-type: text/plain; version=0.0.4"), "{}", answer.text);
}
