//! Tests that the statements of this version work on tables with additional columns, as a newer version creates them:
//! each returns the same columns, and needs no rights on the new ones.

use posthaste_store::{columns, sqlite};
use posthaste_testkit::direct::{Direct, sqlite_connection};
use posthaste_testkit::postgres::{client, migrated_database};
use std::collections::BTreeMap;
use std::path::Path;
use tokio_postgres::Client;

/// Returns all statements of an engine by their name, `<folder>/<verb>`, except those of the migrator.
fn statements(engine: &str) -> BTreeMap<String, String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../store/src").join(engine).join("sql");
    let mut statements = BTreeMap::new();
    for role in std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()) {
        if !role.is_dir() || role.ends_with("migrate") {
            continue;
        }
        for path in std::fs::read_dir(&role).unwrap().map(|entry| entry.unwrap().path()) {
            let name = path.strip_prefix(&folder).unwrap().with_extension("").display().to_string();
            statements.insert(name, columns::expand(&std::fs::read_to_string(&path).unwrap()));
        }
    }
    assert!(statements.len() > 50, "{}", statements.len());
    statements
}

/// Returns the database role that runs the statements in a folder.
fn role(folder: &str) -> &'static str {
    match folder {
        "cleaner" => "lease_cleaner",
        "dead_letter" => "dead_letter_operator",
        "ingest" => "event_ingest_writer",
        "key" => "key_keeper",
        "orchestrator" => "saga_orchestrator",
        "outbox_intake" => "outbox_writer",
        "outbox_worker" => "outbox_worker",
        "router" => "router_worker",
        "subscriptions" => "subscription_admin",
        "worker" => "job_worker",
        // Every role runs the first two.
        "announce" | "presence" | "insight" | "reader" => "viewer",
        other => panic!("which role runs the statements in {other}?"),
    }
}

/// Returns the result columns of each statement. The plan is created with the rights of its role.
async fn postgres_columns(client: &Client) -> BTreeMap<String, Vec<String>> {
    let mut found = BTreeMap::new();
    for (name, sql) in statements("postgres") {
        let (folder, _) = name.split_once('/').unwrap();
        client.batch_execute(&format!("SET ROLE {}", role(folder))).await.unwrap();
        let statement = client.prepare(&sql).await.unwrap_or_else(|error| panic!("{name}: {error:?}"));
        let nulls = vec!["NULL"; statement.params().len()].join(", ");
        let call = if nulls.is_empty() { "p".to_owned() } else { format!("p({nulls})") };
        let plan = format!("PREPARE p AS {sql};\nEXPLAIN EXECUTE {call}; DEALLOCATE p; RESET ROLE");
        client.batch_execute(&plan).await.unwrap_or_else(|error| panic!("{name}: {error:?}"));
        found.insert(name, statement.columns().iter().map(|column| column.name().to_owned()).collect());
    }
    found
}

#[tokio::test]
async fn postgres_statements_ignore_additional_columns() {
    let url = migrated_database("columns").await;
    let client = client(&url).await;
    let before = postgres_columns(&client).await;
    for table in Direct::postgres(&url)
        .await
        .texts("SELECT tablename FROM pg_tables WHERE schemaname = 'posthaste'")
        .await
    {
        client.batch_execute(&format!("ALTER TABLE posthaste.{table} ADD COLUMN colour text")).await.unwrap();
    }
    assert_eq!(postgres_columns(&client).await, before);
}

fn sqlite_columns(path: &Path) -> BTreeMap<String, Vec<String>> {
    let connection = sqlite_connection(path);
    rusqlite::vtab::array::load_module(&connection).unwrap();
    let prepare = |(name, sql): (String, String)| {
        let statement = connection.prepare(&sql).unwrap_or_else(|error| panic!("{name}: {error}"));
        (name, statement.column_names().map(str::to_owned).collect())
    };
    statements("sqlite").into_iter().map(prepare).collect()
}

#[tokio::test]
async fn sqlite_statements_ignore_additional_columns() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("posthaste.db");
    sqlite::migrate(&path).unwrap();
    let before = sqlite_columns(&path);
    let direct = Direct::sqlite(&path);
    let tables = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'";
    for table in direct.texts(tables).await {
        direct.run(&format!("ALTER TABLE {table} ADD COLUMN colour TEXT")).await;
    }
    assert_eq!(sqlite_columns(&path), before);
}
