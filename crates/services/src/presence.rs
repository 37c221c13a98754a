//! Says every few seconds which roles this process runs, and adds what its [`metrics`](crate::metrics)
//! counted since to the counters of the charts. Touches nothing that is delivered.

use crate::clock::Clock;
use crate::metrics::Metrics;
use crate::step::{Progress, Step};
use posthaste_core::ports::{PresenceStore, ProcessSeen, Rollup, RollupWidth, StoreError, StoreResult};
use posthaste_core::{Timestamp, WorkerId};
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
}

impl<S: PresenceStore> Presence<S> {
    pub fn new(store: S, identity: Identity, metrics: Metrics) -> Self {
        Self { store, identity, metrics, known: HashMap::new(), waiting: BTreeMap::new() }
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
        Ok(())
    }
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
    }

    impl PresenceStore for Scripted {
        async fn report_presence(&self, seen: ProcessSeen, rollups: Vec<Rollup>) -> StoreResult<()> {
            let answer = self.script.lock().expect("the script").pop().unwrap_or(Answer::Taken);
            let (doing, source) = ("testing", "no".into());
            match answer {
                Answer::Away => return Err(StoreError::Unavailable { doing, source }),
                Answer::Unknown => return Err(StoreError::OutcomeUnknown { doing, source }),
                Answer::Taken => {}
            }
            let taken = rollups.into_iter().map(|rollup| (rollup.counter, rollup.amount));
            self.taken.lock().expect("the list").extend(taken);
            self.roles.lock().expect("the list").push(seen.role);
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
            presence.look(Timestamp::from_micros(interval * 10_000_000));
        }
        assert_eq!(presence.waiting.len(), WAITING_MAX);
        assert_eq!(presence.waiting.values().sum::<i64>(), 20_000);
    }
}
