//! Telemetry over a scripted store.

use super::*;
use posthaste_core::ports::{HealthSum, ProcessSeen, Rollup, StoreError};
use posthaste_core::{SubscriptionId, WorkerId};
use std::sync::{Arc, Mutex};

#[derive(Debug, Clone, Copy)]
enum Answer {
    Taken,
    Away,
    Unknown,
}

/// Answers as the script says, and keeps what it took.
#[derive(Debug, Clone, Default)]
struct Scripted {
    script: Arc<Mutex<Vec<Answer>>>,
    taken: Arc<Mutex<Vec<(String, i64)>>>,
    roles: Arc<Mutex<Vec<String>>>,
    health: Arc<Mutex<Vec<HealthSum>>>,
}

impl Scripted {
    fn answer(&self) -> StoreResult<()> {
        let (doing, source) = ("testing", "no".into());
        match self.script.lock().expect("the script").pop().unwrap_or(Answer::Taken) {
            Answer::Away => Err(StoreError::Unavailable { doing, source }),
            Answer::Unknown => Err(StoreError::OutcomeUnknown { doing, source }),
            Answer::Taken => Ok(()),
        }
    }
}

impl PresenceStore for Scripted {
    async fn report_presence(&self, seen: ProcessSeen, rollups: Vec<Rollup>) -> StoreResult<()> {
        self.answer()?;
        let taken = rollups.into_iter().map(|rollup| (rollup.counter, rollup.amount));
        self.taken.lock().expect("the list").extend(taken);
        self.roles.lock().expect("the list").push(seen.role);
        Ok(())
    }

    async fn report_health(&self, sums: Vec<HealthSum>, _now: Timestamp) -> StoreResult<()> {
        self.answer()?;
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
async fn every_count_is_told_once_whatever_the_store_answers() {
    for (script, expected) in [
        (vec![], 3),
        // The last of the list comes first.
        (vec![Answer::Away, Answer::Away], 3),
        // What may have been taken is not told again.
        (vec![Answer::Unknown], 1),
    ] {
        let (metrics, store) = (Metrics::new(), Scripted::default());
        store.script.lock().expect("the script").extend(script.clone());
        let mut telemetry = telemetry(&store, &metrics);
        metrics.events_accepted.inc_by(2);
        let at = |seconds: i64| Timestamp::from_micros(seconds * 1_000_000);
        // The outcome of each step is the script's.
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
async fn attempts_are_told_once_for_each_subscription() {
    let taken = Answer::Taken;
    for (script, expected) in [
        (vec![], 3),
        // The last of the list comes first: two roles report, and then the attempts are told.
        (vec![Answer::Away, taken, taken], 3),
        (vec![Answer::Unknown, taken, taken], 1),
    ] {
        let (metrics, store) = (Metrics::new(), Scripted::default());
        store.script.lock().expect("the script").extend(script.clone());
        let mut telemetry = telemetry(&store, &metrics);
        let (one, other) = (SubscriptionId::from_store(1), SubscriptionId::from_store(2));
        let at = |seconds: i64| Timestamp::from_micros(seconds * 1_000_000);
        metrics.health.succeeded(one, Duration::from_millis(7));
        metrics.health.succeeded(other, Duration::from_millis(7));
        // The outcome is the script's.
        let _ = telemetry.step(at(601)).await;
        metrics.health.failed(one, posthaste_core::outcome::Failure::Timeout.code(), at(602));
        telemetry.step(at(606)).await.expect("the script has ended");
        telemetry.step(at(611)).await.expect("the script has ended");
        let told = store.health.lock().expect("the list").clone();
        assert_eq!(told.iter().map(|sum| sum.attempts.made()).sum::<u64>(), expected, "{script:?}");
        assert!(told.iter().all(|sum| sum.interval_start == at(600)), "{told:?}");
        assert!(telemetry.attempt_sums.unreported.is_empty());
    }
}

#[tokio::test]
async fn the_end_tells_what_is_left_and_every_role_is_seen() {
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
fn a_long_outage_fills_no_memory() {
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
