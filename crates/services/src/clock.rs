//! The one clock. Every time that decides something comes from here: the database's time on
//! PostgreSQL, sampled now and then as an offset to this machine's monotonic clock; the system's on
//! SQLite; a test's own in a test.

use crate::step::{Progress, Step};
use posthaste_core::Timestamp;
use posthaste_core::ports::{StoreResult, Stores};
use posthaste_core::retry::CLOCK_STEP_MIN;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A sample that took longer says too little about when it was taken.
const ROUND_TRIP_MAX: Duration = Duration::from_millis(200);

/// How far the clocks of two processes may be apart. What another process has just written may lie so far in
/// the future here, where a step that was woken for it does not see it yet: then one more look is taken. And
/// what it wrote a little later than we did may lie so far in the past.
pub(crate) const CLOCKS_DIFFER_MAX: Duration = Duration::from_millis(100);

/// Cheap to clone; clones tell the same time.
#[derive(Debug, Clone)]
pub struct Clock(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    hands: Hands,
    steps_back: AtomicU64,
}

#[derive(Debug)]
enum Hands {
    Running { origin: Instant, at_origin_us: AtomicI64 },
    Standing(AtomicI64),
}

impl Clock {
    fn with(hands: Hands) -> Self {
        Self(Arc::new(Inner { hands, steps_back: AtomicU64::new(0) }))
    }

    /// How often the clock was set back by more than [`CLOCK_STEP_MIN`].
    pub fn steps_back(&self) -> u64 {
        self.0.steps_back.load(Ordering::Relaxed)
    }

    /// Starts at `now` and runs by itself.
    pub fn running(now: Timestamp) -> Self {
        Self::with(Hands::Running { origin: Instant::now(), at_origin_us: AtomicI64::new(now.micros()) })
    }

    /// Moves only when it is set.
    pub fn standing(at: Timestamp) -> Self {
        Self::with(Hands::Standing(AtomicI64::new(at.micros())))
    }

    pub fn now(&self) -> Timestamp {
        match &self.0.hands {
            Hands::Running { origin, at_origin_us } => {
                Timestamp::from_micros(at_origin_us.load(Ordering::Relaxed)).after(origin.elapsed())
            }
            Hands::Standing(at) => Timestamp::from_micros(at.load(Ordering::Relaxed)),
        }
    }

    pub fn set(&self, now: Timestamp) {
        if self.now() > now.after(CLOCK_STEP_MIN) {
            self.0.steps_back.fetch_add(1, Ordering::Relaxed);
        }
        match &self.0.hands {
            Hands::Running { origin, at_origin_us } => {
                at_origin_us.store(now.before(origin.elapsed()).micros(), Ordering::Relaxed);
            }
            Hands::Standing(at) => at.store(now.micros(), Ordering::Relaxed),
        }
    }
}

/// Whether something is due that was put off by `span` until `at`. A clock that was set back meanwhile (the
/// database failed over to a machine that is behind, say) must not put it off for longer.
pub(crate) fn is_due(at: Timestamp, span: Duration, now: Timestamp) -> bool {
    now >= at || now.after(span) < at
}

/// Sets the clock by the store's, again and again: neither runs exactly as the other does.
#[derive(Debug)]
pub struct ClockSetter<S> {
    store: S,
    clock: Clock,
}

impl<S: Stores> ClockSetter<S> {
    pub const fn new(store: S, clock: Clock) -> Self {
        Self { store, clock }
    }
}

impl<S: Stores> Step for ClockSetter<S> {
    async fn step(&mut self, _now: Timestamp) -> StoreResult<Progress> {
        let asked = Instant::now();
        let answer = self.store.now().await?;
        let round_trip = asked.elapsed();
        if round_trip <= ROUND_TRIP_MAX {
            self.clock.set(answer.after(round_trip / 2));
        }
        Ok(Progress::Idle)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_running_clock_goes_on_from_where_it_was_set() {
        let clock = Clock::running(Timestamp::from_micros(0));
        assert!(clock.now().micros() >= 0);
        clock.set(Timestamp::from_micros(5_000_000_000));
        let first = clock.now();
        assert!(first.micros() >= 5_000_000_000 && clock.now() >= first);
        clock.set(Timestamp::from_micros(-5));
        assert!(clock.now() < first);
    }

    #[test]
    fn nothing_is_put_off_for_longer_by_a_clock_that_was_set_back() {
        let second = |s| Timestamp::from_micros(0).after(Duration::from_secs(s));
        for (now, expected) in [(10, true), (9, false), (7, false), (6, true), (0, true)] {
            assert_eq!(is_due(second(10), Duration::from_secs(3), second(now)), expected, "at {now}");
        }
        assert!(is_due(Timestamp::MIN, Duration::ZERO, Timestamp::MIN));
    }

    #[test]
    fn a_standing_clock_moves_only_when_it_is_set() {
        let clock = Clock::standing(Timestamp::from_micros(7));
        assert_eq!(clock.now().micros(), 7);
        clock.clone().set(Timestamp::from_micros(3));
        assert_eq!(clock.now().micros(), 3);
    }
}
