//! Timestamps in whole microseconds, which is the resolution of both stores. The core never reads a clock; the
//! time is always an argument.

use std::fmt;
use std::time::Duration;

const SECOND_US: i64 = 1_000_000;
const DAY_S: i64 = 86_400;

/// A point in time in UTC, as microseconds since 1970-01-01.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The first microsecond of the year 1, the earliest time that both engines and RFC 3339 can represent.
    pub const MIN: Self = Self(-62_135_596_800_000_000);
    /// The last microsecond of the year 9999.
    pub const MAX: Self = Self(253_402_300_799_999_999);

    /// Creates a timestamp from microseconds since 1970-01-01. Values outside the years 1 to 9999 are clamped.
    pub const fn from_micros(micros: i64) -> Self {
        if micros < Self::MIN.0 {
            Self::MIN
        } else if micros > Self::MAX.0 {
            Self::MAX
        } else {
            Self(micros)
        }
    }

    pub const fn micros(self) -> i64 {
        self.0
    }

    /// Returns the time `span` later, at most [`Timestamp::MAX`].
    pub fn after(self, span: Duration) -> Self {
        let micros = i64::try_from(span.as_micros()).unwrap_or(i64::MAX);
        Self::from_micros(self.0.saturating_add(micros))
    }

    /// Returns the time `span` earlier, at least [`Timestamp::MIN`].
    pub fn before(self, span: Duration) -> Self {
        let micros = i64::try_from(span.as_micros()).unwrap_or(i64::MAX);
        Self::from_micros(self.0.saturating_sub(micros))
    }

    /// Returns the time elapsed since `earlier`, or zero if `earlier` is later.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

/// Formats as RFC 3339 in UTC, with microseconds.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, micros) = (self.0.div_euclid(SECOND_US), self.0.rem_euclid(SECOND_US));
        let (days, second) = (seconds.div_euclid(DAY_S), seconds.rem_euclid(DAY_S));
        let (year, month, day) = civil(days);
        let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}Z")
    }
}

/// Returns the year, month and day for a number of days since 1970-01-01. The calculation uses years that begin
/// in March, so that the leap day is the last day of a year.
const fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400;
    (if month <= 2 { year + 1 } else { year }, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates() {
        assert_eq!(Timestamp::MAX.after(Duration::MAX), Timestamp::MAX);
        assert_eq!(Timestamp::MIN.before(Duration::MAX), Timestamp::MIN);
        let now = Timestamp::from_micros(5);
        assert_eq!(now.after(Duration::from_micros(2)).micros(), 7);
        assert_eq!(now.since(Timestamp::from_micros(2)), Duration::from_micros(3));
        assert_eq!(now.since(Timestamp::from_micros(9)), Duration::ZERO);
    }
}
