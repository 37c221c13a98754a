//! The loop that runs a [`Step`] as a service. It polls the step or waits for a wake-up, backs off while the
//! store is unavailable, catches panics, records metrics, and drains at shutdown.

mod backoff;

use crate::clock::{CLOCK_SKEW_MAX, Clock};
use crate::metrics::{self, Metrics};
use crate::step::{Progress, Step};
use crate::wake::WakeUp;
use backoff::{Backoff, StepOutcome};
use futures_util::FutureExt as _;
use posthaste_core::Timestamp;
use posthaste_core::ports::StoreResult;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

/// A step and the settings of its loop.
#[derive(Debug)]
pub struct Service<S> {
    pub name: &'static str,
    pub step: S,
    pub wake_up: WakeUp,
    /// The maximum idle time, after which the step runs without a wake-up.
    pub poll: Duration,
    /// The minimum time between the starts of two steps. Zero means no limit.
    pub pace: Duration,
    /// The maximum backoff while the store is unavailable.
    pub pause_max: Duration,
    pub phase: DrainPhase,
}

impl<S> Service<S> {
    pub fn new(name: &'static str, step: S, wake_up: WakeUp, poll: Duration) -> Self {
        let (pace, pause_max, phase) = (Duration::ZERO, backoff::PAUSE_MAX, DrainPhase::Intake);
        Self { name, step, wake_up, poll, pace, pause_max, phase }
    }
}

/// The phase of the shutdown in which a service drains: first services that accept work, then services that
/// report results, and finally telemetry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DrainPhase {
    Intake,
    Results,
    /// The last phase, so that telemetry also covers the drain of all other services.
    Telemetry,
}

/// The state of the shutdown, shared with every service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RunState {
    Running,
    Draining { last: DrainPhase, timeout: Duration },
}

impl RunState {
    fn stops(self, phase: DrainPhase) -> Option<Duration> {
        match self {
            Self::Draining { last, timeout } if phase <= last => Some(timeout),
            Self::Draining { .. } | Self::Running => None,
        }
    }
}

/// The health of one service, for `/readyz` and metrics.
#[derive(Debug)]
pub struct Heartbeat {
    pub name: &'static str,
    started: Instant,
    /// The time from the start to the last successful step in milliseconds, plus one. Zero before the first
    /// step.
    stepped_ms: AtomicU64,
    failing: AtomicBool,
}

impl Heartbeat {
    /// Returns the time since the last successful step, or `None` if there was none.
    pub fn age(&self) -> Option<Duration> {
        let stepped_ms = self.stepped_ms.load(Ordering::Relaxed).checked_sub(1)?;
        Some(self.started.elapsed().saturating_sub(Duration::from_millis(stepped_ms)))
    }

    /// Returns whether the last step that used the store failed.
    pub fn is_failing(&self) -> bool {
        self.failing.load(Ordering::Relaxed)
    }

    /// Records a successful step. A step that did not use the store leaves the failure flag unchanged.
    fn beat(&self, progress: Progress) {
        let ms = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX - 1);
        self.stepped_ms.store(ms + 1, Ordering::Relaxed);
        if progress != Progress::Unasked {
            self.failing.store(false, Ordering::Relaxed);
        }
    }
}

/// The running services of a process.
#[derive(Debug)]
pub struct Runner {
    started: Instant,
    clock: Clock,
    metrics: Metrics,
    run_state: watch::Sender<RunState>,
    intake: JoinSet<()>,
    results: JoinSet<()>,
    telemetry: JoinSet<()>,
    heartbeats: Vec<Arc<Heartbeat>>,
}

impl Runner {
    pub fn new(clock: Clock, metrics: Metrics) -> Self {
        let run_state = watch::Sender::new(RunState::Running);
        let (intake, results, telemetry) = (JoinSet::new(), JoinSet::new(), JoinSet::new());
        let started = Instant::now();
        Self { started, clock, metrics, run_state, intake, results, telemetry, heartbeats: Vec::new() }
    }

    /// Returns the heartbeats of all started services.
    pub fn heartbeats(&self) -> &[Arc<Heartbeat>] {
        &self.heartbeats
    }

    pub fn start<S: Step + 'static>(&mut self, service: Service<S>) {
        let heartbeat = Arc::new(Heartbeat {
            name: service.name,
            started: Instant::now(),
            stepped_ms: AtomicU64::new(0),
            failing: AtomicBool::new(false),
        });
        self.heartbeats.push(Arc::clone(&heartbeat));
        // Initialized to zero, so that the first increment is visible as an increase.
        let label = metrics::Service { service: service.name };
        self.metrics.step_failures.get_or_create(&label).inc_by(0);
        self.metrics.step_panics.get_or_create(&label).inc_by(0);
        let tasks = match service.phase {
            DrainPhase::Intake => &mut self.intake,
            DrainPhase::Results => &mut self.results,
            DrainPhase::Telemetry => &mut self.telemetry,
        };
        let (clock, metrics, run_state) =
            (self.clock.clone(), self.metrics.clone(), self.run_state.subscribe());
        let runner_started = self.started;
        tasks.spawn(
            Loop { service, runner_started, clock, metrics, run_state, heartbeat, was_notified: false }.run(),
        );
    }

    /// Drains all services in the order of their phases, within `grace`. Returns whether all of them finished
    /// in time.
    pub async fn stop(mut self, grace: Duration) -> bool {
        let until = Instant::now() + grace;
        // The time reserved for reporting results and releasing unfinished work.
        let reserve = grace / 5;
        let mut all = true;
        for (phase, tasks, kept) in [
            (DrainPhase::Intake, &mut self.intake, reserve),
            (DrainPhase::Results, &mut self.results, reserve / 4),
            (DrainPhase::Telemetry, &mut self.telemetry, Duration::ZERO),
        ] {
            let left = until.saturating_duration_since(Instant::now());
            let timeout = left.saturating_sub(kept);
            self.run_state.send_replace(RunState::Draining { last: phase, timeout });
            let ended = async { while tasks.join_next().await.is_some() {} };
            // A service that hangs must not use up the time reserved for later phases.
            all &= tokio::time::timeout(left.saturating_sub(kept / 2), ended).await.is_ok();
        }
        all
    }
}

struct Loop<S> {
    service: Service<S>,
    runner_started: Instant,
    clock: Clock,
    metrics: Metrics,
    run_state: watch::Receiver<RunState>,
    heartbeat: Arc<Heartbeat>,
    /// Whether the last wait ended with a wake-up.
    was_notified: bool,
}

impl<S: Step> Loop<S> {
    async fn run(mut self) {
        let mut backoff = Backoff::new(self.service.pause_max);
        let timeout = loop {
            if let Some(timeout) = self.stops() {
                break timeout;
            }
            let began = Instant::now();
            let now = self.clock.now();
            let outcome = self.outcome(now).await;
            let label = metrics::Service { service: self.service.name };
            self.metrics.step_seconds.get_or_create(&label).observe(began.elapsed().as_secs_f64());
            match backoff.after(self.service.name, outcome) {
                Ok(progress) => {
                    self.heartbeat.beat(progress);
                    self.idle(progress, now, began).await;
                }
                Err(pause) => {
                    self.heartbeat.failing.store(true, Ordering::Relaxed);
                    self.wait(pause, false).await;
                }
            }
        };
        self.service.step.drain(&self.clock, timeout).await;
    }

    async fn outcome(&mut self, now: Timestamp) -> StepOutcome {
        let label = metrics::Service { service: self.service.name };
        let caught: Result<StoreResult<Progress>, _> =
            AssertUnwindSafe(self.service.step.step(now)).catch_unwind().await;
        match caught {
            Ok(Ok(progress)) => StepOutcome::Done(progress),
            Ok(Err(error)) => {
                self.metrics.step_failures.get_or_create(&label).inc();
                StepOutcome::Failed(error)
            }
            Err(panic) => {
                self.metrics.step_panics.get_or_create(&label).inc();
                StepOutcome::Panicked(backoff::panic_text(&*panic))
            }
        }
    }

    fn stops(&self) -> Option<Duration> {
        self.run_state.borrow().stops(self.service.phase)
    }

    async fn idle(&mut self, progress: Progress, now: Timestamp, began: Instant) {
        match progress {
            Progress::More => {
                // Lets other tasks run if every step has more work to do.
                tokio::task::yield_now().await;
            }
            Progress::Idle | Progress::Unasked => self.wait(self.longest_idle(), true).await,
            Progress::IdleUntil(at) => self.wait(at.since(now).min(self.longest_idle()), true).await,
        }
        let rest = self.service.pace.saturating_sub(began.elapsed());
        if !rest.is_zero() {
            self.wait(rest, false).await;
        }
    }

    /// Returns the time until the next poll. Polls of all services with the same interval coincide, so an
    /// idle process wakes up once for all of them, and their statements share one group commit.
    fn longest_idle(&self) -> Duration {
        let poll = self.service.poll;
        if self.was_notified {
            // With clock skew, the rows that caused the wake-up may become due only after this time.
            return poll.min(CLOCK_SKEW_MAX);
        }
        let since_last = self.runner_started.elapsed().as_nanos().checked_rem(poll.as_nanos()).unwrap_or(0);
        poll.saturating_sub(Duration::from_nanos(u64::try_from(since_last).unwrap_or(0)))
    }

    /// Waits until `span` has passed, the shutdown begins or, if `listens` is true, a wake-up arrives.
    async fn wait(&mut self, span: Duration, listens: bool) {
        let phase = self.service.phase;
        let wake_up = &self.service.wake_up;
        self.was_notified = false;
        tokio::select! {
            () = tokio::time::sleep(span) => {}
            () = wake_up.notified(), if listens => self.was_notified = true,
            // Dropping the runner drops the sender, which also ends this wait.
            _ = self.run_state.wait_for(|run_state| run_state.stops(phase).is_some()) => {}
        }
    }
}

#[cfg(test)]
mod tests;
