//! When stored waits are checked: a clock that was set back leaves rows that wait for a time which lies an hour ahead by
//! the clock that is right. They are read page by page at the start, and again after each step back.

use crate::clock::Clock;
use posthaste_core::Timestamp;
use posthaste_core::ports::{RestartedWaits, WaitPage};

/// The most rows of one page.
const ROWS_MAX: u32 = 1_000;

#[derive(Debug)]
pub(crate) struct WaitCheck {
    clock: Clock,
    /// The steps back that the clock had counted when the last check began; `None` before the first.
    steps_back: Option<u64>,
    from: Option<Timestamp>,
}

impl WaitCheck {
    pub(crate) const fn new(clock: Clock) -> Self {
        Self { clock, steps_back: None, from: None }
    }

    /// Returns the next page to check, or `None` if every wait was checked.
    pub(crate) fn page(&mut self, now: Timestamp) -> Option<WaitPage> {
        let steps_back = Some(self.clock.steps_back());
        if self.steps_back != steps_back {
            self.steps_back = steps_back;
            self.from = Some(now);
        }
        self.from.map(|from| WaitPage { from, rows_max: ROWS_MAX })
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
