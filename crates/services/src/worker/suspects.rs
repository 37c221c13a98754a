//! Decides when the worker may claim a suspect: a job that was in flight when its workers died (see
//! [`posthaste_core::job::ExpiredLease`]). A process has at most one suspect in flight, so a job that kills
//! its worker does not cause other suspects to fail.

use crate::clock::is_due;
use crate::send_tasks::{Slot, Slots};
use crate::wake::WakeUp;
use posthaste_core::Timestamp;
use std::time::Duration;

/// The interval between polls that find no suspect. Suspects are rare and have already lost several leases,
/// so a delay of a second does not matter to them, and an idle process runs only one more statement per
/// second.
const POLL_EVERY: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct Suspects {
    /// A single slot, held by the suspect in flight.
    slots: Slots,
    next_poll_at: Timestamp,
    /// Whether normal jobs are claimed before the next suspect. In a worker with a single slot, the two
    /// alternate.
    is_normal_next: bool,
}

impl Suspects {
    pub(super) fn new(wake_up: WakeUp) -> Self {
        let slots = Slots::new(1, 1, wake_up);
        slots.set_awaited(true);
        Self { slots, next_poll_at: Timestamp::MIN, is_normal_next: false }
    }

    pub(super) fn may_claim(&self, now: Timestamp) -> bool {
        let is_free = self.slots.free() > 0;
        is_free && !self.is_normal_next && is_due(self.next_poll_at, POLL_EVERY, now)
    }

    pub(super) fn polled(&mut self, found: bool, now: Timestamp) {
        self.is_normal_next = found;
        self.next_poll_at = if found { now } else { now.after(POLL_EVERY) };
    }

    pub(super) fn normal_claimed(&mut self) {
        self.is_normal_next = false;
    }

    /// Returns the slot that a suspect holds until its attempt finishes, or `None` if the slot is occupied.
    pub(super) fn occupy(&self) -> Option<Slot> {
        self.slots.acquire()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_suspect_is_in_flight_and_claims_alternate_with_normal_jobs() {
        let second = |s| Timestamp::from_micros(0).after(Duration::from_secs(s));
        let mut suspects = Suspects::new(WakeUp::default());
        assert!(suspects.may_claim(second(5)));
        suspects.polled(true, second(5));
        let in_flight = suspects.occupy();
        assert!(in_flight.is_some() && suspects.occupy().is_none());
        assert!(!suspects.may_claim(second(9)), "one is in flight");
        drop(in_flight);
        assert!(!suspects.may_claim(second(9)), "normal jobs come first");
        suspects.normal_claimed();
        assert!(suspects.may_claim(second(5)), "the next one is claimed at once");
        suspects.polled(false, second(9));
        for (now, expected) in [(9, false), (10, true), (3, true)] {
            assert_eq!(suspects.may_claim(second(now)), expected, "at {now}, 3 is after a clock step back");
        }
    }
}
