//! When stored waits are checked: a clock that was set back leaves rows that wait for a time which lies an hour ahead by
//! the clock that is right. They are read page by page at the start and after each step back, and once more a minute
//! later.

use crate::clock::Clock;
use posthaste_core::Timestamp;
use posthaste_core::ports::{RestartedWaits, WaitPage};
use std::time::Duration;

/// The most rows of one page.
const ROWS_MAX: u32 = 1_000;
/// The time to the second check: a transaction that began before the step may commit its times after the first.
const AGAIN_AFTER: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(crate) struct WaitCheck {
    clock: Clock,
    /// The steps back that the clock had counted when the last check began; `None` before the first.
    steps_back: Option<u64>,
    from: Option<Timestamp>,
    again_at: Option<Timestamp>,
}

impl WaitCheck {
    pub(crate) const fn new(clock: Clock) -> Self {
        Self { clock, steps_back: None, from: None, again_at: None }
    }

    /// Returns the next page to check and the time to check it by, or `None` if every wait was checked. The time is read
    /// after the count of steps: that of the caller's step may be from before the clock was set back.
    pub(crate) fn page(&mut self) -> Option<(WaitPage, Timestamp)> {
        let steps_back = Some(self.clock.steps_back());
        let now = self.clock.now();
        if self.steps_back != steps_back {
            (self.steps_back, self.from) = (steps_back, Some(now));
            self.again_at = Some(now.after(AGAIN_AFTER));
        } else if self.from.is_none() && self.again_at.is_some_and(|at| at <= now) {
            (self.from, self.again_at) = (Some(now), None);
        }
        self.from.map(|from| (WaitPage { from, rows_max: ROWS_MAX }, now))
    }

    pub(crate) fn record(&mut self, page: RestartedWaits, what: &'static str) {
        self.from = page.next;
        if page.restarted > 0 {
            let restarted = page.restarted;
            tracing::warn!(restarted, what, "waits restarted: they were stored by a clock that was ahead");
        }
    }

    pub(crate) const fn is_running(&self) -> bool {
        self.from.is_some()
    }
}
