//! What a component is: one bounded unit of work that says whether there may be more.

use crate::clock::Clock;
use posthaste_core::Timestamp;
use posthaste_core::ports::StoreResult;
use std::time::Duration;

/// What a step leaves behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// It did as much as one step may: there may be more at once.
    More,
    /// Nothing is left that it knows of.
    Idle,
    /// There was nothing to do, and so the store was not asked: this says nothing about whether it is there.
    Unasked,
    /// Nothing is left now; there will be at this time, if nobody rings before.
    IdleUntil(Timestamp),
}

/// A component. Calling it once too often is harmless, and so is calling two of the same kind at once.
pub trait Step: Send {
    fn step(&mut self, now: Timestamp) -> impl Future<Output = StoreResult<Progress>> + Send;

    /// Ends what its steps began and did not wait for, within `patience`. Called once, after the last
    /// step.
    fn drain(&mut self, clock: &Clock, patience: Duration) -> impl Future<Output = ()> + Send {
        let _ = (clock, patience);
        std::future::ready(())
    }
}
