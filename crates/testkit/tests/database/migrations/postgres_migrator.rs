//! Tests the PostgreSQL migrator: two at the same time, a migration interrupted after each of its statements, and
//! databases that must be refused.

use posthaste_core::ports::{StoreError, Stores as _};
use posthaste_store::migration::Migration;
use posthaste_store::postgres::{MIGRATIONS, PostgresOptions, PostgresStore, migrate, migrate_with};
use posthaste_testkit::postgres::{client, empty_database, shared_roles, url_with};

/// Returns the migrations of the program, followed by one with the SQL `next`.
fn with(next: &'static str) -> Vec<Migration> {
    let mut list = MIGRATIONS.to_vec();
    let version = list.last().map_or(0, |last| last.version) + 1;
    list.push(Migration { version, name: "next", sql: next });
    list
}

fn refusal<T: std::fmt::Debug>(answer: Result<T, StoreError>) -> String {
    match answer {
        Err(StoreError::Unusable { what }) => what,
        other => panic!("not refused: {other:?}"),
    }
}

#[tokio::test]
async fn concurrent_migrators_create_one_schema() {
    let url = empty_database("migrate").await;
    let options = shared_roles();
    let (one, two) = tokio::join!(migrate(&url, &options), migrate(&url, &options));
    let (one, two) = (one.unwrap(), two.unwrap());
    assert_eq!(one.applied.len() + two.applied.len(), MIGRATIONS.len(), "{one:?} {two:?}");
    assert!(migrate(&url, &shared_roles()).await.unwrap().applied.is_empty());
    let store = PostgresStore::connect(&PostgresOptions::new(url)).await.unwrap();
    assert!(store.now().await.is_ok());
}

#[tokio::test]
async fn a_missing_changed_or_newer_schema_is_refused_with_advice() {
    let url = empty_database("migrate").await;
    let options = PostgresOptions::new(&url);
    assert!(refusal(PostgresStore::connect(&options).await).contains("run `posthaste migrate` first"));
    migrate_with(&url, &shared_roles(), &with("CREATE TABLE posthaste.more (a int);")).await.unwrap();
    assert!(refusal(PostgresStore::connect(&options).await).contains("newer"));
    assert!(refusal(migrate(&url, &shared_roles()).await).contains("newer"));
    let changed = migrate_with(&url, &shared_roles(), &with("CREATE TABLE posthaste.other (a int);")).await;
    assert!(refusal(changed).contains("was changed after it had been applied"));
    let missing = PostgresOptions::new(url_with(&url, Some("nobody_of_that_name"), None));
    assert!(refusal(PostgresStore::connect(&missing).await).contains("PostgreSQL refused the login"));
}

#[tokio::test]
async fn a_failed_migration_is_rolled_back_and_named() {
    let url = empty_database("migrate").await;
    let broken = with("CREATE TABLE posthaste.more (a int);\nSELECT 1 / 0;");
    let message = format!("migration {} (next) failed", broken.last().unwrap().version);
    assert!(refusal(migrate_with(&url, &shared_roles(), &broken).await).contains(&message));
    let client = client(&url).await;
    let row = client.query_one("SELECT to_regclass('posthaste.more')::text", &[]).await.unwrap();
    assert_eq!(row.get::<_, Option<String>>(0), None);
    assert_eq!(migrate(&url, &shared_roles()).await.unwrap().applied, Vec::<u32>::new());
}

/// Interrupts a migration without a transaction after each of its steps. The next run must complete it without losing a
/// row.
#[tokio::test]
async fn a_migration_without_a_transaction_continues_where_it_stopped() {
    const STEPS: [&str; 3] = [
        "ALTER TABLE posthaste.events ADD COLUMN IF NOT EXISTS colour text;",
        "CREATE INDEX CONCURRENTLY IF NOT EXISTS idx_event_colour ON posthaste.events (colour);",
        "INSERT INTO posthaste.rollups (interval_start, counter, amount) VALUES ('2020-01-01Z', 'steps', 1) ON CONFLICT DO NOTHING;",
    ];
    let file = |steps: &[&str]| -> &'static str {
        let text = format!("-- posthaste: no transaction\n-- step\n{}\n", steps.join("\n-- step\n"));
        Box::leak(text.into_boxed_str())
    };
    for cut in 0..STEPS.len() {
        let url = empty_database("migrate").await;
        migrate(&url, &shared_roles()).await.unwrap();
        let client = client(&url).await;
        let fill = "INSERT INTO posthaste.events (event_type, payload) \
                    SELECT 'a.b', '{}' FROM generate_series(1, 1000)";
        client.batch_execute(fill).await.unwrap();
        let whole = with(file(&STEPS));
        // The state that a process leaves if it dies after `cut` steps.
        let migration = whole.last().unwrap();
        let begun = format!(
            "INSERT INTO posthaste.schema_migrations VALUES ({}, 'next', '{}', now(), NULL)",
            migration.version,
            migration.checksum()
        );
        client.batch_execute(&begun).await.unwrap();
        for step in &STEPS[..cut] {
            client.batch_execute(step).await.unwrap();
        }
        assert!(refusal(PostgresStore::connect(&PostgresOptions::new(&url)).await).contains("newer"));
        assert_eq!(migrate_with(&url, &shared_roles(), &whole).await.unwrap().applied, [migration.version]);
        let row = client.query_one("SELECT count(*) FROM posthaste.events WHERE colour IS NULL", &[]);
        assert_eq!(row.await.unwrap().get::<_, i64>(0), 1000);
        assert!(migrate_with(&url, &shared_roles(), &whole).await.unwrap().applied.is_empty());
    }
}
