//! How many jobs of one subscription may be under way at once: asked by the orchestrator at
//! admission, fed with the results that it applies.
//!
//! A receiver that answers is given more, one that stops answering less; a refusal is an answer too.
//! The unit of judgement is a window of as many results as the bound allows in flight, for the reason
//! that TCP judges by round trips: what times out together was sent together, and tells of one
//! overload, not of many.
//!
//! - As many answers as the bound, since it last changed, double it.
//! - An unanswered attempt halves it, unless fewer results than the bound came since it last changed:
//!   those were sent under another bound and say nothing about this one.
//!
//! Answers count through that pause. So of a receiver that loses a share p of the attempts, only a
//! loss among the last p * bound results before the doubling costs it anything: one loss in a hundred
//! leaves bounds of thousands alone, one in three holds it near the floor. A receiver that stops
//! answering is at the floor after as many timeouts as it had in flight, twice that if it was still
//! growing: one or two deadlines later.

/// The bound of a subscription that nothing is known about.
pub const IN_FLIGHT_START: u32 = 16;

/// Never fewer than this, so that a receiver that recovered is noticed, unless the setting says so.
pub const IN_FLIGHT_FLOOR: u32 = 4;

/// Results looked at in one call. Of more, a sample with the same share of answers is looked at.
const RESULTS_MAX: u32 = 16_384;

/// The bound of one subscription, and what was seen since it last changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InFlightBound {
    bound: u32,
    max: u32,
    /// Answers since the bound last changed.
    answered: u32,
    /// Results that must pass before an unanswered attempt may halve the bound.
    pause: u32,
}

impl InFlightBound {
    /// Starts without experience. A setting of 0 would stop the subscription for good: it counts as 1.
    pub const fn new(max: u32) -> Self {
        let max = if max == 0 { 1 } else { max };
        let bound = if max < IN_FLIGHT_START { max } else { IN_FLIGHT_START };
        Self { bound, max, answered: 0, pause: 0 }
    }

    pub const fn get(&self) -> u32 {
        self.bound
    }

    /// How many more jobs may be admitted beside those in flight.
    pub const fn free(&self, in_flight: u32) -> u32 {
        self.bound.saturating_sub(in_flight)
    }

    /// The bound after a batch of results. A batch has lost the order they came in; they are taken as
    /// evenly mixed, since either end of the batch would favour one kind.
    #[must_use]
    pub fn after(self, answered: u32, unanswered: u32) -> Self {
        let (total, unanswered) = sample(answered, unanswered);
        let mut after = self;
        let mut due = 0;
        for _ in 0..total {
            due += unanswered;
            if due >= total {
                due -= total;
                after = after.after_unanswered();
            } else {
                after = after.after_answered();
            }
        }
        after
    }

    fn after_answered(self) -> Self {
        let answered = self.answered.saturating_add(1);
        let pause = self.pause.saturating_sub(1);
        if answered < self.bound {
            return Self { answered, pause, ..self };
        }
        let bound = self.bound.saturating_mul(2).min(self.max);
        // At the setting nothing changed, and there is no other bound to wait for.
        let pause = if bound > self.bound { bound } else { 0 };
        Self { bound, answered: 0, pause, ..self }
    }

    fn after_unanswered(self) -> Self {
        if self.pause > 0 {
            return Self { pause: self.pause - 1, ..self };
        }
        let bound = (self.bound / 2).max(IN_FLIGHT_FLOOR.min(self.max));
        Self { bound, answered: 0, pause: bound, ..self }
    }
}

/// How many results to look at, and how many of them were unanswered.
fn sample(answered: u32, unanswered: u32) -> (u32, u32) {
    let total = u64::from(answered) + u64::from(unanswered);
    match u32::try_from(total) {
        Ok(total @ 0..=RESULTS_MAX) => (total, unanswered),
        Ok(_) | Err(_) => {
            // A share of at most one, so the product over the total is at most RESULTS_MAX.
            let scaled = (u64::from(unanswered) * u64::from(RESULTS_MAX)).div_ceil(total);
            (RESULTS_MAX, u32::try_from(scaled).unwrap_or(RESULTS_MAX))
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Feeds batches of (answered, unanswered) and compares the bound after each.
    fn check(max: u32, start: u32, rows: &[(u32, u32, u32)]) {
        let mut bound = InFlightBound::new(max);
        assert_eq!(bound.get(), start);
        for (step, (answered, unanswered, expected)) in rows.iter().enumerate() {
            bound = bound.after(*answered, *unanswered);
            assert_eq!(bound.get(), *expected, "step {step} of {rows:?}");
        }
    }

    #[test]
    fn a_full_window_of_answers_doubles() {
        check(2048, 16, &[(15, 0, 16), (1, 0, 32), (31, 0, 32), (1, 0, 64), (64 + 128, 0, 256)]);
    }

    #[test]
    fn growth_ends_at_the_setting() {
        check(100, 16, &[(16 + 32 + 64, 0, 100), (10_000, 0, 100), (u32::MAX, 0, 100)]);
        check(10, 10, &[(100, 0, 10), (0, 1, 5), (5, 0, 10)]);
    }

    #[test]
    fn unanswered_attempts_halve_once_a_window() {
        check(2048, 16, &[(0, 1, 8), (0, 8, 8), (0, 1, 4), (0, 1000, 4)]);
        // A loss among the answers halves at once, and the answers behind it win the bound back.
        check(2048, 16, &[(5, 1, 8), (7, 1, 8), (1, 0, 16)]);
    }

    #[test]
    fn nothing_known_changes_nothing() {
        check(2048, 16, &[(0, 0, 16), (0, 0, 16)]);
    }

    #[test]
    fn small_settings_are_kept() {
        check(3, 3, &[(0, 100, 3), (100, 0, 3)]);
        check(1, 1, &[(0, 1, 1), (1, 0, 1)]);
        check(0, 1, &[(0, 1, 1), (1, 0, 1)]);
    }

    #[test]
    fn a_receiver_that_only_times_out_is_at_the_floor_after_one_flight() {
        let grown = InFlightBound::new(2048).after(10_000, 0);
        assert_eq!(grown.get(), 2048);
        assert_eq!(grown.after(0, 2049).get(), IN_FLIGHT_FLOOR);
        let mut one_by_one = grown;
        for _ in 0..2049 {
            one_by_one = one_by_one.after(0, 1);
        }
        assert_eq!(one_by_one.get(), IN_FLIGHT_FLOOR);
        let growing = InFlightBound::new(2048).after(16 + 32 + 64 + 128, 0);
        assert_eq!((growing.get(), growing.after(0, 512).get()), (256, IN_FLIGHT_FLOOR));
    }

    #[test]
    fn the_share_of_losses_decides_where_the_bound_settles() {
        // one loss in so many results, then the lowest and highest bound seen once it has settled
        let rows = [(100, 1024, 2048), (20, 128, 256), (4, 8, 16), (2, 4, 4), (1, 4, 4)];
        for (one_in, low, high) in rows {
            let mut bound = InFlightBound::new(2048);
            let mut seen = Vec::new();
            for n in 0..200_000 {
                let lost = u32::from(n % one_in == one_in - 1);
                bound = bound.after(1 - lost, lost);
                if n > 100_000 {
                    seen.push(bound.get());
                }
            }
            let range = (seen.iter().min().copied(), seen.iter().max().copied());
            assert_eq!(range, (Some(low), Some(high)), "one in {one_in}");
        }
    }

    #[test]
    fn what_is_free_is_never_negative() {
        let bound = InFlightBound::new(2048);
        for (in_flight, free) in [(0, 16), (15, 1), (16, 0), (17, 0), (u32::MAX, 0)] {
            assert_eq!(bound.free(in_flight), free, "{in_flight} in flight");
        }
    }

    proptest! {
        #[test]
        fn the_bound_stays_between_floor_and_setting(
            max in any::<u32>(),
            batches in proptest::collection::vec((any::<u32>(), any::<u32>()), 0..8),
        ) {
            let mut bound = InFlightBound::new(max);
            for (answered, unanswered) in batches {
                bound = bound.after(answered, unanswered);
                prop_assert!(bound.get() >= IN_FLIGHT_FLOOR.min(max.max(1)));
                prop_assert!(bound.get() <= max.max(1));
            }
        }

        #[test]
        fn one_result_at_most_doubles_or_halves(max in 4_u32..5000, results in proptest::collection::vec(any::<bool>(), 0..300)) {
            let mut bound = InFlightBound::new(max);
            for answered in results {
                let next = bound.after(u32::from(answered), u32::from(!answered));
                let right_way = if answered { next.get() >= bound.get() } else { next.get() <= bound.get() };
                prop_assert!(right_way);
                prop_assert!(next.get() <= bound.get() * 2 && next.get() >= bound.get() / 2);
                bound = next;
            }
        }
    }
}
