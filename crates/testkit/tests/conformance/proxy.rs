//! Tests that the proxy cuts connections; otherwise the suite that uses it would prove nothing.

use posthaste_core::ports::{IngestStore as _, StoreError, Stores as _};
use posthaste_testkit::fixtures::{T0, event};
use posthaste_testkit::harness::Harness;

/// Inserts events without an external id, which cannot be retried safely, so that each break is reported to the
/// caller. Some of these events are stored, because their commit was sent, and some are not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_are_cut_before_and_after_commits() {
    let h = Harness::postgres_cut("the_wire").await;
    let (mut answered, mut unknown, mut away) = (0_i64, 0_i64, 0_i64);
    for _ in 0..600 {
        match h.store.ingest().insert_events(vec![vec![event("a")]], T0).await {
            Ok(_) => answered += 1,
            Err(StoreError::OutcomeUnknown { .. }) => unknown += 1,
            Err(StoreError::Unavailable { .. }) => away += 1,
            Err(other) => panic!("{other:?}"),
        }
    }
    let there = h.direct.number("SELECT count(*) FROM events").await;
    let cuts = h.proxy.as_ref().expect("a proxy").cuts();
    println!("{answered} succeeded, {unknown} unknown, {away} unavailable, {cuts} cuts, {there} stored");
    assert!(cuts >= 10, "only {cuts} cuts");
    assert!(there > answered, "no connection was cut after its commit");
    assert!(there < answered + unknown, "no connection was cut before its commit");
}
