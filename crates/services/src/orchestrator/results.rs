//! Applies each result of a job once. Results are reported by workers, or written by the cleaner when it
//! fails a job. The saga completes, waits for its next attempt, or is dead-lettered.

use super::InFlight;
use crate::clock::Clock;
use crate::metrics::Metrics;
use crate::read_position::ReadPosition;
use crate::step::{Progress, Step};
use crate::wake::WakeUps;
use posthaste_core::outcome::Failure;
use posthaste_core::ports::{AppliedResult, OrchestratorStore, ResultTake, Stage, StoreResult};
use posthaste_core::retry::RetryPolicy;
use posthaste_core::saga::Decision;
use posthaste_core::{JobId, Timestamp};

pub(super) const SERVICE: &str = "results";

/// The maximum number of results that one step applies.
const RESULTS_MAX: u32 = 1_000;

#[derive(Debug)]
pub struct Results<S> {
    store: S,
    policy: RetryPolicy,
    in_flight: InFlight,
    wake_ups: WakeUps,
    metrics: Metrics,
    /// The position of reads by job id. Jobs of slow receivers finish after jobs with larger ids, so each
    /// wake-up includes the smallest id that finished.
    position: ReadPosition<JobId>,
}

impl<S: OrchestratorStore> Results<S> {
    pub const fn new(
        store: S,
        policy: RetryPolicy,
        in_flight: InFlight,
        clock: Clock,
        wake_ups: WakeUps,
        metrics: Metrics,
    ) -> Self {
        let position = ReadPosition::new(clock);
        Self { store, policy, in_flight, wake_ups, metrics, position }
    }

    fn record_result(&self, result: &AppliedResult, now: Timestamp) {
        self.metrics.decided(&result.decision);
        // The cleaner failed this attempt, because its lease expired too often.
        if let Some(code) = result.error_code.as_ref().filter(|code| **code == Failure::LeaseExpired.code())
            && !result.is_ignored()
        {
            self.metrics.health.failed(result.subscription_id, code.clone(), now);
        }
        let (saga_id, job_id, event_id) = (result.saga_id, result.job_id, result.event_id);
        let subscription_id = result.subscription_id;
        // The age since routing. This role may not read the time at which the event was accepted.
        let age_s = now.since(result.saga_created_at).as_secs();
        match &result.decision {
            Decision::Complete { attempt_count } => {
                tracing::debug!(
                    %saga_id, %job_id, %event_id, %subscription_id, attempt_count, age_s, status = "Completed",
                    "delivered"
                );
            }
            Decision::Retry { attempt_count, next_attempt_at, error_code } => tracing::info!(
                %saga_id, %job_id, %event_id, %subscription_id, attempt_count, status = "PendingRetry",
                %error_code, retry_in_s = next_attempt_at.since(now).as_secs(), "attempt failed, retry scheduled"
            ),
            Decision::DeadLetter { attempt_count, error_code } => {
                let error_code = error_code.as_ref().map(tracing::field::display);
                tracing::warn!(
                    %saga_id, %job_id, %event_id, %subscription_id, attempt_count, age_s,
                    status = "DeadLettered", error_code, "dead-lettered, requeue it when the cause is fixed"
                );
            }
            Decision::Ignore(why) => {
                tracing::debug!(%saga_id, %job_id, %event_id, %subscription_id, ?why, "result ignored");
            }
            Decision::StartAttempt { .. } => {}
        }
    }
}

impl<S: OrchestratorStore> Step for Results<S> {
    async fn step(&mut self, now: Timestamp) -> StoreResult<Progress> {
        if let Some(job) = self.wake_ups.take_lowest_finished() {
            self.position.lower_to(job);
        }
        let from = self.position.from(now);
        let take = ResultTake { from, results_max: RESULTS_MAX };
        let results = self.store.apply_job_results(take, self.policy, now).await?;
        let may_be_more = results.len() == RESULTS_MAX as usize;
        self.position.record(results.iter().map(|result| result.job_id).min(), now);
        if !results.is_empty() {
            self.metrics.batch(SERVICE, results.len());
            results.iter().for_each(|result| self.record_result(result, now));
            if self.in_flight.applied(&results, now) {
                self.wake_ups.wake(Stage::Admission);
            }
        }
        Ok(if may_be_more { Progress::More } else { Progress::Idle })
    }
}
