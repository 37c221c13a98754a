//! Creates rows through the ports and moves them into a given state with legal updates.

use posthaste_core::ports::{OutboxIntakeStore as _, Stores};
use posthaste_testkit::fixtures::{T0, order};
use posthaste_testkit::harness::Harness;
use std::time::Duration;

pub(crate) const SAGAS: &str = "webhook_delivery_sagas";
pub(crate) const JOBS: &str = "webhook_delivery_jobs";
pub(crate) const ORDERS: &str = "outbox_orders";

/// The states of a row, each with the updates that lead to it from the initial state.
pub(crate) type Paths = &'static [(&'static str, &'static [&'static str])];

pub(crate) const SAGA_PATHS: Paths = &[
    ("Pending", &[]),
    ("InProgress", &["InProgress"]),
    ("PendingRetry", &["InProgress", "PendingRetry"]),
    ("Completed", &["InProgress", "Completed"]),
    ("DeadLettered", &["InProgress", "DeadLettered"]),
];
pub(crate) const JOB_PATHS: Paths = &[
    ("Pending", &[]),
    ("Leased", &["Leased"]),
    ("Completed", &["Leased", "Completed"]),
    ("Failed", &["Leased", "Failed"]),
];
pub(crate) const ORDER_PATHS: Paths = &[
    ("queued", &[]),
    ("sending", &["sending"]),
    ("sent", &["sending", "sent"]),
    ("failed", &["sending", "failed"]),
    ("dead", &["sending", "dead"]),
];

/// Creates rows in their initial state in one of the three tables, and returns their ids.
pub(crate) async fn fresh<S: Stores>(h: &Harness<S>, table: &str, count: usize) -> Vec<i64> {
    match table {
        SAGAS => sagas(h, count).await,
        JOBS => jobs(h, count).await,
        ORDERS => orders(h, count).await,
        other => panic!("no rows of {other}"),
    }
}

/// Creates one row in each state and returns the states and ids, in the order of `paths`.
pub(crate) async fn one_of_each<S: Stores>(
    h: &Harness<S>,
    table: &str,
    paths: Paths,
) -> Vec<(&'static str, i64)> {
    let rows = fresh(h, table, paths.len()).await;
    let mut arranged = Vec::new();
    for ((state, path), id) in paths.iter().zip(rows) {
        walk(h, table, id, path).await;
        arranged.push((*state, id));
    }
    arranged
}

pub(crate) async fn walk<S: Stores>(h: &Harness<S>, table: &str, id: i64, path: &[&str]) {
    for status in path {
        h.direct.run(&format!("UPDATE {table} SET status = '{status}' WHERE id = {id}")).await;
    }
}

async fn sagas<S: Stores>(h: &Harness<S>, count: usize) -> Vec<i64> {
    let subscription = h.subscribe("state.saga").await;
    h.publish("state.saga", count).await;
    h.route_all(T0).await;
    ids(h, &format!("SELECT id FROM {SAGAS} WHERE subscription_id = {subscription} ORDER BY id")).await
}

async fn jobs<S: Stores>(h: &Harness<S>, count: usize) -> Vec<i64> {
    let subscription = h.subscribe("state.job").await;
    h.publish("state.job", count).await;
    h.route_all(T0).await;
    h.admit(subscription, T0).await;
    let sql = format!(
        "SELECT id FROM {JOBS} WHERE saga_id IN (SELECT id FROM {SAGAS} WHERE subscription_id = {subscription}) ORDER BY id"
    );
    ids(h, &sql).await
}

async fn orders<S: Stores>(h: &Harness<S>, count: usize) -> Vec<i64> {
    let orders = (0..count).map(|number| order(&format!("state-{number}"), 1)).collect();
    let ttl = Duration::from_secs(3_600);
    h.calm.outbox_intake().submit_orders(orders, ttl, T0).await.expect("the orders");
    ids(h, &format!("SELECT id FROM {ORDERS} ORDER BY id")).await
}

async fn ids<S: Stores>(h: &Harness<S>, sql: &str) -> Vec<i64> {
    h.direct.texts(sql).await.iter().map(|text| text.parse().expect("an id")).collect()
}
