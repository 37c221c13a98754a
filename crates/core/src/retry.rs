//! Retry policies: [`RetryPolicy`] for deliveries, used by [`crate::saga`], and [`OrderRetryPolicy`] for
//! orders, used by [`crate::order`].

use std::time::{Duration, SystemTime};

use sha2::{Digest as _, Sha256};

use crate::time::Timestamp;

/// The maximum delay that a receiver can request with `Retry-After`. Without a maximum, a receiver could defer
/// deliveries for days.
pub const RETRY_AFTER_MAX: Duration = Duration::from_secs(3600);

/// The maximum backoff of an order, before jitter. Without a maximum, a high retry limit would lead to delays
/// of weeks.
pub const ORDER_BACKOFF_MAX: Duration = Duration::from_secs(3600);

/// The maximum attempt limit of a subscription.
pub const ATTEMPTS_LIMIT_MAX: u32 = 100;

/// The backoff and the attempt limit of a webhook delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy {
    pub base: Duration,
    pub cap: Duration,
    /// The maximum number of attempts, including the first.
    pub attempts_max: u32,
}

impl RetryPolicy {
    pub const WEBHOOK: Self =
        Self { base: Duration::from_secs(30), cap: Duration::from_secs(3600), attempts_max: 5 };

    /// Returns the policy with `limit` as its attempt limit, or unchanged if `limit` is `None`.
    pub const fn with_limit(self, limit: Option<u32>) -> Self {
        match limit {
            Some(attempts_max) => Self { attempts_max, ..self },
            None => self,
        }
    }

    /// Returns the backoff after the failed attempt `attempt`. Attempts are numbered from 1; 0 is treated as 1.
    pub fn backoff(&self, attempt: u32) -> Duration {
        doubled(self.base, attempt, self.cap)
    }

    /// Returns the time at which the attempt after `attempt` is due. A delay requested by the receiver can only
    /// lengthen the backoff.
    ///
    /// The result differs from `previous`, because the time of an attempt identifies it within its delivery.
    /// The only exception is [`Timestamp::MAX`]. The result may be earlier than `previous` if the clock was set
    /// back, because the backoff starts at `now`.
    pub fn next_attempt_at(
        &self,
        attempt: u32,
        retry_after: Option<Duration>,
        previous: Timestamp,
        now: Timestamp,
    ) -> Timestamp {
        due(self.backoff(attempt), retry_after, previous, now)
    }

    /// Returns the new time of a waiting attempt if it was stored before the clock was set back, or `None` if
    /// its time is plausible. A restarted wait keeps its length.
    pub fn restarted_wait(&self, wait: Wait, now: Timestamp) -> Option<Timestamp> {
        restarted(wait, self.cap.max(RETRY_AFTER_MAX), now)
    }
}

/// A waiting period, as stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wait {
    /// The time at which the wait was stored.
    pub since: Timestamp,
    pub until: Timestamp,
}

/// The minimum difference that counts as a clock step. A smaller difference is clock skew between processes.
pub const CLOCK_STEP_MIN: Duration = Duration::from_secs(1);

/// Returns the new end of a wait that starts in the future or is longer than `wait_max`, because the clock was
/// set back after it was stored. The wait restarts at `now` with its original length. Returns `None` if the
/// wait is plausible.
fn restarted(wait: Wait, wait_max: Duration, now: Timestamp) -> Option<Timestamp> {
    let is_from_the_future = wait.since > now.after(CLOCK_STEP_MIN) && wait.until > now;
    let is_too_long = wait.until.since(now) > wait_max;
    let length = wait.until.since(wait.since).min(wait_max);
    (is_from_the_future || is_too_long).then(|| now.after(length))
}

/// The backoff and the retry limit of an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OrderRetryPolicy {
    pub base: Duration,
    /// The maximum number of retries, excluding the first attempt.
    pub retries_max: u32,
}

impl OrderRetryPolicy {
    pub const ORDER: Self = Self { base: Duration::from_secs(2), retries_max: 8 };

    /// Returns the backoff before the retry `retry_count`, with a jitter of ±10 %. Retries are numbered from 1;
    /// 0 is treated as 1. The jitter spreads out the orders that failed in one outage. It is derived from a
    /// hash instead of a random number, so that it is reproducible.
    pub fn backoff(&self, idempotency_key: &str, retry_count: u32) -> Duration {
        let nominal = doubled(self.base, retry_count, ORDER_BACKOFF_MAX);
        let hash = Sha256::new()
            .chain_update(idempotency_key.as_bytes())
            .chain_update([0])
            .chain_update(retry_count.to_be_bytes())
            .finalize();
        let draw = hash.iter().take(8).fold(0_u64, |sum, byte| (sum << 8) | u64::from(*byte));
        let millionths = 900_000 + draw % 200_001;
        // At most 3600 s * 1.1 in nanoseconds. The product fits in 128 bits, and the quotient in 64 bits.
        let nanos = nominal.as_nanos() * u128::from(millionths) / 1_000_000;
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// Returns the time at which retry `retry_count` is due; see [`RetryPolicy::next_attempt_at`].
    pub fn next_attempt_at(
        &self,
        idempotency_key: &str,
        retry_count: u32,
        retry_after: Option<Duration>,
        previous: Timestamp,
        now: Timestamp,
    ) -> Timestamp {
        due(self.backoff(idempotency_key, retry_count), retry_after, previous, now)
    }

    /// Returns the new time of a waiting order, or `None`; see [`RetryPolicy::restarted_wait`].
    pub fn restarted_wait(&self, wait: Wait, now: Timestamp) -> Option<Timestamp> {
        // Jitter can lengthen the maximum backoff by 10 %.
        restarted(wait, RETRY_AFTER_MAX.max(ORDER_BACKOFF_MAX * 11 / 10), now)
    }
}

fn due(backoff: Duration, retry_after: Option<Duration>, previous: Timestamp, now: Timestamp) -> Timestamp {
    let asked = retry_after.unwrap_or_default().min(RETRY_AFTER_MAX);
    let at = now.after(backoff.max(asked));
    if at == previous { at.after(Duration::from_micros(1)) } else { at }
}

/// Returns `min(base * 2^(n-1), cap)`. The exponent is limited to 63, since 2^63 nanoseconds are centuries. The
/// product of a 94-bit and a 64-bit number saturates only where the result is capped anyway.
pub(crate) fn doubled(base: Duration, n: u32, cap: Duration) -> Duration {
    let exponent = n.saturating_sub(1).min(63);
    let nanos = base.as_nanos().saturating_mul(1_u128 << exponent);
    if nanos >= cap.as_nanos() {
        return cap;
    }
    // The value is less than `cap`, which is a `Duration`, so the seconds fit in 64 bits.
    let seconds = u64::try_from(nanos / 1_000_000_000).unwrap_or(u64::MAX);
    let rest = u32::try_from(nanos % 1_000_000_000).unwrap_or(0);
    Duration::new(seconds, rest)
}

/// An error for an attempt limit outside the accepted range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("max_retry_limit must be between 1 and {ATTEMPTS_LIMIT_MAX}, got {0}")]
pub struct AttemptsLimitOutOfRange(pub i64);

/// Validates the attempt limit of a subscription.
pub fn attempts_limit(raw: i64) -> Result<u32, AttemptsLimitOutOfRange> {
    match u32::try_from(raw) {
        Ok(limit @ 1..=ATTEMPTS_LIMIT_MAX) => Ok(limit),
        Ok(_) | Err(_) => Err(AttemptsLimitOutOfRange(raw)),
    }
}

/// Parses a `Retry-After` header, either a number of seconds or an HTTP date, and limits it to
/// [`RETRY_AFTER_MAX`].
///
/// A date in the past is equivalent to `0`. Returns `None` if the header is invalid.
pub fn parse_retry_after(header: &[u8], now: Timestamp) -> Option<Duration> {
    let text = std::str::from_utf8(header).ok()?.trim_matches([' ', '\t']);
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        // A number that does not fit in 64 bits is treated as the maximum, not as an error.
        let seconds = text.parse().unwrap_or(u64::MAX);
        return Some(Duration::from_secs(seconds).min(RETRY_AFTER_MAX));
    }
    let date = httpdate::parse_http_date(text).ok()?;
    let since_epoch = date.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let at = Timestamp::from_micros(0).after(since_epoch);
    Some(at.since(now).min(RETRY_AFTER_MAX))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_micros(seconds * 1_000_000)
    }

    #[test]
    fn webhook_backoff_doubles_from_thirty_seconds_to_an_hour() {
        let rows = [(0, 30), (1, 30), (2, 60), (3, 120), (4, 240), (7, 1920), (8, 3600), (u32::MAX, 3600)];
        for (attempt, expected) in rows {
            assert_eq!(RetryPolicy::WEBHOOK.backoff(attempt), secs(expected), "attempt {attempt}");
        }
    }

    #[test]
    fn extreme_policies_respect_their_cap() {
        let rows = [
            (Duration::ZERO, secs(10), 99, Duration::ZERO),
            (Duration::MAX, Duration::MAX, u32::MAX, Duration::MAX),
            (secs(10), secs(5), 1, secs(5)),
            (secs(10), Duration::ZERO, 1, Duration::ZERO),
            (Duration::from_nanos(1), Duration::MAX, 64, Duration::new(9_223_372_036, 854_775_808)),
        ];
        for (base, cap, attempt, expected) in rows {
            let policy = RetryPolicy { base, cap, attempts_max: 5 };
            assert_eq!(policy.backoff(attempt), expected, "{policy:?} after attempt {attempt}");
        }
    }

    #[test]
    fn next_attempt_waits_for_its_backoff_and_has_a_distinct_time() {
        let rows = [
            // Columns: attempt, retry_after, previous, now, expected. Backoff only.
            (1, None, at(0), at(100), at(130)),
            // A requested delay that is longer than the backoff, shorter, and longer than the maximum.
            (1, Some(secs(90)), at(0), at(100), at(190)),
            (4, Some(secs(1)), at(0), at(100), at(340)),
            (1, Some(Duration::MAX), at(0), at(100), at(3700)),
            // The clock was set back: the same time again, and a previous attempt in the future.
            (1, None, at(130), at(100), Timestamp::from_micros(130_000_001)),
            (1, None, at(3_700), at(100), at(130)),
            // The maximum time.
            (1, None, at(0), Timestamp::MAX, Timestamp::MAX),
            (1, None, Timestamp::MAX, at(100), at(130)),
        ];
        for (attempt, retry_after, previous, now, expected) in rows {
            let next = RetryPolicy::WEBHOOK.next_attempt_at(attempt, retry_after, previous, now);
            assert_eq!(next, expected, "{attempt} {retry_after:?} {previous:?} {now:?}");
        }
    }

    #[test]
    fn implausible_waits_are_restarted() {
        let now = at(100);
        let rows = [
            // Columns: since, until, expected. Plausible waits, including one from a clock that is slightly
            // ahead.
            (90, 120, None),
            (101, 131, None),
            (90, 100 + 3_600, None),
            // A wait that has ended.
            (3_700, 90, None),
            // Waits from a clock that was ahead, which keep their length.
            (3_700, 3_730, Some(130)),
            (102, 132, Some(130)),
            // Waits longer than the maximum.
            (90, 100 + 3_601, Some(3_700)),
            (90, 1_000_000_000, Some(3_700)),
            (1_000_000_000, 2_000_000_000, Some(3_700)),
        ];
        for (since, until, expected) in rows {
            let wait = Wait { since: at(since), until: at(until) };
            assert_eq!(
                RetryPolicy::WEBHOOK.restarted_wait(wait, now),
                expected.map(at),
                "{since} to {until}"
            );
        }
        let wait = Wait { since: at(3_700), until: at(3_704) };
        assert_eq!(OrderRetryPolicy::ORDER.restarted_wait(wait, now), Some(at(104)));
        let wait = Wait { since: at(90), until: at(100 + 3_960) };
        assert_eq!(
            OrderRetryPolicy::ORDER.restarted_wait(wait, now),
            None,
            "the longest backoff of an order"
        );
    }

    #[test]
    fn subscription_may_have_its_own_limit() {
        assert_eq!(RetryPolicy::WEBHOOK.with_limit(None), RetryPolicy::WEBHOOK);
        assert_eq!(RetryPolicy::WEBHOOK.with_limit(Some(9)).attempts_max, 9);
        let rows = [(1, Ok(1)), (100, Ok(100))];
        for (raw, expected) in rows {
            assert_eq!(attempts_limit(raw), expected);
        }
        for raw in [0, 101, -1, i64::MIN, i64::MAX] {
            assert_eq!(attempts_limit(raw), Err(AttemptsLimitOutOfRange(raw)));
        }
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let now = at(784_111_777); // Sun, 06 Nov 1994 08:49:37 GMT
        let rows: &[(&[u8], Option<u64>)] = &[
            (b"0", Some(0)),
            (b"120", Some(120)),
            (b" \t120 \t", Some(120)),
            (b"0000000000000000000000000000120", Some(120)),
            (b"3601", Some(3600)),
            (b"99999999999999999999999999999999", Some(3600)),
            (b"Sun, 06 Nov 1994 08:50:07 GMT", Some(30)),
            (b"Sunday, 06-Nov-94 08:50:07 GMT", Some(30)),
            (b"Sun Nov  6 08:50:07 1994", Some(30)),
            (b"Sun, 06 Nov 1994 08:49:36 GMT", Some(0)),
            (b"Thu, 01 Jan 1970 00:00:00 GMT", Some(0)),
            (b"Fri, 31 Dec 9999 23:59:59 GMT", Some(3600)),
            (b"", None),
            (b" ", None),
            (b"-1", None),
            (b"+1", None),
            (b"1.5", None),
            (b"1e3", None),
            (b"10 s", None),
            (b"1 0", None),
            (b"soon", None),
            (b"\xff\xfe", None),
            ("\u{661}\u{662}".as_bytes(), None),
            (b"120\n", None),
            (b"Sun, 31 Feb 1994 08:50:07 GMT", None),
            (b"1994-11-06T08:50:07Z", None),
        ];
        for (header, expected) in rows {
            let got = parse_retry_after(header, now);
            assert_eq!(got, expected.map(secs), "{:?}", String::from_utf8_lossy(header));
        }
    }

    #[test]
    fn order_backoff_doubles_from_two_seconds_to_an_hour() {
        let policy = OrderRetryPolicy::ORDER;
        let rows =
            [(0, 2), (1, 2), (2, 4), (3, 8), (4, 16), (5, 32), (6, 64), (7, 128), (8, 256), (u32::MAX, 3600)];
        for (retry_count, nominal) in rows {
            for key in ["01JABCXYZ-ULID-5678", "another", ""] {
                let wait = policy.backoff(key, retry_count);
                let low = secs(nominal) * 9 / 10;
                let high = secs(nominal) * 11 / 10;
                assert!((low..=high).contains(&wait), "{key} {retry_count}: {wait:?}");
                assert_eq!(wait, policy.backoff(key, retry_count));
            }
        }
    }

    #[test]
    fn jitter_differs_between_orders_and_retries_and_is_reproducible() {
        let policy = OrderRetryPolicy::ORDER;
        let mut waits: Vec<Duration> = (0..1000).map(|n| policy.backoff(&format!("key-{n}"), 1)).collect();
        let mean = waits.iter().sum::<Duration>() / 1000;
        assert!((secs(2).mul_f64(0.99)..secs(2).mul_f64(1.01)).contains(&mean), "{mean:?}");
        waits.sort_unstable();
        waits.dedup();
        assert!(waits.len() > 990, "{} different waits", waits.len());
        assert_ne!(policy.backoff("key", 1) * 2, policy.backoff("key", 2));
        // Computed with another SHA-256 implementation over "key", a zero byte and 00000001. The factor is
        // 1.054777.
        assert_eq!(policy.backoff("key", 1), Duration::from_micros(2_109_554));
    }

    proptest! {
        #[test]
        fn any_header_is_parsed_without_panic(
            header in proptest::collection::vec(any::<u8>(), 0..64),
            now in any::<i64>(),
        ) {
            let wait = parse_retry_after(&header, Timestamp::from_micros(now));
            prop_assert!(wait.is_none_or(|wait| wait <= RETRY_AFTER_MAX));
        }

        #[test]
        fn any_date_is_parsed_without_panic(
            header in "(Sun|Mon|Thu|Sunday),? [0-9]{2}[ -](Jan|Feb|Nov)[ -][0-9]{2,4} \
                       [0-9]{2}:[0-9]{2}:[0-9]{2}( GMT)?",
            now in any::<i64>(),
        ) {
            let wait = parse_retry_after(header.as_bytes(), Timestamp::from_micros(now));
            prop_assert!(wait.is_none_or(|wait| wait <= RETRY_AFTER_MAX));
        }

        #[test]
        fn next_attempt_has_a_distinct_time(
            attempt in any::<u32>(),
            asked in proptest::option::of(any::<u64>()),
            previous in any::<i64>(),
            now in any::<i64>(),
            base in any::<u64>(),
            key in ".{0,20}",
        ) {
            let previous = Timestamp::from_micros(previous);
            let now = Timestamp::from_micros(now);
            let asked = asked.map(Duration::from_micros);
            let base = Duration::from_micros(base);
            let webhook = RetryPolicy { base, ..RetryPolicy::WEBHOOK };
            let order = OrderRetryPolicy { base, ..OrderRetryPolicy::ORDER };
            let next = [
                webhook.next_attempt_at(attempt, asked, previous, now),
                order.next_attempt_at(&key, attempt, asked, previous, now),
            ];
            for next in next {
                prop_assert!(next != previous || previous == Timestamp::MAX);
                prop_assert!(next >= now);
                prop_assert!(next > previous || previous >= now);
            }
        }
    }
}
