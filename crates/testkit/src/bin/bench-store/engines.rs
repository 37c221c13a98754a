//! Runs the same stages on both engines: creates a database for each, runs the rounds, reads the CPU meters,
//! and counts statements, round trips, commits and flushes.

use crate::Engine;
use crate::meter::{Meter, SQLITE_READER, SQLITE_WRITER};
use crate::report::{Cost, Counted, Figures, Round};
use posthaste_store::postgres::{PostgresOptions, PostgresStore};
use posthaste_store::sqlite::{self, SqliteOptions, SqliteStore};
use posthaste_testkit::postgres;
use posthaste_testkit::proxy::{Mode, Proxy};
use posthaste_testkit::stages::{Pipeline, Stage};
use std::time::Instant;
use tempfile::TempDir;
use tokio_postgres::Client;

/// Returns the number of deliveries per round: enough batches for a stable figure, but no more rows than
/// necessary.
const fn round_rows(batch: u32) -> u32 {
    let rows = batch * 32;
    if rows < 100 {
        100
    } else if rows > 4_000 {
        if batch > 4_000 { batch } else { 4_000 }
    } else {
        rows
    }
}

/// Returns the number of batches that a stage processes before the next stage starts. The CPU time of a process
/// is exact only while the process is idle; the error is negligible for a large batch, but not for a single row.
const fn block_batches(batch: u32) -> u32 {
    let batches = 160 / batch;
    if batches == 0 {
        1
    } else if batches > 50 {
        50
    } else {
        batches
    }
}

const COUNTED_BATCHES: u32 = 10;
/// The number of batches before counting starts. PostgreSQL replans the statements of a new connection during
/// their first executions.
const UNCOUNTED_BATCHES: u32 = 20;

#[derive(Debug)]
enum Store {
    Postgres(Box<Server>),
    Sqlite(Box<File>),
}

#[derive(Debug)]
struct Server {
    pipeline: Pipeline<PostgresStore>,
    admin: Client,
    owner: Client,
    database: String,
}

#[derive(Debug)]
struct File {
    pipeline: Pipeline<SqliteStore>,
    folder: TempDir,
}

#[derive(Debug)]
pub(crate) struct Bench {
    pub(crate) engine: Engine,
    pub(crate) batch: u32,
    store: Store,
    rounds: Vec<Round>,
}

impl Bench {
    pub(crate) async fn postgres(batch: u32) -> Self {
        let url = postgres::migrated_database(&format!("bench_{batch}")).await;
        let owner = postgres::client(&url).await;
        forbid_autovacuum(&owner).await;
        let store = PostgresStore::connect(&PostgresOptions::new(&url)).await.expect("the store");
        let pipeline = Pipeline::new(store, batch).await;
        let database = url.rsplit('/').next().expect("a database").to_owned();
        let admin = postgres::client(&postgres::admin_url()).await;
        let store = Store::Postgres(Box::new(Server { pipeline, admin, owner, database }));
        Self::warm(Self { engine: Engine::Postgres, batch, store, rounds: Vec::new() }).await
    }

    pub(crate) async fn sqlite(batch: u32) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("posthaste.db");
        sqlite::migrate(&path).expect("the migration");
        let store = SqliteStore::open(&SqliteOptions::new(&path)).expect("the store");
        let pipeline = Pipeline::new(store, batch).await;
        let store = Store::Sqlite(Box::new(File { pipeline, folder }));
        Self::warm(Self { engine: Engine::Sqlite, batch, store, rounds: Vec::new() }).await
    }

    /// Runs one round that is not measured, to fill connection pools, statement caches and the page cache.
    async fn warm(mut self) -> Self {
        self.round().await;
        self.rounds.clear();
        self
    }

    pub(crate) async fn round(&mut self) {
        let round = match &mut self.store {
            Store::Postgres(server) => {
                server.owner.batch_execute("VACUUM").await.expect("a vacuum");
                let meter = Meter::backends(&server.admin, &server.database).await;
                let background = Meter::background(&server.admin).await;
                let (log_before, background_before) = (log_bytes(&server.admin).await, background.cpu_ns());
                let mut round = run_round(&mut server.pipeline, self.batch, &meter).await;
                round.background_ns = Some(background.cpu_ns() - background_before);
                round.log_bytes = Some(log_bytes(&server.admin).await - log_before);
                round
            }
            Store::Sqlite(file) => {
                let meter = Meter::threads(Some(&[SQLITE_WRITER, SQLITE_READER]));
                let writer = Meter::threads(Some(&[SQLITE_WRITER]));
                let writer_before = writer.cpu_ns();
                let mut round = run_round(&mut file.pipeline, self.batch, &meter).await;
                round.writer_ns = Some(writer.cpu_ns() - writer_before);
                round
            }
        };
        self.rounds.push(round);
    }

    pub(crate) async fn finish(self) -> Figures {
        let counted = match self.store {
            Store::Postgres(server) => Some(count(self.batch, &server.admin).await),
            Store::Sqlite(file) => {
                drop(file.pipeline);
                file.folder.close().expect("to remove the folder");
                None
            }
        };
        Figures { engine: self.engine.name(), batch: self.batch, rounds: self.rounds, counted }
    }
}

async fn run_round<S: posthaste_core::ports::Stores>(
    pipeline: &mut Pipeline<S>,
    batch: u32,
    meter: &Meter,
) -> Round {
    let batches = block_batches(batch);
    let blocks = (round_rows(batch) / (batch * batches)).max(1);
    let mut round = Round { deliveries: blocks * batches * batch, ..Round::default() };
    let process = Meter::threads(None);
    let process_before = process.cpu_ns();
    let mut database_ns = 0;
    for _ in 0..blocks {
        for (stage, cost) in Stage::ALL.into_iter().zip(&mut round.stages) {
            let cpu_before = meter.cpu_ns();
            let begun = Instant::now();
            pipeline.run(stage, batches).await;
            let wall = begun.elapsed();
            let cpu_ns = meter.cpu_ns() - cpu_before;
            database_ns += cpu_ns;
            *cost = Cost {
                wall_ns: cost.wall_ns + u64::try_from(wall.as_nanos()).unwrap_or(u64::MAX),
                cpu_ns: cost.cpu_ns + cpu_ns,
            };
        }
    }
    // The CPU time of an embedded store is part of this process, but that of a server is not. The report separates
    // the two.
    round.process_ns = process.cpu_ns() - process_before;
    round.database_ns = database_ns;
    round
}

/// Counts the statements, round trips, commits and flushes of a few batches on a new database.
async fn count(batch: u32, admin: &Client) -> Counted {
    let url = postgres::migrated_database(&format!("count_{batch}")).await;
    let flushes_before = flushes(admin).await;
    let proxy = Proxy::start(postgres::server_address(&url), Mode::Count).await;
    // The proxy does not understand the negotiation of TLS.
    let through = postgres::url_with(&url, None, Some(proxy.address)) + "?sslmode=disable";
    let store = PostgresStore::connect(&PostgresOptions::new(&through)).await.expect("the store");
    let mut pipeline = Pipeline::new(store, batch).await;
    for _ in 0..UNCOUNTED_BATCHES {
        for stage in Stage::ALL {
            pipeline.run(stage, 1).await;
        }
    }
    let mut counted = Counted { batches: COUNTED_BATCHES, ..Counted::default() };
    let commits_before = write_transactions(admin).await;
    for _ in 0..COUNTED_BATCHES {
        for (stage, sum) in Stage::ALL.into_iter().zip(&mut counted.stages) {
            let before = proxy.counts();
            pipeline.run(stage, 1).await;
            let after = proxy.counts();
            sum.statements += after.statements - before.statements;
            sum.round_trips += after.round_trips - before.round_trips;
        }
    }
    counted.commits = write_transactions(admin).await - commits_before;
    drop(pipeline);
    // Backends report their flushes when they exit, so this figure covers all batches.
    let database = url.rsplit('/').next().expect("a database");
    let end = "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = $1";
    admin.query(end, &[&database]).await.expect("the end");
    let all_batches = f64::from(UNCOUNTED_BATCHES + COUNTED_BATCHES);
    counted.flushes_per_batch = (flushes(admin).await - flushes_before) as f64 / all_batches;
    counted
}

async fn number(admin: &Client, sql: &str) -> u64 {
    let row = admin.query_one(sql, &[]).await.expect("a figure");
    u64::try_from(row.get::<_, i64>(0)).expect("not below zero")
}

async fn log_bytes(admin: &Client) -> u64 {
    number(admin, "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint").await
}

async fn flushes(admin: &Client) -> u64 {
    // PostgreSQL 18 moved this counter to `pg_stat_io`.
    let kept =
        "SELECT count(*) FROM pg_attribute WHERE attrelid = 'pg_stat_wal'::regclass AND attname = 'wal_sync'";
    if number(admin, kept).await == 1 {
        number(admin, "SELECT wal_sync FROM pg_stat_wal").await
    } else {
        number(admin, "SELECT sum(fsyncs)::bigint FROM pg_stat_io WHERE object = 'wal'").await
    }
}

/// Returns the number of write transactions so far.
async fn write_transactions(admin: &Client) -> u64 {
    number(admin, "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint").await
}

/// Disables autovacuum, because a vacuum during a round would distort its figures.
async fn forbid_autovacuum(owner: &Client) {
    let sql = "SELECT format('ALTER TABLE %s SET (autovacuum_enabled = false)', oid::regclass)
        FROM pg_class WHERE relnamespace = 'posthaste'::regnamespace AND relkind = 'r'";
    for row in owner.query(sql, &[]).await.expect("the tables") {
        owner.batch_execute(row.get(0)).await.expect("a setting");
    }
}

/// Runs a checkpoint. The first change to a page after a checkpoint writes the whole page to the WAL; a single
/// checkpoint before the first round makes this cost the same for all variants.
pub(crate) async fn checkpoint() {
    postgres::client(&postgres::admin_url()).await.batch_execute("CHECKPOINT").await.expect("a checkpoint");
}
