//! Writes the outcomes of attempts to the store, in batches. A report is retried while the store is
//! unavailable; its attempt occupies a slot until the report is written.

use crate::batcher::{BatchHandler, Failed};
use crate::metrics::Metrics;
use crate::wake::WakeUps;
use posthaste_core::Timestamp;
use posthaste_core::ports::{JobReport, Report, WorkerStore};

pub const SERVICE: &str = "reports";

#[derive(Debug)]
pub struct Reports<S> {
    store: S,
    wake_ups: WakeUps,
    metrics: Metrics,
}

impl<S: WorkerStore> Reports<S> {
    pub const fn new(store: S, wake_ups: WakeUps, metrics: Metrics) -> Self {
        Self { store, wake_ups, metrics }
    }
}

impl<S: WorkerStore> BatchHandler for Reports<S> {
    type Input = JobReport;
    type Output = Report;

    async fn handle(
        &mut self,
        reports: Vec<JobReport>,
        now: Timestamp,
    ) -> Result<Vec<Report>, Failed<JobReport>> {
        self.metrics.batch(SERVICE, reports.len());
        let answers = self.store.report_jobs(reports.clone(), now).await;
        if answers.is_ok() {
            self.wake_ups.wake_results(reports.iter().map(|report| report.job_id));
        }
        // Jobs whose reports are not retried are sent again after their leases expire.
        answers.map_err(|error| Failed::repeated(error, reports))
    }
}
