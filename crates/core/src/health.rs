//! How the attempts for one subscription went, as sums that add up over processes and over time: how many failed, and
//! how many succeeded within which time.

use crate::outcome::ErrorCode;
use crate::time::Timestamp;
use std::time::Duration;

/// The times that attempts are counted by. What took longer than the last is counted beyond it.
pub const WITHIN_MS: [u64; 11] = [5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000];
pub const BUCKETS: usize = WITHIN_MS.len() + 1;

/// How long one interval of sums is.
const INTERVAL_US: i64 = 600_000_000;
/// The most intervals that are kept, and so the most that anybody reads.
pub const INTERVALS_MAX: u32 = 300;

/// The interval that an instant belongs to.
pub fn interval_start(at: Timestamp) -> Timestamp {
    Timestamp::from_micros(at.micros().div_euclid(INTERVAL_US) * INTERVAL_US)
}

/// Where `share` of what succeeded stays within.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Within {
    AtMost(Duration),
    /// Longer than the longest time that is told apart.
    Beyond(Duration),
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Attempts {
    pub failed: u64,
    /// Those that succeeded, by how long they took; see [`WITHIN_MS`].
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

    /// Takes an error, if it is later than the one that is known.
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

    /// The time that so many of a hundred successes stay within, never told too short.
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
    fn a_share_stays_within_a_time() {
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
    fn an_interval_is_ten_minutes() {
        let at = |seconds: i64| Timestamp::from_micros(seconds * 1_000_000);
        for (seconds, expected) in [(0, 0), (599, 0), (600, 600), (-1, -600)] {
            assert_eq!(interval_start(at(seconds)), at(expected));
        }
    }
}
