//! The one notation for durations in settings, flags and output: a whole number and a unit, such as `30s`.

use std::time::Duration;

/// The units and their length in milliseconds, longest first.
const UNITS: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// Describes the notation, for messages.
pub(crate) const NOTATION: &str = "a whole number followed by ms, s, m, h or d, such as 30s";

/// Parses a duration. Returns `None` if the text is not in this notation or exceeds `u64` milliseconds.
pub(crate) fn parse(text: &str) -> Option<Duration> {
    let digits = text.find(|character: char| !character.is_ascii_digit())?;
    let (number, unit) = text.split_at(digits);
    let (_, unit_ms) = UNITS.into_iter().find(|(name, _)| *name == unit)?;
    number.parse::<u64>().ok()?.checked_mul(unit_ms).map(Duration::from_millis)
}

/// Formats a duration in the longest unit that gives a whole number.
pub(crate) fn format(duration: Duration) -> String {
    let ms = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let divides = |(_, unit_ms): &(&str, u64)| ms >= *unit_ms && ms.is_multiple_of(*unit_ms);
    UNITS
        .into_iter()
        .find(divides)
        .map_or_else(|| "0s".to_owned(), |(unit, unit_ms)| format!("{}{unit}", ms / unit_ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_durations_are_parsed() {
        for (text, ms) in [
            ("0s", 0),
            ("1ms", 1),
            ("100ms", 100),
            ("30s", 30_000),
            ("030s", 30_000),
            ("1m", 60_000),
            ("1h", 3_600_000),
            ("7d", 604_800_000),
        ] {
            assert_eq!(parse(text), Some(Duration::from_millis(ms)), "{text}");
        }
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "",
            "30",
            "s",
            "1.5s",
            "-1s",
            "+1s",
            "1 s",
            " 1s",
            "1s ",
            "1S",
            "1h30m",
            "1w",
            "1us",
            "١s",
            "99999999999999999999d",
            "213503982335d",
            "18446744073709551615d",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn format_is_the_inverse_of_parse() {
        for text in ["0s", "1ms", "1500ms", "1s", "90s", "1m", "36h", "7d"] {
            assert_eq!(parse(text).map(format).as_deref(), Some(text));
        }
        assert_eq!(format(Duration::MAX), "18446744073709551615ms");
    }
}
