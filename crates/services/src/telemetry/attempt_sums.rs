//! Sums of attempts by subscription and interval of [`posthaste_core::health`].

use super::{REPORT_MAX, settle};
use crate::metrics::Metrics;
use posthaste_core::health::{self, Attempts};
use posthaste_core::ports::{HealthSum, PresenceStore, StoreResult};
use posthaste_core::{SubscriptionId, Timestamp};
use std::collections::BTreeMap;

/// The maximum number of sums kept while the store is unavailable. Any others are dropped, so the latest
/// intervals are lost.
pub(super) const WAITING_MAX: usize = 10_000;

#[derive(Debug, Default)]
pub(super) struct AttemptSums {
    /// Sums not yet received by the store.
    pub(super) unreported: BTreeMap<(Timestamp, SubscriptionId), Attempts>,
}

impl AttemptSums {
    pub(super) fn collect(&mut self, metrics: &Metrics, now: Timestamp) {
        let interval = health::interval_start(now);
        for (id, attempts) in metrics.health.take() {
            let key = (interval, id);
            if self.unreported.len() < WAITING_MAX || self.unreported.contains_key(&key) {
                self.unreported.entry(key).or_default().add(&attempts);
            }
        }
    }

    pub(super) async fn report<S: PresenceStore>(&mut self, store: &S, now: Timestamp) -> StoreResult<()> {
        let sum = |((interval_start, id), attempts): (&(Timestamp, SubscriptionId), &Attempts)| HealthSum {
            subscription_id: *id,
            interval_start: *interval_start,
            attempts: attempts.clone(),
        };
        while !self.unreported.is_empty() {
            let sums: Vec<HealthSum> = self.unreported.iter().take(REPORT_MAX).map(sum).collect();
            let reported = sums.len();
            let answer = store.report_health(sums, now).await;
            settle(&mut self.unreported, reported, answer)?;
        }
        Ok(())
    }
}
