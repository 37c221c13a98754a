//! Deletes expired keys from the ledger, so that they may be used again.

use crate::step::{Progress, Step};
use posthaste_core::Timestamp;
use posthaste_core::ports::{OutboxWorkerStore, StoreResult};
use std::time::Duration;

/// The interval between purges. It is well below the ten minutes without a step after which an alert is
/// raised.
pub const PURGE_EVERY: Duration = Duration::from_secs(60);
/// The maximum number of keys that one step deletes.
const PURGED_MAX: u32 = 1_000;

#[derive(Debug)]
pub struct LedgerPurge<S>(pub S);

impl<S: OutboxWorkerStore> Step for LedgerPurge<S> {
    async fn step(&mut self, now: Timestamp) -> StoreResult<Progress> {
        let keys = self.0.purge_ledger(PURGED_MAX, now).await?;
        if keys > 0 {
            tracing::debug!(keys, "expired keys deleted");
        }
        Ok(if keys == PURGED_MAX { Progress::More } else { Progress::Idle })
    }
}
