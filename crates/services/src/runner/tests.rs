//! Tests of the loop with a scripted step.

use super::*;
use posthaste_core::ports::StoreError;
use std::sync::Mutex;
use tokio::sync::mpsc;

type Script = Box<dyn FnMut(usize) -> StoreResult<Progress> + Send>;

struct Scripted {
    script: Script,
    calls: usize,
    seen: mpsc::UnboundedSender<usize>,
    drained: Arc<Mutex<Option<Duration>>>,
}

impl Step for Scripted {
    async fn step(&mut self, _now: Timestamp) -> StoreResult<Progress> {
        self.calls += 1;
        let _ = self.seen.send(self.calls);
        (self.script)(self.calls)
    }

    async fn drain(&mut self, _clock: &Clock, timeout: Duration) {
        *self.drained.lock().expect("the lock") = Some(timeout);
    }
}

struct Rig {
    runner: Runner,
    wake_up: WakeUp,
    seen: mpsc::UnboundedReceiver<usize>,
    drained: Arc<Mutex<Option<Duration>>>,
    metrics: Metrics,
}

const LONG: Duration = Duration::from_secs(3600);

fn rig(poll: Duration, script: impl FnMut(usize) -> StoreResult<Progress> + Send + 'static) -> Rig {
    let metrics = Metrics::new();
    let mut runner = Runner::new(Clock::fixed(Timestamp::from_micros(0)), metrics.clone());
    let (seen, calls) = mpsc::unbounded_channel();
    let (wake_up, drained) = (WakeUp::default(), Arc::default());
    let step = Scripted { script: Box::new(script), calls: 0, seen, drained: Arc::clone(&drained) };
    runner.start(Service::new("scripted", step, wake_up.clone(), poll));
    Rig { runner, wake_up, seen: calls, drained, metrics }
}

impl Rig {
    async fn until(&mut self, call: usize) {
        while self.seen.recv().await.expect("a call") < call {}
    }
}

fn unavailable() -> StoreError {
    StoreError::Unavailable { doing: "testing", source: "no route".into() }
}

#[tokio::test(start_paused = true)]
async fn idle_step_waits_for_a_wake_up_or_the_next_poll() {
    let mut rig = rig(LONG, |_| Ok(Progress::Idle));
    rig.until(1).await;
    rig.wake_up.notify();
    rig.until(2).await;
    let before = tokio::time::Instant::now();
    rig.until(3).await;
    assert_eq!(before.elapsed(), CLOCK_SKEW_MAX, "polled again after the maximum clock skew");
    rig.until(4).await;
    assert_eq!(before.elapsed(), LONG, "polled without a wake-up");
}

#[tokio::test(start_paused = true)]
async fn polls_of_idle_services_coincide() {
    const POLL: Duration = Duration::from_millis(100);
    let mut rig = rig(POLL, |_| Ok(Progress::Idle));
    tokio::time::sleep(Duration::from_millis(130)).await;
    let (seen, mut late) = mpsc::unbounded_channel();
    let step = Scripted { script: Box::new(|_| Ok(Progress::Idle)), calls: 0, seen, drained: Arc::default() };
    rig.runner.start(Service::new("late", step, WakeUp::default(), POLL));
    while late.recv().await.expect("a call") < 2 {}
    let second = tokio::time::Instant::now();
    rig.until(3).await;
    assert_eq!(second.elapsed(), Duration::ZERO);
    while late.recv().await.expect("a call") < 3 {}
    assert_eq!(second.elapsed(), POLL);
}

#[tokio::test(start_paused = true)]
async fn wake_up_during_a_step_is_not_lost() {
    let wake_up = WakeUp::default();
    let inner = wake_up.clone();
    let metrics = Metrics::new();
    let mut runner = Runner::new(Clock::fixed(Timestamp::from_micros(0)), metrics);
    let (seen, mut calls) = mpsc::unbounded_channel();
    let script: Script = Box::new(move |call| {
        if call == 1 {
            inner.notify();
        }
        Ok(Progress::Idle)
    });
    let step = Scripted { script, calls: 0, seen, drained: Arc::default() };
    let before = tokio::time::Instant::now();
    runner.start(Service::new("scripted", step, wake_up, LONG));
    while calls.recv().await.expect("a call") < 2 {}
    assert_eq!(before.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn idle_step_runs_at_the_time_it_returned() {
    let due = Timestamp::from_micros(250_000);
    let mut rig = rig(LONG, move |_| Ok(Progress::IdleUntil(due)));
    rig.until(1).await;
    let before = tokio::time::Instant::now();
    rig.until(2).await;
    assert_eq!(before.elapsed().as_millis(), 250);
}

#[tokio::test(start_paused = true)]
async fn backoff_is_not_shortened_by_wake_ups() {
    let mut rig = rig(LONG, |call| if call <= 8 { Err(unavailable()) } else { Ok(Progress::Idle) });
    let before = tokio::time::Instant::now();
    for call in 1..=9 {
        rig.wake_up.notify();
        rig.until(call).await;
    }
    // The pauses are 50 + 100 + 200 + 400 + 800 + 1600 + 2000 + 2000 ms.
    assert_eq!(before.elapsed().as_millis(), 7_150);
    let label = metrics::Service { service: "scripted" };
    assert_eq!(rig.metrics.step_failures.get_or_create(&label).get(), 8);
    // The wake-up that arrived during the backoff triggers one more step.
    rig.until(10).await;
    assert!(!rig.runner.heartbeats()[0].is_failing());
}

#[tokio::test(start_paused = true)]
async fn panic_is_caught_and_counted_and_the_service_continues() {
    let mut rig = rig(LONG, |call| if call == 1 { panic!("on purpose") } else { Ok(Progress::Idle) });
    rig.until(2).await;
    let label = metrics::Service { service: "scripted" };
    assert_eq!(rig.metrics.step_panics.get_or_create(&label).get(), 1);
    assert!(rig.runner.stop(LONG).await);
}

#[tokio::test(start_paused = true)]
async fn intake_services_are_drained_before_results_services() {
    let metrics = Metrics::new();
    let mut runner = Runner::new(Clock::fixed(Timestamp::from_micros(0)), metrics);
    let order = Arc::new(Mutex::new(Vec::new()));
    struct Noting(&'static str, Arc<Mutex<Vec<&'static str>>>);
    impl Step for Noting {
        async fn step(&mut self, _now: Timestamp) -> StoreResult<Progress> {
            Ok(Progress::Idle)
        }
        async fn drain(&mut self, _clock: &Clock, timeout: Duration) {
            assert!(!timeout.is_zero());
            self.1.lock().expect("the list").push(self.0);
        }
    }
    let flusher = Service::new("flusher", Noting("flusher", Arc::clone(&order)), WakeUp::default(), LONG);
    runner.start(Service { phase: DrainPhase::Results, ..flusher });
    runner.start(Service::new("taker", Noting("taker", Arc::clone(&order)), WakeUp::default(), LONG));
    assert!(runner.stop(Duration::from_secs(20)).await);
    assert_eq!(*order.lock().expect("the list"), ["taker", "flusher"]);
}

#[tokio::test(start_paused = true)]
async fn stop_waits_for_a_hanging_step_only_until_its_timeout() {
    struct Hangs(WakeUp);
    impl Step for Hangs {
        async fn step(&mut self, _now: Timestamp) -> StoreResult<Progress> {
            self.0.notify();
            std::future::pending().await
        }
    }
    let mut runner = Runner::new(Clock::fixed(Timestamp::from_micros(0)), Metrics::new());
    let begun = WakeUp::default();
    runner.start(Service::new("hangs", Hangs(begun.clone()), WakeUp::default(), LONG));
    begun.notified().await;
    assert!(runner.heartbeats()[0].age().is_none());
    let before = tokio::time::Instant::now();
    assert!(!runner.stop(Duration::from_secs(20)).await);
    assert_eq!(before.elapsed().as_secs(), 18, "the rest is kept for the later phases");
}

#[tokio::test(start_paused = true)]
async fn pace_is_the_minimum_time_between_steps() {
    let metrics = Metrics::new();
    let mut runner = Runner::new(Clock::fixed(Timestamp::from_micros(0)), metrics);
    let (seen, mut calls) = mpsc::unbounded_channel();
    let script: Script = Box::new(|_| Ok(Progress::More));
    let step = Scripted { script, calls: 0, seen, drained: Arc::default() };
    let service = Service::new("scripted", step, WakeUp::default(), LONG);
    let before = tokio::time::Instant::now();
    runner.start(Service { pace: Duration::from_millis(5), ..service });
    while calls.recv().await.expect("a call") < 11 {}
    assert!(before.elapsed() >= Duration::from_millis(45), "{:?}", before.elapsed());
}

#[tokio::test(start_paused = true)]
async fn drain_gets_the_remaining_time() {
    let mut rig = rig(LONG, |_| Ok(Progress::Idle));
    rig.until(1).await;
    assert!(rig.runner.stop(Duration::from_secs(20)).await);
    assert_eq!(*rig.drained.lock().expect("the lock"), Some(Duration::from_secs(16)));
}
