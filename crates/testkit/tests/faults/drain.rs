//! Processes that are asked to end: they finish what they have begun or give it back, report it, and
//! leave with 0. Who asks twice does not wait.

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
/// No more than a subscription that is not known yet gets at once.
const EVENTS: usize = 12;
const PATIENCE: Duration = Duration::from_secs(40);
/// Longer than anybody waits here: no request ends by itself.
const SLOW: [(&str, &str); 2] = [("POSTHASTE_REQUEST_TIMEOUT", "300s"), ("POSTHASTE_LEASE", "600s")];
const ROLES: [(Role, usize); 4] =
    [(Role::Router, 1), (Role::Orchestrator, 1), (Role::Worker, 1), (Role::Cleaner, 1)];

/// All roles, and a receiver that answers only when it is let.
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

    /// Asks the worker to end while all its requests are under way.
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
        let heard = process.logs(|line| line.message.starts_with("stops: "), PATIENCE).await;
        assert!(heard, "{:#?}", process.lines());
    }

    /// The exit code; nothing if it did not end.
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
async fn a_worker_finishes_and_reports_what_is_under_way() {
    let _in_pairs = crate::in_pairs().await;
    let mut scene = Scene::set(&[]).await;
    let worker = scene.terminate_busy_worker().await;
    // It takes no more work: this waits for the next worker.
    scene.publish(1).await;
    scene.gate.add_permits(EVENTS + 1);
    assert_eq!(scene.exit_code(worker).await, Some(0));
    assert_eq!((scene.jobs("Completed").await, scene.jobs("Leased").await), (EVENTS as i64, 0));
    let charted = "SELECT sum(amount) FROM rollups WHERE width_s = 10 AND counter = 'attempts_ok'";
    assert_eq!(scene.direct.number(charted).await, EVENTS as i64, "the last counts reach the charts too");
    let summed = "SELECT sum(within_5ms + within_10ms + within_20ms + within_50ms + within_100ms + within_200ms \
        + within_500ms + within_1s + within_2s + within_5s + within_10s + beyond_10s) FROM subscription_health";
    assert_eq!(scene.direct.number(summed).await, EVENTS as i64, "and to the subscription");
    scene.fleet.restart(worker);
    scene.until_completed(EVENTS + 1).await;
    assert_eq!(scene.receiver.received().len(), EVENTS + 1, "nothing was sent twice");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_end_within_the_grace_period_is_given_back() {
    let _in_pairs = crate::in_pairs().await;
    let mut scene = Scene::set(&[("POSTHASTE_SHUTDOWN_GRACE", "2s")]).await;
    let worker = scene.terminate_busy_worker().await;
    assert_eq!(scene.exit_code(worker).await, Some(0));
    assert_eq!((scene.jobs("Pending").await, scene.jobs("Leased").await), (EVENTS as i64, 0));
    // Nobody waits for a lease to run out: the next worker has them at once.
    scene.gate.add_permits(2 * EVENTS);
    scene.fleet.restart(worker);
    scene.until_completed(EVENTS).await;
    let counted = "SELECT count(*) FROM webhook_delivery_sagas WHERE attempt_count = 1";
    assert_eq!(scene.direct.number(counted).await, EVENTS as i64, "what was given back is no attempt");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_signal_ends_a_process_at_once() {
    let _in_pairs = crate::in_pairs().await;
    let mut scene = Scene::set(&[("POSTHASTE_SHUTDOWN_GRACE", "300s")]).await;
    let worker = scene.terminate_busy_worker().await;
    scene.fleet.members[worker].process.terminate();
    assert_eq!(scene.exit_code(worker).await, Some(1));
    assert_eq!(scene.jobs("Leased").await, EVENTS as i64, "the leases run out");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_role_ends_with_0_when_it_is_asked() {
    let _in_pairs = crate::in_pairs().await;
    let mut scene = Scene::set(&[]).await;
    for place in 0..scene.fleet.members.len() {
        scene.terminate(place).await;
        let name = scene.fleet.members[place].process.name.clone();
        assert_eq!(scene.exit_code(place).await, Some(0), "{name}");
    }
    assert_eq!(scene.fleet.complaints(), [""; 0]);
}
