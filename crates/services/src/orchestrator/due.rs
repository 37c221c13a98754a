//! The subscriptions that are known to have due sagas, in the order of their turns, and for each the position from which
//! its sagas are read. Owned by [`Admission`](super::Admission); lost with the process and learned again by a scan.

use super::InFlight;
use crate::low_water_mark::LowWaterMark;
use posthaste_core::ports::{Admitted, DueSince, Quota};
use posthaste_core::{SubscriptionId, Timestamp};
use std::collections::{HashMap, HashSet, VecDeque};

/// Beyond this many, the positions of subscriptions that have nothing due are forgotten.
const KNOWN_MAX: usize = 100_000;

#[derive(Debug, Default)]
pub(super) struct DueQueue {
    /// Each subscription at most once.
    turns: VecDeque<SubscriptionId>,
    known: HashMap<SubscriptionId, Known>,
}

#[derive(Debug)]
struct Known {
    is_queued: bool,
    mark: LowWaterMark<Timestamp>,
}

impl DueQueue {
    /// Adds a subscription with due sagas.
    pub(super) fn add(&mut self, due: DueSince) {
        let fresh = || Known { is_queued: false, mark: LowWaterMark::at(due.since) };
        let known = self.known.entry(due.subscription_id).or_insert_with(fresh);
        known.mark.lower_to(due.since);
        if !known.is_queued {
            known.is_queued = true;
            self.turns.push_back(due.subscription_id);
        }
    }

    /// Whether this saga would have been missed without a scan: it lies behind the position of its subscription, or,
    /// while that one is not queued, before `recent`, from which recently due sagas are read.
    pub(super) fn would_miss(&self, due: DueSince, recent: Timestamp) -> bool {
        match self.known.get(&due.subscription_id) {
            Some(known) if known.is_queued => known.mark.is_above(due.since),
            Some(_) | None => due.since < recent,
        }
    }

    pub(super) fn subscriptions(&self) -> impl Iterator<Item = SubscriptionId> {
        self.turns.iter().copied()
    }

    /// Returns how many jobs each subscription may get now, `jobs_max` in total: a share that one cannot use goes to the
    /// others, and where there are more subscriptions than jobs, they take turns.
    pub(super) fn quotas(&self, in_flight: &InFlight, jobs_max: u32) -> Vec<Quota> {
        let free = in_flight.free(self.subscriptions());
        let open = self.turns.iter().zip(free).filter(|(_, free)| *free > 0).take(jobs_max as usize);
        let mut open: Vec<(u32, SubscriptionId)> = open.map(|(id, free)| (free, *id)).collect();
        // The one that can take least comes first, so that the rest of its share is there for the others.
        open.sort_unstable();
        let mut left = jobs_max;
        let mut sharers = u32::try_from(open.len()).unwrap_or(u32::MAX);
        let share = |(free, subscription_id): (u32, SubscriptionId)| {
            let jobs_max = free.min(left.div_ceil(sharers));
            left -= jobs_max;
            sharers -= 1;
            let from = self.known.get(&subscription_id).and_then(|known| known.mark.get());
            Quota { subscription_id, jobs_max, from }
        };
        open.into_iter().map(share).filter(|quota| quota.jobs_max > 0).collect()
    }

    /// Records what became of the quotas. A subscription that did not use all of its quota has nothing more that is
    /// due; the others go to the end of the queue.
    pub(super) fn served(&mut self, quotas: &[Quota], admitted: &Admitted, now: Timestamp) {
        let mut used: HashMap<SubscriptionId, u32> = HashMap::new();
        let started = admitted.jobs.iter().map(|job| job.subscription_id);
        let ended = admitted.dead_lettered.iter().map(|saga| saga.subscription_id);
        for id in started.chain(ended) {
            *used.entry(id).or_default() += 1;
        }
        for quota in quotas {
            if let Some(known) = self.known.get_mut(&quota.subscription_id) {
                known.is_queued =
                    used.get(&quota.subscription_id).is_some_and(|used| *used >= quota.jobs_max);
            }
        }
        for fetched in &admitted.fetched {
            if let Some(known) = self.known.get_mut(&fetched.subscription_id) {
                known.mark.record(fetched.since, now);
            }
        }
        let had_turn: HashSet<SubscriptionId> = quotas.iter().map(|quota| quota.subscription_id).collect();
        let is_queued = |id: &SubscriptionId| self.known.get(id).is_some_and(|known| known.is_queued);
        let (served, mut waiting): (VecDeque<_>, VecDeque<_>) =
            self.turns.drain(..).filter(is_queued).partition(|id| had_turn.contains(id));
        waiting.extend(served);
        self.turns = waiting;
        if self.known.len() > KNOWN_MAX {
            self.known.retain(|_, known| known.is_queued);
        }
    }
}

#[cfg(test)]
mod tests;
