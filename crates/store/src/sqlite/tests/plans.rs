//! Tests that every statement uses an index: none scans or sorts a whole table, with or without statistics.

use std::path::Path;

use super::Fixture;
use crate::grants::DbRole;

/// Files whose statements may scan or sort a table, with the reason.
const EXCEPTIONS: [(&str, &str); 7] = [
    ("insight/changes_of_patterns.sql", "returns each subscription once"),
    ("insight/engine.sql", "migrations are few"),
    ("insight/explained_deliveries.sql", "sorts the sagas of one event"),
    ("insight/rollups.sql", "sums up counters by name"),
    ("insight/survey_queues.sql", "counts queues up to a limit"),
    ("key/list_keys.sql", "keys are few"),
    ("reader/deliveries_of_event.sql", "sorts the sagas of one event"),
];

/// Allowed scans: of rows that the statement itself provides, or of a bounded subquery.
const SCANNED: [&str; 9] = [
    "SCAN taken",
    "SCAN walk",
    "SCAN busy",
    "SCAN delivered",
    "SCAN (subquery-",
    // Arrays and JSON; no stored table is virtual.
    " VIRTUAL TABLE INDEX ",
    "SCAN CONSTANT ROW",
    "SCAN 32 CONSTANT ROWS",
    "-ROW VALUES CLAUSE",
];

pub(super) fn statements() -> Vec<(String, DbRole, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/sqlite/sql");
    let mut found = Vec::new();
    for folder in std::fs::read_dir(root).unwrap() {
        let folder = folder.unwrap().path();
        for file in std::fs::read_dir(&folder).unwrap() {
            let file = file.unwrap().path();
            let sql = crate::columns::expand(&std::fs::read_to_string(&file).unwrap());
            let role =
                DbRole::ALL.into_iter().find(|role| sql.starts_with(&format!("-- role: {}\n", role.name())));
            let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
            let label = format!("{}/{}", name(&folder), name(&file));
            assert!(sql.contains("\n-- index: "), "{label} says which index it uses");
            found.push((label.clone(), role.unwrap_or_else(|| panic!("{label} names its role")), sql));
        }
    }
    assert!(found.len() > 60);
    found
}

async fn check_plans(fixture: &Fixture, when: &str) {
    for (label, role, sql) in statements() {
        // The statement is prepared as its role, which proves that it stays within the rights of the role.
        let plan =
            fixture.store.probe_plan(role, &sql).await.unwrap_or_else(|error| panic!("{label}: {error:?}"));
        if EXCEPTIONS.iter().any(|(name, _)| *name == label) {
            continue;
        }
        for step in &plan {
            let scans = step.starts_with("SCAN") && !SCANNED.iter().any(|allowed| step.contains(allowed));
            assert!(!scans && !step.contains("TEMP B-TREE"), "{label}, {when}: {plan:#?}");
        }
    }
}

#[tokio::test]
async fn no_statement_scans_or_sorts_a_table() {
    let fixture = Fixture::new();
    check_plans(&fixture, "empty").await;
    let filled = fixture.store.ask(
        |queues| &queues.writer,
        None,
        |session| {
            for sql in FILL {
                session.try_text(sql)?.raw_execute()?;
            }
            Ok(())
        },
    );
    filled.await.unwrap();
    check_plans(&fixture, "filled").await;
    let analyzed = fixture.store.ask(
        |queues| &queues.writer,
        None,
        |session| Ok(session.try_text("ANALYZE")?.raw_execute()?),
    );
    analyzed.await.unwrap();
    check_plans(&fixture, "analyzed").await;
}

/// Statements that create a history in which all work is finished, so that the queues are empty in the statistics.
const FILL: [&str; 8] = [
    "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000)
     INSERT INTO events (event_type, payload, created_at) SELECT 'type.' || (i % 10), '{}', i FROM n",
    "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20)
     INSERT INTO subscriptions (event_type, callback_url, verified, secret_ref, secret, created_at, updated_at)
     SELECT 'type.' || (i % 10), 'https://example.com/', 1, randomblob(16), 's', 0, 0 FROM n",
    "INSERT INTO webhook_delivery_sagas (event_id, subscription_id, next_attempt_at, created_at, updated_at)
     SELECT id, 1 + id % 20, id, id, id FROM events",
    "INSERT INTO webhook_delivery_jobs (saga_id, lease_until, attempt_at, created_at)
     SELECT id, id, id, id FROM webhook_delivery_sagas",
    "UPDATE webhook_delivery_jobs SET status = 'Leased'",
    "UPDATE webhook_delivery_jobs SET status = 'Completed'",
    "UPDATE webhook_delivery_sagas SET status = 'InProgress'",
    "UPDATE webhook_delivery_sagas SET status = CASE WHEN id % 100 THEN 'Completed' ELSE 'DeadLettered' END",
];
