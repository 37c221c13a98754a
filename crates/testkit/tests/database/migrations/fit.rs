//! Tests that a database whose schema does not match the program is refused, with a message that explains what to do.

use posthaste_core::ports::{StoreError, StoreResult};
use posthaste_store::migration::Migration;
use posthaste_store::postgres::{self, PostgresOptions, PostgresStore};
use posthaste_store::sqlite::{self, SqliteOptions, SqliteStore};
use posthaste_testkit::direct::Direct;
use posthaste_testkit::postgres::{empty_database, migrated_database, shared_roles};

const CHANGED: &[Migration] = &[Migration { version: 1, name: "foundation", sql: "SELECT 1;" }];

/// A change to the list of applied migrations, with the texts that the errors must contain: from the migrator (empty if
/// it succeeds) and from opening the store.
struct Misfit {
    sql: &'static str,
    migrating: &'static [&'static str],
    serving: &'static [&'static str],
}

const MISFITS: &[Misfit] = &[
    Misfit {
        sql: "UPDATE schema_migrations SET checksum = 'feed' WHERE version = 1",
        migrating: &["migration 1 (foundation) was changed", "checksum feed"],
        serving: &["migration 1 (foundation) was changed", "checksum feed"],
    },
    Misfit {
        sql: "INSERT INTO schema_migrations (version, name, checksum, started_at, finished_at)
            SELECT 999, 'later', 'feed', started_at, finished_at FROM schema_migrations WHERE version = 1",
        migrating: &["migration 999", "newer"],
        serving: &["migration 999", "newer"],
    },
    Misfit {
        sql: "DELETE FROM schema_migrations",
        migrating: &["already exists"],
        serving: &["is at migration 0", "run `posthaste migrate` first"],
    },
    Misfit {
        sql: "UPDATE schema_migrations SET finished_at = NULL",
        migrating: &["already exists"],
        serving: &["is at migration 0", "run `posthaste migrate` first"],
    },
];

fn check<T>(outcome: StoreResult<T>, messages: &[&str], what: &str) {
    match outcome {
        Err(StoreError::Unusable { what: text }) => {
            for part in messages {
                assert!(text.contains(part), "{what}: {text:?} does not say {part:?}");
            }
        }
        Err(error) => panic!("{what}: {error:?}"),
        Ok(_) => panic!("{what}: not refused"),
    }
}

#[tokio::test]
async fn sqlite_refuses_a_mismatched_schema() {
    for Misfit { sql, migrating, serving } in MISFITS {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("posthaste.db");
        sqlite::migrate(&path).expect("the migration");
        check(
            sqlite::migrate_with(&path, CHANGED),
            &["migration 1 (foundation) was changed"],
            "a changed file",
        );
        assert_eq!(sqlite::migrate(&path).expect("nothing to do").len(), 0);
        Direct::sqlite(&path).run(sql).await;
        check(sqlite::migrate(&path), migrating, sql);
        check(SqliteStore::open(&SqliteOptions::new(&path)), serving, sql);
        let named = [path.to_str().expect("a UTF-8 path")];
        check(SqliteStore::open(&SqliteOptions::new(&path)), &named, "the file is named");
    }
}

#[tokio::test]
async fn postgres_refuses_a_mismatched_schema() {
    for Misfit { sql, migrating, serving } in MISFITS {
        let url = migrated_database("fit").await;
        check(
            postgres::migrate_with(&url, &shared_roles(), CHANGED).await,
            &["migration 1 (foundation) was changed"],
            "a changed file",
        );
        assert_eq!(
            postgres::migrate(&url, &shared_roles()).await.expect("nothing to do").applied,
            [0_u32; 0]
        );
        Direct::postgres(&url).await.run(sql).await;
        check(postgres::migrate(&url, &shared_roles()).await, migrating, sql);
        check(PostgresStore::connect(&PostgresOptions::new(&url)).await, serving, sql);
    }
}

#[tokio::test]
async fn an_unmigrated_database_is_refused() {
    let messages = &["run `posthaste migrate` first"];
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("posthaste.db");
    check(SqliteStore::open(&SqliteOptions::new(&path)), messages, "a file that is not there");
    assert!(!path.exists(), "opening a store created the file");
    std::fs::write(&path, "").expect("an empty file");
    check(SqliteStore::open(&SqliteOptions::new(&path)), messages, "an empty file");
    let url = empty_database("fit").await;
    check(PostgresStore::connect(&PostgresOptions::new(&url)).await, messages, "an empty database");
}
