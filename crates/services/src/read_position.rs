//! The start of the next fetch from a queue: the low-water mark, or the beginning if a full scan is due. Used
//! by the components that read queues.

use crate::clock::Clock;
use crate::low_water_mark::LowWaterMark;
use crate::scan_schedule::ScanSchedule;
use posthaste_core::Timestamp;

#[derive(Debug)]
pub(crate) struct ReadPosition<K> {
    mark: LowWaterMark<K>,
    full_scans: ScanSchedule,
}

impl<K: Ord + Copy> ReadPosition<K> {
    pub(crate) const fn new(clock: Clock) -> Self {
        Self { mark: LowWaterMark::new(), full_scans: ScanSchedule::new(clock) }
    }

    /// Returns the key from which a fetch at `now` starts, or `None` for the beginning of the queue.
    pub(crate) fn from(&self, now: Timestamp) -> Option<K> {
        if self.full_scans.is_due(now) { None } else { self.mark.get() }
    }

    /// Records a fetch that started at `now`. `lowest` is its smallest key, or `None` if it was empty.
    pub(crate) fn record(&mut self, lowest: Option<K>, now: Timestamp) {
        if self.full_scans.is_due(now) {
            let has_found = lowest.is_some_and(|lowest| self.mark.is_above(lowest));
            self.full_scans.record_page(now, has_found, true);
        } else {
            self.full_scans.record_fetch(now);
        }
        if let Some(lowest) = lowest {
            self.mark.record(lowest, now);
        }
    }

    /// Lowers the mark to a key that is known to be in the queue.
    pub(crate) fn lower_to(&mut self, key: K) {
        self.mark.lower_to(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::time::Duration;

    const FETCH_MAX: usize = 1_000;

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_micros(0).after(Duration::from_millis(ms))
    }

    /// Simulates 2,048 jobs in flight. Each job finishes after `finishes_after_ms(key)`; a fetch takes
    /// `fetch_ms(start, is_full_scan)`. Returns the longest time from the end of a job to the start of the
    /// fetch that returns it.
    fn longest_wait_ms(
        mut finishes_after_ms: impl FnMut(u32) -> u64,
        mut fetch_ms: impl FnMut(u64, bool) -> u64,
        are_keys_passed: bool,
    ) -> u64 {
        let clock = Clock::fixed(at(0));
        let mut position = ReadPosition::new(clock.clone());
        let mut ends: BTreeMap<u32, u64> = (0..2_048).map(|key| (key, finishes_after_ms(key))).collect();
        let (mut now, mut next, mut longest) = (0, 2_048, 0);
        while now < 60_000 {
            let ended = |(key, at): (&u32, &u64)| (*at <= now).then_some(*key);
            if are_keys_passed && let Some(lowest) = ends.iter().find_map(ended) {
                position.lower_to(lowest);
            }
            let from = position.from(at(now));
            let fetched: Vec<u32> =
                ends.range(from.unwrap_or(0)..).filter_map(ended).take(FETCH_MAX).collect();
            let began = now;
            now += fetch_ms(now, from.is_none());
            clock.set(at(now));
            position.record(fetched.first().copied(), at(began));
            for key in fetched {
                longest = longest.max(began - ends.remove(&key).expect("it was in flight"));
                ends.insert(next, now + finishes_after_ms(next));
                next += 1;
            }
        }
        longest
    }

    /// Returns a reproducible pseudorandom duration. Larger keys often finish first.
    fn scattered(key: u32) -> u64 {
        20 + u64::from(key.wrapping_mul(2_654_435_761) >> 8) % 200
    }

    fn one_in_100_is_slow(key: u32) -> u64 {
        if key.is_multiple_of(100) { 9_000 } else { 20 }
    }

    #[test]
    fn rows_are_found_quickly_in_any_order() {
        for finishes_after_ms in [scattered, one_in_100_is_slow] {
            assert!(longest_wait_ms(finishes_after_ms, |_, _| 30, true) <= 100);
            assert!(longest_wait_ms(finishes_after_ms, |_, _| 30, false) <= 2_000);
        }
    }

    #[test]
    fn rows_behind_the_mark_are_found_within_two_seconds_of_a_stall() {
        // There are ten stalls of 1.5 s. The wait of a job that finished during a stall includes the stall.
        let stalls = |now: u64, _| if now < 40_000 && now % 4_000 < 30 { 1_500 } else { 30 };
        let wait = longest_wait_ms(one_in_100_is_slow, stalls, false);
        assert!(wait <= 1_500 + 2_000, "{wait} ms");
        let wait = longest_wait_ms(one_in_100_is_slow, |now, _| if now == 0 { 5_600 } else { 30 }, false);
        assert!(wait <= 5_600 + 2_000, "{wait} ms: connecting and preparing took long");
    }

    #[test]
    fn rows_behind_the_mark_are_found_within_six_seconds_when_scans_are_slow() {
        let wait = longest_wait_ms(one_in_100_is_slow, |_, is_full| if is_full { 150 } else { 5 }, false);
        assert!(wait <= 6_000, "{wait} ms");
    }
}
