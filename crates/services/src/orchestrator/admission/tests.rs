//! Admission over a scripted store.

use super::*;
use posthaste_core::ports::{AdmittedJob, AppliedResult, DueSubscriptions, LatelyDue, Quota, ResultTake};
use posthaste_core::{EventId, JobId, SagaId};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

/// Subscriptions 1 to `subscriptions`, each with as many due sagas as `due` says.
#[derive(Debug, Clone)]
struct Scripted(Arc<Mutex<World>>);

#[derive(Debug)]
struct World {
    due: Vec<u32>,
    probes: Vec<Option<i64>>,
    given: Vec<u32>,
    /// From when and to when it was looked for what came due lately; up to where the next looks see.
    looks: Vec<(Timestamp, Timestamp)>,
    sees: VecDeque<Timestamp>,
    /// How many had been given before each look.
    given_before: Vec<u32>,
    /// Since when scans find them due, and from where they were taken.
    due_since: Timestamp,
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
        let since = |id| (SubscriptionId::from_store(id), world.due_since);
        let due = (first..=last).filter(is_due).map(since).collect();
        let more = usize::try_from(last).is_ok_and(|last| last < world.due.len());
        Ok(DueSubscriptions { due, next: more.then(|| SubscriptionId::from_store(last)) })
    }

    async fn find_lately_due(&self, since: Timestamp, _max: u32, now: Timestamp) -> StoreResult<LatelyDue> {
        let mut world = self.0.lock().expect("the world");
        world.looks.push((since, now));
        let given = world.given.iter().sum();
        world.given_before.push(given);
        let until = world.sees.pop_front().unwrap_or(now);
        Ok(LatelyDue { subscriptions: Vec::new(), until })
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
            admitted.reached.push((quota.subscription_id, now));
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

    async fn next_due_at(&self, _now: Timestamp) -> StoreResult<Option<Timestamp>> {
        Ok(None)
    }
}

fn rig(due: Vec<u32>) -> (Scripted, Admission<Scripted>) {
    let (given, clock) = (vec![0; due.len()], Clock::standing(NOW));
    let world = World {
        due,
        probes: Vec::new(),
        given,
        looks: Vec::new(),
        sees: VecDeque::new(),
        given_before: Vec::new(),
        due_since: NOW,
        takes: Vec::new(),
    };
    let store = Scripted(Arc::new(Mutex::new(world)));
    let (flows, wakes, metrics) = (Flows::new(2048), Wakes::alone(), Metrics::new());
    (store.clone(), Admission::new(store, RetryPolicy::WEBHOOK, flows, clock, wakes, metrics))
}

const NOW: Timestamp = Timestamp::from_micros(0);

#[tokio::test]
async fn a_backlog_of_one_delays_nobody() {
    let (store, mut admission) = rig(vec![1_000_000, 1, 1]);
    assert_eq!(admission.step(NOW).await.expect("a step"), Progress::Idle);
    assert_eq!(store.0.lock().expect("the world").given, [16, 1, 1]);
}

#[tokio::test]
async fn a_full_subscription_is_not_served_again_and_the_service_idles() {
    let (store, mut admission) = rig(vec![1_000]);
    for _ in 0..3 {
        assert_eq!(admission.step(NOW).await.expect("a step"), Progress::Idle);
    }
    assert_eq!(store.0.lock().expect("the world").given, [16]);
}

#[tokio::test]
async fn a_long_scan_goes_page_by_page_and_rests_after_the_last() {
    let (store, mut admission) = rig(vec![0; 600]);
    let mut progress = Vec::new();
    for _ in 0..4 {
        progress.push(admission.step(NOW).await.expect("a step"));
    }
    use Progress::{Idle, More};
    assert_eq!(progress, [More, More, Idle, Idle]);
    admission.step(NOW.after(SCAN_EVERY)).await.expect("a step");
    assert_eq!(store.0.lock().expect("the world").probes, [None, Some(256), Some(512), None]);
}

fn at_ms(ms: u64) -> Timestamp {
    NOW.after(Duration::from_millis(ms))
}

#[tokio::test]
async fn looks_go_on_from_where_the_last_one_ended() {
    let (store, mut admission) = rig(vec![0]);
    // The third look cannot see all there is, and the sixth not even past one moment.
    let sees = [1_000, 2_000, 2_500, 3_000, 4_000, 3_900].map(at_ms);
    store.0.lock().expect("the world").sees = sees.into();
    let mut progress = Vec::new();
    for ms in [1_000, 2_000, 3_000, 3_000, 4_000, 4_000, 4_050, 1_000] {
        progress.push(admission.step(at_ms(ms)).await.expect("a step"));
    }
    let world = store.0.lock().expect("the world");
    let looks = [
        (900, 1_000),
        (900, 2_000),
        (1_900, 3_000),
        (2_500, 3_000),
        (2_900, 4_000),
        (3_900, 4_000),
        (4_000, 4_050),
        (900, 1_000),
    ];
    assert_eq!(world.looks, looks.map(|(since, now)| (at_ms(since), at_ms(now))));
    use Progress::{Idle, More};
    assert_eq!(progress, [Idle, Idle, More, Idle, Idle, Idle, Idle, Idle]);
    // At 4.05 s, though the rest after the scan at 4 s is not over: only a scan gets past such a moment.
    assert_eq!(world.probes.len(), 6);
}

#[tokio::test]
async fn what_is_known_is_served_without_a_look() {
    let (store, mut admission) = rig(vec![0, 0]);
    let (one, two) = (SubscriptionId::from_store(1), SubscriptionId::from_store(2));
    admission.step(NOW).await.expect("a step");
    // As the router of the same process tells it.
    for (ms, id) in [(5, one), (10, two), (15, one), (20, two)] {
        store.0.lock().expect("the world").due = vec![1, 1];
        admission.flows.found_due([id]);
        admission.step(at_ms(ms)).await.expect("a step");
    }
    let world = store.0.lock().expect("the world");
    assert_eq!(world.given, [2, 2]);
    assert_eq!(world.looks.iter().map(|(_, now)| *now).collect::<Vec<_>>(), [NOW, at_ms(20)]);
    assert_eq!(world.given_before, [0, 4], "and where one is due, it is served before");
}

#[tokio::test]
async fn what_a_scan_finds_is_taken_from_the_oldest_on_that_is_due() {
    let (store, mut admission) = rig(vec![0]);
    // Sagas come due as they are made, but for one: its subscription was resumed.
    for (ms, due_since) in [(1_000, 990), (1_200, 1_190), (1_400, 300), (1_600, 1_590)] {
        store.one_is_due(at_ms(due_since));
        admission.step(at_ms(ms)).await.expect("a step");
    }
    let from = |ms: u64| Some(at_ms(ms).before(CLOCKS_DIFFER_MAX));
    let takes = &store.0.lock().expect("the world").takes;
    assert_eq!(*takes, [from(990), from(1_000), from(300), from(1_400)]);
}
