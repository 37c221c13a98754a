//! When the next failed order is due, as far as this process knows: what the store answered, and what its
//! own sends came to since.

use posthaste_core::Timestamp;
use std::sync::atomic::{AtomicI64, Ordering};

const NEVER: i64 = i64::MAX;

#[derive(Debug)]
pub(super) struct Retries(AtomicI64);

impl Default for Retries {
    fn default() -> Self {
        Self(AtomicI64::new(NEVER))
    }
}

impl Retries {
    pub(super) fn forget(&self) {
        self.0.store(NEVER, Ordering::Relaxed);
    }

    pub(super) fn expect(&self, at: Timestamp) {
        self.0.fetch_min(at.micros(), Ordering::Relaxed);
    }

    pub(super) fn next_at(&self) -> Option<Timestamp> {
        let micros = self.0.load(Ordering::Relaxed);
        (micros != NEVER).then(|| Timestamp::from_micros(micros))
    }

    pub(super) fn are_due(&self, now: Timestamp) -> bool {
        self.next_at().is_some_and(|at| at <= now)
    }
}
