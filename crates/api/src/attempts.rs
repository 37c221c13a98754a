//! A token bucket per client address that limits the rate of requests with unknown keys. Requests with a valid key take
//! no token.

use crate::peer::PeerAddress;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The maximum number of addresses with their own bucket, which bounds the memory. All other addresses share one
/// bucket.
const ADDRESSES_MAX: usize = 10_000;
/// The map key of the bucket shared by all addresses beyond [`ADDRESSES_MAX`]. No client has this address.
const SHARED: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

#[derive(Debug)]
pub(crate) struct Attempts {
    /// The capacity of a bucket, in failed attempts.
    burst: u32,
    /// The time after which a bucket gains one token.
    refill: Duration,
    /// The time at which each bucket will be full. Full buckets have no entry.
    full_at: Mutex<HashMap<IpAddr, Instant>>,
}

/// The error returned for an address whose bucket is empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Exhausted {
    pub(crate) retry_after_s: u32,
}

impl Attempts {
    pub(crate) fn new(burst: u32, refill: Duration) -> Self {
        Self { burst, refill, full_at: Mutex::default() }
    }

    /// Checks whether an address may make another attempt. Does not take a token, so concurrent first requests with a
    /// valid key all pass; [`Self::record_failure`] takes one.
    ///
    /// # Errors
    ///
    /// Returns [`Exhausted`] if the bucket of the address is empty.
    pub(crate) fn check(&self, peer: PeerAddress, now: Instant) -> Result<(), Exhausted> {
        let full_at = self.full_at.lock().unwrap_or_else(PoisonError::into_inner);
        let key = if full_at.contains_key(&peer.network()) || full_at.len() < ADDRESSES_MAX {
            peer.network()
        } else {
            SHARED
        };
        let Some(full_at) = full_at.get(&key) else { return Ok(()) };
        // A bucket that has one token is full after `burst - 1` refills.
        let wait = full_at.saturating_duration_since(now + self.refill * self.burst.saturating_sub(1));
        if wait.is_zero() {
            return Ok(());
        }
        let seconds = u32::try_from(wait.as_millis().div_ceil(1_000)).unwrap_or(u32::MAX);
        Err(Exhausted { retry_after_s: seconds.max(1) })
    }

    /// Takes a token for a failed attempt. Concurrent attempts may overdraw a bucket by at most one burst.
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
    fn after_a_burst_one_attempt_per_refill_is_allowed() {
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
    fn checks_take_no_token_and_overdrafts_are_bounded() {
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
    fn memory_is_bounded_for_any_number_of_addresses() {
        let (attempts, begin) = (Attempts::new(1, REFILL), Instant::now());
        let count = u32::try_from(ADDRESSES_MAX).expect("few") + 1_000;
        for number in 0..count {
            attempts.record_failure(peer(number), begin);
        }
        assert!(attempts.full_at.lock().expect("the map").len() <= ADDRESSES_MAX + 1);
        assert!(attempts.check(peer(0), begin).is_err());
        assert!(attempts.check(peer(count), begin).is_err(), "it uses the shared bucket");
        let later = begin + Duration::from_secs(60);
        assert_eq!(attempts.check(peer(count), later), Ok(()));
        attempts.record_failure(peer(count), later);
        assert!(attempts.full_at.lock().expect("the map").len() <= 2, "full buckets are removed");
    }
}
