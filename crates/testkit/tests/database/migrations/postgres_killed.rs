//! Interrupts the PostgreSQL migrator at every point of two migrations of a filled database. The migrations acquire an
//! advisory lock at each point; the test holds the lock, waits until the migrator blocks on it, and ends the migrator.

use super::filled::{census, check_is_filled, check_is_migrated, fill};
use posthaste_core::ports::StoreError;
use posthaste_store::migration::Migration;
use posthaste_store::postgres::{MIGRATIONS, migrate_with};
use posthaste_testkit::direct::Direct;
use posthaste_testkit::harness::Harness;
use posthaste_testkit::postgres::{OWNER, admin_url, client, shared_roles, url_of};
use std::time::Duration;
use tokio_postgres::Client;

const PATIENCE: Duration = Duration::from_secs(30);

/// The first version after those of the program.
const FIRST: u32 = match MIGRATIONS.last() {
    Some(migration) => migration.version + 1,
    None => 1,
};
const HOST: Migration = Migration {
    version: FIRST,
    name: "subscription_host",
    sql: include_str!("steps/postgres/subscription_host.sql"),
};
const SOURCE: Migration = Migration {
    version: FIRST + 1,
    name: "event_source",
    sql: include_str!("steps/postgres/event_source.sql"),
};

fn list() -> Vec<Migration> {
    [MIGRATIONS, &[HOST, SOURCE]].concat()
}

/// The number of interruption points in each of the two files.
const POINTS: i32 = 5;

/// The way in which a migrator ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// The server terminates its connection, so that no further statement is executed.
    Terminated,
    /// The process dies, which the server detects only when it sends a response.
    Vanished,
}

/// The place at which a migrator ends.
#[derive(Debug, Clone, Copy)]
enum Place {
    /// An advisory lock in a file, identified by the two numbers of the lock.
    Point(i32, i32),
    /// A concurrent index build.
    Building,
}

// The event for which the migrator waits at a place, and how the test blocks it there.
impl Place {
    const fn wait_event(self) -> &'static str {
        match self {
            Self::Point(..) => "advisory",
            Self::Building => "virtualxid",
        }
    }

    async fn hold(self, holder: &Client) {
        let sql = match self {
            Self::Point(file, number) => format!("SELECT pg_advisory_lock({file}, {number})"),
            Self::Building => "BEGIN; LOCK TABLE posthaste.events IN ROW EXCLUSIVE MODE".to_owned(),
        };
        holder.batch_execute(&sql).await.expect("the lock");
    }

    async fn release(self, holder: &Client) {
        let sql = match self {
            Self::Point(..) => "SELECT pg_advisory_unlock_all()",
            Self::Building => "ROLLBACK",
        };
        holder.batch_execute(sql).await.expect("to let go");
    }
}

/// Copies a database, which must have no connections, and returns the URL of the copy.
async fn copy_of(url: &str, name: &str) -> String {
    let (_, original) = url.rsplit_once('/').expect("a database");
    let copy = format!("{original}_{name}");
    let sql = format!("CREATE DATABASE {copy} TEMPLATE {original} OWNER {OWNER}");
    client(&admin_url()).await.batch_execute(&sql).await.expect("a copy");
    url_of(&copy)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_migration_interrupted_anywhere_is_completed_by_the_next_start() {
    let h = Harness::postgres("killed").await;
    fill(&h).await;
    let url = h.url().to_owned();
    check_is_filled(&census(&h.direct).await);
    drop(h);
    let mut places = Vec::new();
    for file in [2, 3] {
        places.extend((1..=POINTS).map(|number| Place::Point(file, number)));
    }
    places.push(Place::Building);
    for (number, place) in places.into_iter().enumerate() {
        for end in [End::Terminated, End::Vanished] {
            let copy = copy_of(&url, &format!("{number}_{}", end as u8)).await;
            check(&copy, place, end).await;
        }
    }
}

async fn check(url: &str, place: Place, end: End) {
    let what = format!("{end:?} at {place:?}");
    let direct = Direct::postgres(url).await;
    let before = census(&direct).await;
    let changes = direct.number("SELECT count(*) FROM subscription_changes").await;
    if matches!(place, Place::Building) {
        // The lock that blocks the build would also block the previous migration.
        migrate_with(url, &shared_roles(), &list()[..=MIGRATIONS.len()]).await.expect(&what);
    }
    let holder = client(url).await;
    place.hold(&holder).await;
    let migrator = {
        let url = url.to_owned();
        tokio::spawn(async move { migrate_with(&url, &shared_roles(), &list()).await })
    };
    let pid = tokio::time::timeout(PATIENCE, waiting_migrator(&direct, place)).await.expect(&what);
    match end {
        End::Terminated => {
            direct.run(&format!("SELECT pg_terminate_backend({pid}, 30000)")).await;
            let outcome = migrator.await.expect("a result");
            assert!(matches!(outcome, Err(StoreError::Unavailable { .. })), "{what}: {outcome:?}");
            check_half_way(&direct, place, &what).await;
            assert_eq!(census(&direct).await, before, "{what}: rows were lost");
        }
        End::Vanished => migrator.abort(),
    }
    place.release(&holder).await;
    migrate_with(url, &shared_roles(), &list()).await.unwrap_or_else(|error| panic!("{what}: {error:?}"));
    assert_eq!(census(&direct).await, before, "{what}: rows were lost");
    check_is_migrated(&direct).await;
    let invalid = "SELECT count(*) FROM pg_index WHERE NOT indisvalid";
    assert_eq!(direct.number(invalid).await, 0, "{what}");
    for (index, table) in [("idx_subscription_host", "subscriptions"), ("idx_event_source", "events")] {
        let there =
            format!("SELECT count(*) FROM pg_indexes WHERE indexname = '{index}' AND tablename = '{table}'");
        assert_eq!(direct.number(&there).await, 1, "{what}: {index}");
    }
    assert_eq!(direct.texts("SELECT region FROM outbox_lane").await, ["home"], "{what}");
    let filled = direct.number("SELECT count(*) FROM subscriptions WHERE deleted_at IS NULL").await;
    let noted = direct.number("SELECT count(*) FROM subscription_changes").await;
    assert_eq!(noted, changes + filled, "{what}: the backfill was committed once");
}

/// Polls until the migrator blocks at this place, and returns its process id.
async fn waiting_migrator(direct: &Direct, place: Place) -> String {
    let sql = format!(
        "SELECT pid FROM pg_stat_activity WHERE datname = current_database()
            AND application_name = 'posthaste migrate' AND wait_event = '{}'",
        place.wait_event()
    );
    loop {
        if let Some(pid) = direct.texts(&sql).await.pop() {
            return pid;
        }
    }
}

/// Checks the state of a database whose migrator was interrupted.
async fn check_half_way(direct: &Direct, place: Place, what: &str) {
    let rows = direct
        .texts("SELECT version || ' ' || (finished_at IS NOT NULL) FROM schema_migrations ORDER BY version");
    let ours = MIGRATIONS.iter().map(|migration| format!("{} true", migration.version));
    let ours: Vec<String> = ours.collect();
    let begun = [ours.clone(), vec![format!("{FIRST} true"), format!("{} false", FIRST + 1)]].concat();
    let columns = "SELECT count(*) FROM information_schema.columns WHERE table_schema = 'posthaste' AND column_name = 'host'";
    match place {
        Place::Point(2, _) => {
            assert_eq!(rows.await, ours, "{what}");
            assert_eq!(direct.number(columns).await, 0, "{what}: a partial transaction is visible");
        }
        Place::Point(..) => assert_eq!(rows.await, begun, "{what}"),
        Place::Building => {
            assert_eq!(rows.await, begun, "{what}");
            let broken = "SELECT count(*) FROM pg_index WHERE indexrelid = 'idx_event_source'::regclass AND NOT indisvalid";
            assert_eq!(direct.number(broken).await, 1, "{what}: the index build was not interrupted");
        }
    }
}
