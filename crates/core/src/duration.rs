//! The notation for durations in settings, command-line flags and requests: a whole number with a unit, such as
//! `30s`.

use std::time::Duration;

/// The units and their lengths in milliseconds, longest first.
const UNITS: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// A description of the notation, for error messages.
pub const NOTATION: &str = "a whole number followed by ms, s, m, h or d, such as 30s";

/// Parses a whole number with the unit `ms`, `s`, `m`, `h` or `d`. Returns `None` if the text is invalid or the
/// duration is too long.
pub fn parse(text: &str) -> Option<Duration> {
    let digits = text.find(|character: char| !character.is_ascii_digit())?;
    let (number, unit) = text.split_at(digits);
    let (_, unit_ms) = UNITS.into_iter().find(|(name, _)| *name == unit)?;
    number.parse::<u64>().ok()?.checked_mul(unit_ms).map(Duration::from_millis)
}

/// Formats a duration as a whole number of the longest possible unit. Fractions of a millisecond are dropped.
pub fn format(duration: Duration) -> String {
    let ms = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let fits = |(_, unit_ms): &(&str, u64)| ms >= *unit_ms && ms.is_multiple_of(*unit_ms);
    UNITS
        .into_iter()
        .find(fits)
        .map_or_else(|| "0s".to_owned(), |(unit, unit_ms)| format!("{}{unit}", ms / unit_ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_as_it_parses() {
        for text in ["0s", "1ms", "1500ms", "1s", "90s", "1m", "36h", "7d"] {
            assert_eq!(parse(text).map(format).as_deref(), Some(text));
        }
        assert_eq!(parse("030s"), Some(Duration::from_secs(30)));
        assert_eq!(format(Duration::MAX), "18446744073709551615ms");
    }

    #[test]
    fn anything_else_is_refused() {
        for text in ["", "30", "s", "1.5s", "-1s", "+1s", "1 s", " 1s", "1s ", "1S", "1h30m", "1w", "١s"] {
            assert_eq!(parse(text), None, "{text}");
        }
        for text in ["99999999999999999999d", "213503982335d"] {
            assert_eq!(parse(text), None, "{text} is too long");
        }
    }
}
