//! Tests of telemetry with a scripted store.

use super::*;
use posthaste_core::ports::{HealthSum, ProcessSeen, Rollup, StoreError};
use posthaste_core::{SubscriptionId, WorkerId};
use std::sync::{Arc, Mutex};

#[derive(Debug, Clone, Copy)]
enum Reply {
    Accepted,
    Unavailable,
    Unknown,
}

/// A store that returns scripted results and records the reports.
#[derive(Debug, Clone, Default)]
struct Scripted {
    script: Arc<Mutex<Vec<Reply>>>,
    taken: Arc<Mutex<Vec<(String, i64)>>>,
    roles: Arc<Mutex<Vec<String>>>,
    health: Arc<Mutex<Vec<HealthSum>>>,
}

impl Scripted {
    fn reply(&self) -> StoreResult<()> {
        let (doing, source) = ("testing", "no".into());
        match self.script.lock().expect("the script").pop().unwrap_or(Reply::Accepted) {
            Reply::Unavailable => Err(StoreError::Unavailable { doing, source }),
            Reply::Unknown => Err(StoreError::OutcomeUnknown { doing, source }),
            Reply::Accepted => Ok(()),
        }
    }
}

impl PresenceStore for Scripted {
    async fn report_presence(&self, seen: ProcessSeen, rollups: Vec<Rollup>) -> StoreResult<()> {
        self.reply()?;
        let taken = rollups.into_iter().map(|rollup| (rollup.counter, rollup.amount));
        self.taken.lock().expect("the list").extend(taken);
        self.roles.lock().expect("the list").push(seen.role);
        Ok(())
    }

    async fn report_health(&self, sums: Vec<HealthSum>, _now: Timestamp) -> StoreResult<()> {
        self.reply()?;
        self.health.lock().expect("the list").extend(sums);
        Ok(())
    }
}

fn telemetry(store: &Scripted, metrics: &Metrics) -> Telemetry<Scripted> {
    let identity = Identity {
        process_id: WorkerId::parse("test-1").expect("a name"),
        version: "0.0.0",
        started_at: Timestamp::from_micros(0),
        roles: vec!["api", "router"],
    };
    Telemetry::new(store.clone(), identity, metrics.clone())
}

#[tokio::test]
async fn every_count_is_reported_at_most_once() {
    for (script, expected) in [
        (vec![], 3),
        // Replies are used from last to first.
        (vec![Reply::Unavailable, Reply::Unavailable], 3),
        // Counts that may have been received are not reported again.
        (vec![Reply::Unknown], 1),
    ] {
        let (metrics, store) = (Metrics::new(), Scripted::default());
        store.script.lock().expect("the script").extend(script.clone());
        let mut telemetry = telemetry(&store, &metrics);
        metrics.events_accepted.inc_by(2);
        let at = |seconds: i64| Timestamp::from_micros(seconds * 1_000_000);
        // The outcome is scripted and may be an error.
        let _ = telemetry.step(at(0)).await;
        metrics.events_accepted.inc();
        let _ = telemetry.step(at(10)).await;
        telemetry.step(at(20)).await.expect("the script has ended");
        let taken: i64 = store.taken.lock().expect("the list").iter().map(|(_, amount)| amount).sum();
        assert_eq!(taken, expected, "{script:?}");
        assert_eq!(telemetry.chart_counts.unreported.len(), 0);
    }
}

#[tokio::test]
async fn attempts_are_reported_once_for_each_subscription() {
    let taken = Reply::Accepted;
    for (script, expected) in [
        (vec![], 3),
        // Replies are used from last to first: two for the roles, then one for the attempts.
        (vec![Reply::Unavailable, taken, taken], 3),
        (vec![Reply::Unknown, taken, taken], 1),
    ] {
        let (metrics, store) = (Metrics::new(), Scripted::default());
        store.script.lock().expect("the script").extend(script.clone());
        let mut telemetry = telemetry(&store, &metrics);
        let (one, other) = (SubscriptionId::from_store(1), SubscriptionId::from_store(2));
        let at = |seconds: i64| Timestamp::from_micros(seconds * 1_000_000);
        metrics.health.succeeded(one, Duration::from_millis(7));
        metrics.health.succeeded(other, Duration::from_millis(7));
        // The outcome is scripted and may be an error.
        let _ = telemetry.step(at(601)).await;
        metrics.health.failed(one, posthaste_core::outcome::Failure::Timeout.code(), at(602));
        telemetry.step(at(606)).await.expect("the script has ended");
        telemetry.step(at(611)).await.expect("the script has ended");
        let reported = store.health.lock().expect("the list").clone();
        assert_eq!(reported.iter().map(|sum| sum.attempts.made()).sum::<u64>(), expected, "{script:?}");
        assert!(reported.iter().all(|sum| sum.interval_start == at(600)), "{reported:?}");
        assert!(telemetry.attempt_sums.unreported.is_empty());
    }
}

#[tokio::test]
async fn drain_reports_the_rest_and_every_role() {
    let (metrics, store) = (Metrics::new(), Scripted::default());
    let mut telemetry = telemetry(&store, &metrics);
    metrics.lease_resets.inc();
    metrics.delivered(Duration::from_millis(3));
    telemetry.drain(&Clock::fixed(Timestamp::from_micros(0)), EVERY).await;
    let taken = store.taken.lock().expect("the list").clone();
    assert_eq!(taken, [("latency_03".to_owned(), 1), ("lease_resets".to_owned(), 1)]);
    assert_eq!(*store.roles.lock().expect("the list"), ["api", "router"]);
}

#[test]
fn memory_is_bounded_during_a_long_outage() {
    let (metrics, store) = (Metrics::new(), Scripted::default());
    let mut telemetry = telemetry(&store, &metrics);
    for interval in 0..20_000 {
        metrics.events_accepted.inc();
        metrics.health.succeeded(SubscriptionId::from_store(interval + 1), Duration::ZERO);
        telemetry.collect(Timestamp::from_micros(interval * 10_000_000));
    }
    assert_eq!(telemetry.attempt_sums.unreported.len(), attempt_sums::WAITING_MAX);
    assert_eq!(telemetry.chart_counts.unreported.len(), chart_counts::WAITING_MAX);
    assert_eq!(telemetry.chart_counts.unreported.values().sum::<i64>(), 20_000);
}
