//! Checks that `/metrics` passes the promtool linter, and that the value of every metric changes when the measured
//! event occurs.

use crate::served::{Engine, Served};
use crate::{tools, world};
use posthaste_store::postgres::ConnectFailure;
use posthaste_testkit::client::{Answer, Call};
use posthaste_testkit::commands::Running;
use posthaste_testkit::direct::Direct;
use posthaste_testkit::fleet::free_address;
use posthaste_testkit::postgres::{admin_url, client, migrated_database};
use posthaste_testkit::receiver::{self, Receiver};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::net::TcpStream;
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;

/// The metrics whose values change in this test.
const CHANGED_HERE: [&str; 23] = [
    "outbox_dequeue_total",
    "outbox_lag_seconds",
    "outbox_retry_count",
    "outbox_send_total",
    "posthaste_attempt_seconds",
    "posthaste_attempts_total",
    "posthaste_batch_size",
    "posthaste_database_connect_failures_total",
    "posthaste_dead_letters_total",
    "posthaste_deliveries_total",
    "posthaste_delivery_seconds",
    "posthaste_events_accepted_total",
    "posthaste_events_duplicate_total",
    "posthaste_events_routed_total",
    "posthaste_http_request_seconds",
    "posthaste_http_requests_total",
    "posthaste_jobs_admitted_total",
    "posthaste_lease_resets_total",
    "posthaste_leases_lost_total",
    "posthaste_pairs_routed_total",
    "posthaste_step_failures_total",
    "posthaste_step_seconds",
    "posthaste_store_seconds",
];

/// The file that has the metrics of the process and their test.
const PROCESS_METRICS: &str = "api/src/process_metrics.rs";

/// The file that has the metrics of the connections to the database server and their test.
const DATABASE_METRICS: &str = "services/src/metrics/database.rs";

/// The metrics whose values change in tests of other components: the metric, the file of the test, and the name used
/// there. Panics cannot be triggered from outside, and some states of queues and of the lane need a special setup.
const CHANGED_ELSEWHERE: [(&str, &str, &str); 25] = [
    ("outbox_inflight", "testkit/tests/orders/claims.rs", "outbox_inflight"),
    ("outbox_lag_sla_seconds", "posthaste/tests/cli/lane.rs", "outbox_lag_sla_seconds"),
    ("outbox_paused", "testkit/tests/orders/outages.rs", "outbox_paused"),
    ("outbox_rate", "testkit/tests/orders/throttle.rs", "outbox_rate"),
    ("outbox_rewound_total", "testkit/tests/orders/claims.rs", "outbox_rewound_total"),
    ("posthaste_build_info", PROCESS_METRICS, "posthaste_build_info"),
    ("process_cpu_seconds_total", PROCESS_METRICS, "process_cpu_seconds_total"),
    ("process_max_fds", PROCESS_METRICS, "process_max_fds"),
    ("process_open_fds", PROCESS_METRICS, "process_open_fds"),
    ("process_resident_memory_bytes", PROCESS_METRICS, "process_resident_memory_bytes"),
    ("process_start_time_seconds", PROCESS_METRICS, "process_start_time_seconds"),
    ("process_virtual_memory_bytes", PROCESS_METRICS, "process_virtual_memory_bytes"),
    ("posthaste_auth_failures_total", "testkit/tests/api/roles.rs", "metrics.auth_failures"),
    ("posthaste_connections_refused_total", "api/src/server.rs", "connections_refused.get"),
    ("posthaste_database_connections", DATABASE_METRICS, "posthaste_database_connections"),
    ("posthaste_database_failovers_total", DATABASE_METRICS, "posthaste_database_failovers_total"),
    ("posthaste_clock_steps_total", "services/src/clock.rs", "metrics.clock_steps"),
    ("posthaste_held_deliveries", "testkit/tests/api/operations.rs", "posthaste_held_deliveries"),
    ("posthaste_queue_depth", "testkit/tests/api/operations.rs", "posthaste_queue_depth"),
    (
        "posthaste_queue_oldest_age_seconds",
        "testkit/tests/api/operations.rs",
        "posthaste_queue_oldest_age_seconds",
    ),
    (
        "posthaste_queue_sampled_timestamp_seconds",
        "testkit/tests/api/operations.rs",
        "posthaste_queue_sampled_timestamp_seconds",
    ),
    ("posthaste_sqlite_wal_blocked", "services/src/metrics.rs", "posthaste_sqlite_wal_blocked"),
    ("posthaste_sqlite_wal_bytes", "services/src/metrics.rs", "posthaste_sqlite_wal_bytes"),
    ("posthaste_step_panics_total", "services/src/runner/tests.rs", "metrics.step_panics"),
    ("posthaste_stuck_rows", "testkit/tests/api/operations.rs", "posthaste_stuck_rows"),
];

/// Returns the names of all metrics of the program.
pub(crate) fn known() -> BTreeSet<&'static str> {
    CHANGED_HERE.into_iter().chain(CHANGED_ELSEWHERE.map(|(name, ..)| name)).collect()
}

/// Returns whether the source code contains the name outside of comments, not followed by another word character.
fn is_mentioned(name: &str, source: &str) -> bool {
    let lines = source.lines().filter(|line| !line.trim_start().starts_with("//"));
    lines
        .flat_map(|line| line.match_indices(name).map(move |(at, _)| &line[at + name.len()..]))
        .any(|rest| !rest.starts_with(|next: char| next.is_ascii_alphanumeric() || next == '_'))
}

#[test]
fn metrics_tested_elsewhere_are_mentioned_there() {
    assert!(is_mentioned("outbox_rate", "assert_eq!(metric(\"outbox_rate\"), 1);"));
    assert!(!is_mentioned("outbox_rate", "// outbox_rate\nmetric(\"outbox_rate_limit\")"));
    for (metric, file, name) in CHANGED_ELSEWHERE {
        let path = format!("{}/../{file}", env!("CARGO_MANIFEST_DIR"));
        let source = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
        assert!(is_mentioned(name, &source), "{file} does not mention {metric}");
    }
}

/// Returns the sum of the samples of each metric; for a histogram, the number of observations.
fn sums(answer: &Answer) -> BTreeMap<String, f64> {
    let text = answer.text();
    let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    let types: Vec<(&str, &str)> = types.collect();
    let mut sums: BTreeMap<String, f64> = types.iter().map(|(name, _)| ((*name).to_owned(), 0.0)).collect();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
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

/// Waits until the sum of this metric is above zero.
fn wait_for(served: &Served, metric: &str) {
    served.get_until("/metrics", |answer| sums(answer).get(metric).is_some_and(|sum| *sum > 0.0));
}

fn send(served: &Served, event_type: &str, external_id: &str) {
    let event = json!({"event_type": event_type, "payload": 1, "external_event_id": external_id}).to_string();
    assert!(matches!(served.post("/v1/events", &event).status, 200 | 202));
}

#[tokio::test(flavor = "multi_thread")]
async fn every_metric_changes_and_passes_the_linter() {
    let broker = Receiver::start(broker).await;
    let broker_url = broker.url("/orders");
    let settings = [
        ("POSTHASTE_RETRY_BASE", "1ms"),
        ("POSTHASTE_CLEANER_INTERVAL", "20ms"),
        ("POSTHASTE_BROKER_URL", broker_url.as_str()),
    ];
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
    world::deliver_and_dead_letter(&served, &receiver);
    world::subscribe(&served, "retried", &receiver.url("/refuse"), 2);
    for event_type in ["retried", "retried", "nobody"] {
        send(&served, event_type, event_type);
    }
    order(&served);
    expire_a_lease(&served, &receiver, &gate).await;
    interrupt_the_store(&served, || {
        for metric in ["posthaste_step_failures_total", "posthaste_database_connect_failures_total"] {
            wait_for(&served, metric);
        }
    })
    .await;

    let answer = served.get("/metrics").expect(200);
    let after = sums(&answer);
    for metric in CHANGED_HERE {
        let value = |sums: &BTreeMap<String, f64>| sums.get(metric).copied().unwrap_or_default();
        assert!(
            value(&after) > value(&before),
            "{metric} did not change: {} to {}",
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
        r#"outbox_dequeue_total{result="claimed"}"#,
        r#"outbox_send_total{outcome="success"}"#,
        r#"outbox_send_total{outcome="retry"}"#,
        r#"outbox_send_total{outcome="dead"}"#,
        r#"outbox_send_total{outcome="conflict_processed"}"#,
        r#"posthaste_database_connections{role="viewer",state="idle"}"#,
        r#"posthaste_database_connections{role="job_worker",state="in_use"}"#,
        r#"posthaste_database_connections{role="outbox_writer",state="waiting"}"#,
        r#"posthaste_database_connect_failures_total{reason="dns"}"#,
        r#"posthaste_database_connect_failures_total{reason="read_only"}"#,
        "posthaste_database_failovers_total 0",
    ] {
        assert!(answer.text().contains(sample), "no {sample}");
    }
    let known = known();
    let unknown: Vec<&String> = after.keys().filter(|name| !known.contains(name.as_str())).collect();
    assert!(unknown.is_empty(), "no test shows that {unknown:?} change");
    lint(&answer);
    has_help(&answer.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_without_the_api_reports_its_connections() {
    let (folder, address) = (tempfile::tempdir().expect("a folder"), free_address());
    let (database, listen) = (migrated_database("connections").await, address.to_string());
    // The same server under another name, as if the pools used a pooler.
    let direct = database.replacen("127.0.0.1", "localhost", 1);
    let environment = [
        ("POSTHASTE_DATABASE_URL", database.as_str()),
        ("POSTHASTE_DATABASE_URL_DIRECT", &direct),
        ("POSTHASTE_ROLES", "cleaner,router"),
        ("POSTHASTE_METRICS_LISTEN", &listen),
    ];
    let _running = Running::start(folder.path(), &["serve"], &environment);
    let listening = "SELECT count(*) FROM pg_catalog.pg_stat_activity \
        WHERE datname = current_database() AND application_name = 'posthaste listener'";
    let patience = Duration::from_secs(60);
    Direct::postgres(&database).await.until("the process listens", listening, 1, patience).await;
    let began = Instant::now();
    while TcpStream::connect(address).is_err() {
        assert!(began.elapsed() < patience, "the process does not serve its metrics");
        std::thread::sleep(Duration::from_millis(20));
    }
    let text = Call::new(address, "GET", "/metrics", "").no_key().send().await.expect(200).text();
    let samples = |name: &str| text.lines().filter(|line| line.starts_with(name)).count();
    // Three states of two database roles. The listener is not part of a pool, and its other host is no failover.
    assert_eq!(samples("posthaste_database_connections{"), 6, "{text}");
    assert_eq!(samples("posthaste_database_connections{role=\"lease_cleaner\","), 3, "{text}");
    assert_eq!(samples("posthaste_database_connect_failures_total{"), ConnectFailure::ALL.len(), "{text}");
    assert_eq!(samples("posthaste_database_failovers_total 0"), 1, "{text}");
}

/// Every metric has a HELP line with a text.
fn has_help(text: &str) {
    let names = |keyword: &str| -> BTreeSet<String> {
        let lines =
            text.lines().filter_map(|line| line.strip_prefix("# ")?.strip_prefix(keyword)?.split_once(' '));
        lines.filter(|(_, text)| !text.trim().is_empty()).map(|(name, _)| name.to_owned()).collect()
    };
    assert_eq!(names("TYPE "), names("HELP "));
}

/// Responds to an order with the status at the end of its key.
fn broker(received: &receiver::Received) -> receiver::Answer {
    let key = received.header("idempotency-key");
    let status = key.rsplit('-').next().and_then(|status| status.parse().ok()).unwrap_or(400);
    let body = json!({"idempotency_key": key, "error": "already processed"}).to_string().into_bytes();
    receiver::Answer::With { status, headers: Vec::new(), body }
}

/// Submits one order for each outcome of an attempt to send it.
fn order(served: &Served) {
    for (key, status) in [("a-200", "sent"), ("b-409", "sent"), ("c-422", "dead"), ("d-500", "failed")] {
        let order =
            json!({"idempotency_key": key, "symbol": "USDJPY", "intent": "BUY", "qty": 1}).to_string();
        let call = served.call("POST", "/v1/orders").header("idempotency-key", key).body(order);
        call.send_blocking().expect(202);
        let has_status = |text: &str| text.contains(&format!("\"status_to\":\"{status}\""));
        served.get_until(&format!("/v1/orders/{key}/audit"), |answer| has_status(&answer.text()));
    }
}

/// Expires the lease of an attempt in flight, and lets its worker finish after the attempt has been reset.
async fn expire_a_lease(served: &Served, receiver: &Receiver, gate: &Semaphore) {
    world::subscribe(served, "held", &receiver.url("/hold"), 5);
    let before = receiver.received().len();
    send(served, "held", "held");
    receiver.wait_for(before + 1).await;
    let database = client(&served.database).await;
    // Restricted to this event type, because a retry of another delivery may be in flight.
    let expire = "UPDATE posthaste.webhook_delivery_jobs j SET lease_until = now() - interval '1 minute'
        FROM posthaste.webhook_delivery_sagas g JOIN posthaste.events e ON e.id = g.event_id
        WHERE j.status = 'Leased' AND j.saga_id = g.id AND e.event_type = 'held'";
    assert_eq!(database.execute(expire, &[]).await.expect("expiring a lease"), 1);
    wait_for(served, "posthaste_lease_resets_total");
    gate.add_permits(2);
    wait_for(served, "posthaste_leases_lost_total");
}

/// Closes all connections to the database, and refuses new ones while `meanwhile` runs.
pub(crate) async fn interrupt_the_store(served: &Served, meanwhile: impl FnOnce()) {
    let (admin, name) = (client(&admin_url()).await, served.database.rsplit('/').next().expect("a name"));
    let run = async |sql: String| admin.batch_execute(&sql).await.expect("changing the database");
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
    child.stdin.take().expect("a pipe").write_all(&answer.body).expect("writing to promtool");
    let output = child.wait_with_output().expect("the output of promtool");
    let printed = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && printed.is_empty(), "{printed}");
    let kind = answer.header("content-type");
    assert!(kind.starts_with("text/plain; version=0.0.4"), "{}", answer.whole());
}
