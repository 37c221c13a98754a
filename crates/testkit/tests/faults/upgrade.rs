//! Tests a rolling upgrade with processes: a newer, compatible migration is applied while events are delivered, and
//! then every process of this version is restarted on the newer schema. No event is lost, and no process complains.

use posthaste_core::ports::{IngestStore as _, Stores as _};
use posthaste_store::migration::Migration;
use posthaste_store::postgres::{MIGRATIONS, PostgresStore, migrate_with};
use posthaste_testkit::direct::Direct;
use posthaste_testkit::fixtures::event;
use posthaste_testkit::fleet::{Fleet, Role, Wiring, settings};
use posthaste_testkit::postgres::shared_roles;
use posthaste_testkit::private_server::PrivateServer;
use posthaste_testkit::processes::LogLine;
use posthaste_testkit::receiver::{Answer, Receiver};
use posthaste_testkit::subscribers::subscribe;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const KIND: &str = "upgrade.event";
const PATIENCE: Duration = Duration::from_secs(120);
const ROLES: [(Role, usize); 5] =
    [(Role::Router, 1), (Role::Orchestrator, 1), (Role::Worker, 2), (Role::Cleaner, 1), (Role::Api, 1)];
/// The message of a process that starts on a newer schema.
const NEWER: &str = "the schema is newer than this version and compatible with it";

/// Returns a migration that adds a column to every table, one table per step.
async fn next_migration(direct: &Direct) -> Migration {
    let known = MIGRATIONS.last().map_or(0, |last| last.version);
    let tables = "SELECT tablename FROM pg_tables WHERE schemaname = 'posthaste' ORDER BY tablename";
    let mut sql = format!("-- posthaste: no transaction\n-- posthaste: compatible with {known}\n");
    for table in direct.texts(tables).await {
        let alter =
            format!("ALTER TABLE posthaste.{table} ADD COLUMN IF NOT EXISTS colour text DEFAULT 'red';");
        sql.push_str(&format!("-- step\n{alter}\n"));
    }
    Migration { version: known + 1, name: "next", sql: Box::leak(sql.into_boxed_str()) }
}

/// Publishes events until `done`. Returns how many were acknowledged.
async fn publish(store: &PostgresStore, done: &AtomicBool) -> usize {
    let mut published = 0;
    while !done.load(Ordering::Relaxed) {
        let now = store.now().await.expect("the time");
        store.ingest().insert_events(vec![vec![event(KIND); 5]], now).await.expect("events");
        published += 5;
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    published
}

#[tokio::test(flavor = "multi_thread")]
async fn processes_continue_during_and_after_a_newer_migration() {
    let _in_pairs = crate::in_pairs().await;
    let server = PrivateServer::start("upgrade");
    let store = server.migrated_store().await;
    let receiver = Receiver::start(|_| Answer::Status(200)).await;
    subscribe(&store, KIND, &receiver.url("/"), None).await;
    let mut fleet = Fleet::start(&server, Wiring::Direct, &ROLES, &settings(&[])).await;
    let direct = Direct::postgres(&server.url("postgres")).await;
    let list = [MIGRATIONS, &[next_migration(&direct).await]].concat();
    let done = AtomicBool::new(false);
    let upgrade = async {
        receiver.wait_for(20).await;
        migrate_with(&server.url("postgres"), &shared_roles(), &list).await.expect("the migration");
        let seen = receiver.received().len();
        receiver.wait_for(seen + 20).await;
        // Restart the processes one by one, as after a crash in the middle of the upgrade.
        for place in 0..fleet.members.len() {
            fleet.members[place].process.terminate();
            let ended = fleet.members[place].process.end(PATIENCE).await;
            assert!(
                ended.is_some_and(|status| status.success()),
                "{:#?}",
                fleet.members[place].process.lines()
            );
            fleet.restart(place);
            let process = &fleet.members[place].process;
            assert!(process.serves(PATIENCE).await, "{:#?}", process.lines());
            let says_so = |line: &LogLine| line.level == "INFO" && line.message == NEWER;
            assert!(process.logs(says_so, PATIENCE).await, "{:#?}", process.lines());
        }
        let seen = receiver.received().len();
        receiver.wait_for(seen + 20).await;
        done.store(true, Ordering::Relaxed);
    };
    let (published, ()) = tokio::join!(publish(&store, &done), upgrade);
    let completed = "SELECT count(*) FROM webhook_delivery_sagas WHERE status = 'Completed'";
    direct.until("every event is delivered", completed, published as i64, PATIENCE).await;
    let ids: BTreeSet<String> = receiver.received().iter().map(|seen| seen.webhook_id().to_owned()).collect();
    assert_eq!(ids.len(), published, "every event arrived");
    assert_eq!(receiver.received().len(), published, "nothing was sent twice");
    assert_eq!((fleet.ended(), fleet.complaints()), (Vec::<String>::new(), Vec::<String>::new()));
}
