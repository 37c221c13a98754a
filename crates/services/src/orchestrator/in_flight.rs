//! How many deliveries of each subscription are in flight, and how many may be. [`Admission`](super::Admission) asks for
//! the free places, [`Results`](super::Results) records what came back. Only memory: lost with the process and counted
//! again.
//!
//! With several orchestrators on one database, the results of what one admitted may be applied by another. So a count is
//! corrected from the database: when a subscription is first seen, and while it is full.

use crate::clock::is_due;
use posthaste_core::in_flight::InFlightBound;
use posthaste_core::ports::{AdmittedJob, AppliedResult};
use posthaste_core::{SubscriptionId, Timestamp};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How often a full subscription is counted again while no other orchestrator seems to be active.
const RECOUNT_ALONE: Duration = Duration::from_secs(1);
/// How often while another one is, unless counting is slow.
const RECOUNT_SHARED: Duration = Duration::from_millis(20);
/// Next to a long-running transaction a count steps over everything that was in flight since it began.
const SLOW_COUNT: Duration = Duration::from_millis(5);
/// For how long after its last sign another orchestrator counts as active.
const SHARED_FOR: Duration = Duration::from_secs(10);
/// The most subscriptions counted at once.
const RECOUNT_MAX: usize = 256;
/// Beyond this many, subscriptions with nothing in flight are forgotten.
const KNOWN_MAX: usize = 100_000;

/// Cheap to clone; clones share their memory.
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
    /// No subscription gets more than `in_flight_max` jobs at once.
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

    /// Returns how many more jobs each of these may get, in order.
    pub(super) fn free(&self, ids: impl Iterator<Item = SubscriptionId>) -> Vec<u32> {
        let memory = &mut *self.memory();
        ids.map(|id| memory.count(id).free()).collect()
    }

    /// Returns which of these must be counted in the database before anything is admitted.
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
            // Fewer than expected: another orchestrator applied results of jobs that this one admitted.
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

    /// Records what came back. Returns whether a subscription that was full has room now.
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
            // More than were admitted here: another orchestrator admits too.
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
