//! Tests that need their own server: eight databases that create roles concurrently, connection pools that survive a
//! restart, dropped calls, and commits with and without a flush.

use posthaste_core::EventId;
use posthaste_core::ports::{
    CleanerStore as _, IngestStore as _, OrchestratorStore as _, ReaderStore as _, Report, ResultTake,
    RouteTake, RouterStore as _, Stores as _, WorkerStore as _,
};
use posthaste_store::grants::DbRole;
use posthaste_store::postgres::{MigrateOptions, PostgresOptions, PostgresStore, migrate};
use posthaste_testkit::fixtures::{
    POLICY, T0, at, claim, delivered, event, leases, quota, subscribe_verified, subscription,
};
use posthaste_testkit::postgres::{client, shared_roles};
use posthaste_testkit::private_server::PrivateServer;
use std::time::{Duration, Instant};

const TAKE: RouteTake = RouteTake { from: None, events_max: 100 };

#[tokio::test(flavor = "multi_thread")]
async fn eight_databases_create_the_roles_of_a_new_cluster_concurrently() {
    let server = PrivateServer::start_empty("eight");
    let admin = client(&server.admin_url("postgres")).await;
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..8 {
        admin.batch_execute(&format!("CREATE DATABASE d{number}")).await.unwrap();
    }
    for number in 0..8 {
        let url = server.admin_url(&format!("d{number}"));
        tasks.spawn(async move {
            let options = MigrateOptions { share_roles: true, ..MigrateOptions::default() };
            migrate(&url, &options).await.unwrap();
            PostgresStore::connect(&PostgresOptions::new(url)).await.unwrap();
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    let names = DbRole::ALL.map(DbRole::name).to_vec();
    let made = admin.query("SELECT FROM pg_roles WHERE rolname = ANY ($1)", &[&names]).await.unwrap();
    assert_eq!(made.len(), names.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn pools_survive_a_restart() {
    let server = PrivateServer::start("restart");
    let store = server.migrated_store().await;
    subscribe_verified(&store, subscription("a"), T0).await;
    store.ingest().insert_events(vec![vec![event("a")]], T0).await.unwrap();
    for round in 1..=3 {
        server.pg_ctl(&["stop", "-m", "fast"]);
        let away = store.router().route_events(TAKE, T0).await.expect_err("nobody is there");
        assert!(away.is_passing(), "{away:?}");
        server.pg_ctl(&["start"]);
        assert_eq!(store.router().route_events(TAKE, T0).await.unwrap().events, u32::from(round == 1));
        assert!(store.now().await.is_ok());
    }
}

/// Drops calls while their transaction is open.
#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_call_leaves_no_transaction_and_no_locks() {
    let server = PrivateServer::start("dropped");
    let store = server.migrated_store().await;
    let subscription_id = subscribe_verified(&store, subscription("a"), T0).await;
    store.ingest().insert_events(vec![vec![event("a")]], T0).await.unwrap();
    store.router().route_events(TAKE, T0).await.unwrap();
    let admin = client(&server.admin_url("postgres")).await;
    let quota = quota(subscription_id, 5);
    for _ in 0..8 {
        // The transaction has started, and its second statement is blocked.
        admin.batch_execute("BEGIN; LOCK TABLE posthaste.webhook_delivery_jobs").await.unwrap();
        let admitting = store.orchestrator();
        let call = admitting.admit_due_sagas(quota.clone(), POLICY, T0);
        assert!(tokio::time::timeout(Duration::from_millis(100), call).await.is_err());
        admin.batch_execute("COMMIT").await.unwrap();
    }
    let admitted = loop {
        // A dropped call may hold its row lock until the server detects it.
        let admitted = store.orchestrator().admit_due_sagas(quota.clone(), POLICY, T0).await;
        if !admitted.as_ref().unwrap().jobs.is_empty() {
            break admitted.unwrap();
        }
        tokio::task::yield_now().await;
    };
    assert_eq!(admitted.jobs.len(), 1);
    let open = "SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in transaction%'";
    assert_eq!(admin.query_one(open, &[]).await.unwrap().get::<_, i64>(0), 0);
}

/// Checks that only work that can be repeated after a crash is committed without waiting for the flush.
#[tokio::test(flavor = "multi_thread")]
async fn only_repeatable_work_commits_without_a_flush() {
    let server = PrivateServer::start("disk");
    // Put the WAL writer to sleep, so that only synchronous commits are flushed.
    server.restart_with("wal_writer_delay = '10s'");
    let store = server.migrated_store().await;
    let subscription_id = subscribe_verified(&store, subscription("a"), T0).await;
    let admin = client(&server.admin_url("postgres")).await;
    // Otherwise a query may prune catalog rows from the migrations, which writes to the WAL without a flush.
    admin.batch_execute("VACUUM").await.unwrap();
    let waits = async |expected: bool, what: &str| {
        let behind = "SELECT pg_current_wal_flush_lsn() < pg_current_wal_insert_lsn()";
        let is_behind: bool = admin.query_one(behind, &[]).await.unwrap().get(0);
        assert_eq!(!is_behind, expected, "{what}");
    };
    let (orchestrator, worker) = (store.orchestrator(), store.worker());
    store.ingest().insert_events(vec![vec![event("a")], vec![event("a")]], T0).await.unwrap();
    waits(true, "events").await;
    assert_eq!(store.router().route_events(TAKE, T0).await.unwrap().pairs, 2);
    waits(false, "routing").await;
    let quota = quota(subscription_id, 5);
    assert_eq!(orchestrator.admit_due_sagas(quota, POLICY, T0).await.unwrap().jobs.len(), 2);
    waits(false, "admission").await;
    let claim = claim(100);
    let jobs = worker.claim_due_jobs(claim.clone(), T0).await.unwrap();
    waits(false, "a claim").await;
    let report = delivered(&jobs[0], claim.token);
    assert_eq!(worker.report_jobs(vec![report], T0).await.unwrap(), [Report::Accepted]);
    waits(true, "a report").await;
    let take = ResultTake { from: None, results_max: 5 };
    assert_eq!(orchestrator.apply_job_results(take, POLICY, T0).await.unwrap().len(), 1);
    waits(true, "an applied result").await;
    assert_eq!(store.cleaner().reset_expired_leases(leases(5), 3, at(61)).await.unwrap().len(), 1);
    waits(true, "a reset lease").await;
}

/// Checks that a clock sample excludes the time to acquire a connection. Half of the round trip is added to the time
/// that the server returned, so the clock would otherwise be fast by half of the acquisition time.
#[tokio::test]
async fn a_clock_sample_starts_after_the_connection_is_acquired() {
    let server = PrivateServer::start("clock");
    migrate(&server.url("postgres"), &shared_roles()).await.expect("the migration");
    let options = PostgresOptions {
        roles: vec![DbRole::Viewer],
        connections_max: 1,
        ..PostgresOptions::new(server.url("postgres"))
    };
    let store = PostgresStore::connect(&options).await.expect("the store");
    let locker = client(&server.admin_url("postgres")).await;
    locker
        .batch_execute("BEGIN; LOCK TABLE posthaste.events IN ACCESS EXCLUSIVE MODE")
        .await
        .expect("a lock");
    // The only connection is blocked by the table lock.
    let reader = store.reader();
    let reading = tokio::spawn(async move { reader.event(EventId::from_store(1)).await });
    let watcher = client(&server.admin_url("postgres")).await;
    let waiting = "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
    while watcher.query(waiting, &[]).await.expect("the activity").is_empty() {}
    let mut sampling = std::pin::pin!(store.sample_clock());
    tokio::select! {
        biased;
        _ = &mut sampling => panic!("the connection is in use"),
        () = tokio::task::yield_now() => {}
    }
    let released_at = Instant::now();
    locker.batch_execute("COMMIT").await.expect("the end of the lock");
    let sample = sampling.await.expect("a sample");
    assert!(sample.asked_at >= released_at, "the wait for the connection was part of the sample");
    assert_eq!(reading.await.expect("the reader").expect("a result"), None);
}
