//! Every role: says that it lives, and adds what it counted, in all and for single subscriptions. It goes through
//! functions of the owner, so that no role holds a right on the tables behind them.

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

/// What one counter grew by within one interval.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rollup {
    pub interval_start: Timestamp,
    pub counter: String,
    pub amount: i64,
}

/// How the attempts for one subscription went within one interval of [`crate::health`].
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

    /// Adds sums, of which no two are for the same subscription and interval, and takes away what is too old at `now`.
    fn report_health(
        &self,
        sums: Vec<HealthSum>,
        now: Timestamp,
    ) -> impl Future<Output = StoreResult<()>> + Send;
}
