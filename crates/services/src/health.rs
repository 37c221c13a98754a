//! The outcomes of attempts by subscription, summed in memory until [`telemetry`](crate::telemetry) writes
//! them to the store. Counting never waits for the store, and its memory use is bounded.

use posthaste_core::health::Attempts;
use posthaste_core::outcome::ErrorCode;
use posthaste_core::{SubscriptionId, Timestamp};
use std::collections::HashMap;
use std::mem;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The maximum number of subscriptions counted between two reports. Attempts for any others are not counted.
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

    /// Returns the sums and resets them.
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
    fn number_of_counted_subscriptions_is_bounded() {
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
            "counted subscriptions are counted completely"
        );
        assert!(tally.take().is_empty(), "each sum is returned once");
    }
}
