//! The [`Kind`]s of settings. Numbers, durations and sizes are defined here, the others in submodules.

mod access;
mod network;
mod process;

use super::setting::Kind;
use posthaste_core::duration;
use std::time::Duration;

pub(super) use access::{DatabaseAt, Prefix, RootKey, SealingKeyList, ServerAt, StoredSecrets};
pub(super) use network::{BrokerAt, Headers, HostName, Listen, Networks, Ports, ProxyAt, UriReference};
pub(super) use process::{
    AttributeRuleList, Filter, Format, Methods, OneLine, PathText, Roles, ShellCommand,
};

/// A duration, such as `30s`.
#[derive(Debug)]
pub(super) struct Time {
    pub(super) min: Duration,
    pub(super) max: Duration,
}

impl Kind for Time {
    type Value = Duration;
    const METAVAR: &'static str = "DURATION";

    fn read(&self, text: &str) -> Result<Duration, String> {
        let time = duration::parse(text).filter(|time| (self.min..=self.max).contains(time));
        time.ok_or_else(|| format!("a {}: {}", self.accepts(), duration::NOTATION))
    }

    fn accepts(&self) -> String {
        format!("duration from {} to {}", duration::format(self.min), duration::format(self.max))
    }
}

/// A number of bytes, such as `256KiB`.
#[derive(Debug)]
pub(super) struct Bytes {
    pub(super) min: usize,
    pub(super) max: usize,
}

impl Kind for Bytes {
    type Value = usize;
    const METAVAR: &'static str = "SIZE";

    fn read(&self, text: &str) -> Result<usize, String> {
        let bytes = read_bytes(text).filter(|bytes| (self.min..=self.max).contains(bytes));
        bytes.ok_or_else(|| {
            format!("a {}: a whole number of bytes, KiB or MiB, such as 256KiB", self.accepts())
        })
    }

    fn accepts(&self) -> String {
        format!("size from {} to {}", show_bytes(self.min), show_bytes(self.max))
    }
}

fn read_bytes(text: &str) -> Option<usize> {
    let (number, unit) = split_number(text);
    let unit_bytes = match unit {
        "" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        _ => return None,
    };
    number.parse::<usize>().ok()?.checked_mul(unit_bytes)
}

fn show_bytes(bytes: usize) -> String {
    match bytes {
        0 => "0".to_owned(),
        _ if bytes.is_multiple_of(1 << 20) => format!("{}MiB", bytes >> 20),
        _ if bytes.is_multiple_of(1 << 10) => format!("{}KiB", bytes >> 10),
        _ => bytes.to_string(),
    }
}

/// Splits a text into its leading digits and the rest.
fn split_number(text: &str) -> (&str, &str) {
    text.split_at(text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len()))
}

/// A whole number.
#[derive(Debug)]
pub(super) struct Number {
    pub(super) min: u32,
    pub(super) max: u32,
}

impl Kind for Number {
    type Value = u32;
    const METAVAR: &'static str = "NUMBER";
    const BARE: bool = true;

    fn read(&self, text: &str) -> Result<u32, String> {
        let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
        let number = text.parse().ok().filter(|number| is_plain && (self.min..=self.max).contains(number));
        number.ok_or_else(|| format!("a {}", self.accepts()))
    }

    fn accepts(&self) -> String {
        format!("whole number from {} to {}", self.min, self.max)
    }
}

/// A duration whose setting has a unit in its name, `_MS` or `_MIN`. A bare number is a value in that unit, with up to
/// three decimals for minutes. The common notation for durations is also accepted.
#[derive(Debug)]
pub(super) struct UnitTime {
    pub(super) unit: Unit,
    pub(super) min: Duration,
    pub(super) max: Duration,
}

/// The unit in the name of a setting.
#[derive(Debug, Clone, Copy)]
pub(super) enum Unit {
    Milliseconds,
    Minutes,
}

impl Kind for UnitTime {
    type Value = Duration;
    const METAVAR: &'static str = "DURATION";
    const BARE: bool = true;

    fn read(&self, text: &str) -> Result<Duration, String> {
        let number = || match self.unit {
            Unit::Milliseconds => read_milliseconds(text),
            Unit::Minutes => read_minutes(text),
        };
        let time = duration::parse(text).or_else(number);
        time.filter(|time| (self.min..=self.max).contains(time))
            .ok_or_else(|| format!("a {}", self.accepts()))
    }

    fn accepts(&self) -> String {
        let (min, max) = (duration::format(self.min), duration::format(self.max));
        let number = match self.unit {
            Unit::Milliseconds => "a number of milliseconds",
            Unit::Minutes => "a number of minutes such as 10 or 0.5 (up to three decimals)",
        };
        format!("duration from {min} to {max}, or {number}")
    }
}

fn read_milliseconds(text: &str) -> Option<Duration> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_plain).map(Duration::from_millis)
}

fn read_minutes(text: &str) -> Option<Duration> {
    let (whole, decimals) = text.split_once('.').unwrap_or((text, "0"));
    let are_digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if !are_digits(whole) || !are_digits(decimals) || decimals.len() > 3 {
        return None;
    }
    // A thousandth of a minute is 60 ms.
    let thousandths = format!("{decimals:0<3}").parse::<u64>().ok()?;
    let thousandths = whole.parse::<u64>().ok()?.checked_mul(1000)?.checked_add(thousandths)?;
    thousandths.checked_mul(60).map(Duration::from_millis)
}

#[derive(Debug)]
pub(super) struct YesNo;

impl Kind for YesNo {
    type Value = bool;
    const METAVAR: &'static str = "true|false";
    const BARE: bool = true;
    const SWITCH: bool = true;

    fn read(&self, text: &str) -> Result<bool, String> {
        text.parse().map_err(|_| self.accepts())
    }

    fn accepts(&self) -> String {
        "true or false".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_a_range() {
        let kind = Time { min: Duration::from_millis(1), max: Duration::from_secs(7 * 86_400) };
        for (text, ms) in [("1ms", 1), ("030s", 30_000), ("1h", 3_600_000), ("7d", 604_800_000)] {
            assert_eq!(kind.read(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for text in ["", "30", "0s", "8d", "1.5s", "-1s", "18446744073709551615d"] {
            let expected =
                "a duration from 1ms to 7d: a whole number followed by ms, s, m, h or d, such as 30s";
            assert_eq!(kind.read(text), Err(expected.to_owned()), "{text}");
        }
    }

    #[test]
    fn sizes_have_a_range() {
        let kind = Bytes { min: 1, max: 1 << 20 };
        for (text, bytes) in
            [("1", 1), ("4096", 4096), ("256KiB", 262_144), ("1MiB", 1_048_576), ("1024KiB", 1_048_576)]
        {
            assert_eq!(kind.read(text), Ok(bytes), "{text}");
        }
        for text in [
            "",
            "0",
            "KiB",
            "1KB",
            "1kib",
            "1 KiB",
            "1GiB",
            "2MiB",
            "1025KiB",
            "-1",
            "1.5MiB",
            "17592186044416MiB",
        ] {
            let expected = "a size from 1 to 1MiB: a whole number of bytes, KiB or MiB, such as 256KiB";
            assert_eq!(kind.read(text), Err(expected.to_owned()), "{text}");
        }
        assert_eq!((show_bytes(0), show_bytes(1025)), ("0".to_owned(), "1025".to_owned()));
    }

    #[test]
    fn bare_numbers_count_in_the_unit_of_the_name() {
        let (min, max) = (Duration::from_secs(3), Duration::from_secs(86_400));
        let kind = UnitTime { unit: Unit::Minutes, min, max };
        for (text, ms) in [
            ("10", 600_000),
            ("1440", 86_400_000),
            ("0.5", 30_000),
            ("0.05", 3_000),
            ("1.125", 67_500),
            ("10m", 600_000),
            ("90s", 90_000),
        ] {
            assert_eq!(kind.read(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for text in
            ["", "0", "0.049", "1440.001", ".5", "5.", "1.0001", "1e1", "-1", "1,5", "2s", "25h", "1.5.0"]
        {
            let expected =
                "a duration from 3s to 1d, or a number of minutes such as 10 or 0.5 (up to three decimals)";
            assert_eq!(kind.read(text), Err(expected.to_owned()), "{text}");
        }
        let (min, max) = (Duration::from_millis(1), Duration::from_secs(60));
        let kind = UnitTime { unit: Unit::Milliseconds, min, max };
        for (text, ms) in [("200", 200), ("60000", 60_000), ("200ms", 200), ("1m", 60_000)] {
            assert_eq!(kind.read(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for text in ["", "0", "0.5", "60001", "+1", "-1", "61s"] {
            let expected = "a duration from 1ms to 1m, or a number of milliseconds";
            assert_eq!(kind.read(text), Err(expected.to_owned()), "{text}");
        }
    }

    #[test]
    fn numbers_have_a_range_and_switches_two_values() {
        let kind = Number { min: 1, max: 100 };
        for (text, number) in [("1", 1), ("100", 100), ("007", 7)] {
            assert_eq!(kind.read(text), Ok(number), "{text}");
        }
        for text in ["", "0", "101", "-1", "+1", "1.0", "1e1", " 1", "4294967297", "many"] {
            assert_eq!(kind.read(text), Err("a whole number from 1 to 100".to_owned()), "{text}");
        }
        assert_eq!((YesNo.read("true"), YesNo.read("false")), (Ok(true), Ok(false)));
        for text in ["", "yes", "1", "True", " true"] {
            assert_eq!(YesNo.read(text), Err("true or false".to_owned()), "{text}");
        }
    }
}
