//! Tests of admission with a scripted store.

use super::*;
use posthaste_core::ports::{
    AdmittedJob, AppliedResult, DueSince, DueSubscriptions, Quota, RecentlyDue, RestartedWaits, ResultTake,
    WaitPage,
};
use posthaste_core::{EventId, JobId, SagaId};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

/// A store in which subscription `i + 1` has `due[i]` due sagas.
#[derive(Debug, Clone)]
struct Scripted(Arc<Mutex<World>>);

#[derive(Debug)]
struct World {
    due: Vec<u32>,
    probes: Vec<Option<i64>>,
    given: Vec<u32>,
    /// The start and the time of each read of recently due sagas.
    reads: Vec<(Timestamp, Timestamp)>,
    /// The position that each of the next reads reaches; `None` is the end.
    reach: VecDeque<Option<Timestamp>>,
    /// The time since which scans report sagas as due.
    due_since: Timestamp,
    /// The positions from which sagas were fetched.
    takes: Vec<Option<Timestamp>>,
}

impl Scripted {
    fn one_is_due(&self, since: Timestamp) {
        let mut world = self.0.lock().expect("the world");
        (world.due, world.due_since) = (vec![1], since);
    }
}

impl OrchestratorStore for Scripted {
    async fn find_due_subscriptions(
        &self,
        after: Option<SubscriptionId>,
        probes_max: u32,
        _now: Timestamp,
    ) -> StoreResult<DueSubscriptions> {
        let mut world = self.0.lock().expect("the world");
        world.probes.push(after.map(SubscriptionId::get));
        let first = after.map_or(1, |id| id.get() + 1);
        let last = i64::try_from(world.due.len()).expect("few").min(first + i64::from(probes_max) - 1);
        let is_due = |id: &i64| world.due[usize::try_from(*id - 1).expect("an index")] > 0;
        let since = |id| DueSince { subscription_id: SubscriptionId::from_store(id), since: world.due_since };
        let due = (first..=last).filter(is_due).map(since).collect();
        let more = usize::try_from(last).is_ok_and(|last| last < world.due.len());
        Ok(DueSubscriptions { due, next: more.then(|| SubscriptionId::from_store(last)) })
    }

    async fn find_recently_due(
        &self,
        since: Timestamp,
        _max: u32,
        now: Timestamp,
    ) -> StoreResult<RecentlyDue> {
        let mut world = self.0.lock().expect("the world");
        world.reads.push((since, now));
        let until = world.reach.pop_front().flatten();
        Ok(RecentlyDue { due: Vec::new(), until })
    }

    async fn restart_waits(
        &self,
        _page: WaitPage,
        _policy: RetryPolicy,
        _now: Timestamp,
    ) -> StoreResult<RestartedWaits> {
        Ok(RestartedWaits { restarted: 0, next: None })
    }

    async fn admit_due_sagas(
        &self,
        quotas: Vec<Quota>,
        _policy: RetryPolicy,
        now: Timestamp,
    ) -> StoreResult<Admitted> {
        let mut world = self.0.lock().expect("the world");
        let mut admitted = Admitted::default();
        for quota in quotas {
            world.takes.push(quota.from);
            admitted.fetched.push(DueSince { subscription_id: quota.subscription_id, since: now });
            let index = usize::try_from(quota.subscription_id.get() - 1).expect("an index");
            let jobs = quota.jobs_max.min(world.due[index]);
            world.due[index] -= jobs;
            world.given[index] += jobs;
            let job = AdmittedJob {
                job_id: JobId::from_store(1),
                saga_id: SagaId::from_store(1),
                event_id: EventId::from_store(1),
                subscription_id: quota.subscription_id,
            };
            admitted.jobs.extend((0..jobs).map(|_| job));
        }
        Ok(admitted)
    }

    async fn apply_job_results(
        &self,
        _take: ResultTake,
        _policy: RetryPolicy,
        _now: Timestamp,
    ) -> StoreResult<Vec<AppliedResult>> {
        Ok(Vec::new())
    }

    async fn count_in_flight(&self, ids: Vec<SubscriptionId>, _max: u32) -> StoreResult<Vec<u32>> {
        let world = self.0.lock().expect("the world");
        let given = |id: &SubscriptionId| world.given[usize::try_from(id.get() - 1).expect("an index")];
        Ok(ids.iter().map(given).collect())
    }
}

struct Rig {
    store: Scripted,
    clock: Clock,
    admission: Admission<Scripted>,
}

impl Rig {
    fn new(due: Vec<u32>) -> Self {
        let (given, clock) = (vec![0; due.len()], Clock::fixed(NOW));
        let world = World {
            due,
            probes: Vec::new(),
            given,
            reads: Vec::new(),
            reach: VecDeque::new(),
            due_since: NOW,
            takes: Vec::new(),
        };
        let store = Scripted(Arc::new(Mutex::new(world)));
        let (in_flight, wake_ups, metrics) = (InFlight::new(2048), WakeUps::alone(), Metrics::new());
        let admission =
            Admission::new(store.clone(), RetryPolicy::WEBHOOK, in_flight, clock.clone(), wake_ups, metrics);
        Self { store, clock, admission }
    }

    async fn step(&mut self, ms: u64) -> Progress {
        self.clock.set(at_ms(ms));
        self.admission.step(self.clock.now()).await.expect("a step")
    }

    fn world(&self) -> std::sync::MutexGuard<'_, World> {
        self.store.0.lock().expect("the world")
    }
}

const NOW: Timestamp = Timestamp::from_micros(0);

fn at_ms(ms: u64) -> Timestamp {
    NOW.after(Duration::from_millis(ms))
}

use Progress::{Idle, More};

/// Creates a rig and runs its first scan.
async fn started(due: Vec<u32>) -> Rig {
    let mut rig = Rig::new(due);
    rig.step(0).await;
    rig
}

#[tokio::test]
async fn backlog_of_one_subscription_does_not_delay_others() {
    let mut rig = started(vec![1_000_000, 1, 1]).await;
    assert_eq!(rig.world().given, [16, 1, 1]);
    for _ in 0..3 {
        assert_eq!(rig.step(0).await, Idle, "a full subscription is not served again");
    }
    assert_eq!(rig.world().given, [16, 1, 1]);
}

#[tokio::test]
async fn long_scan_runs_page_by_page_and_repeats_every_second() {
    let mut rig = Rig::new(vec![0; 600]);
    let mut progress = Vec::new();
    for ms in [0, 0, 0, 0, 999, 1_000] {
        progress.push(rig.step(ms).await);
    }
    assert_eq!(progress, [More, More, Idle, Idle, Idle, More]);
    assert_eq!(rig.world().probes, [None, Some(256), Some(512), None]);
}

#[tokio::test]
async fn reads_of_recently_due_sagas_continue_at_the_last_position() {
    let mut rig = started(vec![0]).await;
    rig.step(0).await;
    rig.world().reads.clear();
    // The third read does not reach the end, and the sixth makes no progress.
    let reach = [None, None, Some(2_500), None, None, Some(3_900)].map(|ms: Option<u64>| ms.map(at_ms));
    rig.world().reach = reach.into();
    let mut progress = Vec::new();
    for ms in [1_000, 2_000, 3_000, 3_000, 4_000, 4_000, 4_050, 3_500] {
        progress.push(rig.step(ms).await);
    }
    let reads = [
        (0, 1_000),
        (900, 2_000),
        (1_900, 3_000),
        (2_500, 3_000),
        (2_900, 4_000),
        (3_900, 4_000),
        (3_900, 4_050),
        (3_400, 3_500),
    ];
    let world = rig.world();
    // The first read starts at the process start time, minus the tolerance for clock skew.
    assert_eq!(world.reads[0].0, NOW.before(CLOCK_SKEW_MAX));
    assert_eq!(
        world.reads[1..],
        reads[1..].iter().map(|(since, now)| (at_ms(*since), at_ms(*now))).collect::<Vec<_>>()
    );
    assert_eq!(progress, [Idle, Idle, More, Idle, Idle, Idle, Idle, Idle]);
    // One scan at the start, one each second, one at 4.05 s (only a scan finds all sagas that came due at one
    // instant), and one after the clock step back.
    assert_eq!(world.probes.len(), 7);
}

#[tokio::test]
async fn sagas_reported_by_the_router_are_admitted_before_a_read() {
    let mut rig = started(vec![0]).await;
    rig.world().reads.clear();
    rig.store.one_is_due(at_ms(10));
    rig.admission
        .wake_ups
        .wake_admission([DueSince { subscription_id: SubscriptionId::from_store(1), since: at_ms(10) }]);
    rig.step(10).await;
    let world = rig.world();
    assert_eq!((world.given[0], world.reads.len()), (1, 0));
}

#[tokio::test]
async fn recently_due_sagas_are_read_every_20_ms_while_there_is_known_work() {
    // Each step scans a page of 256 subscriptions and admits their sagas, so some work is always known.
    let mut rig = started(vec![1; 3_000]).await;
    rig.world().reads.clear();
    for ms in [1, 5, 19, 20, 30] {
        rig.step(ms).await;
    }
    let read_at: Vec<_> = rig.world().reads.iter().map(|(_, now)| *now).collect();
    assert_eq!(read_at, [at_ms(20)], "the first read was at 0 ms");
}

#[tokio::test]
async fn position_moves_back_to_what_a_scan_found() {
    let mut rig = started(vec![0]).await;
    // Sagas are due when they are created, except for the saga of a resumed subscription.
    for (ms, due_since) in [(1_000, 990), (2_000, 1_990), (3_000, 300), (4_000, 3_990)] {
        rig.store.one_is_due(at_ms(due_since));
        rig.step(ms).await;
    }
    let from = |ms: u64| Some(at_ms(ms));
    // The scripted store records fetches with the time of the step.
    assert_eq!(rig.world().takes, [from(990), from(990), from(300), from(300)]);
}
