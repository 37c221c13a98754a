//! The counters of this process for the charts, in intervals of ten seconds.

use super::{REPORT_MAX, settle};
use crate::metrics::Metrics;
use posthaste_core::Timestamp;
use posthaste_core::ports::{PresenceStore, ProcessSeen, Rollup, RollupWidth, StoreResult};
use std::collections::{BTreeMap, HashMap};

/// The maximum number of sums kept while the store is unavailable. Later counts are added to the last
/// interval.
pub(super) const WAITING_MAX: usize = 5_000;

#[derive(Debug, Default)]
pub(super) struct ChartCounts {
    /// The counter values at the last collection.
    known: HashMap<String, u64>,
    /// Sums not yet received by the store.
    pub(super) unreported: BTreeMap<(Timestamp, String), i64>,
}

impl ChartCounts {
    pub(super) fn collect(&mut self, metrics: &Metrics, now: Timestamp) {
        let interval = match self.unreported.last_key_value() {
            Some(((last, _), _)) if self.unreported.len() >= WAITING_MAX => *last,
            Some(_) | None => RollupWidth::TenSeconds.start_of(now),
        };
        for (name, count) in metrics.charted() {
            let before = self.known.insert(name.clone(), count).unwrap_or_default();
            let grown = i64::try_from(count.saturating_sub(before)).unwrap_or(i64::MAX);
            if grown > 0 {
                *self.unreported.entry((interval, name)).or_default() += grown;
            }
        }
    }

    /// Reports the sums and the presence of a role in one statement.
    pub(super) async fn report<S: PresenceStore>(&mut self, store: &S, seen: ProcessSeen) -> StoreResult<()> {
        let rollup = |((interval_start, counter), amount): (&(Timestamp, String), &i64)| Rollup {
            interval_start: *interval_start,
            counter: counter.clone(),
            amount: *amount,
        };
        let rollups: Vec<Rollup> = self.unreported.iter().take(REPORT_MAX).map(rollup).collect();
        let reported = rollups.len();
        let answer = store.report_presence(seen, rollups).await;
        settle(&mut self.unreported, reported, answer)
    }
}
