//! Tests publishing in a caller's transaction on PostgreSQL: an open transaction does not block other callers.

use posthaste_core::event::NewEvent;
use posthaste_core::ports::{IngestStore as _, Ingested, RequestOutcome, Stores as _};
use posthaste_testkit::fixtures::{T0, event, id_of, named_event, stored};
use posthaste_testkit::harness::Harness;
use posthaste_testkit::postgres::client;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_open_publish_blocks_only_its_own_external_id() {
    let h = Harness::postgres("publish").await;
    let caller = client(h.url()).await;
    caller.batch_execute("BEGIN").await.unwrap();
    let held: i64 = caller
        .query_one("SELECT posthaste.publish('a', '{\"amount\": 12.50}', 'held')", &[])
        .await
        .unwrap()
        .get(0);
    // A thousand callers, half of them with their own external ids, and ten requests that contain the held id.
    let mut requests: Vec<Vec<NewEvent>> = Vec::new();
    for number in 0..1_000 {
        let named = number % 2 == 0;
        requests.push(vec![if named { named_event("a", &format!("name-{number}")) } else { event("a") }]);
        if number % 100 == 0 {
            requests.push(vec![event("a"), named_event("a", "held")]);
        }
    }
    let calls = requests.chunks(101).map(|chunk| {
        let (ingest, chunk) = (h.store.ingest(), chunk.to_vec());
        async move { (chunk.clone(), ingest.insert_events(chunk, T0).await.expect("a result")) }
    });
    let mut accepted = 0;
    for (requests, outcomes) in futures_util::future::join_all(calls).await {
        for (request, outcome) in requests.iter().zip(outcomes) {
            if request.len() == 2 {
                assert_eq!(outcome, RequestOutcome::Blocked, "a request is stored completely or not at all");
            } else {
                accepted += stored(&outcome).len();
            }
        }
    }
    assert_eq!(accepted, 1_000);
    assert_eq!(h.direct.number("SELECT count(*) FROM events").await, 1_000);

    caller.batch_execute("COMMIT").await.unwrap();
    let retry = vec![vec![event("a"), named_event("a", "held")]];
    let outcomes = h.store.ingest().insert_events(retry.clone(), T0).await.unwrap();
    assert!(matches!(stored(&outcomes[0])[1], Ingested::Duplicate(id) if id.get() == held));

    // After a rollback, the event is never sent, and its external id can be used again.
    caller
        .batch_execute("BEGIN; SELECT posthaste.publish('a', '{\"amount\": 12.50}', 'dropped'); ROLLBACK")
        .await
        .unwrap();
    let outcomes = h.store.ingest().insert_events(vec![vec![named_event("a", "dropped")]], T0).await.unwrap();
    assert!(matches!(stored(&outcomes[0])[0], Ingested::New(_)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn equal_external_ids_in_opposite_order_do_not_deadlock() {
    let h = Harness::postgres("opposite").await;
    for round in 0..20 {
        let names: Vec<_> = (0..200).map(|number| format!("{round}-{number}")).collect();
        let forward: Vec<_> = names.iter().map(|name| vec![named_event("a", name)]).collect();
        let backward: Vec<_> = forward.iter().rev().cloned().collect();
        let (one, two) = (h.store.ingest(), h.store.ingest());
        let (one, two) = tokio::join!(one.insert_events(forward, T0), two.insert_events(backward, T0));
        let (one, two) = (one.unwrap(), two.unwrap());
        for (first, second) in one.iter().zip(two.iter().rev()) {
            assert_eq!(id_of(stored(first)[0]), id_of(stored(second)[0]));
        }
    }
    assert_eq!(h.direct.number("SELECT count(*) FROM events").await, 4_000);
    let deadlocks = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()";
    assert_eq!(h.direct.number(deadlocks).await, 0);
}
