//! Upgrades a database with the schema and the data of version 0.1 to the schema of this version. No row is lost or
//! changed, and the deliveries continue.

use super::filled::census;
use posthaste_core::SubscriptionId;
use posthaste_core::ports::{
    OrchestratorStore as _, ResultTake, RouteTake, RouterStore as _, StoreError, Stores, WorkerStore as _,
};
use posthaste_store::postgres::{self, MigrateOptions, PostgresOptions, PostgresStore, RoleSource};
use posthaste_store::sqlite::{self, SqliteOptions, SqliteStore};
use posthaste_testkit::direct::Direct;
use posthaste_testkit::fixtures::{POLICY, T0, at, claim, delivered, quota};
use posthaste_testkit::postgres::{empty_database, shared_roles};

/// The number of migrations of version 0.1.
const RELEASED: usize = 8;

/// Returns the script with the data, for one engine.
fn data(times: [&str; 2], cast: impl Fn(&str) -> String, yes: &str) -> String {
    include_str!("previous.sql")
        .replace("{time}", times[0])
        .replace("{later}", times[1])
        .replace("{saga}", &cast("saga_status"))
        .replace("{job}", &cast("job_status"))
        .replace("{true}", yes)
}

/// The statement that removes what version 0.1 did not create.
const WITHOUT_MARKS: &str = "ALTER TABLE schema_migrations DROP COLUMN compatible_with";

fn check_is_behind(opened: Result<(), StoreError>) {
    match opened {
        Err(StoreError::Unusable { what }) => {
            assert!(
                what.contains("is at migration 8") && what.contains("run `posthaste migrate` first"),
                "{what}"
            );
        }
        Ok(()) => assert_eq!(postgres::MIGRATIONS.len(), RELEASED, "an old schema was accepted"),
        Err(error) => panic!("{error:?}"),
    }
}

async fn check_continues<S: Stores>(store: &S, direct: &Direct) {
    let sql = "SELECT count(*) FROM schema_migrations WHERE compatible_with IS NULL AND version <= 8";
    assert_eq!(direct.number(sql).await, 8);
    let routed = store.router().route_events(RouteTake { from: None, events_max: 100 }, T0).await.unwrap();
    assert_eq!(routed.events, 10);
    let subscription = SubscriptionId::new(1).unwrap();
    store.orchestrator().admit_due_sagas(quota(subscription, 100), POLICY, at(60)).await.unwrap();
    let claim = claim(100);
    let token = claim.token;
    let jobs = store.worker().claim_due_jobs(claim, at(60)).await.unwrap();
    assert_eq!(jobs.len(), 15, "ten new deliveries and five retries");
    let reports = jobs.iter().map(|job| delivered(job, token)).collect();
    store.worker().report_jobs(reports, at(61)).await.unwrap();
    let take = ResultTake { from: None, results_max: 100 };
    store.orchestrator().apply_job_results(take, POLICY, at(62)).await.unwrap();
    let completed = "SELECT count(*) FROM webhook_delivery_sagas WHERE status = 'Completed'";
    assert_eq!(direct.number(completed).await, 25);
}

#[tokio::test]
async fn postgres_data_of_version_0_1_is_upgraded() {
    let url = empty_database("previous").await;
    // The grants of this version need columns that the previous schema does not have.
    let without_grants = MigrateOptions { roles: RoleSource::None, ..MigrateOptions::default() };
    postgres::migrate_with(&url, &without_grants, &postgres::MIGRATIONS[..RELEASED]).await.unwrap();
    let direct = Direct::postgres(&url).await;
    direct.run(WITHOUT_MARKS).await;
    let cast = |kind: &str| format!("::posthaste.{kind}");
    let times = ["timestamptz '2027-01-15 08:00:00Z'", "timestamptz '2027-01-15 08:00:30Z'"];
    direct.force(&data(times, cast, "true")).await;
    direct.run("UPDATE clock_guard SET enforced = false").await;
    let before = census(&direct).await;
    check_is_behind(PostgresStore::connect(&PostgresOptions::new(&url)).await.map(drop));
    let applied = postgres::migrate(&url, &shared_roles()).await.unwrap().applied;
    assert_eq!(applied.len(), postgres::MIGRATIONS.len() - RELEASED);
    assert_eq!(census(&direct).await, before);
    let store = PostgresStore::connect(&PostgresOptions::new(&url)).await.unwrap();
    check_continues(&store, &direct).await;
}

#[tokio::test]
async fn sqlite_data_of_version_0_1_is_upgraded() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("posthaste.db");
    sqlite::migrate_with(&path, &sqlite::MIGRATIONS[..RELEASED]).unwrap();
    let direct = Direct::sqlite(&path);
    direct.run(WITHOUT_MARKS).await;
    let times = ["1800000000000000", "1800000030000000"];
    direct.force(&data(times, |_| String::new(), "1")).await;
    let before = census(&direct).await;
    check_is_behind(SqliteStore::open(&SqliteOptions::new(&path)).map(drop));
    let applied = sqlite::migrate(&path).unwrap();
    assert_eq!(applied.len(), sqlite::MIGRATIONS.len() - RELEASED);
    assert_eq!(census(&direct).await, before);
    let store = SqliteStore::open(&SqliteOptions::new(&path)).unwrap();
    check_continues(&store, &direct).await;
}
