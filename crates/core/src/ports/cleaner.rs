//! Port of the role lease_cleaner: resets jobs whose lease has expired.

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

/// The maximum number of leases to read, and the `lease_until` at which to start reading. `None` starts at the
/// oldest lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseTake {
    pub from: Option<Timestamp>,
    pub jobs_max: u32,
    /// The maximum remaining time of a valid lease. A lease that ends later counts as expired, because the
    /// clock was set back after it was granted.
    pub ahead_max: Duration,
}

pub trait CleanerStore: Send + Sync + 'static {
    /// Resets or fails the jobs whose lease expired before `now`, oldest first, as decided by
    /// [`crate::job::expire`].
    fn reset_expired_leases(
        &self,
        take: LeaseTake,
        resets_max: u32,
        now: Timestamp,
    ) -> impl Future<Output = StoreResult<Vec<ResetLease>>> + Send;
}
