//! Examines every PostgreSQL statement with three kinds of statistics (misleading, none, fresh) and both kinds of
//! plans (custom and generic), first with the history, then with a backlog.

use crate::LARGE;
use crate::plan::{Bounds, faults, top};
use crate::postgres_samples::{Sample, sample};
use crate::statements::{self, SqlFile};
use posthaste_testkit::postgres;
use tokio_postgres::{Client, SimpleQueryMessage};

/// The statement timeout in milliseconds, so that a bad plan fails instead of running for a long time.
const TIMEOUT_MS: u32 = 5_000;

/// The database states to test, in order, each with the SQL that creates it.
const STATES: [(&str, &str); 6] = [
    ("misleading statistics: every row waits", include_str!("fill_postgres.sql")),
    ("no statistics", NO_STATISTICS),
    ("fresh statistics", "ANALYZE"),
    ("a backlog that the statistics do not know", include_str!("backlog_postgres.sql")),
    ("a backlog and no statistics", NO_STATISTICS),
    ("a backlog and fresh statistics", "ANALYZE"),
];

const NO_STATISTICS: &str = "
    DELETE FROM pg_statistic WHERE starelid IN
        (SELECT oid FROM pg_class WHERE relnamespace = 'posthaste'::regnamespace);
    UPDATE pg_class SET reltuples = -1, relpages = 0 WHERE relnamespace = 'posthaste'::regnamespace;";

#[tokio::test]
async fn no_statement_reads_history() {
    let url = postgres::migrated_database("history").await;
    let client = postgres::client(&postgres::as_admin(&url)).await;
    let mut wrong = Vec::new();
    for (state, prepare) in STATES {
        client.batch_execute("SET statement_timeout = 0").await.expect("a setting");
        client.batch_execute(prepare).await.unwrap_or_else(|error| panic!("{state}: {}", words(&error)));
        for mode in ["force_custom_plan", "force_generic_plan"] {
            let settings = format!("SET plan_cache_mode = {mode}; SET statement_timeout = {TIMEOUT_MS}");
            client.batch_execute(&settings).await.expect("a setting");
            for file in statements::all("postgres") {
                let found = examine(&client, &file).await;
                wrong.extend(found.iter().map(|fault| format!("{} ({state}, {mode}): {fault}", file.name)));
            }
        }
    }
    assert!(wrong.is_empty(), "{} faults:\n{}", wrong.len(), wrong.join("\n"));
}

/// Runs a statement with its sample arguments, rolls it back, and returns the violations.
async fn examine(client: &Client, file: &SqlFile) -> Vec<String> {
    let prepared = client.batch_execute(&format!("PREPARE tried AS {}", file.text)).await;
    if let Err(error) = prepared {
        return vec![format!("cannot be prepared: {}", words(&error))];
    }
    let mut found = Vec::new();
    match sample(&file.name, &parameter_types(client).await) {
        Ok(sample) => {
            for arguments in &sample.arguments {
                found.extend(run(client, &sample, arguments).await);
                client.batch_execute("ROLLBACK").await.expect("to roll back");
            }
        }
        Err(unknown) => found.push(unknown),
    }
    client.batch_execute("DEALLOCATE tried").await.expect("to deallocate");
    found
}

async fn parameter_types(client: &Client) -> Vec<String> {
    let sql = "SELECT parameter_types::text[] FROM pg_prepared_statements WHERE name = 'tried'";
    client.query_one(sql, &[]).await.expect("the statement").get(0)
}

async fn run(client: &Client, sample: &Sample, arguments: &[String]) -> Vec<String> {
    client.batch_execute("BEGIN").await.expect("a transaction");
    let before = scanned(client).await;
    let arguments = if arguments.is_empty() { String::new() } else { format!("({})", arguments.join(", ")) };
    let sql = format!("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE tried {arguments}");
    let explained = match client.simple_query(&sql).await {
        Ok(answer) => read(&answer),
        Err(error) => return vec![format!("cannot be run: {}", words(&error))],
    };
    let bounds = Bounds { rows_max: sample.rows_max as f64, buffers_max: sample.buffers_max as f64 };
    let mut found = faults(top(&explained), bounds);
    // Functions and triggers are not part of a plan; their scans are counted in the table statistics.
    let after = scanned(client).await;
    for (table, (now, then)) in LARGE.iter().zip(after.into_iter().zip(before)) {
        if now > then && found.is_empty() {
            found.push(format!("a function or trigger scans {table}"));
        }
    }
    found
}

fn read(answer: &[SimpleQueryMessage]) -> serde_json::Value {
    let plan = answer
        .iter()
        .find_map(|message| if let SimpleQueryMessage::Row(row) = message { row.get(0) } else { None });
    serde_json::from_str(plan.expect("a plan")).expect("JSON")
}

/// Returns the number of sequential scans of each large table in the current transaction.
async fn scanned(client: &Client) -> Vec<i64> {
    let tables: Vec<&str> = LARGE.to_vec();
    let sql = "SELECT coalesce((SELECT seq_scan FROM pg_stat_xact_user_tables
            WHERE schemaname = 'posthaste' AND relname = wanted.name), 0)
        FROM unnest($1::text[]) WITH ORDINALITY AS wanted (name, place) ORDER BY wanted.place";
    client.query(sql, &[&tables]).await.expect("the figures").iter().map(|row| row.get(0)).collect()
}

fn words(error: &tokio_postgres::Error) -> String {
    error.as_db_error().map_or_else(|| error.to_string(), |error| error.message().to_owned())
}
