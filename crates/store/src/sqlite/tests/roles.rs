//! Tests that each role runs only its own statements, and that no statement can bypass the authorizer. The matrix of
//! rights is tested together with PostgreSQL; [`plans`](super::plans) tests that every statement stays within the
//! rights of its role.

use super::Fixture;
use super::plans::statements;
use crate::grants::{DbRole, SQLITE_VIEWS};
use crate::sqlite::conn::error::Fault;

#[tokio::test]
async fn role_runs_only_its_own_statements() {
    let fixture = Fixture::new();
    const OF_THE_WORKER: &str = "-- role: job_worker\nSELECT id FROM events";
    for (role, own) in [(DbRole::JobWorker, true), (DbRole::Viewer, false), (DbRole::JobWorker, true)] {
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
async fn rights_are_checked_again_after_a_schema_change() {
    let fixture = Fixture::new();
    const COUNT: &str = "-- role: viewer\nSELECT count(*) FROM events";
    let count = || {
        let counted = fixture.store.read(DbRole::Viewer, "counting", |session| {
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

/// The authorizer identifies triggers and views by the name that SQLite passes, and SQLite passes the names of common
/// table expressions in the same way.
#[tokio::test]
async fn no_statement_is_mistaken_for_a_trigger_or_view() {
    let fixture = Fixture::new();
    let names = fixture.store.ask(
        |queues| &queues.readers,
        None,
        |session| {
            let sql = "SELECT name FROM sqlite_schema WHERE type IN ('trigger', 'view')";
            let mut list = session.try_text(sql)?;
            Ok(list.query_map([], |row| row.get(0))?.collect::<Result<Vec<String>, _>>()?)
        },
    );
    let names = names.await.unwrap();
    for (view, _) in SQLITE_VIEWS {
        assert!(names.iter().any(|name| name == view), "{view} is not a view of the schema");
    }
    for (label, _, sql) in statements() {
        let words: Vec<_> =
            sql.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|w| !w.is_empty()).collect();
        for (before, word) in
            words.iter().zip(&words[1..]).filter(|(_, word)| names.iter().any(|name| name == *word))
        {
            let is_view = SQLITE_VIEWS.iter().any(|(view, _)| view == word);
            assert!(is_view && ["INTO", "FROM"].contains(before), "{label}: {before} {word}");
        }
    }
}
