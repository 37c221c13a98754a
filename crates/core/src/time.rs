//! Instants and spans as whole microseconds, the resolution of both stores. The core never asks for
//! the time: it is handed in.

use std::time::Duration;

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
