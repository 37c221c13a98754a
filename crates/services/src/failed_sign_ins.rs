//! Failed sign-ins to the dashboard, counted by client address. The audit gets at most one row per address
//! and minute, with a count. The API writes the first failure of an address at once, when
//! [`FailedSignInCounter`] returns it; the step [`FailedSignInWriter`] writes the count of later failures
//! when the minute has passed.

use crate::clock::Clock;
use crate::step::{Progress, Step};
use posthaste_core::Timestamp;
use posthaste_core::ports::{FailedSignIns, KeyStore, StoreResult};
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The minimum time between two audit rows for one address.
pub const WINDOW: Duration = Duration::from_secs(60);
/// The interval between checks for expired windows.
pub const EVERY: Duration = Duration::from_secs(5);
/// The maximum number of addresses counted separately, at about 100 bytes each. Any others share one row
/// without an address.
const ADDRESSES_MAX: usize = 1_000;
/// The maximum number of rows that one step writes.
const ROWS_MAX: usize = 100;

#[derive(Debug, Clone, Copy)]
struct Window {
    written_at: Timestamp,
    /// The number of failures since `written_at`.
    count: u32,
}

impl Window {
    /// Returns whether the window has expired. A window that starts in the future counts as expired, because
    /// the clock was set back.
    fn has_passed(&self, now: Timestamp) -> bool {
        now < self.written_at || now.since(self.written_at) >= WINDOW
    }
}

/// Counts of failed sign-ins that are not yet written. Clones share the counts.
#[derive(Debug, Clone, Default)]
pub struct FailedSignInCounter(Arc<Mutex<HashMap<Option<IpAddr>, Window>>>);

impl FailedSignInCounter {
    fn windows(&self) -> MutexGuard<'_, HashMap<Option<IpAddr>, Window>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts one failure. Returns the row to write now, or `None` if the last row was written less than a
    /// minute ago.
    pub fn add(&self, address: Option<IpAddr>, now: Timestamp) -> Option<FailedSignIns> {
        let mut windows = self.windows();
        let is_full = windows.len() >= ADDRESSES_MAX;
        let address = address.filter(|_| !is_full || windows.contains_key(&address));
        let Some(window) = windows.get_mut(&address) else {
            windows.insert(address, Window { written_at: now, count: 0 });
            return Some(FailedSignIns { address, count: 1 });
        };
        window.count = window.count.saturating_add(1);
        if !window.has_passed(now) {
            return None;
        }
        let count = std::mem::take(&mut window.count);
        window.written_at = now;
        Some(FailedSignIns { address, count })
    }

    /// Restores a count that could not be written.
    pub fn put_back(&self, failed: FailedSignIns, now: Timestamp) {
        let mut windows = self.windows();
        let window = windows.entry(failed.address).or_insert(Window { written_at: now, count: 0 });
        window.count = window.count.saturating_add(failed.count);
    }

    /// Returns and resets at most `rows_max` counts whose window has expired. Removes expired windows without
    /// failures.
    fn take_due(&self, now: Timestamp, rows_max: usize) -> Vec<FailedSignIns> {
        self.take(now, rows_max, |window| window.has_passed(now))
    }

    fn take(&self, now: Timestamp, rows_max: usize, is_due: impl Fn(&Window) -> bool) -> Vec<FailedSignIns> {
        let mut windows = self.windows();
        windows.retain(|_, window| window.count > 0 || !is_due(window));
        let due = windows.iter_mut().filter(|(_, window)| window.count > 0 && is_due(window)).take(rows_max);
        let taken = due.map(|(address, window)| {
            window.written_at = now;
            FailedSignIns { address: *address, count: std::mem::take(&mut window.count) }
        });
        taken.collect()
    }
}

/// A step that writes counts to the audit when their window has expired.
#[derive(Debug)]
pub struct FailedSignInWriter<S> {
    store: S,
    counter: FailedSignInCounter,
}

impl<S: KeyStore> FailedSignInWriter<S> {
    pub const fn new(store: S, counter: FailedSignInCounter) -> Self {
        Self { store, counter }
    }

    async fn write(&self, due: Vec<FailedSignIns>, now: Timestamp) -> StoreResult<()> {
        let mut due = due.into_iter();
        while let Some(failed) = due.next() {
            if let Err(error) = self.store.record_failed_sign_ins(failed, now).await {
                std::iter::once(failed).chain(due).for_each(|failed| self.counter.put_back(failed, now));
                return Err(error);
            }
        }
        Ok(())
    }
}

impl<S: KeyStore> Step for FailedSignInWriter<S> {
    async fn step(&mut self, now: Timestamp) -> StoreResult<Progress> {
        let due = self.counter.take_due(now, ROWS_MAX);
        let progress = match due.len() {
            0 => Progress::Unasked,
            ROWS_MAX => Progress::More,
            _ => Progress::Idle,
        };
        self.write(due, now).await?;
        Ok(progress)
    }

    /// Writes all counts, including those whose window has not expired.
    async fn drain(&mut self, clock: &Clock, patience: Duration) {
        let now = clock.now();
        let due = self.counter.take(now, ADDRESSES_MAX + 1, |_| true);
        match tokio::time::timeout(patience, self.write(due, now)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                tracing::warn!(%error, "failed sign-ins not written to the audit, their counts are lost");
            }
            Err(_) => {
                tracing::warn!("failed sign-ins not written to the audit in time, their counts are lost");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const T0: Timestamp = Timestamp::from_micros(1_800_000_000_000_000);

    fn address(last: u16) -> Option<IpAddr> {
        Some(IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, last]))
    }

    fn failed(address: Option<IpAddr>, count: u32) -> FailedSignIns {
        FailedSignIns { address, count }
    }

    #[test]
    fn each_address_gets_one_row_per_minute_with_all_failures() {
        let counter = FailedSignInCounter::default();
        let at = |seconds| T0.after(Duration::from_secs(seconds));
        assert_eq!(counter.add(address(1), at(0)), Some(failed(address(1), 1)));
        assert_eq!(counter.add(address(2), at(1)), Some(failed(address(2), 1)));
        for second in 1..60 {
            assert_eq!(counter.add(address(1), at(second)), None);
        }
        assert_eq!(counter.take_due(at(59), 10), []);
        assert_eq!(counter.take_due(at(60), 10), [failed(address(1), 59)]);
        assert_eq!(counter.add(address(1), at(61)), None);
        assert_eq!(counter.add(address(1), at(120)), Some(failed(address(1), 2)));
        assert_eq!(counter.take_due(at(180), 10), []);
        assert!(counter.windows().is_empty(), "addresses without failures are removed");
    }

    #[test]
    fn clock_step_back_hides_no_failure() {
        let counter = FailedSignInCounter::default();
        counter.add(address(1), T0.after(Duration::from_secs(3_600)));
        assert_eq!(counter.add(address(1), T0), Some(failed(address(1), 1)));
    }

    #[test]
    fn counts_that_could_not_be_written_are_kept() {
        let counter = FailedSignInCounter::default();
        let first = counter.add(address(1), T0).expect("a row");
        counter.put_back(first, T0);
        assert_eq!(counter.add(address(1), T0), None);
        assert_eq!(counter.take_due(T0.after(WINDOW), 10), [failed(address(1), 2)]);
    }

    #[test]
    fn number_of_counted_addresses_is_bounded() {
        let counter = FailedSignInCounter::default();
        let rows = (0..5_000).filter_map(|last| counter.add(address(last), T0)).count();
        assert_eq!(rows, ADDRESSES_MAX + 1);
        assert_eq!(counter.windows().len(), ADDRESSES_MAX + 1);
        let due = counter.take_due(T0.after(WINDOW), 10);
        assert_eq!(due, [failed(None, 5_000 - ADDRESSES_MAX as u32 - 1)]);
    }
}
