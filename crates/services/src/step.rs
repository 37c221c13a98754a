//! The [`Step`] trait, implemented by all components: a bounded unit of work that returns whether there may
//! be more. Called by the [runner](crate::runner).

use crate::clock::Clock;
use posthaste_core::Timestamp;
use posthaste_core::ports::StoreResult;
use std::time::Duration;

/// The result of a step, which determines when it is called again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// The step reached its batch limit, so there may be more work now.
    More,
    /// There is no more known work.
    Idle,
    /// There was no work, so the store was not used and may or may not be available.
    Unasked,
    /// There is no work before this time unless a wake-up arrives.
    IdleUntil(Timestamp),
}

/// A component. Spurious calls are harmless, and several processes may run the same component concurrently.
pub trait Step: Send {
    fn step(&mut self, now: Timestamp) -> impl Future<Output = StoreResult<Progress>> + Send;

    /// Finishes, within `patience`, the work that steps started without waiting for it. Called once, after
    /// the last step.
    fn drain(&mut self, clock: &Clock, patience: Duration) -> impl Future<Output = ()> + Send {
        let _ = (clock, patience);
        std::future::ready(())
    }
}
