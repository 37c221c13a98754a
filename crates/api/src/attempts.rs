//! A token bucket for each client address: how many unknown keys an address may present before it has to wait.
//! Known keys cost nothing, so a busy caller with a valid key never sees this.

use crate::peer::PeerAddress;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Addresses with a bucket of their own. When that many have failed recently, further addresses share one bucket.
const ADDRESSES_MAX: usize = 10_000;
/// The bucket of all addresses beyond [`ADDRESSES_MAX`]; no client has this address.
const SHARED: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

#[derive(Debug)]
pub(crate) struct Attempts {
    /// Failures that an address may make at once.
    burst: u32,
    /// The time after which one more is allowed.
    refill: Duration,
    /// When each bucket is full again. A bucket that is full has no entry.
    full_at: Mutex<HashMap<IpAddr, Instant>>,
}

/// Why an address has to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Exhausted {
    pub(crate) retry_after_s: u32,
}

impl Attempts {
    pub(crate) fn new(burst: u32, refill: Duration) -> Self {
        Self { burst, refill, full_at: Mutex::default() }
    }

    /// Whether an address may make another attempt. It costs nothing until [`Self::record_failure`] says that it
    /// failed: many first requests with a valid key at once all pass.
    pub(crate) fn check(&self, peer: PeerAddress, now: Instant) -> Result<(), Exhausted> {
        let full_at = self.full_at.lock().unwrap_or_else(PoisonError::into_inner);
        let key = if full_at.contains_key(&peer.network()) || full_at.len() < ADDRESSES_MAX {
            peer.network()
        } else {
            SHARED
        };
        let Some(full_at) = full_at.get(&key) else { return Ok(()) };
        // A bucket with one token is full again after all the others were refilled.
        let wait = full_at.saturating_duration_since(now + self.refill * self.burst.saturating_sub(1));
        if wait.is_zero() {
            return Ok(());
        }
        let seconds = u32::try_from(wait.as_millis().div_ceil(1_000)).unwrap_or(u32::MAX);
        Err(Exhausted { retry_after_s: seconds.max(1) })
    }

    /// Takes a token. Attempts that were checked at the same time may overdraw a bucket, by at most another burst.
    pub(crate) fn record_failure(&self, peer: PeerAddress, now: Instant) {
        let mut full_at = self.full_at.lock().unwrap_or_else(PoisonError::into_inner);
        let mut key = peer.network();
        if full_at.len() >= ADDRESSES_MAX && !full_at.contains_key(&key) {
            full_at.retain(|_, full_at| *full_at > now);
            if full_at.len() >= ADDRESSES_MAX {
                key = SHARED;
            }
        }
        let bucket = full_at.entry(key).or_insert(now);
        let latest = now + self.refill * self.burst * 2;
        *bucket = ((*bucket).max(now) + self.refill).min(latest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REFILL: Duration = Duration::from_secs(1);

    fn peer(number: u32) -> PeerAddress {
        PeerAddress(IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0000 + number)))
    }

    fn exhausted(retry_after_s: u32) -> Result<(), Exhausted> {
        Err(Exhausted { retry_after_s })
    }

    #[test]
    fn a_burst_is_allowed_and_then_one_at_a_time() {
        let (attempts, begin) = (Attempts::new(3, REFILL), Instant::now());
        let after = |ms| begin + Duration::from_millis(ms);
        for _ in 0..3 {
            assert_eq!(attempts.check(peer(1), begin), Ok(()));
            attempts.record_failure(peer(1), begin);
        }
        assert_eq!(attempts.check(peer(1), begin), exhausted(1));
        assert_eq!(attempts.check(peer(2), begin), Ok(()), "another address");
        assert_eq!(attempts.check(peer(1), after(999)), exhausted(1));
        assert_eq!(attempts.check(peer(1), after(1_000)), Ok(()));
        attempts.record_failure(peer(1), after(1_000));
        assert_eq!(attempts.check(peer(1), after(1_000)), exhausted(1));
        assert_eq!(attempts.check(peer(1), after(9_000)), Ok(()));
    }

    #[test]
    fn a_check_costs_nothing_and_debts_are_bounded() {
        let (attempts, now) = (Attempts::new(3, REFILL), Instant::now());
        for _ in 0..100 {
            assert_eq!(attempts.check(peer(1), now), Ok(()));
        }
        for _ in 0..100 {
            attempts.record_failure(peer(1), now);
        }
        assert_eq!(attempts.check(peer(1), now), exhausted(4));
    }

    #[test]
    fn no_number_of_addresses_fills_the_memory() {
        let (attempts, begin) = (Attempts::new(1, REFILL), Instant::now());
        let count = u32::try_from(ADDRESSES_MAX).expect("few") + 1_000;
        for number in 0..count {
            attempts.record_failure(peer(number), begin);
        }
        assert!(attempts.full_at.lock().expect("the map").len() <= ADDRESSES_MAX + 1);
        assert!(attempts.check(peer(0), begin).is_err());
        assert!(attempts.check(peer(count), begin).is_err(), "it shares the bucket of the surplus");
        let later = begin + Duration::from_secs(60);
        assert_eq!(attempts.check(peer(count), later), Ok(()));
        attempts.record_failure(peer(count), later);
        assert!(attempts.full_at.lock().expect("the map").len() <= 2, "full buckets are forgotten");
    }
}
