//! Tests a rolling upgrade: a store of this version works while a compatible newer migration is applied, and afterwards;
//! an incompatible one is refused. A migration that cannot acquire a lock says which session holds it.

use posthaste_core::broker::BrokerOutcome;
use posthaste_core::ports::{
    EventFilter, KeyStore as _, OrderReport, OutboxIntakeStore as _, OutboxWorkerStore as _, PageRequest,
    ReaderStore as _, StoreError, Stores as _, SubscriptionFilter, WorkerStore as _,
};
use posthaste_core::retry::OrderRetryPolicy;
use posthaste_store::migration::Migration;
use posthaste_store::postgres::{self, PostgresOptions, PostgresStore};
use posthaste_store::sqlite::{self, SqliteOptions, SqliteStore};
use posthaste_testkit::direct::Direct;
use posthaste_testkit::fixtures::{T0, at, delivered, order, order_claim};
use posthaste_testkit::harness::Harness;
use posthaste_testkit::postgres::{OWNER, client, empty_database, shared_roles};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Returns the migrations of the program, followed by one with this SQL. `{known}` is the newest known version.
fn with(migrations: &[Migration], sql: &str) -> Vec<Migration> {
    let known = migrations.last().map_or(0, |last| last.version);
    let sql: &'static str = Box::leak(sql.replace("{known}", &known.to_string()).into_boxed_str());
    [migrations, &[Migration { version: known + 1, name: "next", sql }]].concat()
}

/// Returns a migration that adds a column to every table, one table per step, and builds an index.
async fn column_in_every_table(direct: &Direct) -> String {
    let tables = "SELECT tablename FROM pg_tables WHERE schemaname = 'posthaste' ORDER BY tablename";
    let mut sql = "-- posthaste: no transaction\n-- posthaste: compatible with {known}\n".to_owned();
    for table in direct.texts(tables).await {
        let alter =
            format!("ALTER TABLE posthaste.{table} ADD COLUMN IF NOT EXISTS colour text DEFAULT 'red';");
        sql.push_str(&format!("-- step\n{alter}\n"));
    }
    sql + "-- step\nDROP INDEX CONCURRENTLY IF EXISTS posthaste.idx_event_colour;\n\
           -- step\nCREATE INDEX CONCURRENTLY idx_event_colour ON posthaste.events (colour);\n"
}

type Database = Harness<PostgresStore>;

/// Delivers events until the migration is done, and a few more. Returns how many.
async fn deliver(h: &Database, done: &AtomicBool) -> usize {
    let subscription = h.subscribe("rolling").await;
    let (mut events, mut after) = (0, 0);
    while after < 5 {
        after += usize::from(done.load(Ordering::Relaxed));
        events += h.publish("rolling", 3).await.len();
        h.route_all(T0).await;
        let (jobs, token) = h.start_attempts(subscription, T0).await;
        let reports = jobs.iter().map(|job| delivered(job, token)).collect();
        h.store.worker().report_jobs(reports, T0).await.expect("reports");
        h.apply_all(T0).await;
    }
    events
}

/// Sends orders until the migration is done, and a few more. Returns how many.
async fn send_orders(h: &Database, done: &AtomicBool) -> usize {
    let worker = h.store.outbox_worker();
    let (mut sent, mut after) = (0, 0);
    while after < 5 {
        after += usize::from(done.load(Ordering::Relaxed));
        let orders = vec![order(&format!("rolling-{sent}"), 1)];
        h.store
            .outbox_intake()
            .submit_orders(orders, Duration::from_secs(3_600), T0)
            .await
            .expect("an order");
        let claim = order_claim(1);
        let token = claim.token;
        for order in worker.claim_orders(claim, at(1)).await.expect("a claim").orders {
            let outcome = BrokerOutcome::BadRequest { status: 400 };
            let report = OrderReport { id: order.id, token, probe: false, outcome };
            worker.settle_orders(vec![report], OrderRetryPolicy::ORDER, at(2)).await.expect("an outcome");
        }
        sent += 1;
    }
    sent
}

/// Reads lists until the migration is done, and a few more.
async fn read(h: &Database, done: &AtomicBool) {
    let (reader, mut after) = (h.store.reader(), 0);
    while after < 5 {
        after += usize::from(done.load(Ordering::Relaxed));
        let page = || PageRequest::first(10);
        reader.events(EventFilter::default(), page()).await.expect("events");
        reader.subscriptions(SubscriptionFilter::default(), page()).await.expect("subscriptions");
        reader.orders(None, page()).await.expect("orders");
        h.store.keys().list_keys().await.expect("keys");
        h.store.now().await.expect("the time");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_works_while_a_compatible_migration_is_applied() {
    let h = Harness::postgres("rolling").await;
    let list = with(postgres::MIGRATIONS, &column_in_every_table(&h.direct).await);
    let done = AtomicBool::new(false);
    let migrate = async {
        let report = postgres::migrate_with(h.url(), &shared_roles(), &list).await.expect("the migration");
        done.store(true, Ordering::Relaxed);
        report
    };
    let (report, events, orders, ()) =
        tokio::join!(migrate, deliver(&h, &done), send_orders(&h, &done), read(&h, &done));
    assert_eq!(report.applied, [list.last().expect("a migration").version]);
    let completed = "SELECT count(*) FROM webhook_delivery_sagas WHERE status = 'Completed'";
    assert_eq!(h.direct.number(completed).await, events as i64, "every event is delivered");
    let settled = "SELECT count(*) FROM outbox_orders WHERE status NOT IN ('queued', 'sending')";
    assert_eq!(h.direct.number(settled).await, orders as i64, "every order is settled");
    // A process of this version starts on the newer schema, but does not migrate it.
    let store = PostgresStore::connect(&PostgresOptions::new(h.url())).await.expect("a newer schema");
    store.now().await.expect("the time");
    let refused = postgres::migrate(h.url(), &shared_roles()).await.expect_err("a newer schema");
    let version = report.version;
    let expected = format!("has migration {version}, which this version of Posthaste does not know");
    assert!(refused.to_string().contains(&expected), "{refused}");
    assert!(refused.to_string().contains("run `posthaste migrate` of that version"), "{refused}");
}

#[tokio::test]
async fn an_incompatible_migration_is_refused() {
    for head in ["-- posthaste: not compatible", "-- No mark.", "-- posthaste: compatible with 9999"] {
        let url = empty_database("incompatible").await;
        let list = with(postgres::MIGRATIONS, &format!("{head}\nCREATE TABLE posthaste.more (a int);"));
        postgres::migrate_with(&url, &shared_roles(), &list).await.expect("the migration");
        let refused = PostgresStore::connect(&PostgresOptions::new(&url)).await.expect_err(head).to_string();
        let (version, known) = (list.len(), list.len() - 1);
        let expected = format!(
            "the database has migration {version}, which is newer than this version of Posthaste (schema {known}) and \
             not marked as compatible with it: run the newer version, or restore a backup from before the migration"
        );
        assert_eq!(refused, expected);
    }
}

#[tokio::test]
async fn sqlite_accepts_a_compatible_schema_only() {
    let compatible = "-- posthaste: compatible with {known}\nALTER TABLE events ADD COLUMN colour TEXT;";
    let incompatible = "-- posthaste: not compatible\nALTER TABLE events ADD COLUMN colour TEXT;";
    for (sql, fits) in [(compatible, true), (incompatible, false)] {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("posthaste.db");
        let list = with(sqlite::MIGRATIONS, sql);
        sqlite::migrate_with(&path, &list).expect("the migration");
        match SqliteStore::open(&SqliteOptions::new(&path)) {
            Ok(_) => assert!(fits, "{sql}"),
            Err(error) => assert!(!fits && error.to_string().contains("not marked as compatible"), "{error}"),
        }
        let refused = sqlite::migrate(&path).expect_err("a newer schema").to_string();
        assert!(refused.contains("run `posthaste migrate` of that version"), "{refused}");
    }
}

/// Migrates a database while a session holds a lock on `events`, and returns the error. The store can be used
/// meanwhile.
async fn blocked(sql: &str) -> (String, i32, Direct) {
    // The URL of an ordinary login, which does not see the activity of other logins.
    let url = empty_database("blocked").await;
    postgres::migrate(&url, &shared_roles()).await.expect("the migration");
    let holder = client(&format!("{url}?application_name=report")).await;
    holder.batch_execute("BEGIN; LOCK TABLE posthaste.events IN ACCESS SHARE MODE").await.expect("a lock");
    let pid = holder.query_one("SELECT pg_backend_pid()", &[]).await.expect("a pid").get(0);
    let list = with(postgres::MIGRATIONS, sql);
    let direct = Direct::postgres(&url).await;
    // Statements queue behind the migration for at most its lock timeout.
    let insert = "SET statement_timeout = '4s'; INSERT INTO events (event_type, payload) VALUES ('a', '{}')";
    let done = AtomicBool::new(false);
    let use_it = async {
        while !done.load(Ordering::Relaxed) {
            direct.run(insert).await;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let migrate = async {
        let refused = postgres::migrate_with(&url, &shared_roles(), &list).await;
        done.store(true, Ordering::Relaxed);
        refused
    };
    let (refused, ()) = tokio::join!(migrate, use_it);
    let message = match refused {
        Err(StoreError::Unusable { what }) => what,
        other => panic!("{other:?}"),
    };
    holder.batch_execute("ROLLBACK").await.expect("to let go");
    postgres::migrate_with(&url, &shared_roles(), &list).await.expect("the lock is free");
    (message, pid, direct)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_migration_that_cannot_lock_a_table_names_the_session() {
    let whole = "-- posthaste: compatible with {known}\n\
        CREATE TABLE posthaste.more (a int);\nALTER TABLE posthaste.events ADD COLUMN colour text;";
    let steps = "-- posthaste: no transaction\n-- posthaste: compatible with {known}\n\
        -- step\nCREATE TABLE IF NOT EXISTS posthaste.more (a int);\n\
        -- step\nALTER TABLE posthaste.events ADD COLUMN IF NOT EXISTS colour text;";
    let ((whole, whole_pid, direct), (steps, steps_pid, _)) = tokio::join!(blocked(whole), blocked(steps));
    for (message, pid, kept) in [
        (whole, whole_pid, "this migration changed nothing"),
        (steps, steps_pid, "its finished steps are kept"),
    ] {
        for part in [
            "(next) could not acquire a lock: the table posthaste.events is locked by pid ",
            &format!("pid {pid} (report, user {OWNER}, "),
            &format!("SELECT pg_terminate_backend(pid) FROM unnest(ARRAY[{pid}]) pid"),
            "then run `posthaste migrate` again",
            kept,
        ] {
            assert!(message.contains(part), "{message:?} does not say {part:?}");
        }
    }
    let columns = "SELECT count(*) FROM information_schema.columns WHERE column_name = 'colour'";
    assert_eq!(direct.number(columns).await, 1);
}
