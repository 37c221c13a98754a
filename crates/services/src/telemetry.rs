//! Writes the roles of this process and the counts from its [`metrics`](crate::metrics) to the store every
//! few seconds, for the dashboard and for `doctor`. There are three reports: the [`presence`] of the process,
//! the [`chart_counts`] of all deliveries and the [`attempt_sums`] of each subscription.

mod attempt_sums;
mod chart_counts;
mod presence;

use crate::clock::Clock;
use crate::metrics::Metrics;
use crate::step::{Progress, Step};
use attempt_sums::AttemptSums;
use chart_counts::ChartCounts;
use posthaste_core::Timestamp;
use posthaste_core::ports::{PresenceStore, StoreError, StoreResult};
use std::collections::BTreeMap;
use std::time::Duration;

pub use presence::{GONE_AFTER, Identity};

/// The interval between reports.
pub const EVERY: Duration = Duration::from_secs(5);
/// The maximum number of sums in one report.
const REPORT_MAX: usize = 500;

/// Removes the first `reported` sums if the store received them or may have. A report whose outcome is
/// unknown is not retried: a chart that lacks a few seconds is better than one that counts them twice.
fn settle<K: Ord, V>(sums: &mut BTreeMap<K, V>, reported: usize, answer: StoreResult<()>) -> StoreResult<()> {
    if matches!(answer, Ok(()) | Err(StoreError::OutcomeUnknown { .. })) {
        (0..reported).for_each(|_| drop(sums.pop_first()));
    }
    answer
}

#[derive(Debug)]
pub struct Telemetry<S> {
    store: S,
    identity: Identity,
    metrics: Metrics,
    chart_counts: ChartCounts,
    attempt_sums: AttemptSums,
}

impl<S: PresenceStore> Telemetry<S> {
    pub fn new(store: S, identity: Identity, metrics: Metrics) -> Self {
        let (chart_counts, attempt_sums) = (ChartCounts::default(), AttemptSums::default());
        Self { store, identity, metrics, chart_counts, attempt_sums }
    }

    /// Adds the counts since the last call to the unreported sums.
    fn collect(&mut self, now: Timestamp) {
        self.chart_counts.collect(&self.metrics, now);
        self.attempt_sums.collect(&self.metrics, now);
    }

    async fn report(&mut self, now: Timestamp) -> StoreResult<()> {
        for seen in self.identity.seen(now) {
            self.chart_counts.report(&self.store, seen).await?;
        }
        self.attempt_sums.report(&self.store, now).await
    }
}

impl<S: PresenceStore> Step for Telemetry<S> {
    async fn step(&mut self, now: Timestamp) -> StoreResult<Progress> {
        self.collect(now);
        self.report(now).await?;
        Ok(Progress::Idle)
    }

    /// Reports the counts since the last step.
    async fn drain(&mut self, clock: &Clock, patience: Duration) {
        let now = clock.now();
        self.collect(now);
        match tokio::time::timeout(patience, self.report(now)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "final report failed, the last chart counts are lost"),
            Err(_) => tracing::warn!("final report timed out, the last chart counts are lost"),
        }
    }
}

#[cfg(test)]
mod tests;
