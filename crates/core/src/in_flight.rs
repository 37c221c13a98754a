//! The adaptive in-flight limit of a subscription. The orchestrator reads the limit at admission, and updates
//! it with the results that it applies.
//!
//! The limit grows while the receiver responds and shrinks while it does not. An HTTP error also counts as a
//! response. As with round trips in TCP congestion control, the limit changes at most once per window of as
//! many results as the limit, because attempts that time out together were sent together and indicate one
//! overload.
//!
//! - When the number of responses since the last change reaches the limit, the limit doubles.
//! - An attempt without a response halves the limit, unless the number of results since the last change is less
//!   than the limit: those attempts were sent under the previous limit.
//!
//! Responses are counted during that window as well. If a share p of the attempts gets no response, only those
//! among the last p * limit results before the doubling have an effect. A loss of one in a hundred does not
//! reduce limits of thousands, and a loss of one in three keeps the limit near its minimum. When a receiver
//! stops responding, its limit reaches the minimum after as many timeouts as it had attempts in flight, or
//! twice as many if the limit was still growing. This takes one or two request timeouts.

/// The initial limit of a subscription.
pub const IN_FLIGHT_START: u32 = 16;

/// The minimum limit, which ensures that the recovery of a receiver is detected. A lower maximum in the
/// settings takes precedence.
pub const IN_FLIGHT_FLOOR: u32 = 4;

/// The maximum number of results processed in one call. A larger batch is scaled down to this number, with the
/// same share of responses.
const RESULTS_MAX: u32 = 16_384;

/// The limit of one subscription, and the results since it last changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InFlightBound {
    bound: u32,
    max: u32,
    /// The number of responses since the limit last changed.
    answered: u32,
    /// The number of further results after which an attempt without a response can halve the limit again.
    pause: u32,
}

impl InFlightBound {
    /// Creates the initial limit with the maximum `max`. A maximum of 0 is treated as 1, because it would stop
    /// the subscription permanently.
    pub const fn new(max: u32) -> Self {
        let max = if max == 0 { 1 } else { max };
        let bound = if max < IN_FLIGHT_START { max } else { IN_FLIGHT_START };
        Self { bound, max, answered: 0, pause: 0 }
    }

    pub const fn get(&self) -> u32 {
        self.bound
    }

    /// Returns the number of jobs that may be admitted while `in_flight` jobs are in flight.
    pub const fn free(&self, in_flight: u32) -> u32 {
        self.bound.saturating_sub(in_flight)
    }

    /// Returns the limit after a batch of results. The order of the results is not known, so responses and
    /// attempts without a response are assumed to be evenly distributed.
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
        // At the maximum the limit does not change, so no pause is needed.
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

/// Returns the number of results to process, and the number of those without a response.
fn sample(answered: u32, unanswered: u32) -> (u32, u32) {
    let total = u64::from(answered) + u64::from(unanswered);
    match u32::try_from(total) {
        Ok(total @ 0..=RESULTS_MAX) => (total, unanswered),
        Ok(_) | Err(_) => {
            // `unanswered` is at most `total`, so the quotient is at most `RESULTS_MAX`.
            let scaled = (u64::from(unanswered) * u64::from(RESULTS_MAX)).div_ceil(total);
            (RESULTS_MAX, u32::try_from(scaled).unwrap_or(RESULTS_MAX))
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Applies batches of results and checks the limit after each. Columns: answered, unanswered, expected
    /// limit.
    fn check(max: u32, start: u32, rows: &[(u32, u32, u32)]) {
        let mut bound = InFlightBound::new(max);
        assert_eq!(bound.get(), start);
        for (step, (answered, unanswered, expected)) in rows.iter().enumerate() {
            bound = bound.after(*answered, *unanswered);
            assert_eq!(bound.get(), *expected, "step {step} of {rows:?}");
        }
    }

    #[test]
    fn full_window_of_responses_doubles_the_limit() {
        check(2048, 16, &[(15, 0, 16), (1, 0, 32), (31, 0, 32), (1, 0, 64), (64 + 128, 0, 256)]);
    }

    #[test]
    fn growth_ends_at_the_maximum() {
        check(100, 16, &[(16 + 32 + 64, 0, 100), (10_000, 0, 100), (u32::MAX, 0, 100)]);
        check(10, 10, &[(100, 0, 10), (0, 1, 5), (5, 0, 10)]);
    }

    #[test]
    fn attempts_without_response_halve_the_limit_once_per_window() {
        check(2048, 16, &[(0, 1, 8), (0, 8, 8), (0, 1, 4), (0, 1000, 4)]);
        // An attempt without a response halves the limit immediately, and the following responses restore it.
        check(2048, 16, &[(5, 1, 8), (7, 1, 8), (1, 0, 16)]);
    }

    #[test]
    fn empty_batch_changes_nothing() {
        check(2048, 16, &[(0, 0, 16), (0, 0, 16)]);
    }

    #[test]
    fn small_maximum_is_respected() {
        check(3, 3, &[(0, 100, 3), (100, 0, 3)]);
        check(1, 1, &[(0, 1, 1), (1, 0, 1)]);
        check(0, 1, &[(0, 1, 1), (1, 0, 1)]);
    }

    #[test]
    fn receiver_that_only_times_out_reaches_the_minimum_after_one_window() {
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
    fn share_of_losses_determines_the_stable_limit() {
        // Columns: number of results per loss, minimum and maximum limit in the steady state.
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
    fn free_capacity_is_never_negative() {
        let bound = InFlightBound::new(2048);
        for (in_flight, free) in [(0, 16), (15, 1), (16, 0), (17, 0), (u32::MAX, 0)] {
            assert_eq!(bound.free(in_flight), free, "{in_flight} in flight");
        }
    }

    proptest! {
        #[test]
        fn limit_stays_between_minimum_and_maximum(
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
        fn one_result_at_most_doubles_or_halves_the_limit(
            max in 4_u32..5000,
            results in proptest::collection::vec(any::<bool>(), 0..300),
        ) {
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
