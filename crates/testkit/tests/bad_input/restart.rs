//! Tests restarts of PostgreSQL while a store is in use. Calls fail as unavailable during the outage and succeed
//! afterwards on the same store.

use posthaste_core::ports::{
    EventFilter, IngestStore as _, KeyStore as _, OrchestratorStore as _, OutboxWorkerStore as _,
    PageRequest, ReaderStore as _, RequestOutcome, ResultTake, RouteTake, RouterStore as _, StoreError,
    StoreResult, Stores, WorkerStore as _,
};
use posthaste_store::postgres::{PostgresOptions, PostgresStore, migrate};
use posthaste_testkit::fixtures::{POLICY, T0, claim, event, named_event};
use posthaste_testkit::postgres::{client, shared_roles};
use posthaste_testkit::private_server::PrivateServer;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use tokio_postgres::Client;

const PATIENCE: Duration = Duration::from_secs(60);

/// Calls one method for each of several roles, which use separate connection pools, and returns the results.
async fn call_every_role(store: &PostgresStore) -> Vec<(&'static str, StoreResult<()>)> {
    let page = PageRequest::first(10);
    let route = RouteTake { from: None, events_max: 100 };
    let results = ResultTake { from: None, results_max: 100 };
    vec![
        ("ingest", store.ingest().insert_events(vec![vec![event("a")]], T0).await.map(drop)),
        ("router", store.router().route_events(route, T0).await.map(drop)),
        ("orchestrator", store.orchestrator().apply_job_results(results, POLICY, T0).await.map(drop)),
        ("worker", store.worker().claim_due_jobs(claim(10), T0).await.map(drop)),
        ("outbox worker", store.outbox_worker().load_lane().await.map(drop)),
        ("keys", store.keys().list_keys().await.map(drop)),
        ("reader", store.reader().events(EventFilter::default(), page).await.map(drop)),
        ("clock", store.now().await.map(drop)),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_survives_restarts_of_the_server() {
    let server = PrivateServer::start("restart");
    let url = server.url("postgres");
    migrate(&url, &shared_roles()).await.expect("the migration");
    let store = PostgresStore::connect(&PostgresOptions::new(&url)).await.expect("the store");
    for how in ["fast", "immediate"] {
        for (role, outcome) in call_every_role(&store).await {
            outcome.unwrap_or_else(|error| panic!("{role} before: {error:?}"));
        }
        server.pg_ctl(&["stop", "-m", how]);
        // The first pass uses connections that have just broken, the second has no connections.
        for _ in 0..2 {
            for (role, outcome) in call_every_role(&store).await {
                let is_away = matches!(outcome, Err(StoreError::Unavailable { .. }));
                assert!(is_away, "{role} after a {how} stop: {outcome:?}");
            }
        }
        server.pg_ctl(&["start"]);
        for (role, outcome) in call_every_role(&store).await {
            outcome.unwrap_or_else(|error| panic!("{role} after a {how} stop: {error:?}"));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn acknowledged_events_survive_restarts() {
    let server = PrivateServer::start("restart");
    let url = server.url("postgres");
    migrate(&url, &shared_roles()).await.expect("the migration");
    let store = PostgresStore::connect(&PostgresOptions::new(&url)).await.expect("the store");
    let (stop, accepted) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let mut callers = tokio::task::JoinSet::new();
    for number in 0..4 {
        callers.spawn(publish_until(store.clone(), number, Arc::clone(&stop), Arc::clone(&accepted)));
    }
    for how in ["immediate", "fast", "immediate"] {
        more_accepted(&accepted).await;
        server.pg_ctl(&["stop", "-m", how]);
        server.pg_ctl(&["start"]);
    }
    more_accepted(&accepted).await;
    stop.store(true, Ordering::Relaxed);
    let names: Vec<String> = callers.join_all().await.concat();
    let client = client(&url).await;
    for name in &names {
        assert_eq!(
            count(&client, "SELECT count(*) FROM posthaste.events WHERE external_event_id = $1", name).await,
            1,
            "{name}"
        );
    }
    let unqueued = "SELECT count(*) FROM posthaste.events e WHERE external_event_id <> $1
        AND NOT EXISTS (SELECT FROM posthaste.routing_queue q WHERE q.event_id = e.id)";
    assert_eq!(count(&client, unqueued, "").await, 0, "an event is not queued");
}

async fn count(client: &Client, sql: &str, name: &str) -> i64 {
    client.query_one(sql, &[&name]).await.expect("a count").get(0)
}

/// Waits until 20 more events have been acknowledged.
async fn more_accepted(accepted: &AtomicUsize) {
    let goal = accepted.load(Ordering::Relaxed) + 20;
    let reached = async {
        while accepted.load(Ordering::Relaxed) < goal {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, reached).await.expect("acknowledgements again");
}

/// Publishes events one after the other until `stop` is set. Returns the external ids of the acknowledged events.
async fn publish_until(
    store: PostgresStore,
    caller: u32,
    stop: Arc<AtomicBool>,
    accepted: Arc<AtomicUsize>,
) -> Vec<String> {
    let mut names = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let name = format!("caller-{caller}-{}", names.len());
        match store.ingest().insert_events(vec![vec![named_event("a", &name)]], T0).await {
            Ok(outcomes) => {
                assert!(matches!(outcomes[..], [RequestOutcome::Stored(_)]), "{outcomes:?}");
                names.push(name);
                accepted.fetch_add(1, Ordering::Relaxed);
            }
            Err(StoreError::Unavailable { .. } | StoreError::OutcomeUnknown { .. }) => {}
            Err(error) => panic!("{error:?}"),
        }
    }
    names
}
