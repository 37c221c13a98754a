//! Every role: says that it lives, and adds what it counted. Both go through one function of the
//! owner, so that no role holds a right on the tables behind it.

use super::StoreResult;
use crate::ids::WorkerId;
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

pub trait PresenceStore: Send + Sync + 'static {
    fn report_presence(
        &self,
        seen: ProcessSeen,
        rollups: Vec<Rollup>,
    ) -> impl Future<Output = StoreResult<()>> + Send;
}
