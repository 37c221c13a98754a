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

/// Returns whether a text is a date and time according to RFC 3339, such as `2026-11-05T17:31:00.25+01:00`.
pub fn is_rfc3339(text: &str) -> bool {
    let Some((date, rest)) = text.split_at_checked(10) else { return false };
    let Some((time, rest)) = rest.split_at_checked(9) else { return false };
    let fraction = rest.strip_prefix('.').map(|rest| {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        rest.split_at_checked(digits).unwrap_or_default()
    });
    let (fraction, offset) = fraction.unwrap_or(("0", rest));
    is_date(date) && is_time_of_day(time) && !fraction.is_empty() && is_offset(offset)
}

fn is_date(text: &str) -> bool {
    let [year, month, day] = text.split('-').collect::<Vec<_>>()[..] else { return false };
    let (Some(year), Some(month), Some(day)) = (digits(year, 4), digits(month, 2), digits(day, 2)) else {
        return false;
    };
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        2 if is_leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    (1..=12).contains(&month) && (1..=days).contains(&day)
}

/// Returns whether a text is the separator `T` and a time of the form `hh:mm:ss`. The second 60 is a leap second.
fn is_time_of_day(text: &str) -> bool {
    let Some(time) = text.strip_prefix(['T', 't']) else { return false };
    let [hour, minute, second] = time.split(':').collect::<Vec<_>>()[..] else { return false };
    let is_within = |part, max| digits(part, 2).is_some_and(|value| value <= max);
    is_within(hour, 23) && is_within(minute, 59) && is_within(second, 60)
}

fn is_offset(text: &str) -> bool {
    if matches!(text, "Z" | "z") {
        return true;
    }
    let Some((hour, minute)) = text.strip_prefix(['+', '-']).and_then(|rest| rest.split_once(':')) else {
        return false;
    };
    digits(hour, 2).is_some_and(|hour| hour <= 23) && digits(minute, 2).is_some_and(|minute| minute <= 59)
}

/// Parses a number of exactly `count` ASCII digits.
fn digits(text: &str, count: usize) -> Option<u32> {
    let is_number = text.len() == count && text.bytes().all(|b| b.is_ascii_digit());
    if is_number { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rfc3339_is_recognised() {
        for good in [
            "2026-11-05T17:31:00Z",
            "2026-11-05t17:31:00z",
            "2026-11-05T17:31:00.123456789012Z",
            "2024-02-29T00:00:00+00:00",
            "2000-02-29T23:59:60-23:59",
            "0000-01-01T00:00:00Z",
            "9999-12-31T23:59:59.9+14:00",
        ] {
            assert!(is_rfc3339(good), "{good}");
        }
        for bad in [
            "",
            "2026-11-05",
            "2026-11-05T17:31:00",
            "2026-11-05 17:31:00Z",
            "2026-11-05T17:31Z",
            "2026-11-05T24:00:00Z",
            "2026-11-05T00:60:00Z",
            "2026-11-05T00:00:61Z",
            "2026-11-05T17:31:00.Z",
            "2026-11-05T17:31:00,5Z",
            "2026-11-05T17:31:00+0100",
            "2026-11-05T17:31:00+24:00",
            "2026-11-05T17:31:00+01:60",
            "2026-11-05T17:31:00Z ",
            "2026-13-05T17:31:00Z",
            "2026-00-05T17:31:00Z",
            "2026-04-31T17:31:00Z",
            "2025-02-29T17:31:00Z",
            "1900-02-29T17:31:00Z",
            "2026-11-00T17:31:00Z",
            "2026-+1-05T17:31:00Z",
            "20261-1-05T17:31:00Z",
            "２026-11-05T17:31:00Z",
            "ääääääääääääää",
        ] {
            assert!(!is_rfc3339(bad), "{bad}");
        }
    }

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
