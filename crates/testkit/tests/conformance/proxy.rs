//! The wire that breaks really breaks: else the suite over it would prove nothing.

use posthaste_core::ports::{IngestStore as _, StoreError, Stores as _};
use posthaste_testkit::fixtures::{T0, event};
use posthaste_testkit::harness::Harness;

/// Events without a name cannot be repeated safely, so each break is told to the caller. Some of those
/// events are there, because the commit had been sent, and some are not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commits_are_cut_off_before_and_after_they_happened() {
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
    println!("{answered} answered, {unknown} unknown, {away} away, {cuts} cuts, {there} there");
    assert!(cuts >= 10, "only {cuts} cuts");
    assert!(there > answered, "no commit was cut off after it had happened");
    assert!(there < answered + unknown, "no commit was cut off before it had happened");
}
