//! What a component is: one bounded unit of work that says whether there may be more.

use posthaste_core::Timestamp;
use posthaste_core::ports::StoreResult;

/// What a step leaves behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// It did as much as one step may: there may be more at once.
    More,
    /// Nothing is left that it knows of.
    Idle,
}

/// A component. Calling it once too often is harmless, and so is calling two of the same kind at once.
pub trait Step: Send {
    fn step(&mut self, now: Timestamp) -> impl Future<Output = StoreResult<Progress>> + Send;
}
