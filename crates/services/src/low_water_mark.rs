//! The position from which a queue is read: the smallest key fetched recently.
//!
//! While another session keeps a transaction open, PostgreSQL cannot remove dequeued rows, and a read from
//! the beginning of the index steps over all of them. Most reads therefore start at the mark. Keys do not
//! arrive in order (jobs finish when their receivers respond, ids are assigned before they are committed), so
//! the mark covers a window of time and not only the last fetch. Rows further behind are found by a full
//! scan; see [`ScanSchedule`](crate::scan_schedule::ScanSchedule).

use crate::clock::is_due;
use posthaste_core::Timestamp;
use std::time::Duration;

/// The length of a window. The mark covers the fetches of the current and the previous window.
const WINDOW: Duration = Duration::from_millis(100);

/// The smallest key fetched in the current and the previous window.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LowWaterMark<K> {
    /// The smallest key fetched in the current window.
    current: Option<K>,
    /// The smallest key fetched in the previous window.
    previous: Option<K>,
    window_began: Timestamp,
}

impl<K: Ord + Copy> LowWaterMark<K> {
    /// Creates an empty mark, with which the first read starts at the beginning of the queue.
    pub(crate) const fn new() -> Self {
        Self { current: None, previous: None, window_began: Timestamp::MIN }
    }

    /// Creates a mark at a key that is known to be in the queue.
    pub(crate) const fn at(key: K) -> Self {
        Self { current: Some(key), previous: None, window_began: Timestamp::MIN }
    }

    /// Returns the key to read from, or `None` to read from the beginning of the queue.
    pub(crate) fn get(&self) -> Option<K> {
        match (self.current, self.previous) {
            (Some(current), Some(previous)) => Some(current.min(previous)),
            (current, previous) => current.or(previous),
        }
    }

    /// Returns whether the mark is above `key`, so that a read from the mark would miss it.
    pub(crate) fn is_above(&self, key: K) -> bool {
        self.get().is_some_and(|mark| key < mark)
    }

    /// Records the smallest key of a fetch at `now`.
    pub(crate) fn record(&mut self, lowest: K, now: Timestamp) {
        if is_due(self.window_began.after(WINDOW), WINDOW, now) {
            self.previous = self.current.replace(lowest);
            self.window_began = now;
        } else {
            self.current = Some(self.current.map_or(lowest, |current| current.min(lowest)));
        }
    }

    /// Lowers the mark to a key that is known to be in the queue. An empty mark already covers every key.
    pub(crate) fn lower_to(&mut self, key: K) {
        if self.is_above(key) {
            self.current = Some(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_micros(0).after(Duration::from_millis(ms))
    }

    #[test]
    fn mark_covers_the_last_one_to_two_windows() {
        let mut mark = LowWaterMark::new();
        assert_eq!(mark.get(), None);
        // Time of the fetch in ms, its smallest key, and the expected mark.
        for (ms, lowest, expected) in [(0, 7, 7), (50, 20, 7), (100, 31, 7), (150, 25, 7), (200, 40, 25)] {
            mark.record(lowest, at(ms));
            assert_eq!(mark.get(), Some(expected), "after {ms} ms");
        }
        mark.record(90, at(5_000));
        mark.record(91, at(5_100));
        assert_eq!(mark.get(), Some(90));
        mark.record(5, at(0));
        assert_eq!(mark.get(), Some(5), "a clock step back starts a new window");
    }

    #[test]
    fn known_key_lowers_the_mark_until_the_window_has_passed() {
        let mut mark = LowWaterMark::new();
        mark.lower_to(3);
        assert_eq!(mark.get(), None, "the beginning covers every key");
        mark.record(50, at(0));
        mark.lower_to(60);
        assert_eq!(mark.get(), Some(50));
        mark.lower_to(3);
        assert!(mark.is_above(2) && !mark.is_above(3));
        for (ms, expected) in [(100, 3), (200, 70)] {
            mark.record(70, at(ms));
            assert_eq!(mark.get(), Some(expected), "after {ms} ms");
        }
        assert_eq!(LowWaterMark::at(9).get(), Some(9));
    }
}
