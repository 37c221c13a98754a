//! Tests graceful shutdown: a process finishes and reports its work in progress or releases it, and exits with
//! code 0. A second signal ends the process immediately.

use posthaste_core::ports::{IngestStore as _, Stores as _};
use posthaste_store::postgres::PostgresStore;
use posthaste_testkit::direct::Direct;
use posthaste_testkit::fixtures::event;
use posthaste_testkit::fleet::{Fleet, Role, Wiring, settings};
use posthaste_testkit::private_server::PrivateServer;
use posthaste_testkit::receiver::Receiver;
use posthaste_testkit::subscribers::subscribe;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;

const KIND: &str = "drain.event";
/// The number of published events. It does not exceed the initial in-flight limit of a subscription, so that all
/// requests are in flight at the same time.
const EVENTS: usize = 12;
const PATIENCE: Duration = Duration::from_secs(40);
/// Settings with timeouts longer than any test, so that no request times out.
const SLOW: [(&str, &str); 2] = [("POSTHASTE_REQUEST_TIMEOUT", "300s"), ("POSTHASTE_LEASE", "600s")];
const ROLES: [(Role, usize); 4] =
    [(Role::Router, 1), (Role::Orchestrator, 1), (Role::Worker, 1), (Role::Cleaner, 1)];

/// A running system with all delivery roles, and a receiver that responds to one request per permit.
struct Scene {
    store: PostgresStore,
    direct: Direct,
    receiver: Receiver,
    gate: Arc<Semaphore>,
    fleet: Fleet,
    _server: PrivateServer,
}

impl Scene {
    async fn set(more: &[(&str, &str)]) -> Self {
        let server = PrivateServer::start("drain");
        let store = server.migrated_store().await;
        let (receiver, gate) = Receiver::gated(200).await;
        subscribe(&store, KIND, &receiver.url("/"), None).await;
        let settings = settings(&[&SLOW, more].concat());
        let fleet = Fleet::start(&server, Wiring::Direct, &ROLES, &settings).await;
        let direct = Direct::postgres(&server.url("postgres")).await;
        Self { store, direct, receiver, gate, fleet, _server: server }
    }

    async fn publish(&self, events: usize) {
        let now = self.store.now().await.unwrap();
        self.store.ingest().insert_events(vec![vec![event(KIND); events]], now).await.unwrap();
    }

    /// Sends SIGTERM to the worker while all its requests are in progress. Returns the index of the worker.
    async fn terminate_busy_worker(&mut self) -> usize {
        self.publish(EVENTS).await;
        self.receiver.wait_for(EVENTS).await;
        let worker = self.fleet.places(Role::Worker)[0];
        self.terminate(worker).await;
        worker
    }

    async fn terminate(&mut self, place: usize) {
        let process = &self.fleet.members[place].process;
        process.terminate();
        let heard = process.logs(|line| line.message == "shutting down, draining", PATIENCE).await;
        assert!(heard, "{:#?}", process.lines());
    }

    /// Waits until a process ends and returns its exit code, or `None` if it does not end in time.
    async fn exit_code(&mut self, place: usize) -> Option<i32> {
        self.fleet.members[place].process.end(PATIENCE).await.and_then(|status| status.code())
    }

    async fn jobs(&self, status: &str) -> i64 {
        let sql = format!("SELECT count(*) FROM webhook_delivery_jobs WHERE status = '{status}'");
        self.direct.number(&sql).await
    }

    async fn until_completed(&self, sagas: usize) {
        let sql = "SELECT count(*) FROM webhook_delivery_sagas WHERE status = 'Completed'";
        self.direct.until("all deliveries were completed", sql, sagas as i64, PATIENCE).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_draining_worker_finishes_and_reports_its_requests() {
    let _in_pairs = crate::in_pairs().await;
    let mut scene = Scene::set(&[]).await;
    let worker = scene.terminate_busy_worker().await;
    // A draining worker claims no jobs, so this event waits for the next worker.
    scene.publish(1).await;
    scene.gate.add_permits(EVENTS + 1);
    assert_eq!(scene.exit_code(worker).await, Some(0));
    assert_eq!((scene.jobs("Completed").await, scene.jobs("Leased").await), (EVENTS as i64, 0));
    let charted = "SELECT sum(amount) FROM rollups WHERE width_s = 10 AND counter = 'attempts_ok'";
    assert_eq!(scene.direct.number(charted).await, EVENTS as i64, "the last counts are reported too");
    let summed = "SELECT sum(within_5ms + within_10ms + within_20ms + within_50ms + within_100ms + within_200ms \
        + within_500ms + within_1s + within_2s + within_5s + within_10s + beyond_10s) FROM subscription_health";
    assert_eq!(scene.direct.number(summed).await, EVENTS as i64, "and for the subscription");
    scene.fleet.restart(worker);
    scene.until_completed(EVENTS + 1).await;
    assert_eq!(scene.receiver.received().len(), EVENTS + 1, "nothing was sent twice");
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_unfinished_after_the_grace_period_are_released() {
    let _in_pairs = crate::in_pairs().await;
    let mut scene = Scene::set(&[("POSTHASTE_SHUTDOWN_GRACE", "2s")]).await;
    let worker = scene.terminate_busy_worker().await;
    assert_eq!(scene.exit_code(worker).await, Some(0));
    assert_eq!((scene.jobs("Pending").await, scene.jobs("Leased").await), (EVENTS as i64, 0));
    // The next worker claims the released jobs at once, before their leases would have expired.
    scene.gate.add_permits(2 * EVENTS);
    scene.fleet.restart(worker);
    scene.until_completed(EVENTS).await;
    let counted = "SELECT count(*) FROM webhook_delivery_sagas WHERE attempt_count = 1";
    assert_eq!(
        scene.direct.number(counted).await,
        EVENTS as i64,
        "a released job does not count as an attempt"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_signal_ends_a_process_at_once() {
    let _in_pairs = crate::in_pairs().await;
    let mut scene = Scene::set(&[("POSTHASTE_SHUTDOWN_GRACE", "300s")]).await;
    let worker = scene.terminate_busy_worker().await;
    scene.fleet.members[worker].process.terminate();
    assert_eq!(scene.exit_code(worker).await, Some(1));
    assert_eq!(scene.jobs("Leased").await, EVENTS as i64, "the leases remain until they expire");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_role_exits_with_0_on_sigterm() {
    let _in_pairs = crate::in_pairs().await;
    let mut scene = Scene::set(&[]).await;
    for place in 0..scene.fleet.members.len() {
        scene.terminate(place).await;
        let name = scene.fleet.members[place].process.name.clone();
        assert_eq!(scene.exit_code(place).await, Some(0), "{name}");
    }
    assert_eq!(scene.fleet.complaints(), [""; 0]);
}
