//! Gives back jobs whose worker died or hangs (leased by the worker), so that another takes them.
//! Never touches a saga.

use crate::step::{Progress, Step};
use posthaste_core::Timestamp;
use posthaste_core::ports::{CleanerStore, StoreResult};

/// The most leases of one step.
const JOBS_MAX: u32 = 500;

#[derive(Debug)]
pub struct Cleaner<S> {
    store: S,
    resets_max: u32,
}

impl<S: CleanerStore> Cleaner<S> {
    pub const fn new(store: S, resets_max: u32) -> Self {
        Self { store, resets_max }
    }
}

impl<S: CleanerStore> Step for Cleaner<S> {
    async fn step(&mut self, now: Timestamp) -> StoreResult<Progress> {
        let reset = self.store.reset_expired_leases(JOBS_MAX, self.resets_max, now).await?;
        Ok(if reset.len() < JOBS_MAX as usize { Progress::Idle } else { Progress::More })
    }
}
