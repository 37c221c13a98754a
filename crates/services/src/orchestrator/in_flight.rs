//! The number of jobs in flight for each subscription, and its limit. [`Admission`](super::Admission) reads
//! the free capacity; [`Results`](super::Results) records finished jobs. Kept in memory only, and counted
//! again after a restart.
//!
//! With several orchestrators on one database, one may apply the results of jobs that another admitted.
//! Counts are therefore corrected from the database when a subscription is first seen and while it is at its
//! limit.

use crate::clock::is_due;
use posthaste_core::in_flight::InFlightBound;
use posthaste_core::ports::{AdmittedJob, AppliedResult};
use posthaste_core::{SubscriptionId, Timestamp};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The interval between recounts of a subscription at its limit while no other orchestrator appears to be
/// active.
const RECOUNT_ALONE: Duration = Duration::from_secs(1);
/// The interval between recounts of a subscription at its limit while another orchestrator is active and
/// counting is not slow.
const RECOUNT_SHARED: Duration = Duration::from_millis(20);
/// The duration from which a count is considered slow. During a long-running transaction, a count steps over
/// the dead index entries of every job that was in flight since the transaction began.
const SLOW_COUNT: Duration = Duration::from_millis(5);
/// The time for which another orchestrator counts as active after it was last detected.
const SHARED_FOR: Duration = Duration::from_secs(10);
/// The maximum number of subscriptions in one recount.
const RECOUNT_MAX: usize = 256;
/// The number of known subscriptions above which those without jobs in flight are dropped, to bound memory
/// use.
const KNOWN_MAX: usize = 100_000;

/// The counts of jobs in flight. Cheap to clone; clones share their state.
#[derive(Debug, Clone)]
pub struct InFlight(Arc<Mutex<Memory>>);

#[derive(Debug)]
struct Memory {
    in_flight_max: u32,
    known: HashMap<SubscriptionId, Count>,
    shared_until: Timestamp,
    was_last_count_slow: bool,
}

#[derive(Debug)]
struct Count {
    bound: InFlightBound,
    in_flight: u32,
    counted_at: Option<Timestamp>,
}

impl InFlight {
    /// Creates an empty set of counts. `in_flight_max` is the upper bound for the limit of every
    /// subscription.
    pub fn new(in_flight_max: u32) -> Self {
        let (known, shared_until) = (HashMap::new(), Timestamp::MIN);
        Self(Arc::new(Mutex::new(Memory { in_flight_max, known, shared_until, was_last_count_slow: false })))
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn in_flight_max(&self) -> u32 {
        self.memory().in_flight_max
    }

    /// Returns the number of additional jobs that each subscription in `ids` may get, in the same order.
    pub(super) fn free(&self, ids: impl Iterator<Item = SubscriptionId>) -> Vec<u32> {
        let memory = &mut *self.memory();
        ids.map(|id| memory.count(id).free()).collect()
    }

    /// Returns the subscriptions in `ids` that must be counted in the database before jobs are admitted.
    pub(super) fn to_count(
        &self,
        ids: impl Iterator<Item = SubscriptionId>,
        now: Timestamp,
    ) -> Vec<SubscriptionId> {
        let memory = &mut *self.memory();
        let is_shared = !is_due(memory.shared_until, SHARED_FOR, now);
        let age = if is_shared && !memory.was_last_count_slow { RECOUNT_SHARED } else { RECOUNT_ALONE };
        let is_stale = |id: &SubscriptionId| {
            let count = memory.count(*id);
            match count.counted_at {
                None => true,
                Some(at) => count.free() == 0 && is_due(at.after(age), age, now),
            }
        };
        ids.filter(is_stale).take(RECOUNT_MAX).collect()
    }

    pub(super) fn counted(&self, ids: &[SubscriptionId], counts: &[u32], took: Duration, now: Timestamp) {
        let memory = &mut *self.memory();
        memory.was_last_count_slow = took >= SLOW_COUNT;
        for (id, counted) in ids.iter().zip(counts) {
            let count = memory.count(*id);
            // If there are fewer jobs than expected, another orchestrator applied results of jobs that this
            // one admitted.
            let is_shared = count.counted_at.is_some() && *counted < count.in_flight;
            (count.in_flight, count.counted_at) = (*counted, Some(now));
            if is_shared {
                memory.shared_until = now.after(SHARED_FOR);
            }
        }
    }

    pub(super) fn admitted(&self, jobs: &[AdmittedJob]) {
        let memory = &mut *self.memory();
        for job in jobs {
            let count = memory.count(job.subscription_id);
            count.in_flight = count.in_flight.saturating_add(1);
        }
        memory.forget_idle();
    }

    /// Records applied results. Returns whether a subscription that was at its limit has free capacity now.
    pub(super) fn applied(&self, results: &[AppliedResult], now: Timestamp) -> bool {
        let mut seen: HashMap<SubscriptionId, Seen> = HashMap::new();
        for result in results.iter().filter(|result| !result.is_ignored()) {
            let seen = seen.entry(result.subscription_id).or_default();
            seen.finished += 1;
            match result.error_code.as_ref().map_or(Some(true), |code| code.answered()) {
                Some(true) => seen.answered += 1,
                Some(false) => seen.unanswered += 1,
                None => {}
            }
        }
        let memory = &mut *self.memory();
        let mut has_room = false;
        for (id, seen) in seen {
            let count = memory.count(id);
            let was_full = count.free() == 0;
            // If more jobs finished than were admitted here, another orchestrator is admitting jobs too.
            let is_shared = count.counted_at.is_some() && seen.finished > count.in_flight;
            count.in_flight = count.in_flight.saturating_sub(seen.finished);
            count.bound = count.bound.after(seen.answered, seen.unanswered);
            has_room |= was_full && count.free() > 0;
            if is_shared {
                memory.shared_until = now.after(SHARED_FOR);
            }
        }
        has_room
    }
}

#[derive(Default)]
struct Seen {
    finished: u32,
    answered: u32,
    unanswered: u32,
}

impl Count {
    const fn free(&self) -> u32 {
        self.bound.free(self.in_flight)
    }
}

impl Memory {
    fn count(&mut self, id: SubscriptionId) -> &mut Count {
        let bound = InFlightBound::new(self.in_flight_max);
        self.known.entry(id).or_insert(Count { bound, in_flight: 0, counted_at: None })
    }

    fn forget_idle(&mut self) {
        if self.known.len() > KNOWN_MAX {
            self.known.retain(|_, count| count.in_flight > 0);
        }
    }
}

#[cfg(test)]
mod tests;
