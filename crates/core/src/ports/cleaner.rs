//! Port of the role job_worker, as the cleaner: resets jobs whose lease has expired.

use super::StoreResult;
use crate::ids::{EventId, JobId, SagaId};
use crate::job::ExpiredLease;
use crate::time::Timestamp;
use std::time::Duration;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResetLease {
    pub job_id: JobId,
    pub saga_id: SagaId,
    pub event_id: EventId,
    /// The correlation id of the event, for the log.
    pub correlation_id: Option<String>,
    /// The worker that held the lease.
    pub worker_id: Option<String>,
    pub lease_until: Timestamp,
    pub outcome: ExpiredLease,
}

/// How many leases to read, and the `lease_until` from which to read; `None` means from the beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseTake {
    pub from: Option<Timestamp>,
    pub jobs_max: u32,
    /// A lease that ends further ahead than this counts as expired: the clock was set back since it was
    /// granted.
    pub ahead_max: Duration,
}

pub trait CleanerStore: Send + Sync + 'static {
    /// Handles leases that expired before `now`, oldest first, as [`crate::job::expire`] decides.
    fn reset_expired_leases(
        &self,
        take: LeaseTake,
        resets_max: u32,
        now: Timestamp,
    ) -> impl Future<Output = StoreResult<Vec<ResetLease>>> + Send;
}
