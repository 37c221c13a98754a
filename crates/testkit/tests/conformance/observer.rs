//! Tests that the observer of a store is called once for every call of every role, on both engines.

use posthaste_core::EventId;
use posthaste_core::ports::{
    IngestStore as _, OrchestratorStore as _, ReaderStore as _, ResultTake, RouteTake, RouterStore as _,
    Stores,
};
use posthaste_store::Observer;
use posthaste_testkit::fixtures::{POLICY, T0, event};
use posthaste_testkit::harness::Harness;
use std::sync::{Arc, Mutex};

type Observed = Arc<Mutex<Vec<&'static str>>>;

fn observer() -> (Observer, Observed) {
    let observed = Observed::default();
    let list = Arc::clone(&observed);
    (Observer::new(move |role, _| list.lock().expect("the list").push(role.name())), observed)
}

async fn check<S: Stores>(h: Harness<S>, observed: &Observed) {
    let store = &h.store;
    observed.lock().expect("the list").clear();
    store.ingest().insert_events(vec![vec![event("a")]], T0).await.expect("an event");
    store.router().route_events(RouteTake { from: None, events_max: 10 }, T0).await.expect("to route");
    let take = ResultTake { from: None, results_max: 10 };
    store.orchestrator().apply_job_results(take, POLICY, T0).await.expect("nothing to apply");
    store.reader().event(EventId::from_store(1)).await.expect("an event");
    let expected = ["event_ingest_writer", "router_worker", "saga_orchestrator", "viewer"];
    assert_eq!(*observed.lock().expect("the list"), expected);
}

#[tokio::test]
async fn sqlite_reports_every_call() {
    let (observer, observed) = observer();
    check(Harness::sqlite_with(|options| options.observer = observer), &observed).await;
}

#[tokio::test]
async fn postgres_reports_every_call() {
    let (observer, observed) = observer();
    check(Harness::postgres_with("observer", |options| options.observer = observer).await, &observed).await;
}
