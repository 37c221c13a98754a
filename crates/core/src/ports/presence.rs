//! Port of every role: reports that the process is alive, and adds to the counters for the whole server and for
//! each subscription. It calls functions that run with the owner's privileges, so that no role needs privileges
//! on the underlying tables.

use super::StoreResult;
use crate::health::Attempts;
use crate::ids::{SubscriptionId, WorkerId};
use crate::time::Timestamp;

/// A process, and one of the roles that it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessSeen {
    pub process_id: WorkerId,
    pub role: String,
    pub version: String,
    pub started_at: Timestamp,
    pub seen_at: Timestamp,
}

/// The amount by which a counter increased within one interval.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rollup {
    pub interval_start: Timestamp,
    pub counter: String,
    pub amount: i64,
}

/// The attempts of one subscription within one interval; see [`crate::health::interval_start`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HealthSum {
    pub subscription_id: SubscriptionId,
    pub interval_start: Timestamp,
    pub attempts: Attempts,
}

pub trait PresenceStore: Send + Sync + 'static {
    fn report_presence(
        &self,
        seen: ProcessSeen,
        rollups: Vec<Rollup>,
    ) -> impl Future<Output = StoreResult<()>> + Send;

    /// Adds `sums` to the stored sums, and deletes the stored sums that are too old at `now`. `sums` contains
    /// at most one entry for each subscription and interval.
    fn report_health(
        &self,
        sums: Vec<HealthSum>,
        now: Timestamp,
    ) -> impl Future<Output = StoreResult<()>> + Send;
}
