//! What the orchestrator remembers of each subscription: how many deliveries are under way, how many
//! may be, and whether more wait. [`super::Admission`] asks whose turn it is, [`super::Results`] tells
//! what came back. Only memory: lost with the process and learned again.
//!
//! With several orchestrators on one database, the results of what one admitted may be applied by
//! another. So a count is corrected from the database: at first sight, and when a subscription looks
//! full. How often, depends on whether others seem to be at work.

use crate::clock::{CLOCKS_DIFFER_MAX, is_due};
use posthaste_core::in_flight::InFlightBound;
use posthaste_core::ports::{Admitted, AppliedResult, Quota};
use posthaste_core::saga::Decision;
use posthaste_core::{SubscriptionId, Timestamp};
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How often a full subscription is counted again when this seems to be the only orchestrator.
const RECOUNT_ALONE: Duration = Duration::from_secs(1);
/// And when others are at work too.
const RECOUNT_SHARED: Duration = Duration::from_millis(20);
/// The part of the time that counting again may take.
const RECOUNT_SHARE: u32 = 20;
/// No rest after it is longer.
const RECOUNT_REST_MAX: Duration = Duration::from_secs(60);
/// How long a sign of others counts.
const SHARED_FOR: Duration = Duration::from_secs(10);
/// The most subscriptions counted at once.
const RECOUNT_MAX: usize = 256;
/// Beyond this, subscriptions with nothing under way are forgotten.
const KNOWN_MAX: usize = 100_000;

/// Cheap to clone; clones remember together.
#[derive(Debug, Clone)]
pub struct Flows(Arc<Mutex<Memory>>);

#[derive(Debug)]
struct Memory {
    in_flight_max: u32,
    known: HashMap<SubscriptionId, Flow>,
    /// Those that have sagas due, as far as is known; each once, in the order of their turns.
    ready: VecDeque<SubscriptionId>,
    shared_until: Timestamp,
    /// How long counting again is put off at least: the last count took a while.
    recount_rest: Duration,
}

#[derive(Debug)]
struct Flow {
    bound: InFlightBound,
    in_flight: u32,
    counted_at: Option<Timestamp>,
    ready: bool,
    /// When the last of its sagas that were taken had come due: those before were taken too.
    reached: Option<Timestamp>,
}

impl Flows {
    /// No subscription gets more than `in_flight_max` jobs at once.
    pub fn new(in_flight_max: u32) -> Self {
        let memory = Memory {
            in_flight_max,
            known: HashMap::new(),
            ready: VecDeque::new(),
            shared_until: Timestamp::MIN,
            recount_rest: Duration::ZERO,
        };
        Self(Arc::new(Mutex::new(memory)))
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn in_flight_max(&self) -> u32 {
        self.memory().in_flight_max
    }

    /// These have had sagas come due lately.
    pub(crate) fn found_due(&self, due: impl IntoIterator<Item = SubscriptionId>) {
        let memory = &mut *self.memory();
        for id in due {
            memory.found_due(id);
        }
    }

    /// These have sagas that are due, the oldest since then: perhaps from before what was taken.
    pub(super) fn found_due_since(&self, due: &[(SubscriptionId, Timestamp)]) {
        let memory = &mut *self.memory();
        for (id, since) in due {
            let flow = memory.found_due(*id);
            flow.reached = Some(flow.reached.map_or(*since, |reached| reached.min(*since)));
        }
    }

    /// Whose count the database must tell before anything is admitted.
    pub(super) fn to_count(&self, now: Timestamp) -> Vec<SubscriptionId> {
        let memory = self.memory();
        let age = if now < memory.shared_until { RECOUNT_SHARED } else { RECOUNT_ALONE };
        let age = age.max(memory.recount_rest);
        let is_old = |flow: &Flow| match flow.counted_at {
            None => true,
            Some(at) => flow.free() == 0 && is_due(at.after(age), age, now),
        };
        let counted = |id: &&SubscriptionId| memory.known.get(*id).is_some_and(is_old);
        memory.ready.iter().filter(counted).take(RECOUNT_MAX).copied().collect()
    }

    pub(super) fn counted(&self, ids: &[SubscriptionId], counts: &[u32], took: Duration, now: Timestamp) {
        let memory = &mut *self.memory();
        memory.recount_rest = took.saturating_mul(RECOUNT_SHARE).min(RECOUNT_REST_MAX);
        for (id, count) in ids.iter().zip(counts) {
            let Some(flow) = memory.known.get_mut(id) else { continue };
            // Fewer than we thought: somebody else applied results of jobs that we admitted.
            if flow.counted_at.is_some() && *count < flow.in_flight {
                memory.shared_until = now.after(SHARED_FOR);
            }
            flow.in_flight = *count;
            flow.counted_at = Some(now);
        }
    }

    /// How many jobs each may get now, `jobs_max` in all: what one cannot use is left to the others, and
    /// where there are more subscriptions than jobs, they take turns.
    pub(super) fn quotas(&self, jobs_max: u32, now: Timestamp) -> Vec<Quota> {
        let memory = &mut *self.memory();
        let mut open: Vec<(u32, SubscriptionId, Option<Timestamp>)> = Vec::new();
        for id in &memory.ready {
            let Some(flow) = memory.known.get(id) else { continue };
            if flow.free() > 0 && open.len() < jobs_max as usize {
                open.push((flow.free(), *id, flow.from(now)));
            }
        }
        // From the one that can take least: what it leaves is shared by the rest.
        open.sort_unstable();
        let mut left = jobs_max;
        let mut sharers = u32::try_from(open.len()).unwrap_or(u32::MAX);
        let share = |(free, subscription_id, from): (u32, SubscriptionId, Option<Timestamp>)| {
            let jobs_max = free.min(left.div_ceil(sharers));
            left -= jobs_max;
            sharers -= 1;
            Quota { subscription_id, jobs_max, from }
        };
        open.into_iter().map(share).filter(|quota| quota.jobs_max > 0).collect()
    }

    /// What came of the quotas. One that did not use all of its quota has nothing more that is due.
    pub(super) fn admitted(&self, quotas: &[Quota], admitted: &Admitted) {
        let mut got: HashMap<SubscriptionId, (u32, u32)> = HashMap::new();
        for job in &admitted.jobs {
            got.entry(job.subscription_id).or_default().0 += 1;
        }
        for given_up in &admitted.dead_lettered {
            got.entry(given_up.subscription_id).or_default().1 += 1;
        }
        let memory = &mut *self.memory();
        for quota in quotas {
            let (jobs, dead) = got.get(&quota.subscription_id).copied().unwrap_or_default();
            let Some(flow) = memory.known.get_mut(&quota.subscription_id) else { continue };
            flow.in_flight = flow.in_flight.saturating_add(jobs);
            flow.ready = jobs + dead >= quota.jobs_max;
        }
        for (id, reached) in &admitted.reached {
            if let Some(flow) = memory.known.get_mut(id) {
                flow.reached = flow.reached.max(Some(*reached));
            }
        }
        // Those that had their turn go behind those that had none.
        let had: HashSet<SubscriptionId> = quotas.iter().map(|quota| quota.subscription_id).collect();
        let (mut waited, mut served) = (VecDeque::new(), Vec::new());
        for id in memory.ready.drain(..) {
            if !memory.known.get(&id).is_some_and(|flow| flow.ready) {
                continue;
            }
            if had.contains(&id) { served.push(id) } else { waited.push_back(id) }
        }
        waited.extend(served);
        memory.ready = waited;
        memory.forget_idle();
    }

    /// What came back. Answers whether a subscription that waited for room has some now.
    pub(super) fn applied(&self, results: &[AppliedResult], now: Timestamp) -> bool {
        let mut seen: HashMap<SubscriptionId, Seen> = HashMap::new();
        let counts = |result: &&AppliedResult| !matches!(result.decision, Decision::Ignore(_));
        for result in results.iter().filter(counts) {
            let seen = seen.entry(result.subscription_id).or_default();
            seen.finished += 1;
            match result.error_code.as_ref().map_or(Some(true), |code| code.answered()) {
                Some(true) => seen.answered += 1,
                Some(false) => seen.unanswered += 1,
                None => {}
            }
        }
        let memory = &mut *self.memory();
        let mut room = false;
        for (id, seen) in seen {
            let flow = memory.known.entry(id).or_insert_with(|| Flow::new(memory.in_flight_max));
            let was_full = flow.free() == 0;
            if flow.counted_at.is_some() && seen.finished > flow.in_flight {
                memory.shared_until = now.after(SHARED_FOR);
            }
            flow.in_flight = flow.in_flight.saturating_sub(seen.finished);
            flow.bound = flow.bound.after(seen.answered, seen.unanswered);
            room |= flow.ready && was_full && flow.free() > 0;
        }
        room
    }

    /// Whether somebody who has sagas due also has room for them.
    pub(crate) fn has_room(&self) -> bool {
        let memory = self.memory();
        memory.ready.iter().any(|id| memory.known.get(id).is_some_and(|flow| flow.free() > 0))
    }
}

#[derive(Default)]
struct Seen {
    finished: u32,
    answered: u32,
    unanswered: u32,
}

impl Flow {
    const fn new(in_flight_max: u32) -> Self {
        let bound = InFlightBound::new(in_flight_max);
        Self { bound, in_flight: 0, counted_at: None, ready: false, reached: None }
    }

    /// From where its due sagas are looked for. Those that a process made whose clock is behind, or that was slow to
    /// commit them, come due a little before others that were seen already.
    fn from(&self, now: Timestamp) -> Option<Timestamp> {
        self.reached.map(|reached| reached.min(now).before(CLOCKS_DIFFER_MAX))
    }

    const fn free(&self) -> u32 {
        self.bound.free(self.in_flight)
    }
}

impl Memory {
    fn found_due(&mut self, id: SubscriptionId) -> &mut Flow {
        let flow = self.known.entry(id).or_insert_with(|| Flow::new(self.in_flight_max));
        if !flow.ready {
            flow.ready = true;
            self.ready.push_back(id);
        }
        flow
    }

    fn forget_idle(&mut self) {
        if self.known.len() > KNOWN_MAX {
            self.known.retain(|_, flow| flow.ready || flow.in_flight > 0);
        }
    }
}

#[cfg(test)]
mod tests;
