//! Checks which rule refused a statement, and that the table is unchanged.

use posthaste_core::ports::Stores;
use posthaste_testkit::direct::Row;
use posthaste_testkit::harness::{Engine, Harness};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rule {
    /// A trigger of the schema.
    Guard,
    /// A unique key.
    Key,
    /// A constraint on the value of a column.
    Value,
}

impl Rule {
    /// Returns the possible prefixes of the error: a SQLSTATE on PostgreSQL, a message on SQLite.
    const fn signs(self, engine: Engine) -> &'static [&'static str] {
        match (engine, self) {
            (Engine::Sqlite, Self::Guard) => &["UPDATE of ", "DELETE of ", "INSERT of "],
            (Engine::Sqlite, Self::Key) => &["UNIQUE constraint failed"],
            (Engine::Sqlite, Self::Value) => &["CHECK constraint failed", "NOT NULL constraint failed"],
            (Engine::Postgres | Engine::PostgresCut, Self::Guard) => &["PH001: "],
            (Engine::Postgres | Engine::PostgresCut, Self::Key) => &["23505: "],
            // CHECK, NOT NULL, too long, not in the enum.
            (Engine::Postgres | Engine::PostgresCut, Self::Value) => {
                &["23514: ", "23502: ", "22001: ", "22P02: "]
            }
        }
    }
}

/// Returns all rows of a table, ordered by the first column.
pub(crate) async fn dump<S: Stores>(h: &Harness<S>, table: &str) -> Vec<Row> {
    h.direct.rows(&format!("SELECT * FROM {table} ORDER BY 1")).await
}

/// Runs a statement, and checks that one of `rules` refuses it and that `table` is unchanged.
pub(crate) async fn refused<S: Stores>(h: &Harness<S>, rules: &[Rule], table: &str, sql: &str) {
    let before = dump(h, table).await;
    let Err(error) = h.direct.try_rows(sql).await else { panic!("{:?} let this pass: {sql}", h.engine) };
    let known = rules.iter().flat_map(|rule| rule.signs(h.engine)).any(|sign| error.starts_with(sign));
    assert!(known, "{:?} refused {sql}\nwith {error}\ninstead of by {rules:?}", h.engine);
    assert_eq!(dump(h, table).await, before, "{:?} refused this and changed the table: {sql}", h.engine);
}
