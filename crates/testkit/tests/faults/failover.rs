//! Tests the failure of a primary with one standby, and a primary that becomes read-only. `make failover` tests a
//! cluster of three servers.

use posthaste_core::ports::{IngestStore as _, StoreError, Stores as _};
use posthaste_store::postgres::{PostgresOptions, PostgresStore, migrate};
use posthaste_testkit::direct::Direct;
use posthaste_testkit::faults::failover;
use posthaste_testkit::faults::failover::standby::StandbyPair;
use posthaste_testkit::fixtures::event;
use posthaste_testkit::postgres::shared_roles;
use posthaste_testkit::private_server::PrivateServer;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread")]
async fn processes_continue_on_a_promoted_standby() {
    let _alone = crate::alone().await;
    failover::run(&mut StandbyPair::start(), 1).await.conclude();
}

/// Inserts an event and returns the error, if any.
async fn insert(store: &PostgresStore) -> Result<(), StoreError> {
    let now = store.now().await?;
    store.ingest().insert_events(vec![vec![event("demoted.event")]], now).await.map(|_| ())
}

/// A primary that becomes read-only keeps its connections. The store must close them and find the new primary.
#[tokio::test(flavor = "multi_thread")]
async fn a_primary_that_became_read_only_is_left() {
    let _one_of_two = crate::in_pairs().await;
    let primary = PrivateServer::start("demoted");
    let standby = primary.start_standby("promoted");
    primary.reload_with("synchronous_standby_names = '*'");
    let url = primary.url_with_standby(&standby, "postgres");
    migrate(&url, &shared_roles()).await.unwrap();
    let store = PostgresStore::connect(&PostgresOptions::new(&url)).await.unwrap();
    insert(&store).await.unwrap();
    primary.reload_with("default_transaction_read_only = on");
    let until = Instant::now() + PATIENCE;
    let refusal = loop {
        match insert(&store).await {
            Ok(()) => assert!(Instant::now() < until, "the primary is still writable"),
            Err(error) => break error,
        }
    };
    assert!(matches!(refusal, StoreError::Unavailable { .. }), "{refusal:?}");
    let direct = Direct::postgres(&primary.url("postgres")).await;
    let before = direct.number("SELECT count(*) FROM events").await;
    standby.promote();
    insert(&store).await.unwrap();
    assert_eq!(direct.number("SELECT count(*) FROM events").await, before);
    let direct = Direct::postgres(&standby.url("postgres")).await;
    assert_eq!(direct.number("SELECT count(*) FROM events").await, before + 1);
}
