//! The clock that supplies every time used in a decision: the database's time on PostgreSQL, the system time
//! on SQLite. It is sampled regularly as an offset from the monotonic clock of this machine. Tests set it
//! explicitly. Both sources may be stepped; see [`Clock::steps_back`].

use crate::metrics::{Direction, Metrics};
use crate::step::{Progress, Step};
use posthaste_core::Timestamp;
use posthaste_core::ports::{ClockSample, StoreResult, Stores};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The maximum drift between the store's clock and the monotonic clock, in parts per million. NTP slews a
/// clock by at most this rate.
const DRIFT_PPM: u32 = 500;

/// The maximum clock skew between two processes. A row that another process has just written may have a time
/// this far in the future and not be due for the step that was woken for it, so that step runs again after
/// this delay. Likewise, a new row may have a time this far in the past.
pub(crate) const CLOCK_SKEW_MAX: Duration = Duration::from_millis(100);

/// The size above which a change counts as a clock step. NTP corrects smaller offsets by slewing, and samples
/// are more accurate than this. Times stored before a step may be off by its size.
pub const STEP_MIN: Duration = posthaste_core::retry::CLOCK_STEP_MIN;

/// The time source of a process. Cheap to clone; clones share the same time.
#[derive(Debug, Clone)]
pub struct Clock(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    source: TimeSource,
    steps_back: AtomicU64,
    last_step: Mutex<Option<ClockStep>>,
}

/// A change of the clock by more than [`STEP_MIN`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockStep {
    pub direction: StepDirection,
    pub size: Duration,
    /// The time immediately after the step.
    pub at: Timestamp,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepDirection {
    Forward,
    Back,
}

impl StepDirection {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Forward => "forward",
            Self::Back => "back",
        }
    }
}

impl ClockStep {
    fn between(before: Timestamp, after: Timestamp) -> Option<Self> {
        let (forward, back) = (after.since(before), before.since(after));
        let direction = if back.is_zero() { StepDirection::Forward } else { StepDirection::Back };
        let size = forward.max(back);
        (size > STEP_MIN).then_some(Self { direction, size, at: after })
    }
}

#[derive(Debug)]
enum TimeSource {
    Running { origin: Instant, at_origin_us: AtomicI64 },
    Fixed(AtomicI64),
}

impl Clock {
    /// Creates a clock that starts at `now` and runs.
    pub fn running(now: Timestamp) -> Self {
        Self::with(TimeSource::Running { origin: Instant::now(), at_origin_us: AtomicI64::new(now.micros()) })
    }

    /// Creates a clock that starts at the midpoint of the bounds that `sample` implies, and runs.
    pub fn sampled(sample: &ClockSample) -> Self {
        let bounds = Bounds::of(sample, Instant::now());
        Self::running(bounds.middle())
    }

    /// Creates a clock that changes only when it is set.
    pub fn fixed(at: Timestamp) -> Self {
        Self::with(TimeSource::Fixed(AtomicI64::new(at.micros())))
    }

    fn with(source: TimeSource) -> Self {
        Self(Arc::new(Shared { source, steps_back: AtomicU64::new(0), last_step: Mutex::new(None) }))
    }

    pub fn now(&self) -> Timestamp {
        match &self.0.source {
            TimeSource::Running { origin, at_origin_us } => {
                Timestamp::from_micros(at_origin_us.load(Ordering::Relaxed)).after(origin.elapsed())
            }
            TimeSource::Fixed(at) => Timestamp::from_micros(at.load(Ordering::Relaxed)),
        }
    }

    /// Sets the clock. Returns the clock step if the time changed by more than [`STEP_MIN`].
    pub fn set(&self, now: Timestamp) -> Option<ClockStep> {
        let before = self.now();
        match &self.0.source {
            TimeSource::Running { origin, at_origin_us } => {
                at_origin_us.store(now.before(origin.elapsed()).micros(), Ordering::Relaxed);
            }
            TimeSource::Fixed(at) => at.store(now.micros(), Ordering::Relaxed),
        }
        let step = ClockStep::between(before, now)?;
        *self.0.last_step.lock().unwrap_or_else(PoisonError::into_inner) = Some(step);
        match step.direction {
            StepDirection::Forward => {}
            // Incremented after the new time is stored, so that a reader that sees the new count also sees
            // the new time.
            StepDirection::Back => {
                self.0.steps_back.fetch_add(1, Ordering::Release);
            }
        }
        Some(step)
    }

    /// Returns the number of times that the clock was set back by more than [`STEP_MIN`]. After an increase,
    /// times that were stored earlier may be too far in the future.
    pub fn steps_back(&self) -> u64 {
        self.0.steps_back.load(Ordering::Acquire)
    }

    /// Returns the last clock step in either direction.
    pub fn last_step(&self) -> Option<ClockStep> {
        *self.0.last_step.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns whether a delay of length `span` that ends at `at` is over. A clock step back, for example after a
/// failover to a database server whose clock is behind, does not extend the delay.
pub(crate) fn is_due(at: Timestamp, span: Duration, now: Timestamp) -> bool {
    now >= at || now.after(span) < at
}

/// A step that samples the store's clock and corrects the drift of the process's [`Clock`].
#[derive(Debug)]
pub struct ClockSetter<S> {
    store: S,
    discipline: Discipline,
}

impl<S: Stores> ClockSetter<S> {
    pub const fn new(store: S, clock: Clock, metrics: Metrics) -> Self {
        Self { store, discipline: Discipline { clock, metrics, held: None } }
    }
}

impl<S: Stores> Step for ClockSetter<S> {
    async fn step(&mut self, _now: Timestamp) -> StoreResult<Progress> {
        let sample = self.store.sample_clock().await?;
        self.discipline.apply(&sample, Instant::now());
        Ok(Progress::Idle)
    }
}

/// The range that contains the store's time at one instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Bounds {
    low: Timestamp,
    high: Timestamp,
}

impl Bounds {
    /// Returns the bounds that `sample` implies for the instant `at`, which must not be before the end of the
    /// sample.
    fn of(sample: &ClockSample, at: Instant) -> Self {
        let elapsed = at.saturating_duration_since(sample.asked_at);
        let low = sample.time.after(elapsed.saturating_sub(sample.round_trip));
        Self { low, high: sample.time.after(elapsed) }
    }

    fn around(time: Timestamp, error: Duration) -> Self {
        Self { low: time.before(error), high: time.after(error) }
    }

    /// Returns the intersection of both bounds, so that an inaccurate sample does not move an accurate clock.
    /// If the intersection is empty, the store's clock was stepped, and the bounds of the sample are
    /// returned.
    fn narrowed_by(self, sample: Self) -> Self {
        let both = Self { low: self.low.max(sample.low), high: self.high.min(sample.high) };
        if both.low <= both.high { both } else { sample }
    }

    fn error(self) -> Duration {
        self.high.since(self.low) / 2
    }

    fn middle(self) -> Timestamp {
        self.low.after(self.error())
    }
}

/// A controller that keeps a clock within the bounds that samples imply. Between samples, the maximum error
/// of the clock grows with the drift.
#[derive(Debug)]
struct Discipline {
    clock: Clock,
    metrics: Metrics,
    held: Option<Held>,
}

/// The maximum error of the clock at one instant.
#[derive(Debug, Clone, Copy)]
struct Held {
    error: Duration,
    at: Instant,
}

impl Held {
    fn error_at(self, at: Instant) -> Duration {
        let age = at.saturating_duration_since(self.at);
        self.error + age * DRIFT_PPM / 1_000_000
    }
}

impl Discipline {
    fn apply(&mut self, sample: &ClockSample, at: Instant) {
        let sampled = Bounds::of(sample, at);
        let bounds = match self.held {
            None => sampled,
            Some(held) => Bounds::around(self.clock.now(), held.error_at(at)).narrowed_by(sampled),
        };
        self.held = Some(Held { error: bounds.error(), at });
        if let Some(step) = self.clock.set(bounds.middle()) {
            let direction = step.direction.as_str();
            self.metrics.clock_steps.get_or_create(&Direction { direction }).inc();
            let size_ms = u64::try_from(step.size.as_millis()).unwrap_or(u64::MAX);
            tracing::warn!(direction, size_ms, "clock stepped, stored times may be off by that much");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn running_clock_advances_from_the_time_it_was_set_to() {
        let clock = Clock::running(Timestamp::from_micros(0));
        assert!(clock.now().micros() >= 0);
        clock.set(Timestamp::from_micros(5_000_000_000));
        let first = clock.now();
        assert!(first.micros() >= 5_000_000_000 && clock.now() >= first);
        clock.set(Timestamp::from_micros(-5));
        assert!(clock.now() < first);
    }

    #[test]
    fn step_back_by_more_than_a_second_is_counted_in_every_clone() {
        let at_ms = |ms: i64| Timestamp::from_micros(ms * 1_000);
        let clock = Clock::fixed(at_ms(10_000));
        let clone = clock.clone();
        let rows = [
            (12_000, 0, Some((StepDirection::Forward, 2_000))),
            (13_000, 0, None),
            (12_000, 0, None),
            (10_999, 1, Some((StepDirection::Back, 1_001))),
            (0, 2, Some((StepDirection::Back, 10_999))),
        ];
        for (to, steps_back, step) in rows {
            let stepped = clock.set(at_ms(to)).map(|step| (step.direction, step.size.as_millis()));
            assert_eq!((clone.steps_back(), stepped), (steps_back, step), "to {to}");
        }
        let last =
            ClockStep { direction: StepDirection::Back, size: Duration::from_millis(10_999), at: at_ms(0) };
        assert_eq!(clone.last_step(), Some(last));
    }

    #[test]
    fn inexact_sample_does_not_move_an_exact_clock() {
        let (start, at_ms) = (Instant::now(), |ms: i64| Timestamp::from_micros(ms * 1_000));
        let ms = Duration::from_millis;
        let clock = Clock::fixed(at_ms(0));
        let mut discipline = Discipline { clock: clock.clone(), metrics: Metrics::new(), held: None };
        // The time of the sample in seconds; the store's time, the round trip and the expected time in ms. Neither
        // clock advances between samples. The store's clock is at 1,000 ms, then at 1,010 ms, then stepped back
        // by an hour.
        let rows = [
            (0, 1_000, 4, 1_002),
            // Delayed by the connection: the midpoint of the bounds is 1,095.
            (0, 1_000, 190, 1_002),
            (0, 1_001, 2, 1_002),
            (0, 1_010, 2, 1_011),
            // After a hundred seconds the error of the clock may be 50 ms larger, so a less accurate sample
            // narrows the bounds.
            (100, 1_000, 20, 1_010),
            (100, 1_010 - 3_600_000, 2, 1_011 - 3_600_000),
        ];
        for (second, time, round_trip, expected) in rows {
            let asked_at = start + Duration::from_secs(second);
            let sample = ClockSample { time: at_ms(time), asked_at, round_trip: ms(round_trip) };
            discipline.apply(&sample, asked_at + ms(round_trip));
            let rounded_ms = (clock.now().micros() + 500).div_euclid(1_000);
            assert_eq!(rounded_ms, expected, "after {sample:?}");
        }
        let steps = |direction| discipline.metrics.clock_steps.get_or_create(&Direction { direction }).get();
        assert_eq!((steps("forward"), steps("back"), clock.steps_back()), (1, 1, 1));
    }

    #[test]
    fn clock_step_back_does_not_extend_a_delay() {
        let second = |s| Timestamp::from_micros(0).after(Duration::from_secs(s));
        for (now, expected) in [(10, true), (9, false), (7, false), (6, true), (0, true)] {
            assert_eq!(is_due(second(10), Duration::from_secs(3), second(now)), expected, "at {now}");
        }
        assert!(is_due(Timestamp::MIN, Duration::ZERO, Timestamp::MIN));
    }

    #[test]
    fn fixed_clock_changes_only_when_it_is_set() {
        let clock = Clock::fixed(Timestamp::from_micros(7));
        assert_eq!(clock.now().micros(), 7);
        clock.clone().set(Timestamp::from_micros(3));
        assert_eq!(clock.now().micros(), 3);
    }
}
