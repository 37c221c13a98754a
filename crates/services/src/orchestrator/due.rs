//! The queue of subscriptions that are known to have due sagas, each with the position from which its sagas
//! are read. Owned by [`Admission`](super::Admission). Kept in memory only, and rebuilt by a scan after a
//! restart.

use super::InFlight;
use crate::low_water_mark::LowWaterMark;
use posthaste_core::ports::{Admitted, DueSince, Quota};
use posthaste_core::{SubscriptionId, Timestamp};
use std::collections::{HashMap, HashSet, VecDeque};

/// The number of known subscriptions above which positions of subscriptions without due sagas are dropped, to
/// bound memory use.
const KNOWN_MAX: usize = 100_000;

#[derive(Debug, Default)]
pub(super) struct DueQueue {
    /// The subscriptions in the order in which they are served, each at most once.
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

    /// Returns whether only a scan finds this saga: it is behind the position of its subscription or, if that
    /// subscription is not queued, before `recent`, where reads of recently due sagas start.
    pub(super) fn would_miss(&self, due: DueSince, recent: Timestamp) -> bool {
        match self.known.get(&due.subscription_id) {
            Some(known) if known.is_queued => known.mark.is_above(due.since),
            Some(_) | None => due.since < recent,
        }
    }

    pub(super) fn subscriptions(&self) -> impl Iterator<Item = SubscriptionId> {
        self.turns.iter().copied()
    }

    /// Returns the number of jobs that each subscription may get now, at most `jobs_max` in total. A share
    /// that one subscription cannot use is divided among the others. If there are more subscriptions than
    /// jobs, the first in the queue are served.
    pub(super) fn quotas(&self, in_flight: &InFlight, jobs_max: u32) -> Vec<Quota> {
        let free = in_flight.free(self.subscriptions());
        let open = self.turns.iter().zip(free).filter(|(_, free)| *free > 0).take(jobs_max as usize);
        let mut open: Vec<(u32, SubscriptionId)> = open.map(|(id, free)| (free, *id)).collect();
        // Sorted by free capacity, so that the unused part of a small share is divided among the larger ones.
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

    /// Updates the queue after an admission. A subscription that did not use its whole quota has no more due
    /// sagas and is removed from the queue. The other subscriptions in `quotas` move to the end.
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
