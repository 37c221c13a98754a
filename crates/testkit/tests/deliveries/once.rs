//! Tests that a repeated event, routing or result leads to a single delivery.

use posthaste_core::ports::{Ingested, Stores};
use posthaste_core::saga::SagaStatus;
use posthaste_testkit::fixtures::named_event;
use posthaste_testkit::harness::Harness;
use posthaste_testkit::pipeline::{Rig, Setup};
use posthaste_testkit::receiver::{Answer, Received, Receiver};
use std::collections::BTreeSet;

pub(crate) async fn a_duplicate_event_is_delivered_once<S: Stores>(h: Harness<S>) {
    let mut rig = Rig::new(h);
    let receiver = Receiver::start(|_| Answer::Status(200)).await;
    rig.subscribe("order.paid", &receiver.url("/hook?a=b")).await;
    let Ingested::New(event) = rig.submit(named_event("order.paid", "order-1")).await else { panic!("new") };
    assert_eq!(rig.submit(named_event("order.paid", "order-1")).await, Ingested::Duplicate(event));
    rig.until_quiet().await;
    assert_eq!(rig.submit(named_event("order.paid", "order-1")).await, Ingested::Duplicate(event));
    rig.until_quiet().await;
    let received = receiver.received();
    let [request] = received.as_slice() else { panic!("{received:?}") };
    assert_eq!(request.webhook_id().len(), 26, "{request:?}");
    assert_eq!((request.path.as_str(), &request.body[..]), ("/hook?a=b", &br#"{"amount": 12.50}"#[..]));
    assert_eq!(
        (request.header("posthaste-event-type"), request.header("posthaste-attempt")),
        ("order.paid", "1")
    );
    assert_eq!(rig.fate_of(event).await, (SagaStatus::Completed, 1, String::new()));
    rig.h.check_invariants().await;
}

pub(crate) async fn an_event_routed_twice_is_delivered_once<S: Stores>(h: Harness<S>) {
    let (mut rig, receiver, _) = Rig::subscribed(h, |_| Answer::Status(200)).await;
    let event = rig.publish("a").await;
    let again = format!("INSERT INTO routing_queue (event_id) VALUES ({event})");
    rig.route().await;
    rig.h.direct.run(&again).await;
    rig.until_quiet().await;
    // The event is queued again after the delivery has finished. The router finds it with a full scan.
    rig.h.direct.run(&again).await;
    rig.move_to(60);
    rig.until_quiet().await;
    assert_eq!(rig.h.direct.number("SELECT count(*) FROM routing_queue").await, 0);
    assert_eq!(receiver.received().len(), 1);
    assert_eq!(rig.fate_of(event).await, (SagaStatus::Completed, 1, String::new()));
}

pub(crate) async fn a_result_applied_twice_changes_nothing<S: Stores>(h: Harness<S>) {
    let mut rig = Rig::new(h);
    let receiver = Receiver::start(|request| match request.path.as_str() {
        "/good" => Answer::Status(204),
        _ => Answer::Status(500),
    })
    .await;
    rig.subscribe("good", &receiver.url("/good")).await;
    rig.subscribe("bad", &receiver.url("/bad")).await;
    rig.publish("good").await;
    let bad = rig.publish("bad").await;
    rig.until_quiet().await;
    assert_eq!(rig.fate_of(bad).await, (SagaStatus::PendingRetry, 1, "HTTP_500".into()));
    let rows = "SELECT * FROM webhook_delivery_sagas ORDER BY id";
    let again = "INSERT INTO finished_jobs (job_id) SELECT id FROM webhook_delivery_jobs WHERE status IN ('Completed', 'Failed')";
    let before = rig.h.direct.rows(rows).await;
    rig.h.direct.run(again).await;
    rig.move_to(5);
    rig.until_quiet().await;
    assert_eq!(rig.h.direct.rows(rows).await, before);
    // The old result is not applied to the next attempt, which is now in progress.
    rig.move_to(30);
    rig.admit().await;
    let before = rig.h.direct.rows(rows).await;
    rig.h.direct.run(again).await;
    rig.apply().await;
    assert_eq!(rig.h.direct.number("SELECT count(*) FROM finished_jobs").await, 0);
    assert_eq!(rig.h.direct.rows(rows).await, before);
    rig.until_quiet().await;
    assert_eq!(rig.fate_of(bad).await, (SagaStatus::PendingRetry, 2, "HTTP_500".into()));
    rig.h.check_invariants().await;
}

pub(crate) async fn two_of_every_component_send_each_attempt_once<S: Stores>(h: Harness<S>) {
    const EVENTS: usize = 150;
    let mut rig = Rig::with(h, Setup { slots: 16, ..Setup::default() });
    rig.add_worker();
    rig.add_orchestrator();
    let receiver = Receiver::start(|request| match request.header("posthaste-attempt") {
        "1" if request.path == "/shaky" => Answer::Status(503),
        _ => Answer::Status(200),
    })
    .await;
    rig.subscribe("a", &receiver.url("/steady")).await;
    rig.subscribe("a", &receiver.url("/shaky")).await;
    rig.publish_many("a", EVENTS).await;
    // Each orchestrator finds deliveries of the other one by scanning, within a second.
    let unfinished = "SELECT count(*) FROM webhook_delivery_sagas WHERE status <> 'Completed'";
    let mut seconds = 0;
    rig.until_quiet().await;
    while rig.h.direct.number(unfinished).await > 0 {
        seconds += 1;
        assert!(seconds <= 60, "deliveries are stuck");
        rig.move_to(seconds);
        rig.until_quiet().await;
    }
    let received = receiver.received();
    let attempt =
        |request: &Received| format!("{} {}", request.webhook_id(), request.header("posthaste-attempt"));
    let attempts: BTreeSet<_> = received.iter().map(attempt).collect();
    assert_eq!((attempts.len(), received.len()), (3 * EVENTS, 3 * EVENTS));
    let workers = "SELECT count(DISTINCT worker_id) FROM webhook_delivery_jobs";
    assert_eq!(rig.h.direct.number(workers).await, 2);
    rig.h.check_invariants().await;
}
