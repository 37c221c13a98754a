//! Timestamps in requests and responses, in RFC 3339 format.

use posthaste_core::Timestamp;
use serde::{Serialize, Serializer};
use utoipa::ToSchema;

const SECOND_US: i64 = 1_000_000;
const DAY_S: i64 = 86_400;

/// A time in UTC with microseconds (RFC 3339).
#[derive(Debug, Clone, Copy, PartialEq, Eq, ToSchema)]
#[schema(value_type = String, format = DateTime)]
pub(crate) struct Utc(pub(crate) Timestamp);

impl Serialize for Utc {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl Utc {
    /// Returns the time in RFC 3339 format.
    pub(crate) fn iso(self) -> String {
        self.0.to_string()
    }

    /// Returns the time without fraction and zone, for display.
    pub(crate) fn short(self) -> String {
        let text = self.0.to_string();
        text.get(..19).map_or_else(String::new, |text| text.replacen('T', " ", 1))
    }
}

/// Parses an RFC 3339 time with any offset. Digits beyond microseconds are truncated. Returns `None` if the text is
/// invalid.
pub(crate) fn parse(text: &str) -> Option<Timestamp> {
    let bytes = text.as_bytes();
    let mark = |at: usize, marks: &[u8]| bytes.get(at).is_some_and(|byte| marks.contains(byte));
    let marks = [(4, "-"), (7, "-"), (10, "Tt "), (13, ":"), (16, ":")];
    if !marks.iter().all(|(at, allowed)| mark(*at, allowed.as_bytes())) {
        return None;
    }
    let number = |from: usize, to: usize| digits(text.get(from..to)?);
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    let in_range = year >= 1 && (1..=12).contains(&month) && (1..=month_days(year, month)).contains(&day);
    // A leap second is treated as the first second of the next minute.
    if !in_range || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let (micros, zone) = fraction(text.get(19..)?)?;
    let offset_s = offset(zone)?;
    let seconds = days_before(year, month, day) * DAY_S + hour * 3_600 + minute * 60 + second - offset_s;
    let micros = seconds * SECOND_US + micros;
    let at = Timestamp::from_micros(micros);
    (at.micros() == micros).then_some(at)
}

fn digits(text: &str) -> Option<i64> {
    (!text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse().ok())?
}

fn fraction(rest: &str) -> Option<(i64, &str)> {
    let Some(after) = rest.strip_prefix('.') else { return Some((0, rest)) };
    let end = after.find(|letter: char| !letter.is_ascii_digit())?;
    let (decimals, zone) = after.split_at_checked(end)?;
    let padded: String = decimals.chars().chain("000000".chars()).take(6).collect();
    (!decimals.is_empty()).then_some((digits(&padded)?, zone))
}

fn offset(zone: &str) -> Option<i64> {
    if zone.eq_ignore_ascii_case("z") {
        return Some(0);
    }
    let (sign, rest) = match zone.split_at_checked(1)? {
        ("+", rest) => (1, rest),
        ("-", rest) => (-1, rest),
        _ => return None,
    };
    let (hours, minutes) = rest.split_once(':')?;
    let two = |text: &str| (text.len() == 2).then(|| digits(text))?;
    let (hours, minutes) = (two(hours)?, two(minutes)?);
    (hours < 24 && minutes < 60).then_some(sign * (hours * 3_600 + minutes * 60))
}

const fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

const fn month_days(year: i64, month: i64) -> i64 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if is_leap(year) => 29,
        2 => 28,
        _ => 31,
    }
}

/// Returns the number of days since 1970-01-01. Years start in March here, so that a leap day is the last day of its
/// year.
const fn days_before(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_round_trip() {
        let rows = [
            (0, "1970-01-01T00:00:00.000000Z"),
            (-1, "1969-12-31T23:59:59.999999Z"),
            (1_709_164_800_000_001, "2024-02-29T00:00:00.000001Z"),
            (951_868_799_000_000, "2000-02-29T23:59:59.000000Z"),
            (Timestamp::MIN.micros(), "0001-01-01T00:00:00.000000Z"),
            (Timestamp::MAX.micros(), "9999-12-31T23:59:59.999999Z"),
        ];
        for (micros, text) in rows {
            assert_eq!(Timestamp::from_micros(micros).to_string(), text);
            assert_eq!(parse(text).map(Timestamp::micros), Some(micros), "{text}");
        }
    }

    #[test]
    fn offsets_and_fractions_are_parsed() {
        let rows = [
            ("1970-01-01T01:00:00+01:00", 0),
            ("1969-12-31 23:30:00.5-00:30", 500_000),
            ("1970-01-01t00:00:00.1234567z", 123_456),
        ];
        for (text, micros) in rows {
            assert_eq!(parse(text).map(Timestamp::micros), Some(micros), "{text}");
        }
    }

    #[test]
    fn invalid_times_are_refused() {
        for bad in [
            "",
            "1970-01-01",
            "1970-01-01T00:00:00",
            "1970-13-01T00:00:00Z",
            "1970-02-29T00:00:00Z",
            "1970-01-01T24:00:00Z",
            "1970-01-01T00:00:00.Z",
            "1970-01-01T00:00:00+1:00",
            "0000-01-01T00:00:00Z",
            "0001-01-01T00:00:00+01:00",
            "+970-01-01T00:00:00Z",
            "1970-01-01T00:00:00Zé",
        ] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}
