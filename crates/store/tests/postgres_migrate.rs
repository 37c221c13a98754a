//! The migrator of PostgreSQL: two at once, a login that is no superuser, a second migration that
//! is interrupted after each of its statements, and databases that must be refused.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use posthaste_core::ports::{StoreError, Stores as _};
use posthaste_store::migration::Migration;
use posthaste_store::postgres::{MIGRATIONS, PostgresOptions, PostgresStore, migrate, migrate_with};
use std::sync::atomic::{AtomicU32, Ordering};
use tokio_postgres::{Client, Config, NoTls};

const VARIABLE: &str = "POSTHASTE_TEST_POSTGRES_URL";

fn server() -> Config {
    let url = std::env::var(VARIABLE).unwrap_or_else(|_| {
        panic!("{VARIABLE} is not set: run the tests with `scripts/with-postgres cargo test …`")
    });
    url.parse().expect("the URL of the test server")
}

async fn connect(config: &Config) -> Client {
    let (client, connection) = config.connect(NoTls).await.expect("the test server answers");
    tokio::spawn(connection);
    client
}

/// A database of its own, dropped at the end of the run with the server.
struct Database {
    name: String,
}

impl Database {
    async fn make() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let name = format!("migrate_{}_{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        connect(&server()).await.batch_execute(&format!("CREATE DATABASE {name}")).await.expect("a database");
        Self { name }
    }

    fn url_as(&self, login: &str) -> String {
        let server = server();
        let port = server.get_ports().first().copied().unwrap_or(5432);
        format!("postgres://{login}@127.0.0.1:{port}/{}", self.name)
    }

    fn url(&self) -> String {
        self.url_as(server().get_user().expect("a user"))
    }

    async fn client(&self) -> Client {
        connect(&self.url().parse().expect("our own URL")).await
    }
}

/// Those of the program, and one more.
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
async fn two_migrators_at_once_make_one_schema() {
    let database = Database::make().await;
    let url = database.url();
    let (one, two) = tokio::join!(migrate(&url), migrate(&url));
    let (one, two) = (one.unwrap(), two.unwrap());
    assert_eq!(one.applied.len() + two.applied.len(), MIGRATIONS.len(), "{one:?} {two:?}");
    assert!(migrate(&url).await.unwrap().applied.is_empty());
    let store = PostgresStore::connect(&PostgresOptions::new(url)).await.unwrap();
    assert!(store.now().await.is_ok());
}

#[tokio::test]
async fn a_login_without_superuser_migrates_and_serves() {
    let database = Database::make().await;
    let admin = database.client().await;
    let login = format!("owner_of_{}", database.name);
    admin
        .batch_execute(&format!(
            "CREATE ROLE {login} LOGIN CREATEROLE; GRANT CREATE ON DATABASE {} TO {login}",
            database.name
        ))
        .await
        .unwrap();
    let url = database.url_as(&login);
    migrate(&url).await.unwrap();
    let store = PostgresStore::connect(&PostgresOptions::new(url)).await.unwrap();
    assert!(store.now().await.is_ok());
}

#[tokio::test]
async fn what_is_missing_changed_or_newer_is_refused_with_the_way_out() {
    let database = Database::make().await;
    let options = PostgresOptions::new(database.url());
    assert!(refusal(PostgresStore::connect(&options).await).contains("run `posthaste migrate` first"));
    migrate_with(&database.url(), &with("CREATE TABLE posthaste.more (a int);")).await.unwrap();
    assert!(refusal(PostgresStore::connect(&options).await).contains("newer"));
    assert!(refusal(migrate(&database.url()).await).contains("newer"));
    let changed = migrate_with(&database.url(), &with("CREATE TABLE posthaste.other (a int);")).await;
    assert!(refusal(changed).contains("was changed after it had been applied"));
    let missing = PostgresOptions::new(database.url_as("nobody_of_that_name"));
    assert!(refusal(PostgresStore::connect(&missing).await).contains("does not let us in"));
}

#[tokio::test]
async fn a_failed_migration_leaves_nothing_and_says_which() {
    let database = Database::make().await;
    let broken = with("CREATE TABLE posthaste.more (a int);\nSELECT 1 / 0;");
    let told = format!("migration {} (next) failed", broken.last().unwrap().version);
    assert!(refusal(migrate_with(&database.url(), &broken).await).contains(&told));
    let client = database.client().await;
    let row = client.query_one("SELECT to_regclass('posthaste.more')::text", &[]).await.unwrap();
    assert_eq!(row.get::<_, Option<String>>(0), None);
    assert_eq!(migrate(&database.url()).await.unwrap().applied, Vec::<u32>::new());
}

/// Steps without a transaction, cut off after each in turn: the next run finishes, and no row is lost.
#[tokio::test]
async fn a_migration_without_a_transaction_goes_on_where_it_stopped() {
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
        let database = Database::make().await;
        migrate(&database.url()).await.unwrap();
        let client = database.client().await;
        let fill = "INSERT INTO posthaste.events (event_type, payload) \
                    SELECT 'a.b', '{}' FROM generate_series(1, 1000)";
        client.batch_execute(fill).await.unwrap();
        let whole = with(file(&STEPS));
        // As a process leaves it that dies after `cut` steps.
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
        assert!(
            refusal(PostgresStore::connect(&PostgresOptions::new(database.url())).await).contains("newer")
        );
        assert_eq!(migrate_with(&database.url(), &whole).await.unwrap().applied, [migration.version]);
        let row = client.query_one("SELECT count(*) FROM posthaste.events WHERE colour IS NULL", &[]);
        assert_eq!(row.await.unwrap().get::<_, i64>(0), 1000);
        assert!(migrate_with(&database.url(), &whole).await.unwrap().applied.is_empty());
    }
}
