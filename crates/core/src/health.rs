//! Statistics of the attempts of a subscription: the number of failures, and a histogram of the durations of
//! successful attempts. Statistics of several processes and intervals can be added up.

use crate::outcome::ErrorCode;
use crate::time::Timestamp;
use std::time::Duration;

/// The upper bounds of the histogram buckets, in milliseconds. Longer attempts are counted in an additional
/// bucket.
pub const WITHIN_MS: [u64; 11] = [5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000];
pub const BUCKETS: usize = WITHIN_MS.len() + 1;

/// The length of an interval, in microseconds: ten minutes.
const INTERVAL_US: i64 = 600_000_000;
/// The maximum number of intervals that are stored and read.
pub const INTERVALS_MAX: u32 = 300;

/// Returns the start of the interval that contains `at`.
pub fn interval_start(at: Timestamp) -> Timestamp {
    Timestamp::from_micros(at.micros().div_euclid(INTERVAL_US) * INTERVAL_US)
}

/// A percentile of the durations of successful attempts, as a bucket bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Within {
    AtMost(Duration),
    /// The duration exceeds this value, which is the largest bucket bound.
    Beyond(Duration),
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Attempts {
    pub failed: u64,
    /// The number of successful attempts in each bucket; see [`WITHIN_MS`].
    pub took: [u64; BUCKETS],
    pub last_error: Option<(ErrorCode, Timestamp)>,
}

impl Attempts {
    pub fn succeed(&mut self, took: Duration) {
        let place = WITHIN_MS.iter().position(|within| took <= Duration::from_millis(*within));
        if let Some(count) = self.took.get_mut(place.unwrap_or(BUCKETS - 1)) {
            *count += 1;
        }
    }

    pub fn fail(&mut self, code: ErrorCode, at: Timestamp) {
        self.failed += 1;
        self.note_error(code, at);
    }

    /// Records an error, unless a later error was already recorded.
    pub fn note_error(&mut self, code: ErrorCode, at: Timestamp) {
        if self.last_error.as_ref().is_none_or(|(_, known)| *known < at) {
            self.last_error = Some((code, at));
        }
    }

    pub fn add(&mut self, other: &Self) {
        self.failed += other.failed;
        self.took.iter_mut().zip(other.took).for_each(|(sum, count)| *sum += count);
        if let Some((code, at)) = &other.last_error {
            self.note_error(code.clone(), *at);
        }
    }

    pub fn succeeded(&self) -> u64 {
        self.took.iter().sum()
    }

    pub fn made(&self) -> u64 {
        self.succeeded() + self.failed
    }

    /// Returns a percentile (1 to 100) of the durations of successful attempts, rounded up to a bucket bound,
    /// or `None` if there were no successful attempts.
    pub fn within(&self, of_hundred: u64) -> Option<Within> {
        let rank = (self.succeeded() * of_hundred).div_ceil(100).max(1);
        let mut below = 0;
        let place = self.took.iter().position(|count| {
            below += count;
            below >= rank
        })?;
        let longest = WITHIN_MS.last().copied().unwrap_or_default();
        Some(match WITHIN_MS.get(place) {
            Some(within) => Within::AtMost(Duration::from_millis(*within)),
            None => Within::Beyond(Duration::from_millis(longest)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn took(ms: &[u64]) -> Attempts {
        let mut attempts = Attempts::default();
        ms.iter().for_each(|ms| attempts.succeed(Duration::from_millis(*ms)));
        attempts
    }

    #[test]
    fn percentile_is_rounded_up_to_a_bucket_bound() {
        let ms = |ms| Some(Within::AtMost(Duration::from_millis(ms)));
        for (all, of_hundred, expected) in [
            (vec![], 50, None),
            (vec![0], 50, ms(5)),
            (vec![5], 99, ms(5)),
            (vec![6], 1, ms(10)),
            (vec![5, 150], 50, ms(5)),
            (vec![5, 150], 51, ms(200)),
            (vec![10_000], 50, ms(10_000)),
            (vec![10_001], 50, Some(Within::Beyond(Duration::from_secs(10)))),
        ] {
            assert_eq!(took(&all).within(of_hundred), expected, "{of_hundred} of {all:?}");
        }
    }

    #[test]
    fn sums_add_up_and_keep_the_last_error() {
        let at = Timestamp::from_micros;
        let code = |text: &str| ErrorCode::parse(text).expect("a code");
        let (mut one, mut other) = (took(&[1, 70]), took(&[80]));
        one.fail(code("TIMEOUT"), at(7));
        other.fail(code("HTTP_500"), at(6));
        one.add(&other);
        assert_eq!((one.succeeded(), one.failed, one.made()), (3, 2, 5));
        assert_eq!(one.last_error, Some((code("TIMEOUT"), at(7))));
        assert_eq!(one.within(50), Some(Within::AtMost(Duration::from_millis(100))));
    }

    #[test]
    fn interval_is_ten_minutes() {
        let at = |seconds: i64| Timestamp::from_micros(seconds * 1_000_000);
        for (seconds, expected) in [(0, 0), (599, 0), (600, 600), (-1, -600)] {
            assert_eq!(interval_start(at(seconds)), at(expected));
        }
    }
}
