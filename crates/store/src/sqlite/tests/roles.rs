//! The walls between the roles: what a statement may touch, and whose statements are whose.

use posthaste_core::ports::StoreError;

use super::Fixture;
use crate::grants::Role;
use crate::sqlite::authorizer::OWNER_CODE;
use crate::sqlite::error::Fault;

async fn check(fixture: &Fixture, role: Role, sql: &str, allowed: bool) {
    match fixture.store.probe(role, sql).await {
        Ok(_) => assert!(allowed, "{} may not: {sql}", role.name()),
        Err(StoreError::Refused { source, .. }) => {
            assert!(!allowed, "{} may: {sql}: {source}", role.name());
        }
        Err(other) => panic!("{sql}: {other:?}"),
    }
}

#[tokio::test]
async fn statements_are_judged_by_role_verb_table_and_column() {
    let fixture = Fixture::new();
    use Role::{DeadLetterOperator, EventIngestWriter, JobWorker, RouterWorker, SagaOrchestrator, Viewer};
    let rows = [
        (
            EventIngestWriter,
            "INSERT INTO events (event_type, payload, created_at) VALUES ('a', '1', 0)",
            true,
        ),
        (
            EventIngestWriter,
            "INSERT INTO events (event_type, payload, created_at) VALUES ('a', '1', 0) RETURNING id",
            true,
        ),
        (
            EventIngestWriter,
            "INSERT INTO events (event_type, payload, created_at) VALUES ('a', '1', 0) RETURNING payload",
            false,
        ),
        (EventIngestWriter, "INSERT INTO routing_queue VALUES (1)", false),
        (EventIngestWriter, "SELECT id FROM events", true),
        (EventIngestWriter, "SELECT payload FROM events", false),
        (EventIngestWriter, "SELECT count(*) FROM webhook_delivery_sagas", false),
        (EventIngestWriter, "UPDATE events SET created_at = 1", false),
        (EventIngestWriter, "DELETE FROM events", false),
        (
            EventIngestWriter,
            "REPLACE INTO events (id, event_type, payload, created_at) VALUES (1, 'a', '1', 0)",
            true,
        ),
        (RouterWorker, "SELECT id, event_type FROM events", true),
        (RouterWorker, "SELECT payload FROM events", false),
        (RouterWorker, "SELECT secret FROM subscriptions", false),
        (
            RouterWorker,
            "INSERT INTO webhook_delivery_sagas (event_id, subscription_id, next_attempt_at, created_at, updated_at) VALUES (1, 1, 0, 0, 0)",
            true,
        ),
        (RouterWorker, "SELECT count(*) FROM webhook_delivery_sagas", false),
        (SagaOrchestrator, "UPDATE webhook_delivery_sagas SET status = 'Completed'", true),
        (SagaOrchestrator, "UPDATE webhook_delivery_sagas SET event_id = 1", false),
        (SagaOrchestrator, "SELECT payload_snapshot FROM dead_letters", false),
        (SagaOrchestrator, "INSERT INTO dead_letters VALUES (1, 1, 1, 1, NULL, 0, '1')", false),
        (JobWorker, "UPDATE webhook_delivery_jobs SET saga_id = 1", false),
        (JobWorker, "INSERT INTO finished_jobs VALUES (1)", true),
        (JobWorker, "DELETE FROM finished_jobs", false),
        (DeadLetterOperator, "INSERT INTO requeue (dead_letter_id, requeued_at) VALUES (1, 0)", true),
        (DeadLetterOperator, "SELECT saga_id, undeliverable FROM requeue", true),
        (DeadLetterOperator, "SELECT id FROM webhook_delivery_sagas", false),
        (JobWorker, "INSERT INTO requeue (dead_letter_id, requeued_at) VALUES (1, 0)", false),
        (JobWorker, "INSERT INTO presence_reports VALUES ('p', 'r', 'v', 0, 0)", true),
        (JobWorker, "INSERT INTO rollup_reports VALUES (0, 'c', 1)", true),
        (
            JobWorker,
            "INSERT INTO health_reports VALUES (0, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, NULL, NULL)",
            true,
        ),
        (JobWorker, "DELETE FROM subscription_health", false),
        (JobWorker, "INSERT INTO processes VALUES ('p', 'r', 'v', 0, 0)", false),
        (Viewer, "SELECT key_hash FROM api_keys", false),
        (Viewer, "SELECT name FROM api_keys", true),
        (Viewer, "DELETE FROM presence_reports", false),
        (Viewer, "SELECT sql FROM sqlite_schema", false),
    ];
    for (role, sql, allowed) in rows {
        check(&fixture, role, sql, allowed).await;
    }
}

#[tokio::test]
async fn no_role_changes_the_database_itself() {
    let fixture = Fixture::new();
    for role in Role::ALL {
        for sql in [
            "CREATE TABLE t (a)",
            "CREATE TEMP TABLE t (a)",
            "CREATE TEMP TRIGGER t AFTER INSERT ON events BEGIN SELECT 1; END",
            "DROP TABLE events",
            "DROP TRIGGER event_immutable_delete",
            "ALTER TABLE events ADD COLUMN a",
            "PRAGMA writable_schema = 1",
            "PRAGMA recursive_triggers = 0",
            "ATTACH ':memory:' AS other",
            "COMMIT",
            "ROLLBACK",
            "SAVEPOINT mine",
            "VACUUM",
            "ANALYZE",
            "REINDEX",
        ] {
            check(&fixture, role, sql, false).await;
        }
    }
}

#[tokio::test]
async fn a_name_within_a_statement_passes_for_no_trigger() {
    let fixture = Fixture::new();
    let orchestrator = Role::SagaOrchestrator;
    let pose = |name: &str| format!("WITH {name} AS (SELECT payload FROM events) SELECT * FROM {name}");
    check(&fixture, orchestrator, &pose("saga_dead_letter"), false).await;
    check(&fixture, orchestrator, &pose("anything"), false).await;
    check(&fixture, Role::DeadLetterOperator, &pose("requeue"), false).await;
    check(&fixture, Role::DeadLetterOperator, &pose("requeue_insert"), false).await;
}

#[tokio::test]
async fn a_role_runs_only_statements_that_name_it() {
    let fixture = Fixture::new();
    const OF_THE_WORKER: &str = "-- role: job_worker\nSELECT id FROM events";
    for (role, own) in [(Role::JobWorker, true), (Role::Viewer, false), (Role::JobWorker, true)] {
        let ran = fixture.store.ask(
            |queues| &queues.writer,
            Some(role),
            |session| session.statement(OF_THE_WORKER).map(drop),
        );
        match ran.await {
            Ok(()) => assert!(own),
            Err(fault) => assert!(!own && matches!(fault, Fault::ForeignStatement("viewer")), "{fault:?}"),
        }
    }
}

#[tokio::test]
async fn rights_are_asked_again_when_the_schema_changes_below_a_statement() {
    let fixture = Fixture::new();
    const COUNT: &str = "-- role: viewer\nSELECT count(*) FROM events";
    let count = || {
        let counted = fixture.store.read(Role::Viewer, "counting", |session| {
            Ok(session.statement(COUNT)?.query_row([], |row| row.get::<_, i64>(0))?)
        });
        async { counted.await.unwrap() }
    };
    assert_eq!(count().await, 0);
    let altered = fixture.store.ask(
        |queues| &queues.writer,
        None,
        |session| Ok(session.try_text("CREATE TABLE other (a)")?.raw_execute()?),
    );
    altered.await.unwrap();
    assert_eq!(count().await, 0);
}

#[tokio::test]
async fn every_trigger_and_view_is_known_to_the_authorizer() {
    let fixture = Fixture::new();
    let names = fixture.store.ask(
        |queues| &queues.readers,
        None,
        |session| {
            let sql = "SELECT name FROM sqlite_schema WHERE type IN ('trigger', 'view') ORDER BY name";
            let mut list = session.try_text(sql)?;
            Ok(list.query_map([], |row| row.get(0))?.collect::<Result<Vec<String>, _>>()?)
        },
    );
    let mut known: Vec<_> = OWNER_CODE.iter().map(|code| code.name).collect();
    known.sort_unstable();
    assert_eq!(names.await.unwrap(), known);
}
