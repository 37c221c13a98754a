//! Where a queue is taken from. What was taken stays in the way of a scan from the very beginning for as long as somebody
//! keeps an older transaction open, so most takes begin about where the last ones did.
//!
//! Rows do not come in the order of their keys: jobs end as their receivers answer, and ids are drawn before they are
//! committed. So a take begins at the lowest key that was taken lately, not at the last one; and now and then it
//! begins at the beginning, for what lies further behind.

use crate::clock::{Clock, is_due};
use crate::now_and_then::NowAndThen;
use posthaste_core::Timestamp;
use std::time::Duration;

/// Between one and two of these is "lately".
const LATELY: Duration = Duration::from_millis(100);
/// What takes from the beginning need beyond others is at most this part of the time.
const FULL_SHARE: u32 = 50;
/// A take counts for this part of what takes need mostly.
const MOSTLY: u32 = 8;

#[derive(Debug)]
pub(crate) struct Cursor<T> {
    /// The lowest key taken since `turned_at`, and of the ones before.
    lowest: Option<T>,
    lowest_before: Option<T>,
    turned_at: Timestamp,
    full: NowAndThen,
    /// How long a take needs that does not begin at the beginning.
    needs: Duration,
}

impl<T: Ord + Copy> Cursor<T> {
    /// Every `full_every`, or less often if that needs much longer for nothing, a take begins at the beginning.
    pub(crate) const fn new(clock: Clock, full_every: Duration) -> Self {
        let full = NowAndThen::new(clock, full_every, FULL_SHARE);
        let (lowest, lowest_before, turned_at) = (None, None, Timestamp::MIN);
        Self { lowest, lowest_before, turned_at, full, needs: Duration::ZERO }
    }

    /// From where the next take begins; nothing for the beginning.
    pub(crate) fn from(&self, now: Timestamp) -> Option<T> {
        if self.full.is_due(now) { None } else { self.lately() }
    }

    fn lately(&self) -> Option<T> {
        match (self.lowest, self.lowest_before) {
            (Some(lowest), Some(before)) => Some(lowest.min(before)),
            (lowest, before) => lowest.or(before),
        }
    }

    /// Takes note of what the take found that began at `now`; `may_be_more` if it took as much as it may.
    pub(crate) fn taken(&mut self, keys: impl Iterator<Item = T>, may_be_more: bool, now: Timestamp) {
        let lately = self.lately();
        let (mut lowest, mut lowest_not_behind, mut behind) = (None::<T>, None::<T>, 0);
        for key in keys {
            lower(&mut lowest, key);
            match lately {
                Some(lately) if key < lately => behind += 1,
                _ => lower(&mut lowest_not_behind, key),
            }
        }
        let took = self.full.took(now);
        if self.full.is_due(now) {
            // What it was worth is counted by what would have waited without it.
            self.full.taken_in(took.saturating_sub(self.needs) / behind.max(1), now);
        } else {
            self.needs = (self.needs * (MOSTLY - 1) + took) / MOSTLY;
        }
        // A few stragglers do not bring the cursor back. Where there are more than one take holds, it goes on from there, and
        // where there is nothing else, that is what comes now: the clock was set back, say.
        let lowest = if may_be_more { lowest } else { lowest_not_behind.or(lowest) };
        let Some(lowest) = lowest else { return };
        if is_due(self.turned_at.after(LATELY), LATELY, now) {
            self.lowest_before = self.lowest.replace(lowest);
            self.turned_at = now;
        } else {
            lower(&mut self.lowest, lowest);
        }
    }
}

fn lower<T: Ord + Copy>(lowest: &mut Option<T>, key: T) {
    *lowest = Some(lowest.map_or(key, |lowest| lowest.min(key)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_micros(0).after(Duration::from_millis(ms))
    }

    fn cursor(clock: &Clock) -> Cursor<u32> {
        Cursor::new(clock.clone(), Duration::from_secs(1))
    }

    #[test]
    fn takes_begin_at_the_lowest_of_lately_and_now_and_then_at_the_beginning() {
        let mut cursor = cursor(&Clock::standing(at(0)));
        assert_eq!(cursor.from(at(0)), None, "at first there may be anything");
        cursor.taken([7, 9].into_iter(), false, at(0));
        cursor.taken([20, 30].into_iter(), false, at(50));
        assert_eq!(cursor.from(at(50)), Some(7), "what belongs to the first may come late");
        cursor.taken([31].into_iter(), false, at(100));
        assert_eq!(cursor.from(at(100)), Some(7));
        cursor.taken([40].into_iter(), false, at(200));
        assert_eq!(cursor.from(at(200)), Some(31));
        cursor.taken([].into_iter(), false, at(600));
        assert_eq!(cursor.from(at(600)), Some(31), "nothing came, nothing moves");
        assert_eq!(cursor.from(at(1_000)), None);
    }

    #[test]
    fn stragglers_do_not_bring_it_back_unless_there_are_many() {
        let mut cursor = cursor(&Clock::standing(at(0)));
        cursor.taken([50].into_iter(), false, at(0));
        cursor.taken([3, 60].into_iter(), false, at(1_000));
        assert_eq!(cursor.from(at(1_001)), Some(50));
        cursor.taken([3, 60].into_iter(), true, at(2_000));
        assert_eq!(cursor.from(at(2_001)), Some(3));
    }

    #[test]
    fn it_goes_back_to_where_everything_is() {
        let mut cursor = cursor(&Clock::standing(at(0)));
        cursor.taken([50].into_iter(), false, at(0));
        cursor.taken([3].into_iter(), false, at(1_000));
        assert_eq!(cursor.from(at(1_001)), Some(3));
    }

    #[test]
    fn a_long_take_from_the_beginning_is_repeated_late_if_it_found_little() {
        let clock = Clock::standing(at(0));
        let mut cursor = cursor(&clock);
        cursor.taken([50].into_iter(), false, at(0));
        clock.set(at(1_200));
        cursor.taken([60].into_iter(), false, at(1_000));
        assert_eq!(cursor.from(at(10_999)), Some(50), "200 ms for nothing");
        assert_eq!(cursor.from(at(11_000)), None);
        clock.set(at(11_200));
        cursor.taken(1..=10, false, at(11_000));
        assert_eq!(cursor.from(at(12_000)), None, "20 ms for each that would have waited");
        for now in (11_200..12_000).step_by(20) {
            clock.set(at(now + 200));
            cursor.taken([70].into_iter(), false, at(now));
        }
        clock.set(at(12_200));
        cursor.taken([71].into_iter(), false, at(12_000));
        assert_eq!(cursor.from(at(13_000)), None, "the others need 200 ms too");
    }

    /// 2,048 jobs are under way and end after 20 to 220 ms, whichever they are; every take needs 30 ms, because it has
    /// much to do. Answers the longest time that one of them waited.
    fn longest_wait(mut key_ends_after_ms: impl FnMut(u32) -> u64) -> u64 {
        const TAKE: usize = 1_000;
        let clock = Clock::standing(at(0));
        let mut cursor: Cursor<u32> = Cursor::new(clock.clone(), Duration::from_millis(100));
        let mut ends: BTreeMap<u32, u64> = (0..2_048).map(|key| (key, key_ends_after_ms(key))).collect();
        let (mut next, mut longest) = (2_048, 0);
        for now in (0..10_000).step_by(30) {
            let from = cursor.from(at(now));
            let ended = |(key, at): (&u32, &u64)| (*at <= now).then_some(*key);
            let taken: Vec<u32> = ends.range(from.unwrap_or(0)..).filter_map(ended).take(TAKE).collect();
            clock.set(at(now + 30));
            cursor.taken(taken.iter().copied(), taken.len() == TAKE, at(now));
            for key in taken {
                longest = longest.max(now - ends.remove(&key).expect("it was there"));
                ends.insert(next, now + 30 + key_ends_after_ms(next));
                next += 1;
            }
        }
        longest
    }

    #[test]
    fn nothing_waits_long_in_whatever_order_it_came() {
        // A fixed scatter; what counts is that younger keys often come first.
        let scattered = |key: u32| 20 + u64::from(key.wrapping_mul(2_654_435_761) >> 8) % 200;
        assert!(longest_wait(scattered) <= 300, "{} ms", longest_wait(scattered));
        let one_in_100_is_slow = |key: u32| if key.is_multiple_of(100) { 2_000 } else { 20 };
        assert!(longest_wait(one_in_100_is_slow) <= 300, "{} ms", longest_wait(one_in_100_is_slow));
    }
}
