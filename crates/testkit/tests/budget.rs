//! What 500 deliveries in full batches may ask of a store. Counted and not timed, so that it says the same on
//! every machine: a statement, a commit or a flush more on this way is a decision, and not an accident.
#![allow(clippy::expect_used)]

use posthaste_core::ports::Stores;
use posthaste_store::postgres::{PostgresOptions, PostgresStore};
use posthaste_store::sqlite::{self, SqliteOptions, SqliteStore};
use posthaste_testkit::counting_proxy::CountingProxy;
use posthaste_testkit::postgres;
use posthaste_testkit::private_server::{Flushing, PrivateServer};
use posthaste_testkit::stages::{Pipeline, Stage};
use std::path::Path;
use tokio_postgres::{Client, Config, NoTls};

const BATCH: u32 = 500;
/// Batches before the counting: connections are made, types are asked for, statements are prepared.
const UNCOUNTED: u32 = 4;
const COUNTED: u32 = 20;

const STATEMENTS_MAX: u64 = 16;
const COMMITS_MAX: u64 = 6;
const FLUSHES_MAX: u64 = 3;
/// Those of making the subscription, and one at the end of each segment of the log: fewer than a flush more in
/// every batch would be.
const OTHER_FLUSHES: u64 = 12;

async fn deliver<S: Stores>(pipeline: &mut Pipeline<S>, batches: u32) {
    for _ in 0..batches {
        for stage in Stage::ALL {
            pipeline.run(stage, 1).await;
        }
    }
}

#[tokio::test]
async fn statements_on_postgres() {
    let url = postgres::migrated_database("budget").await;
    let server = url.split('@').nth(1).and_then(|rest| rest.split('/').next()).expect("a server");
    let proxy = CountingProxy::start(server.parse().expect("an address")).await;
    let through = postgres::url_with(&url, None, Some(proxy.address));
    let store = PostgresStore::connect(&PostgresOptions::new(through)).await.expect("the store");
    let mut pipeline = Pipeline::new(store, BATCH).await;
    deliver(&mut pipeline, UNCOUNTED).await;
    let before = proxy.counts().statements;
    deliver(&mut pipeline, COUNTED).await;
    let statements = proxy.counts().statements - before;
    assert!(statements > 0, "nothing was counted");
    assert!(
        statements <= STATEMENTS_MAX * u64::from(COUNTED),
        "{statements} statements in {COUNTED} batches"
    );
}

/// On a server of its own, which flushes, and where nobody else commits.
#[tokio::test]
async fn commits_and_flushes_on_postgres() {
    let server = PrivateServer::start_with("budget", Flushing::On, 64);
    let mut pipeline = Pipeline::new(server.migrated_store().await, BATCH).await;
    let admin = connect(&server.url("postgres")).await;
    // What the server does by itself would count too.
    for setting in ["autovacuum = off", "wal_writer_delay = '10s'", "wal_writer_flush_after = '1GB'"] {
        admin.batch_execute(&format!("ALTER SYSTEM SET {setting}")).await.expect("a setting");
    }
    admin.batch_execute("SELECT pg_reload_conf()").await.expect("a reload");
    deliver(&mut pipeline, UNCOUNTED).await;
    let (commits, flushes) = (written(&admin).await, flushed(&admin).await);
    deliver(&mut pipeline, COUNTED).await;
    let commits = written(&admin).await - commits;
    assert!(commits > 0, "nothing was counted");
    assert!(commits <= COMMITS_MAX * u64::from(COUNTED), "{commits} commits in {COUNTED} batches");
    // Backends tell what they flushed when they leave, so some of the batches before are in it.
    drop(pipeline);
    let end = "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity
        WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'";
    admin.batch_execute(end).await.expect("the end of the others");
    let flushes = flushed(&admin).await - flushes;
    let batches = u64::from(UNCOUNTED + COUNTED);
    assert!(flushes > 0, "nothing was counted");
    assert!(flushes <= FLUSHES_MAX * batches + OTHER_FLUSHES, "{flushes} flushes in {batches} batches");
}

async fn connect(url: &str) -> Client {
    let config: Config = url.parse().expect("a URL");
    let (client, connection) = config.connect(NoTls).await.expect("a connection");
    tokio::spawn(connection);
    client
}

/// How many transactions have written something.
async fn written(admin: &Client) -> u64 {
    number(admin, "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint").await
}

/// How often the log was flushed, as far as those who did it have told.
async fn flushed(admin: &Client) -> u64 {
    let kept = "SELECT count(*) FROM pg_attribute
        WHERE attrelid = 'pg_stat_wal'::regclass AND attname = 'wal_sync'";
    let flushes = if number(admin, kept).await == 1 {
        "SELECT wal_sync FROM pg_stat_wal"
    } else {
        "SELECT sum(fsyncs)::bigint FROM pg_stat_io WHERE object = 'wal' AND backend_type = 'client backend'"
    };
    number(admin, flushes).await
}

async fn number(admin: &Client, sql: &str) -> u64 {
    let row = admin.query_one(sql, &[]).await.expect("a figure");
    u64::try_from(row.get::<_, i64>(0)).expect("not below zero")
}

#[tokio::test]
async fn commits_on_sqlite() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("posthaste.db");
    sqlite::migrate(&path).expect("the migration");
    let store = SqliteStore::open(&SqliteOptions::new(&path)).expect("the store");
    let mut pipeline = Pipeline::new(store, BATCH).await;
    deliver(&mut pipeline, 1).await;
    let before = commits_in_log(&path);
    deliver(&mut pipeline, 1).await;
    let commits = commits_in_log(&path) - before;
    assert!(commits > 0, "nothing was counted");
    assert!(commits <= COMMITS_MAX, "{commits} commits in one batch");
}

/// Counts the frames of the write-ahead log that end a transaction: those that name the size of the database. The
/// log must not have been begun anew meanwhile; two batches are far from filling it.
fn commits_in_log(database: &Path) -> u64 {
    const HEADER_BYTES: usize = 32;
    const FRAME_HEADER_BYTES: usize = 24;
    let log = std::fs::read(format!("{}-wal", database.display())).expect("the log");
    let word = |bytes: &[u8], at: usize| -> u32 {
        u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
    };
    let (page_bytes, salt) = (word(&log, 8) as usize, &log[16..24]);
    log[HEADER_BYTES..]
        .chunks_exact(FRAME_HEADER_BYTES + page_bytes)
        .take_while(|frame| &frame[8..16] == salt)
        .filter(|frame| word(frame, 4) != 0)
        .count() as u64
}
