//! Restarts stored waits after a clock step back. Such a step leaves rows whose next attempt is up to an hour
//! in the future by the corrected clock. They are read page by page at startup, after each step back, and
//! again a minute later.

use crate::clock::Clock;
use crate::step::{Progress, Step};
use posthaste_core::Timestamp;
use posthaste_core::ports::{OrchestratorStore, OutboxWorkerStore, RestartedWaits, StoreResult, WaitPage};
use posthaste_core::retry::{OrderRetryPolicy, RetryPolicy};
use std::time::Duration;

/// The interval between checks for a clock step back. A check runs no statement.
pub const EVERY: Duration = Duration::from_secs(1);
/// The maximum number of rows in a page.
const ROWS_MAX: u32 = 1_000;
/// The delay before the second check. A transaction that began before the clock step may commit its times
/// after the first check.
const AGAIN_AFTER: Duration = Duration::from_secs(60);

/// A source of rows that wait for their next attempt: a store with its retry policy.
pub trait Waits: Send {
    /// The name of the rows in log messages.
    const WHAT: &str;

    fn restart(
        &self,
        page: WaitPage,
        now: Timestamp,
    ) -> impl Future<Output = StoreResult<RestartedWaits>> + Send;
}

impl<S: OrchestratorStore> Waits for (S, RetryPolicy) {
    const WHAT: &str = "deliveries";

    async fn restart(&self, page: WaitPage, now: Timestamp) -> StoreResult<RestartedWaits> {
        self.0.restart_waits(page, self.1, now).await
    }
}

impl<S: OutboxWorkerStore> Waits for (S, OrderRetryPolicy) {
    const WHAT: &str = "orders";

    async fn restart(&self, page: WaitPage, now: Timestamp) -> StoreResult<RestartedWaits> {
        self.0.restart_waits(page, self.1, now).await
    }
}

#[derive(Debug)]
pub struct WaitCheck<W> {
    waits: W,
    clock: Clock,
    /// The number of steps back when the last check began, or `None` before the first check.
    steps_back: Option<u64>,
    from: Option<Timestamp>,
    again_at: Option<Timestamp>,
}

impl<W: Waits> WaitCheck<W> {
    pub const fn new(waits: W, clock: Clock) -> Self {
        Self { waits, clock, steps_back: None, from: None, again_at: None }
    }

    /// Returns the next page to check and the current time, or `None` if every wait was checked. The time is
    /// read after the number of steps back, because the time passed by the caller may be from before the step
    /// back.
    fn page(&mut self) -> Option<(WaitPage, Timestamp)> {
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
}

impl<W: Waits> Step for WaitCheck<W> {
    async fn step(&mut self, _now: Timestamp) -> StoreResult<Progress> {
        let Some((page, now)) = self.page() else { return Ok(Progress::Unasked) };
        let RestartedWaits { restarted, next } = self.waits.restart(page, now).await?;
        self.from = next;
        if restarted > 0 {
            let what = W::WHAT;
            tracing::warn!(restarted, what, "clock was ahead when these waits were stored, waits restarted");
        }
        Ok(if next.is_some() { Progress::More } else { Progress::Idle })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Progress::{Idle, More, Unasked};
    use std::sync::Mutex;

    /// A source with two pages for each check, which records the start of each page.
    #[derive(Debug, Default)]
    struct TwoPages(Mutex<Vec<Timestamp>>);

    impl Waits for TwoPages {
        const WHAT: &str = "tests";

        async fn restart(&self, page: WaitPage, _now: Timestamp) -> StoreResult<RestartedWaits> {
            let mut checks = self.0.lock().expect("the list");
            checks.push(page.from);
            let next = (checks.len() % 2 == 1).then(|| page.from.after(Duration::from_secs(1)));
            Ok(RestartedWaits { restarted: 0, next })
        }
    }

    fn at_ms(ms: u64) -> Timestamp {
        Timestamp::from_micros(0).after(Duration::from_millis(ms))
    }

    #[tokio::test]
    async fn waits_are_checked_at_the_start_and_twice_after_a_step_back() {
        let clock = Clock::fixed(at_ms(0));
        let mut check = WaitCheck::new(TwoPages::default(), clock.clone());
        let rows = [
            (10_000, More),
            (10_000, Idle),
            (10_500, Unasked),
            (9_900, Unasked),
            (5_000, More),
            (5_000, Idle),
            // The second check covers transactions that began before the step back.
            (64_999, Unasked),
            (65_000, More),
            (65_000, Idle),
            (200_000, Unasked),
        ];
        for (ms, expected) in rows {
            clock.set(at_ms(ms));
            assert_eq!(check.step(clock.now()).await.expect("a step"), expected, "at {ms} ms");
        }
        let checks = check.waits.0.lock().expect("the list");
        assert_eq!(*checks, [10_000, 11_000, 5_000, 6_000, 65_000, 66_000].map(at_ms));
    }

    #[tokio::test]
    async fn waits_are_checked_with_the_time_after_the_step_back() {
        let clock = Clock::fixed(at_ms(3_600_000));
        let mut check = WaitCheck::new(TwoPages::default(), clock.clone());
        for _ in 0..2 {
            check.step(clock.now()).await.expect("a step");
        }
        // The clock is set back after the time was read.
        let before = clock.now();
        clock.set(at_ms(10_000));
        check.step(before).await.expect("a step");
        assert_eq!(check.waits.0.lock().expect("the list").last(), Some(&at_ms(10_000)));
    }
}
