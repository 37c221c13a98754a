//! Tests a database that does not respond for 1.5 s, ten times: PostgreSQL is suspended, or another process
//! holds the write lock of SQLite. Rows behind the low-water mark must still be found soon afterwards: a slow
//! query must not disable full scans.

use posthaste_core::ports::{IngestStore as _, Stores as _};
use posthaste_testkit::direct::{Direct, sqlite_connection};
use posthaste_testkit::fixtures::event;
use posthaste_testkit::fleet::{Fleet, Role, Wiring, settings};
use posthaste_testkit::harness::SqliteFile;
use posthaste_testkit::private_server::PrivateServer;
use posthaste_testkit::processes::Program;
use posthaste_testkit::receiver::{Answer, Receiver};
use posthaste_testkit::subscribers::subscribe;
use std::time::Duration;

const KIND: &str = "stalls.event";
const STALL: Duration = Duration::from_millis(1_500);
const STALLS: usize = 10;
/// The maximum wait for a result: far longer than the promised 2 s, and far shorter than the delay of a minute
/// that one stalled scan used to cause.
const PATIENCE: Duration = Duration::from_secs(20);
const ROLES: [(Role, usize); 4] =
    [(Role::Router, 1), (Role::Orchestrator, 1), (Role::Worker, 1), (Role::Cleaner, 1)];

#[tokio::test(flavor = "multi_thread")]
async fn rows_behind_the_low_water_mark_are_found_soon_after_stalls() {
    let _in_pairs = crate::in_pairs().await;
    let server = PrivateServer::start("stalls");
    let store = server.migrated_store().await;
    let (slow, gate) = Receiver::gated(200).await;
    let fast = Receiver::start(|_: &_| Answer::Status(200)).await;
    subscribe(&store, "stalls.slow", &slow.url("/"), None).await;
    subscribe(&store, KIND, &fast.url("/"), None).await;
    let settings = settings(&[("POSTHASTE_REQUEST_TIMEOUT", "120s"), ("POSTHASTE_LEASE", "300s")]);
    let _fleet = Fleet::start(&server, Wiring::Direct, &ROLES, &settings).await;
    let direct = Direct::postgres(&server.url("postgres")).await;
    let publish = async |kind: &str| {
        let now = store.now().await.unwrap();
        store.ingest().insert_events(vec![vec![event(kind)]], now).await.unwrap();
    };
    publish("stalls.slow").await;
    slow.wait_for(1).await;
    for delivered in 1..=STALLS {
        server.stall(STALL);
        publish(KIND).await;
        fast.wait_for(delivered).await;
    }
    let completed = "SELECT count(*) FROM webhook_delivery_sagas WHERE status = 'Completed'";
    direct.until("results of fast receivers were applied", completed, STALLS as i64, PATIENCE).await;
    // The job of the slow receiver is older than all jobs whose results were applied.
    gate.add_permits(1);
    direct.until("the result of the slow receiver was applied", completed, STALLS as i64 + 1, PATIENCE).await;
    // The id of this event is smaller than that of an event which is routed before this one is committed.
    let late = Direct::postgres(&server.url("postgres")).await;
    late.run("BEGIN").await;
    late.run(&format!("INSERT INTO events (event_type, payload, created_at) VALUES ('{KIND}', '1', now())"))
        .await;
    publish(KIND).await;
    fast.wait_for(STALLS + 1).await;
    late.run("COMMIT").await;
    direct
        .until("the event that was committed late was delivered", completed, STALLS as i64 + 3, PATIENCE)
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn results_of_slow_receivers_are_applied_soon_after_the_write_lock_was_held() {
    let _in_pairs = crate::in_pairs().await;
    let file = SqliteFile::migrated();
    let (slow, gate) = Receiver::gated(200).await;
    let fast = Receiver::start(|_: &_| Answer::Status(200)).await;
    {
        let store = file.open();
        subscribe(&store, "stalls.slow", &slow.url("/"), None).await;
        subscribe(&store, KIND, &fast.url("/"), None).await;
    }
    let settings = settings(&[
        ("POSTHASTE_DATABASE_URL", &file.url()),
        ("POSTHASTE_REQUEST_TIMEOUT", "120s"),
        ("POSTHASTE_LEASE", "300s"),
    ]);
    let roles = "router,orchestrator,worker,cleaner";
    let process = Program::find().serve("stalls", roles, &settings);
    assert!(process.serves(PATIENCE).await, "{:#?}", process.lines());
    let (other, direct) = (sqlite_connection(&file.path()), Direct::sqlite(&file.path()));
    let insert = |kind: &str| {
        format!("INSERT INTO events (event_type, payload, created_at) VALUES ('{kind}', '1', 0)")
    };
    other.execute_batch(&insert("stalls.slow")).expect("an event");
    slow.wait_for(1).await;
    for delivered in 1..=STALLS {
        other.execute_batch("BEGIN IMMEDIATE").expect("the write lock");
        tokio::time::sleep(STALL).await;
        other.execute_batch(&insert(KIND)).expect("an event");
        other.execute_batch("COMMIT").expect("to release the lock");
        fast.wait_for(delivered).await;
    }
    let completed = "SELECT count(*) FROM webhook_delivery_sagas WHERE status = 'Completed'";
    direct.until("results of fast receivers were applied", completed, STALLS as i64, PATIENCE).await;
    gate.add_permits(1);
    direct.until("the result of the slow receiver was applied", completed, STALLS as i64 + 1, PATIENCE).await;
}
