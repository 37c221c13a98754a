//! Instants and spans as whole microseconds, the resolution of both stores. The core never asks for
//! the time: it is handed in.

use std::fmt;
use std::time::Duration;

const SECOND_US: i64 = 1_000_000;
const DAY_S: i64 = 86_400;

/// An instant in UTC, as microseconds since 1970-01-01.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// 0001-01-01, the earliest instant that both engines and RFC 3339 can write.
    pub const MIN: Self = Self(-62_135_596_800_000_000);
    /// The last microsecond of the year 9999.
    pub const MAX: Self = Self(253_402_300_799_999_999);

    /// An instant outside the years 1 to 9999 becomes the nearest one inside.
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

    /// Later by `span`; never overflows.
    pub fn after(self, span: Duration) -> Self {
        let micros = i64::try_from(span.as_micros()).unwrap_or(i64::MAX);
        Self::from_micros(self.0.saturating_add(micros))
    }

    /// Earlier by `span`; never overflows.
    pub fn before(self, span: Duration) -> Self {
        let micros = i64::try_from(span.as_micros()).unwrap_or(i64::MAX);
        Self::from_micros(self.0.saturating_sub(micros))
    }

    /// How long ago `earlier` was; zero if it was not.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

/// As RFC 3339 writes it, in UTC, to the microsecond.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, micros) = (self.0.div_euclid(SECOND_US), self.0.rem_euclid(SECOND_US));
        let (days, second) = (seconds.div_euclid(DAY_S), seconds.rem_euclid(DAY_S));
        let (year, month, day) = civil(days);
        let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}Z")
    }
}

/// The date of a day counted from 1970-01-01. Years are counted from March, so that the leap day is the last of its
/// year.
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
    fn no_span_overflows() {
        assert_eq!(Timestamp::MAX.after(Duration::MAX), Timestamp::MAX);
        assert_eq!(Timestamp::MIN.before(Duration::MAX), Timestamp::MIN);
        let now = Timestamp::from_micros(5);
        assert_eq!(now.after(Duration::from_micros(2)).micros(), 7);
        assert_eq!(now.since(Timestamp::from_micros(2)), Duration::from_micros(3));
        assert_eq!(now.since(Timestamp::from_micros(9)), Duration::ZERO);
    }
}
