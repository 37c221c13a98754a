//! Carries what came of attempts to the store, in batches. A report is repeated until the store has
//! answered it: only then is the attempt over.

use crate::batcher::{Failed, Work};
use crate::metrics::Metrics;
use crate::wake::Wakes;
use posthaste_core::Timestamp;
use posthaste_core::ports::{JobReport, Report, StoreError, WorkerStore};

pub const SERVICE: &str = "reports";

#[derive(Debug)]
pub struct Reports<S> {
    store: S,
    wakes: Wakes,
    metrics: Metrics,
}

impl<S: WorkerStore> Reports<S> {
    pub const fn new(store: S, wakes: Wakes, metrics: Metrics) -> Self {
        Self { store, wakes, metrics }
    }
}

impl<S: WorkerStore> Work for Reports<S> {
    type Input = JobReport;
    type Output = Report;

    async fn work(
        &mut self,
        reports: Vec<JobReport>,
        now: Timestamp,
    ) -> Result<Vec<Report>, Failed<JobReport>> {
        self.metrics.batch(SERVICE, reports.len());
        match self.store.report_jobs(reports.clone(), now).await {
            Ok(answers) => {
                self.wakes.wake_results(reports.iter().map(|report| report.job_id));
                Ok(answers)
            }
            // The lease token makes a repetition harmless, also when the first may have been done.
            Err(error @ (StoreError::Unavailable { .. } | StoreError::OutcomeUnknown { .. })) => {
                Err(Failed { error, again: Some(reports) })
            }
            Err(error @ (StoreError::Busy { .. } | StoreError::Full { .. })) => {
                Err(Failed { error, again: Some(reports) })
            }
            // Nothing that waiting would mend. The leases run out, and the jobs are done again.
            Err(
                error @ (StoreError::Refused { .. }
                | StoreError::Unreadable { .. }
                | StoreError::Unusable { .. }),
            ) => Err(Failed { error, again: None }),
        }
    }
}
