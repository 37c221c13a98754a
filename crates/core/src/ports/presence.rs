//! Port of every role: reports that the process is alive and adds its counters, in total and by subscription.
//! It uses functions of the owner, so that no role needs rights on the tables behind them.

use super::StoreResult;
use crate::health::Attempts;
use crate::ids::{SubscriptionId, WorkerId};
use crate::time::Timestamp;

/// One process and one role that it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessSeen {
    pub process_id: WorkerId,
    pub role: String,
    pub version: String,
    pub started_at: Timestamp,
    pub seen_at: Timestamp,
}

/// The increase of one counter within one interval.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rollup {
    pub interval_start: Timestamp,
    pub counter: String,
    pub amount: i64,
}

/// The attempts of one subscription within one interval of [`crate::health`].
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

    /// Adds sums, at most one for each subscription and interval, and deletes those that are too old at
    /// `now`.
    fn report_health(
        &self,
        sums: Vec<HealthSum>,
        now: Timestamp,
    ) -> impl Future<Output = StoreResult<()>> + Send;
}
