//! The outcomes of attempts for each subscription, summed up in memory until [`telemetry`](crate::telemetry) takes it to
//! the store. Counting never waits for the store, and never fills the memory.

use posthaste_core::health::Attempts;
use posthaste_core::outcome::ErrorCode;
use posthaste_core::{SubscriptionId, Timestamp};
use std::collections::HashMap;
use std::mem;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Subscriptions that are counted between two reports. Attempts for others are not told of.
const SUBSCRIPTIONS_MAX: usize = 10_000;

#[derive(Debug, Default)]
pub struct HealthTally(Mutex<HashMap<SubscriptionId, Attempts>>);

impl HealthTally {
    pub fn succeeded(&self, id: SubscriptionId, took: Duration) {
        self.count(id, |attempts| attempts.succeed(took));
    }

    pub fn failed(&self, id: SubscriptionId, code: ErrorCode, at: Timestamp) {
        self.count(id, |attempts| attempts.fail(code, at));
    }

    /// Takes over what was counted since the last time.
    pub fn take(&self) -> HashMap<SubscriptionId, Attempts> {
        mem::take(&mut *self.sums())
    }

    fn count(&self, id: SubscriptionId, count: impl FnOnce(&mut Attempts)) {
        let mut sums = self.sums();
        if sums.len() < SUBSCRIPTIONS_MAX || sums.contains_key(&id) {
            count(sums.entry(id).or_default());
        }
    }

    fn sums(&self) -> MutexGuard<'_, HashMap<SubscriptionId, Attempts>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_subscriptions_fill_no_memory() {
        let tally = HealthTally::default();
        for _ in 0..2 {
            for id in 1..=20_000 {
                tally.succeeded(SubscriptionId::from_store(id), Duration::ZERO);
            }
        }
        let taken = tally.take();
        assert_eq!(taken.len(), SUBSCRIPTIONS_MAX);
        assert!(
            taken.values().all(|attempts| attempts.made() == 2),
            "those that are counted are counted whole"
        );
        assert!(tally.take().is_empty(), "each is told once");
    }
}
