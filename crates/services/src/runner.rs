//! The one loop. It turns any [`Step`] into a service: wakes it, lets it idle, backs off while the
//! store is away, catches its panics, meters it, and drains it at the end. What a step does is the
//! step's own business.

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

/// How a step is driven.
#[derive(Debug)]
pub struct Service<S> {
    pub name: &'static str,
    pub step: S,
    pub wake_up: WakeUp,
    /// The longest idle time: bounds what nobody announced.
    pub poll: Duration,
    /// The shortest time from one step to the next; zero for no bound.
    pub pace: Duration,
    /// The longest pause while the store is away.
    pub pause_max: Duration,
    pub phase: DrainPhase,
}

impl<S> Service<S> {
    pub fn new(name: &'static str, step: S, wake_up: WakeUp, poll: Duration) -> Self {
        let (pace, pause_max, phase) = (Duration::ZERO, backoff::PAUSE_MAX, DrainPhase::Intake);
        Self { name, step, wake_up, poll, pace, pause_max, phase }
    }
}

/// When a service ends: first those that take work on, then those that carry away what came of it, and
/// at last those that tell of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DrainPhase {
    Intake,
    Results,
    /// What tells of all the others comes last.
    Telemetry,
}

/// How far the shutdown has come, for every service to see.
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

/// What is known of one service from outside.
#[derive(Debug)]
pub struct Heartbeat {
    pub name: &'static str,
    started: Instant,
    /// Milliseconds from the start to the last step that went well, plus one; zero before the first.
    stepped_ms: AtomicU64,
    failing: AtomicBool,
}

impl Heartbeat {
    /// How long ago a step went well; nothing if none ever did.
    pub fn age(&self) -> Option<Duration> {
        let stepped_ms = self.stepped_ms.load(Ordering::Relaxed).checked_sub(1)?;
        Some(self.started.elapsed().saturating_sub(Duration::from_millis(stepped_ms)))
    }

    /// Whether the last step that asked the store failed.
    pub fn is_failing(&self) -> bool {
        self.failing.load(Ordering::Relaxed)
    }

    /// Notes a step that went well. One that asked for nothing is alive, and as well or ill as before.
    fn beat(&self, progress: Progress) {
        let ms = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX - 1);
        self.stepped_ms.store(ms + 1, Ordering::Relaxed);
        if progress != Progress::Unasked {
            self.failing.store(false, Ordering::Relaxed);
        }
    }
}

/// Drives every service of a process.
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

    /// The services that were started.
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
        // From zero, so that the first one is seen as a rise.
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
            Loop { service, runner_started, clock, metrics, run_state, heartbeat, was_rung: false }.run(),
        );
    }

    /// Ends every service: those that take first, then those that flush, then those that tell, all within `grace`. Answers
    /// whether everything came to its end.
    pub async fn stop(mut self, grace: Duration) -> bool {
        let until = Instant::now() + grace;
        // What is left for the flushing, and for the release of what could not be finished.
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
            // One that hangs must not eat up the time of those behind it.
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
    /// The last wait ended with the bell.
    was_rung: bool,
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
                // Steps that always have more must leave room for the others.
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

    /// Until the next look, if nobody rings. Those of all services with the same poll fall together: an idle process
    /// wakes up once for them, and a store that works in groups does too.
    fn longest_idle(&self) -> Duration {
        let poll = self.service.poll;
        if self.was_rung {
            // What it was rung for may be due only then.
            return poll.min(CLOCK_SKEW_MAX);
        }
        let since_last = self.runner_started.elapsed().as_nanos().checked_rem(poll.as_nanos()).unwrap_or(0);
        poll.saturating_sub(Duration::from_nanos(u64::try_from(since_last).unwrap_or(0)))
    }

    /// Waits until the time is over, the bell rings if it is listened to, or the service must end.
    async fn wait(&mut self, span: Duration, listens: bool) {
        let phase = self.service.phase;
        let wake_up = &self.service.wake_up;
        self.was_rung = false;
        tokio::select! {
            () = tokio::time::sleep(span) => {}
            () = wake_up.notified(), if listens => self.was_rung = true,
            // The sender lives as long as the runner; if it is gone, there is nothing to run for.
            _ = self.run_state.wait_for(|run_state| run_state.stops(phase).is_some()) => {}
        }
    }
}

#[cfg(test)]
mod tests;
