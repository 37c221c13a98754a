//! Looks that are dear beside what a step mostly does: from the very beginning of a queue, say, where everything
//! lies that was taken and could not be cleared away yet because somebody keeps a transaction open. They are taken
//! every so often, and the longer one takes, the longer the rest after it.

use crate::clock::{Clock, is_due};
use posthaste_core::Timestamp;
use std::time::Duration;

/// No rest is longer, whatever the clock did while the look was taken.
const REST_MAX: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(crate) struct NowAndThen {
    clock: Clock,
    every: Duration,
    /// The rest is so many times as long as the look took.
    share: u32,
    rest: Duration,
    at: Timestamp,
}

impl NowAndThen {
    /// At most `every` so often, and no more than one `share`th of the time.
    pub(crate) const fn new(clock: Clock, every: Duration, share: u32) -> Self {
        Self { clock, every, share, rest: Duration::ZERO, at: Timestamp::MIN }
    }

    pub(crate) fn is_due(&self, now: Timestamp) -> bool {
        is_due(self.at, self.rest, now)
    }

    /// How long what began at `began` has taken.
    pub(crate) fn took(&self, began: Timestamp) -> Duration {
        self.clock.now().since(began)
    }

    /// The look that began at `began` was taken.
    pub(crate) fn taken(&mut self, began: Timestamp) {
        self.taken_in(self.took(began), began);
    }

    /// A look of several parts was taken, the last of which began at `now`; it took so long in all. What is left of the
    /// rest after another look comes on top.
    pub(crate) fn taken_in(&mut self, took: Duration, now: Timestamp) {
        let left = if self.is_due(now) { Duration::ZERO } else { self.at.since(now) };
        let rest = took.saturating_mul(self.share).max(self.every);
        self.rest = rest.saturating_add(left).min(REST_MAX.max(self.every));
        self.at = now.after(self.rest);
    }

    /// Something was seen that only a look can settle.
    pub(crate) const fn at_once(&mut self) {
        self.at = Timestamp::MIN;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_look_is_followed_by_a_long_rest() {
        let at = |ms| Timestamp::from_micros(0).after(Duration::from_millis(ms));
        let mut looks = NowAndThen::new(Clock::standing(at(0)), Duration::from_millis(100), 20);
        assert!(looks.is_due(at(0)), "the first is taken at once");
        looks.taken_in(Duration::from_millis(1), at(0));
        assert!(!looks.is_due(at(99)) && looks.is_due(at(100)));
        looks.taken_in(Duration::from_millis(50), at(100));
        assert!(!looks.is_due(at(1_099)) && looks.is_due(at(1_100)));
        looks.taken_in(Duration::from_secs(3_600), at(2_000));
        assert!(looks.is_due(at(62_000)), "no rest is endless");
        assert!(looks.is_due(Timestamp::from_micros(-1)), "a clock that was set back puts nothing off");
        looks.taken_in(Duration::from_millis(10), at(70_000));
        looks.taken_in(Duration::from_millis(20), at(70_050));
        assert!(!looks.is_due(at(70_599)) && looks.is_due(at(70_600)), "two looks, and the rest after both");
        looks.at_once();
        assert!(looks.is_due(at(70_100)));
    }
}
