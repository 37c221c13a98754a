//! Limits the statements, round trips, commits and flushes of 500 deliveries in full batches. They are counted, not
//! timed, so the result is the same on every machine: any increase must be a deliberate decision.

use posthaste_core::ports::Stores;
use posthaste_store::postgres::{PostgresOptions, PostgresStore};
use posthaste_store::sqlite::SqliteStore;
use posthaste_testkit::harness::Harness;
use posthaste_testkit::postgres;
use posthaste_testkit::private_server::{Flushing, PrivateServer};
use posthaste_testkit::proxy::{Mode, Proxy};
use posthaste_testkit::stages::{Pipeline, Stage};
use std::collections::HashMap;
use std::path::Path;
use tokio_postgres::Client;

const BATCH: u32 = 500;
/// The number of batches before counting starts, during which connections are opened, types are looked up and
/// statements are prepared.
const UNCOUNTED: u32 = 4;
const COUNTED: u32 = 20;

/// The number of batches in a measurement and in the history before the first one. The history then grows to more than
/// ten times as many.
const GROWN_BATCHES: u32 = 6;

/// The maximum number of statements per batch, including BEGIN and COMMIT, which are sent together with the statements
/// between them.
const STATEMENTS_MAX: u64 = 18;
const ROUND_TRIPS_MAX: u64 = 11;
const COMMITS_MAX: u64 = 6;
const FLUSHES_MAX: u64 = 3;
/// The number of flushes allowed for creating the subscription and for completed WAL segments. One additional flush per
/// batch would exceed it.
const OTHER_FLUSHES: u64 = 12;

async fn deliver<S: Stores>(pipeline: &mut Pipeline<S>, batches: u32) {
    for _ in 0..batches {
        for stage in Stage::ALL {
            pipeline.run(stage, 1).await;
        }
    }
}

#[tokio::test]
async fn statements_and_round_trips_on_postgres_are_bounded() {
    let url = postgres::migrated_database("budget").await;
    let proxy = Proxy::start(postgres::server_address(&url), Mode::Count).await;
    // The proxy does not understand the negotiation of TLS.
    let through = postgres::url_with(&url, None, Some(proxy.address)) + "?sslmode=disable";
    let store = PostgresStore::connect(&PostgresOptions::new(through)).await.expect("the store");
    let mut pipeline = Pipeline::new(store, BATCH).await;
    deliver(&mut pipeline, UNCOUNTED).await;
    let before = proxy.counts();
    deliver(&mut pipeline, COUNTED).await;
    let after = proxy.counts();
    let (statements, round_trips) =
        (after.statements - before.statements, after.round_trips - before.round_trips);
    assert!(statements > 0 && round_trips > 0, "no statement was counted");
    assert!(
        statements <= STATEMENTS_MAX * u64::from(COUNTED)
            && round_trips <= ROUND_TRIPS_MAX * u64::from(COUNTED),
        "{statements} statements and {round_trips} round trips in {COUNTED} batches"
    );
}

/// Uses its own server, which flushes and has no other clients.
#[tokio::test]
async fn commits_and_flushes_on_postgres_are_bounded() {
    let server = PrivateServer::start_with("budget", Flushing::On, 64);
    let mut pipeline = Pipeline::new(server.migrated_store().await, BATCH).await;
    let admin = postgres::client(&server.admin_url("postgres")).await;
    // Background activity of the server would be counted as well.
    for setting in ["autovacuum = off", "wal_writer_delay = '10s'", "wal_writer_flush_after = '1GB'"] {
        admin.batch_execute(&format!("ALTER SYSTEM SET {setting}")).await.expect("a setting");
    }
    admin.batch_execute("SELECT pg_reload_conf()").await.expect("a reload");
    deliver(&mut pipeline, UNCOUNTED).await;
    let (commits, flushes) = (written(&admin).await, flushed(&admin).await);
    deliver(&mut pipeline, COUNTED).await;
    let commits = written(&admin).await - commits;
    assert!(commits > 0, "no commit was counted");
    assert!(commits <= COMMITS_MAX * u64::from(COUNTED), "{commits} commits in {COUNTED} batches");
    // Backends report their flushes when they exit, so those of earlier batches may be included.
    drop(pipeline);
    let end = "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity
        WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'";
    admin.batch_execute(end).await.expect("the end of the others");
    let flushes = flushed(&admin).await - flushes;
    let batches = u64::from(UNCOUNTED + COUNTED);
    assert!(flushes > 0, "no flush was counted");
    assert!(flushes <= FLUSHES_MAX * batches + OTHER_FLUSHES, "{flushes} flushes in {batches} batches");
}

/// Returns the number of write transactions so far.
async fn written(admin: &Client) -> u64 {
    number(admin, "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint").await
}

/// Returns the number of WAL flushes reported so far.
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

/// Returns the average number of pages accessed per call, by statement text.
async fn touched(admin: &Client) -> HashMap<String, f64> {
    let sql = "SELECT query, (shared_blks_hit + shared_blks_read)::float8 / calls FROM pg_stat_statements
        WHERE calls >= $1 AND query LIKE '%posthaste.%'";
    let rows = admin.query(sql, &[&i64::from(GROWN_BATCHES)]).await.expect("the pages touched");
    rows.iter().map(|row| (row.get(0), row.get(1))).collect()
}

/// Uses its own server, because `pg_stat_statements` must be loaded at startup.
#[tokio::test]
async fn on_postgres_no_statement_touches_more_pages_with_ten_times_the_history() {
    let server = PrivateServer::start_with("touched", Flushing::Off, 128);
    server.restart_with("shared_preload_libraries = 'pg_stat_statements'");
    let mut pipeline = Pipeline::new(server.migrated_store().await, BATCH).await;
    let admin = postgres::client(&server.admin_url("postgres")).await;
    admin.batch_execute("CREATE EXTENSION pg_stat_statements").await.expect("the extension");
    deliver(&mut pipeline, GROWN_BATCHES).await;
    admin.batch_execute("SELECT pg_stat_statements_reset()").await.expect("a new count");
    deliver(&mut pipeline, GROWN_BATCHES).await;
    let early = touched(&admin).await;
    deliver(&mut pipeline, GROWN_BATCHES * 11).await;
    admin.batch_execute("SELECT pg_stat_statements_reset()").await.expect("a new count");
    deliver(&mut pipeline, GROWN_BATCHES).await;
    let late = touched(&admin).await;
    // Insert, route, two for admission, claim, two for loading, report, two for results.
    assert!(early.len() >= 10, "{} statements were counted: {early:#?}", early.len());
    for (statement, before) in &early {
        let after = late.get(statement).unwrap_or_else(|| panic!("no longer used: {statement}"));
        assert!(*after <= grown_max(*before), "{before} pages became {after}: {statement}");
    }
}

#[tokio::test]
async fn on_sqlite_a_batch_writes_no_more_pages_with_ten_times_the_history() {
    let h = Harness::sqlite("budget").await;
    let (path, mut pipeline) = (h.path(), Pipeline::new(h.store.clone(), BATCH).await);
    let mut written = Vec::new();
    for before in [GROWN_BATCHES, GROWN_BATCHES * 11] {
        deliver(&mut pipeline, before).await;
        written.push(pages_written(&mut pipeline, &path).await);
    }
    let [early, late] = written[..] else { panic!("{written:?}") };
    assert!(early > 0, "no page was counted");
    assert!(late as f64 <= grown_max(early as f64), "{early} pages became {late}");
}

/// Returns the number of pages that two batches write to the WAL. If the WAL is reset meanwhile, counts the next two
/// batches.
async fn pages_written(pipeline: &mut Pipeline<SqliteStore>, database: &Path) -> u64 {
    loop {
        let before = Log::of(database);
        deliver(pipeline, 2).await;
        let after = Log::of(database);
        if after.salt == before.salt {
            return after.frames - before.frames;
        }
    }
}

/// Returns the maximum cost accepted after growth. Page splits and full pages cause small differences; a cost
/// proportional to history would grow tenfold.
fn grown_max(before: f64) -> f64 {
    before * 1.25 + 3.0
}

#[tokio::test]
async fn commits_on_sqlite_are_bounded() {
    let h = Harness::sqlite("budget").await;
    let (path, mut pipeline) = (h.path(), Pipeline::new(h.store.clone(), BATCH).await);
    deliver(&mut pipeline, 1).await;
    let before = Log::of(&path);
    deliver(&mut pipeline, 1).await;
    let after = Log::of(&path);
    assert_eq!(after.salt, before.salt, "two batches do not fill the WAL");
    let commits = after.commits - before.commits;
    assert!(commits > 0, "no commit was counted");
    assert!(commits <= COMMITS_MAX, "{commits} commits in one batch");
}

/// A summary of a write-ahead log.
struct Log {
    /// The salt in the header, which changes whenever the WAL is reset.
    salt: Vec<u8>,
    frames: u64,
    /// The number of frames that end a transaction; these contain the size of the database.
    commits: u64,
}

impl Log {
    fn of(database: &Path) -> Self {
        const HEADER_BYTES: usize = 32;
        const FRAME_HEADER_BYTES: usize = 24;
        let log = std::fs::read(format!("{}-wal", database.display())).expect("the log");
        let word = |bytes: &[u8], at: usize| -> u32 {
            u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
        };
        let (page_bytes, salt) = (word(&log, 8) as usize, log[16..24].to_vec());
        let frames = log[HEADER_BYTES..].chunks_exact(FRAME_HEADER_BYTES + page_bytes);
        let frames: Vec<_> = frames.take_while(|frame| frame[8..16] == salt).collect();
        let commits = frames.iter().filter(|frame| word(frame, 4) != 0).count();
        Self { salt, frames: frames.len() as u64, commits: commits as u64 }
    }
}
