//! Schedules full scans: reads of a queue from its beginning, or probes of all subscriptions. They find rows
//! behind the [`LowWaterMark`](crate::low_water_mark::LowWaterMark), such as those of a transaction that
//! committed late.
//!
//! During a long-running transaction a full scan is slow, because it steps over every row dequeued since that
//! transaction began. The interval then grows up to [`INTERVAL_MAX`], which bounds the delay until a row is
//! found. A single slow scan has no effect: it may have waited for a connection, a lock or a stalled disk.

use crate::clock::{Clock, is_due};
use posthaste_core::Timestamp;
use std::time::Duration;

const INTERVAL_BASE: Duration = Duration::from_secs(1);
const INTERVAL_MAX: Duration = Duration::from_secs(5);
/// The divisor of the base interval that gives the duration from which a scan counts as slow: 1/50, or 2 %.
const SLOW_SHARE: u32 = 50;
/// The number of consecutive scans that must be slow before the interval grows.
const SCANS_JUDGED: usize = 3;

#[derive(Debug)]
pub(crate) struct ScanSchedule {
    clock: Clock,
    interval_base: Duration,
    interval_max: Duration,
    interval: Duration,
    next_at: Timestamp,
    /// The durations of the last scans, most recent first, each less the duration of an ordinary fetch.
    durations: [Duration; SCANS_JUDGED],
    /// The duration of the last ordinary fetch. It is subtracted because under load a scan also does the work
    /// of a fetch.
    fetch: Duration,
    /// The total duration of the pages of the running scan.
    running: Duration,
    /// Whether the running scan found rows that only a scan finds.
    has_found: bool,
    is_running: bool,
    /// Whether another scan was requested since the last one began.
    is_requested: bool,
}

impl ScanSchedule {
    /// Creates a schedule whose first scan is due at once.
    pub(crate) const fn new(clock: Clock) -> Self {
        Self::with_intervals(clock, INTERVAL_BASE, INTERVAL_MAX)
    }

    pub(crate) const fn with_intervals(
        clock: Clock,
        interval_base: Duration,
        interval_max: Duration,
    ) -> Self {
        let durations = [Duration::ZERO; SCANS_JUDGED];
        Self {
            clock,
            interval_base,
            interval_max,
            interval: interval_base,
            next_at: Timestamp::MIN,
            durations,
            fetch: Duration::ZERO,
            running: Duration::ZERO,
            has_found: false,
            is_running: false,
            is_requested: false,
        }
    }

    /// Returns whether a scan is running or due.
    pub(crate) fn is_due(&self, now: Timestamp) -> bool {
        self.is_running || self.is_requested || is_due(self.next_at, self.interval, now)
    }

    pub(crate) const fn is_running(&self) -> bool {
        self.is_running
    }

    /// Makes a scan due at once, for rows that only a scan can find.
    pub(crate) const fn request(&mut self) {
        self.is_requested = true;
    }

    /// Records an ordinary fetch that started at `began`.
    pub(crate) fn record_fetch(&mut self, began: Timestamp) {
        self.fetch = self.clock.now().since(began);
    }

    /// Records a page of a scan. The page started at `began`; `has_found` is true if it contained rows that
    /// only a scan finds.
    pub(crate) fn record_page(&mut self, began: Timestamp, has_found: bool, is_last: bool) {
        self.is_requested &= self.is_running;
        self.is_running = !is_last;
        self.running += self.clock.now().since(began);
        self.has_found |= has_found;
        if self.is_running {
            return;
        }
        let has_found = std::mem::take(&mut self.has_found);
        self.durations.rotate_right(1);
        self.durations[0] = std::mem::take(&mut self.running).saturating_sub(self.fetch);
        let is_slow = self.durations.iter().all(|took| *took >= self.interval_base / SLOW_SHARE);
        self.interval = match is_slow && !has_found {
            true => (self.interval * 2).min(self.interval_max),
            false => self.interval_base,
        };
        self.next_at = self.clock.now().after(self.interval);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_micros(0).after(Duration::from_millis(ms))
    }

    /// Runs each scan as soon as it is due. Returns the pause after each scan, in seconds.
    fn pauses(scans: &[(u64, bool)]) -> Vec<u64> {
        let clock = Clock::fixed(at(0));
        let mut schedule = ScanSchedule::new(clock.clone());
        let mut pauses = Vec::new();
        for (took_ms, found) in scans {
            let began = clock.now();
            assert!(schedule.is_due(began));
            clock.set(began.after(Duration::from_millis(*took_ms)));
            schedule.record_page(began, *found, true);
            let ended = clock.now();
            let pause = (1..=60).find(|s| schedule.is_due(ended.after(Duration::from_secs(*s))));
            let pause = pause.expect("a scan within a minute");
            assert!(!schedule.is_due(ended.after(Duration::from_secs(pause) - Duration::from_millis(1))));
            clock.set(ended.after(Duration::from_secs(pause)));
            pauses.push(pause);
        }
        pauses
    }

    #[test]
    fn interval_grows_only_while_scans_are_slow_and_empty() {
        let (slow, fast) = ((150, false), (1, false));
        assert_eq!(pauses(&[fast, fast]), [1, 1]);
        assert_eq!(pauses(&[slow, slow, slow, slow, slow, slow]), [1, 1, 2, 4, 5, 5]);
        assert_eq!(
            pauses(&[slow, slow, slow, slow, (150, true), slow]),
            [1, 1, 2, 4, 1, 2],
            "a scan found rows"
        );
        assert_eq!(pauses(&[slow, slow, slow, slow, fast, slow]), [1, 1, 2, 4, 1, 1], "a scan was fast");
    }

    #[test]
    fn scan_as_long_as_an_ordinary_fetch_is_not_slow() {
        let clock = Clock::fixed(at(0));
        let mut schedule = ScanSchedule::new(clock.clone());
        for _ in 0..6 {
            let began = clock.now();
            clock.set(began.after(Duration::from_millis(150)));
            schedule.record_fetch(began);
            schedule.record_page(began, false, true);
        }
        assert!(schedule.is_due(clock.now().after(INTERVAL_BASE)));
    }

    #[test]
    fn stalls_do_not_change_the_interval() {
        let (stall, fast) = ((1_500, false), (1, false));
        assert_eq!(pauses(&[(60_000, false), fast]), [1, 1], "connecting at the start");
        let stalls = [stall, stall, fast].repeat(10);
        assert!(pauses(&stalls).iter().all(|pause| *pause == 1));
    }

    #[test]
    fn scan_can_be_requested_and_is_not_delayed_by_a_clock_step_back() {
        let clock = Clock::fixed(at(10_000));
        let mut schedule = ScanSchedule::new(clock.clone());
        schedule.record_page(at(10_000), false, true);
        assert!(!schedule.is_due(at(10_500)) && schedule.is_due(at(11_000)));
        assert!(schedule.is_due(at(0)));
        schedule.request();
        assert!(schedule.is_due(at(10_000)));
        schedule.record_page(at(10_000), false, false);
        assert!(schedule.is_running() && schedule.is_due(at(10_000)));
        schedule.request();
        schedule.record_page(at(10_000), false, true);
        assert!(!schedule.is_running() && schedule.is_due(at(10_000)), "requested while one was running");
        schedule.record_page(at(10_000), false, true);
        assert!(!schedule.is_due(at(10_000)));
    }
}
