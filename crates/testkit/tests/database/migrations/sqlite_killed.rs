//! Simulates the death of the process after every statement of two migrations of a filled SQLite database. The test
//! copies the file and its WAL, which is what a killed process leaves on disk.

use super::filled::{Census, census, check_is_filled, check_is_migrated, fill};
use posthaste_store::migration::Migration;
use posthaste_store::sqlite::{MIGRATIONS, migrate_with};
use posthaste_testkit::direct::{Direct, sqlite_connection};
use posthaste_testkit::harness::Harness;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// The first version after those of the program.
const FIRST: u32 = match MIGRATIONS.last() {
    Some(migration) => migration.version + 1,
    None => 1,
};
const HOST: Migration = Migration {
    version: FIRST,
    name: "subscription_host",
    sql: include_str!("steps/sqlite/subscription_host.sql"),
};
const SOURCE: Migration = Migration {
    version: FIRST + 1,
    name: "event_source",
    sql: include_str!("steps/sqlite/event_source.sql"),
};

fn list() -> Vec<Migration> {
    [MIGRATIONS, &[HOST, SOURCE]].concat()
}

fn log_of(path: &Path) -> PathBuf {
    path.with_extension("db-wal")
}

/// Copies the files that a process killed now would leave.
fn image_of(path: &Path) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let copy = folder.path().join("posthaste.db");
    std::fs::copy(path, &copy).expect("the file");
    if log_of(path).exists() {
        std::fs::copy(log_of(path), log_of(&copy)).expect("its log");
    }
    (folder, copy)
}

struct Filled {
    _folder: TempDir,
    path: PathBuf,
    census: Census,
    changes: i64,
}

async fn filled() -> Filled {
    let h = Harness::sqlite("killed").await;
    fill(&h).await;
    let census = census(&h.direct).await;
    check_is_filled(&census);
    let changes = h.direct.number("SELECT count(*) FROM subscription_changes").await;
    let (folder, path) = image_of(&h.path());
    Filled { _folder: folder, path, census, changes }
}

/// Returns the statements in a file, each with its semicolon.
fn statements(sql: &'static str) -> Vec<&'static str> {
    sql.split_inclusive(";\n").filter(|part| !part.trim().is_empty()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_transaction_is_rolled_back_and_repeated() {
    let filled = filled().await;
    let statements = statements(HOST.sql);
    assert_eq!(statements.len(), 4);
    for count in 0..=statements.len() {
        let (_folder, path) = image_of(&filled.path);
        let connection = sqlite_connection(&path);
        // A small cache, so that part of the work is already on disk.
        connection.pragma_update(None, "cache_size", 1).expect("a pragma");
        connection.execute_batch("BEGIN IMMEDIATE").expect("a transaction");
        for statement in &statements[..count] {
            connection.execute_batch(statement).expect(statement);
        }
        let (_image_folder, image) = image_of(&path);
        // The process dies, and its connection ends without a commit.
        drop(connection);
        for path in [path, image] {
            let what = format!("{} after {count} statements", path.display());
            let direct = Direct::sqlite(&path);
            assert_eq!(census(&direct).await, filled.census, "{what}: rows were lost");
            let host = "SELECT count(*) FROM pragma_table_info('subscriptions') WHERE name = 'host'";
            assert_eq!(direct.number(host).await, 0, "{what}: a partial transaction is visible");
            check_next_start(&path, &filled, &[FIRST, FIRST + 1], &what).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn interrupted_steps_are_completed() {
    let filled = filled().await;
    migrate_with(&filled.path, &list()[..=MIGRATIONS.len()]).expect("all but the last");
    let steps = SOURCE.steps();
    assert_eq!(steps.len(), 3);
    for count in 0..=steps.len() {
        let (_folder, path) = image_of(&filled.path);
        let connection = sqlite_connection(&path);
        let begun =
            "INSERT INTO schema_migrations (version, name, checksum, started_at) VALUES (?1, ?2, ?3, 1)";
        connection.execute(begun, (SOURCE.version, SOURCE.name, SOURCE.checksum())).expect("the row");
        for step in &steps[..count] {
            connection.execute_batch(step).expect(step);
        }
        let (_image_folder, image) = image_of(&path);
        drop(connection);
        for path in [path, image] {
            let what = format!("{} after {count} steps", path.display());
            assert_eq!(census(&Direct::sqlite(&path)).await, filled.census, "{what}: rows were lost");
            check_next_start(&path, &filled, &[FIRST + 1], &what).await;
        }
    }
}

async fn check_next_start(path: &Path, filled: &Filled, applied: &[u32], what: &str) {
    assert_eq!(
        migrate_with(path, &list()).unwrap_or_else(|error| panic!("{what}: {error:?}")),
        applied,
        "{what}"
    );
    let direct = Direct::sqlite(path);
    assert_eq!(census(&direct).await, filled.census, "{what}: rows were lost");
    check_is_migrated(&direct).await;
    let indexes = "SELECT name FROM sqlite_schema WHERE name IN ('idx_subscription_host', 'idx_event_source') ORDER BY name";
    assert_eq!(direct.texts(indexes).await, ["idx_event_source", "idx_subscription_host"], "{what}");
    let events = i64::try_from(filled.census["events"].len()).expect("a count");
    assert_eq!(
        direct.number("SELECT events FROM event_sources WHERE source = 'api'").await,
        events,
        "{what}"
    );
    let kept = direct.number("SELECT count(*) FROM subscriptions WHERE deleted_at IS NULL").await;
    let noted = direct.number("SELECT count(*) FROM subscription_changes").await;
    assert_eq!(noted, filled.changes + kept, "{what}: the backfill was committed once");
    assert_eq!(direct.texts("PRAGMA integrity_check").await, ["ok"], "{what}");
}
