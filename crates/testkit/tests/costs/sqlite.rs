//! Examines every SQLite statement before and after ANALYZE, then with a backlog. EXPLAIN QUERY PLAN must show no scan
//! of a large table and no sort. The statement is then run with a limit on the virtual machine steps per row of its
//! batch.

use crate::sqlite_samples::{arguments, list, may_sort, rows_max};
use crate::statements::{self, SqlFile};
use crate::{BATCH, LARGE};
use posthaste_testkit::direct::sqlite_connection;
use posthaste_testkit::harness::SqliteFile;
use rusqlite::config::DbConfig;
use rusqlite::types::Value;
use rusqlite::vtab::array::{Array, load_module};
use rusqlite::{Connection, StatementStatus};
use std::path::Path;
use std::rc::Rc;

/// The maximum number of virtual machine steps per row of a batch. Reading a whole table takes a million steps.
const STEPS_PER_ROW_MAX: usize = 500;

#[test]
fn no_statement_reads_history() {
    let file = SqliteFile::migrated();
    let connection = open(&file.path());
    let mut wrong = Vec::new();
    for (state, script) in
        [("a history", include_str!("fill_sqlite.sql")), ("a backlog", include_str!("backlog_sqlite.sql"))]
    {
        fill(&connection, script);
        wrong.extend(examine(&connection, state));
        connection.execute_batch("ANALYZE").expect("statistics");
        wrong.extend(examine(&connection, &format!("{state} and statistics")));
    }
    assert!(wrong.is_empty(), "{} faults:\n{}", wrong.len(), wrong.join("\n"));
}

/// Checks every statement and returns the violations.
fn examine(connection: &Connection, state: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    for file in statements::all("sqlite") {
        let found = planned(connection, &file).into_iter().chain(run(connection, &file));
        wrong.extend(found.map(|fault| format!("{} ({state}): {fault}", file.name)));
    }
    wrong
}

/// Opens a file that only this test uses, as its owner.
pub(crate) fn open(path: &Path) -> Connection {
    let connection = sqlite_connection(path);
    load_module(&connection).expect("the module");
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRIGGER_EQP, true).expect("a setting");
    connection.pragma_update(None, "synchronous", "off").expect("a setting");
    connection.pragma_update(None, "cache_size", -262_144).expect("a setting");
    connection
}

/// Runs a script without triggers and indexes, which are dropped and recreated. Dropping indexes also removes their
/// statistics.
pub(crate) fn fill(connection: &Connection, script: &str) {
    let sql =
        "SELECT type, name, sql FROM sqlite_schema WHERE type IN ('trigger', 'index') AND sql IS NOT NULL";
    let mut statement = connection.prepare(sql).expect("the schema");
    let rows =
        statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).expect("the schema");
    let parts: Vec<(String, String, String)> = rows.map(|row| row.expect("a row")).collect();
    let mut batch = String::from("BEGIN;");
    for (kind, name, _) in &parts {
        batch.push_str(&format!("DROP {kind} {name};"));
    }
    batch.push_str(script);
    for (_, _, definition) in &parts {
        batch.push_str(&format!("{definition};"));
    }
    batch.push_str("COMMIT");
    connection.execute_batch(&batch).expect("the script");
}

/// Returns the lines of EXPLAIN QUERY PLAN that scan a large table or sort.
fn planned(connection: &Connection, file: &SqlFile) -> Vec<String> {
    let mut statement = match connection.prepare(&format!("EXPLAIN QUERY PLAN {}", file.text)) {
        Ok(statement) => statement,
        Err(error) => return vec![format!("cannot be prepared: {error}")],
    };
    let mut rows = statement.raw_query();
    let mut found = Vec::new();
    while let Some(row) = rows.next().expect("the plan") {
        let step: String = row.get("detail").expect("a step");
        let scanned = step.strip_prefix("SCAN ").and_then(|rest| rest.split_ascii_whitespace().next());
        let scans = scanned.is_some_and(|alias| is_large(connection, &file.text, alias));
        let sorts = step.contains("TEMP B-TREE");
        if scans || (sorts && !may_sort(&file.name)) {
            found.push(step);
        }
    }
    found
}

/// Returns whether a name in a plan refers to a large table. The name may be an alias, including one in a trigger.
fn is_large(connection: &Connection, text: &str, alias: &str) -> bool {
    let triggers: String = connection
        .query_row(
            "SELECT group_concat(sql, ' ') FROM sqlite_schema WHERE type IN ('trigger', 'view')",
            [],
            |row| row.get(0),
        )
        .expect("the triggers");
    let words: Vec<&str> = text
        .lines()
        .filter(|line| !line.trim_start().starts_with("--"))
        .flat_map(str::split_ascii_whitespace)
        .chain(triggers.split_ascii_whitespace())
        .map(|word| word.trim_matches(|letter: char| !letter.is_alphanumeric() && letter != '_'))
        .filter(|word| !word.eq_ignore_ascii_case("as"))
        .collect();
    LARGE.contains(&alias) || words.windows(2).any(|pair| LARGE.contains(&pair[0]) && pair[1] == alias)
}

/// Runs a statement with its sample arguments, rolls it back, and returns the limits that it exceeded.
fn run(connection: &Connection, file: &SqlFile) -> Vec<String> {
    connection.execute_batch("BEGIN").expect("a transaction");
    let mut found = Vec::new();
    match count(connection, &file.text, &arguments(&file.name), |place| list(&file.name, place)) {
        Ok(counted) => {
            let steps_max = STEPS_PER_ROW_MAX * rows_max(&file.name);
            if counted.steps > steps_max {
                found.push(format!("takes {} steps, more than {steps_max}", counted.steps));
            }
        }
        Err(error) => found.push(format!("cannot be run, add a row to sqlite_samples.rs: {error}")),
    }
    connection.execute_batch("ROLLBACK").expect("to roll back");
    found
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Counted {
    pub(crate) steps: usize,
    pub(crate) rows: usize,
}

/// Runs a statement to completion and counts its rows and steps. The array parameter at a place gets the `list`
/// of this place. A parameter without an argument gets the id of a row in the history, which can also serve as a limit.
pub(crate) fn count(
    connection: &Connection,
    sql: &str,
    arguments: &[Value],
    list: impl Fn(usize) -> Vec<Value>,
) -> rusqlite::Result<Counted> {
    let mut statement = connection.prepare(sql)?;
    for place in 1..=statement.parameter_count() {
        if sql.contains(&format!("rarray(?{place})")) {
            let list: Array = Rc::new(list(place));
            statement.raw_bind_parameter(place, &list)?;
        } else {
            let argument = arguments.get(place - 1).cloned().unwrap_or(Value::Integer(BATCH as i64));
            statement.raw_bind_parameter(place, argument)?;
        }
    }
    let mut rows = statement.raw_query();
    let mut found = 0;
    while rows.next()?.is_some() {
        found += 1;
    }
    drop(rows);
    Ok(Counted {
        steps: usize::try_from(statement.get_status(StatementStatus::VmStep)).unwrap_or(usize::MAX),
        rows: found,
    })
}
