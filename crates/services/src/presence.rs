//! Says every few seconds which roles this process runs, and adds what its [`metrics`](crate::metrics)
//! counted since to the counters of the charts and to the sums of each subscription. Touches nothing that is delivered.

use crate::clock::Clock;
use crate::metrics::Metrics;
use crate::step::{Progress, Step};
use posthaste_core::health::{self, Attempts};
use posthaste_core::ports::{
    HealthSum, PresenceStore, ProcessSeen, Rollup, RollupWidth, StoreError, StoreResult,
};
use posthaste_core::{SubscriptionId, Timestamp, WorkerId};
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

/// How often a process reports.
pub const EVERY: Duration = Duration::from_secs(5);
/// A process that has not reported for so long is not counted as running.
pub const GONE_AFTER: Duration = Duration::from_secs(30);
/// Sums that wait for a store that is away. What comes on top is added to the last interval.
const WAITING_MAX: usize = 5_000;
/// Sums of one report.
const REPORT_MAX: usize = 500;
/// Sums of subscriptions that wait for a store that is away. Of those on top, the last intervals are not told.
const HEALTH_WAITING_MAX: usize = 10_000;

/// Who reports.
#[derive(Debug, Clone)]
pub struct Identity {
    pub process_id: WorkerId,
    pub version: &'static str,
    pub started_at: Timestamp,
    /// The roles that it runs.
    pub roles: Vec<&'static str>,
}

#[derive(Debug)]
pub struct Presence<S> {
    store: S,
    identity: Identity,
    metrics: Metrics,
    /// What was counted when last looked at.
    known: HashMap<String, u64>,
    /// What the store has not taken yet.
    waiting: BTreeMap<(Timestamp, String), i64>,
    /// The same for each subscription.
    health: BTreeMap<(Timestamp, SubscriptionId), Attempts>,
}

impl<S: PresenceStore> Presence<S> {
    pub fn new(store: S, identity: Identity, metrics: Metrics) -> Self {
        let (known, waiting, health) = (HashMap::new(), BTreeMap::new(), BTreeMap::new());
        Self { store, identity, metrics, known, waiting, health }
    }

    /// Takes over what was counted since the last look.
    fn look(&mut self, now: Timestamp) {
        let mut interval = RollupWidth::TenSeconds.start_of(now);
        if self.waiting.len() >= WAITING_MAX
            && let Some(((last, _), _)) = self.waiting.last_key_value()
        {
            interval = *last;
        }
        for (name, count) in self.metrics.charted() {
            let before = self.known.insert(name.clone(), count).unwrap_or_default();
            let grown = i64::try_from(count.saturating_sub(before)).unwrap_or(i64::MAX);
            if grown > 0 {
                *self.waiting.entry((interval, name)).or_default() += grown;
            }
        }
        let interval = health::interval_start(now);
        for (id, attempts) in self.metrics.health.take() {
            let key = (interval, id);
            if self.health.len() < HEALTH_WAITING_MAX || self.health.contains_key(&key) {
                self.health.entry(key).or_default().add(&attempts);
            }
        }
    }

    async fn report(&mut self, now: Timestamp) -> StoreResult<()> {
        let roles = self.identity.roles.clone();
        for role in roles {
            let rollups: Vec<Rollup> = self.waiting.iter().take(REPORT_MAX).map(rollup).collect();
            let Identity { process_id, version, started_at, .. } = &self.identity;
            let seen = ProcessSeen {
                process_id: process_id.clone(),
                role: role.to_owned(),
                version: (*version).to_owned(),
                started_at: *started_at,
                seen_at: now,
            };
            let told: Vec<_> = self.waiting.keys().take(rollups.len()).cloned().collect();
            let answer = self.store.report_presence(seen, rollups).await;
            // A report that may have been taken is not made again: a chart that lacks a few seconds is
            // better than one that shows what never was.
            if matches!(answer, Ok(()) | Err(StoreError::OutcomeUnknown { .. })) {
                self.waiting.retain(|key, _| !told.contains(key));
            }
            answer?;
        }
        self.report_health(now).await
    }

    async fn report_health(&mut self, now: Timestamp) -> StoreResult<()> {
        while !self.health.is_empty() {
            let told: Vec<_> = self.health.keys().take(REPORT_MAX).copied().collect();
            let sums = self.health.iter().take(REPORT_MAX).map(health_sum).collect();
            let answer = self.store.report_health(sums, now).await;
            if matches!(answer, Ok(()) | Err(StoreError::OutcomeUnknown { .. })) {
                told.iter().for_each(|key| drop(self.health.remove(key)));
            }
            answer?;
        }
        Ok(())
    }
}

fn health_sum(((interval_start, id), attempts): (&(Timestamp, SubscriptionId), &Attempts)) -> HealthSum {
    HealthSum { subscription_id: *id, interval_start: *interval_start, attempts: attempts.clone() }
}

fn rollup(((interval_start, counter), amount): (&(Timestamp, String), &i64)) -> Rollup {
    Rollup { interval_start: *interval_start, counter: counter.clone(), amount: *amount }
}

impl<S: PresenceStore> Step for Presence<S> {
    async fn step(&mut self, now: Timestamp) -> StoreResult<Progress> {
        self.look(now);
        self.report(now).await?;
        Ok(Progress::Idle)
    }

    /// What was counted since the last report is not lost with the process.
    async fn drain(&mut self, clock: &Clock, patience: Duration) {
        let now = clock.now();
        self.look(now);
        match tokio::time::timeout(patience, self.report(now)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "the last counts for the charts are lost"),
            Err(_) => tracing::warn!("the last counts for the charts are lost: the store takes too long"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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

    fn presence(store: &Scripted, metrics: &Metrics) -> Presence<Scripted> {
        let identity = Identity {
            process_id: WorkerId::parse("test-1").expect("a name"),
            version: "0.0.0",
            started_at: Timestamp::from_micros(0),
            roles: vec!["api", "router"],
        };
        Presence::new(store.clone(), identity, metrics.clone())
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
            let mut presence = presence(&store, &metrics);
            metrics.events_accepted.inc_by(2);
            let at = |seconds: i64| Timestamp::from_micros(seconds * 1_000_000);
            // The outcome of each step is the script's.
            let _ = presence.step(at(0)).await;
            metrics.events_accepted.inc();
            let _ = presence.step(at(10)).await;
            presence.step(at(20)).await.expect("the script has ended");
            let taken: i64 = store.taken.lock().expect("the list").iter().map(|(_, amount)| amount).sum();
            assert_eq!(taken, expected, "{script:?}");
            assert_eq!(presence.waiting.len(), 0);
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
            let mut presence = presence(&store, &metrics);
            let (one, other) = (SubscriptionId::from_store(1), SubscriptionId::from_store(2));
            let at = |seconds: i64| Timestamp::from_micros(seconds * 1_000_000);
            metrics.health.succeeded(one, Duration::from_millis(7));
            metrics.health.succeeded(other, Duration::from_millis(7));
            // The outcome is the script's.
            let _ = presence.step(at(601)).await;
            metrics.health.failed(one, posthaste_core::outcome::Failure::Timeout.code(), at(602));
            presence.step(at(606)).await.expect("the script has ended");
            presence.step(at(611)).await.expect("the script has ended");
            let told = store.health.lock().expect("the list").clone();
            assert_eq!(told.iter().map(|sum| sum.attempts.made()).sum::<u64>(), expected, "{script:?}");
            assert!(told.iter().all(|sum| sum.interval_start == at(600)), "{told:?}");
            assert!(presence.health.is_empty());
        }
    }

    #[tokio::test]
    async fn the_end_tells_what_is_left_and_every_role_is_seen() {
        let (metrics, store) = (Metrics::new(), Scripted::default());
        let mut presence = presence(&store, &metrics);
        metrics.lease_resets.inc();
        metrics.delivered(Duration::from_millis(3));
        presence.drain(&Clock::standing(Timestamp::from_micros(0)), EVERY).await;
        let taken = store.taken.lock().expect("the list").clone();
        assert_eq!(taken, [("latency_03".to_owned(), 1), ("lease_resets".to_owned(), 1)]);
        assert_eq!(*store.roles.lock().expect("the list"), ["api", "router"]);
    }

    #[test]
    fn a_long_outage_fills_no_memory() {
        let (metrics, store) = (Metrics::new(), Scripted::default());
        let mut presence = presence(&store, &metrics);
        for interval in 0..20_000 {
            metrics.events_accepted.inc();
            metrics.health.succeeded(SubscriptionId::from_store(interval + 1), Duration::ZERO);
            presence.look(Timestamp::from_micros(interval * 10_000_000));
        }
        assert_eq!(presence.health.len(), HEALTH_WAITING_MAX);
        assert_eq!(presence.waiting.len(), WAITING_MAX);
        assert_eq!(presence.waiting.values().sum::<i64>(), 20_000);
    }
}
