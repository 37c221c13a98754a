//! Fills a database with rows of every kind, and takes a census of the rows that must survive a migration.

use posthaste_core::broker::BrokerOutcome;
use posthaste_core::ports::{
    OrderReport, OutboxIntakeStore as _, OutboxWorkerStore as _, Stores, SubscriptionStore as _,
    WorkerStore as _,
};
use posthaste_core::retry::OrderRetryPolicy;
use posthaste_store::sqlite::MIGRATIONS;
use posthaste_testkit::direct::{Direct, Row};
use posthaste_testkit::fixtures::{T0, actor, at, delivered, order, order_claim};
use posthaste_testkit::harness::Harness;
use std::collections::BTreeMap;
use std::time::Duration;

/// Inserts several hundred events, sagas in every state, jobs, dead letters and orders.
pub(crate) async fn fill<S: Stores>(h: &Harness<S>) {
    let done = h.subscribe("done").await;
    let dead = h.subscribe_with("dead", Some(1)).await;
    let retried = h.subscribe("retried").await;
    let gone = h.subscribe("gone").await;
    for (kind, count) in [("done", 120), ("dead", 40), ("retried", 40), ("gone", 20), ("nobody", 30)] {
        h.publish(kind, count).await;
    }
    h.route_all(T0).await;
    let (jobs, token) = h.start_attempts(done, T0).await;
    let reports = jobs.iter().map(|job| delivered(job, token)).collect();
    h.calm.worker().report_jobs(reports, T0).await.expect("reports");
    h.apply_all(T0).await;
    h.fail_attempts(dead, at(1)).await;
    h.fail_attempts(retried, at(2)).await;
    h.publish("done", 15).await;
    h.route_all(at(3)).await;
    h.start_attempts(done, at(3)).await;
    h.publish("done", 15).await;
    assert!(h.calm.subscriptions().delete_subscription(gone, actor(), at(4)).await.expect("the deletion"));
    fill_orders(h).await;
}

async fn fill_orders<S: Stores>(h: &Harness<S>) {
    let orders = (0..200).map(|number| order(&format!("filled-{number}"), 1)).collect();
    h.calm.outbox_intake().submit_orders(orders, Duration::from_secs(3_600), T0).await.expect("orders");
    let worker = h.calm.outbox_worker();
    let claim = order_claim(60);
    let token = claim.token;
    let claimed = worker.claim_orders(claim, at(1)).await.expect("a claim").orders;
    assert_eq!(claimed.len(), 60);
    let outcomes = [
        BrokerOutcome::BadRequest { status: 400 },
        BrokerOutcome::RateLimited { retry_after: None },
        BrokerOutcome::ServerError { status: 503, retry_after: None },
    ];
    let reports = claimed.iter().zip(outcomes.into_iter().cycle()).take(40);
    let reports =
        reports.map(|(order, outcome)| OrderReport { id: order.id, token, probe: false, outcome }).collect();
    worker.settle_orders(reports, OrderRetryPolicy::ORDER, at(2)).await.expect("outcomes");
}

/// The rows of every table that a migration must not change.
pub(crate) type Census = BTreeMap<&'static str, Vec<Row>>;

/// The tables and their columns before the test migrations.
const COUNTED: &[(&str, &str)] = &[
    ("events", "id, external_event_id, event_type, payload, created_at"),
    ("subscriptions", "id, event_type, callback_url, active, verified, secret, deleted_at"),
    ("routing_queue", "event_id"),
    ("webhook_delivery_sagas", "*"),
    ("webhook_delivery_jobs", "*"),
    ("finished_jobs", "job_id"),
    ("dead_letters", "*"),
    ("outbox_orders", "*"),
    ("idempo_ledger", "*"),
    ("outbox_audit", "*"),
    ("outbox_lane", "id, rate"),
];

pub(crate) async fn census(direct: &Direct) -> Census {
    let mut census = Census::new();
    for (table, columns) in COUNTED {
        let rows = direct.rows(&format!("SELECT {columns} FROM {table} ORDER BY 1")).await;
        census.insert(table, rows);
    }
    census
}

/// Checks that every table has enough rows for the test.
pub(crate) fn check_is_filled(census: &Census) {
    let least = [
        ("events", 280),
        ("subscriptions", 4),
        ("webhook_delivery_sagas", 235),
        ("webhook_delivery_jobs", 215),
        ("dead_letters", 40),
        ("outbox_orders", 200),
        ("outbox_audit", 300),
        ("routing_queue", 15),
    ];
    for (table, count) in least {
        assert!(census[table].len() >= count, "{table} has {} rows", census[table].len());
    }
}

/// Checks that both test migrations were applied completely and once.
pub(crate) async fn check_is_migrated(direct: &Direct) {
    let hosts = direct.texts("SELECT DISTINCT host FROM subscriptions WHERE deleted_at IS NULL").await;
    assert_eq!(hosts, ["receiver.example"]);
    let unfilled = "SELECT count(*) FROM subscriptions WHERE deleted_at IS NOT NULL AND host IS NOT NULL";
    assert_eq!(direct.number(unfilled).await, 0);
    assert_eq!(direct.texts("SELECT DISTINCT source FROM events").await, ["api"]);
    let versions = direct
        .texts("SELECT version FROM schema_migrations WHERE finished_at IS NOT NULL ORDER BY version")
        .await;
    // The migrations of the program, followed by the two of the test.
    let known = MIGRATIONS.iter().map(|migration| migration.version);
    let next = known.clone().max().unwrap_or(0) + 1;
    let expected: Vec<String> = known.chain([next, next + 1]).map(|version| version.to_string()).collect();
    assert_eq!(versions, expected);
}
