//! Tests the matrix on SQLite: every role uses the writer connection, where the authorizer checks each statement when
//! it is prepared.

use super::matrix::{POSTGRES_ONLY, ROLES, expected};
use posthaste_core::ports::StoreError;
use posthaste_store::grants::DbRole;
use posthaste_store::sqlite::SqliteStore;
use posthaste_testkit::harness::Harness;

fn role_named(name: &str) -> DbRole {
    DbRole::ALL.into_iter().find(|role| role.name() == name).unwrap_or_else(|| panic!("{name} is not a role"))
}

/// Returns whether the authorizer allowed the statement. An error from a constraint implies the right.
async fn has_right(store: &SqliteStore, role: DbRole, sql: &str) -> bool {
    match store.probe(role, sql).await {
        Ok(_) => true,
        Err(StoreError::Refused { source, .. }) => {
            let message = source.to_string();
            assert!(!message.contains("syntax error") && !message.contains("no such"), "{sql}: {message}");
            !is_denial(&message)
        }
        Err(error) => panic!("{sql}: {error:?}"),
    }
}

/// Returns whether SQLite denied a right. It reports "not authorized" or "access to table.column is prohibited". In
/// addition, no role may modify the schema table, modify a view other than through a trigger, or run VACUUM, because
/// the writer always has an open transaction.
fn is_denial(message: &str) -> bool {
    let denials = ["not authorized", "prohibited", "may not be modified", "it is a view", "cannot VACUUM"];
    denials.iter().any(|denial| message.contains(denial))
}

async fn check(store: &SqliteStore, role: &str, sql: &str, allowed: bool) {
    let verdict = if allowed { "may" } else { "may not" };
    assert_eq!(has_right(store, role_named(role), sql).await, allowed, "{role} {verdict}: {sql}");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_right_on_every_table_matches_the_matrix() {
    let h = Harness::sqlite("roles").await;
    for (place, (_, role)) in ROLES.iter().enumerate() {
        for table in expected().tables.iter().filter(|table| !POSTGRES_ONLY.contains(&table.name)) {
            let name = table.name;
            for column in table.column_names() {
                let select = format!("SELECT {column} FROM {name} WHERE 0");
                let update = format!("UPDATE {name} SET {column} = {column} WHERE 0");
                let readable = table.may(place, 'S', column);
                check(&h.store, role, &select, readable).await;
                check(&h.store, role, &update, readable && table.may(place, 'U', column)).await;
                let blind = format!("UPDATE {name} SET {column} = NULL WHERE 0");
                check(&h.store, role, &blind, table.may(place, 'U', column)).await;
                let insert = format!("INSERT INTO {name} ({column}) SELECT NULL WHERE 0");
                check(&h.store, role, &insert, table.may_any(place, 'I')).await;
                // A condition reads a column just as a select list does.
                let hidden = format!("SELECT 1 FROM {name} WHERE {column} IS NULL");
                check(&h.store, role, &hidden, readable).await;
            }
            check(&h.store, role, &format!("SELECT count(*) FROM {name}"), table.may_any(place, 'S')).await;
            check(&h.store, role, &format!("SELECT * FROM {name}"), table.may_every(place, 'S')).await;
            check(&h.store, role, &format!("DELETE FROM {name} WHERE 0"), table.may_delete(place)).await;
        }
    }
}

/// Calls the owner's functions, which are views on SQLite that are called with INSERT.
#[tokio::test(flavor = "multi_thread")]
async fn every_right_on_every_function_matches_the_matrix() {
    let h = Harness::sqlite("roles").await;
    let calls = [
        (
            "compare_events",
            "INSERT INTO compare_events (external_event_id, event_type, payload) VALUES ('x', 'a', '1')",
        ),
        ("requeue", "INSERT INTO requeue (dead_letter_id, requeued_at) VALUES (1, 1)"),
        ("requeue", "SELECT saga_id, undeliverable FROM requeue WHERE dead_letter_id = 1"),
        ("resume_lane", "INSERT INTO resume_lane (resumed_at) VALUES (1)"),
        ("resume_lane", "SELECT paused_at, rate FROM resume_lane"),
        (
            "report_presence",
            "INSERT INTO presence_reports (process_id, role, version, started_at, seen_at) VALUES ('p', 'r', 'v', 1, 1)",
        ),
        (
            "report_presence",
            "INSERT INTO rollup_reports (interval_start, counter, amount) VALUES (1, 'c', 1)",
        ),
        ("report_health", "INSERT INTO health_reports (seen_at, subscription_id, failed) VALUES (1, 1, 1)"),
    ];
    let functions = expected().functions;
    for (place, (_, role)) in ROLES.iter().enumerate() {
        for (function, call) in calls {
            check(&h.store, role, call, functions[function][place] == "X").await;
        }
    }
    for table in ["processes", "rollups", "subscription_health", "webhook_delivery_sagas"] {
        assert_eq!(h.direct.number(&format!("SELECT count(*) FROM {table}")).await, 0, "a probe left rows");
    }
}

/// Checks operations that the matrix does not cover.
#[tokio::test(flavor = "multi_thread")]
async fn returning_and_replace_need_their_rights() {
    let h = Harness::sqlite("roles").await;
    let event = "events (event_type, payload, created_at) VALUES ('a', '1', 0)";
    for (role, sql, allowed) in [
        ("event_ingest_writer", format!("INSERT INTO {event}"), true),
        ("event_ingest_writer", format!("INSERT INTO {event} RETURNING id"), true),
        ("event_ingest_writer", format!("INSERT INTO {event} RETURNING payload"), false),
        ("event_ingest_writer", format!("REPLACE INTO {event}"), true),
        ("viewer", format!("INSERT INTO {event}"), false),
        (
            "saga_orchestrator",
            "WITH mine AS (SELECT payload FROM events) SELECT * FROM mine".to_owned(),
            false,
        ),
    ] {
        check(&h.store, role, &sql, allowed).await;
    }
}

/// Statements that no role may execute, regardless of its rights on tables.
const BEYOND: &[&str] = &[
    "CREATE TABLE mine (a INTEGER)",
    "CREATE TEMP TABLE mine (a INTEGER)",
    "CREATE TEMP TABLE events (a INTEGER)",
    "CREATE VIEW mine AS SELECT 1",
    "CREATE TEMP VIEW mine AS SELECT secret FROM subscriptions",
    "CREATE INDEX mine ON events (payload)",
    "CREATE TRIGGER mine AFTER INSERT ON events BEGIN SELECT 1; END",
    "CREATE TEMP TRIGGER mine AFTER INSERT ON events BEGIN DELETE FROM routing_queue; END",
    "CREATE VIRTUAL TABLE mine USING fts5(a)",
    "ALTER TABLE events ADD COLUMN mine TEXT",
    "ALTER TABLE events RENAME TO mine",
    "ALTER TABLE subscriptions RENAME COLUMN secret TO description2",
    "ALTER TABLE events DROP COLUMN traceparent",
    "DROP TABLE events",
    "DROP INDEX uniq_saga_event_subscription",
    "DROP TRIGGER event_immutable_update",
    "DROP VIEW requeue",
    "PRAGMA recursive_triggers = OFF",
    "PRAGMA writable_schema = ON",
    "PRAGMA foreign_keys = ON",
    "PRAGMA user_version = 7",
    "PRAGMA journal_mode = DELETE",
    "PRAGMA table_info(subscriptions)",
    "SELECT * FROM pragma_table_info('subscriptions')",
    "ATTACH DATABASE ':memory:' AS mine",
    "DETACH DATABASE main",
    "COMMIT",
    "ROLLBACK",
    "SAVEPOINT mine",
    "VACUUM",
    "ANALYZE",
    "REINDEX",
    "SELECT sql FROM sqlite_schema",
    "DELETE FROM presence_reports",
    "DELETE FROM sqlite_schema",
    "UPDATE sqlite_schema SET sql = ''",
    "INSERT INTO sqlite_schema DEFAULT VALUES",
];

#[tokio::test(flavor = "multi_thread")]
async fn no_role_exceeds_its_rights() {
    let h = Harness::sqlite("roles").await;
    let schema = "SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY 1, 2";
    let before = h.direct.rows(schema).await;
    for (_, role) in ROLES {
        for sql in BEYOND {
            match h.store.probe(role_named(role), sql).await {
                Err(StoreError::Refused { source, .. }) => {
                    let message = source.to_string();
                    assert!(is_denial(&message), "{role}: {sql}: {message}");
                }
                other => panic!("{role} was not refused: {sql}\n{other:?}"),
            }
        }
    }
    assert_eq!(h.direct.rows(schema).await, before);
}
