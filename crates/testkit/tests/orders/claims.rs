//! Tests order claims, including those of workers that hang, die or report too late.

use crate::broker::accepted;
use posthaste_core::Timestamp;
use posthaste_core::broker::BrokerOutcome;
use posthaste_core::digest::digest_of;
use posthaste_core::order::OrderStatus;
use posthaste_core::ports::{ClaimedOrder, Stores};
use posthaste_services::clock::Clock;
use posthaste_services::outbox::Broker;
use posthaste_services::runner::{Runner, Service};
use posthaste_services::step::{Progress, Step as _};
use posthaste_testkit::harness::{Engine, Harness};
use posthaste_testkit::order_lane::{OrderRig, OrderSetup, STUCK_THRESHOLD};
use posthaste_testkit::receiver::{Answer, Receiver};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::Semaphore;

const SECOND: Duration = Duration::from_secs(1);

/// Starts a broker that responds to one request per semaphore permit. Returns the broker and the semaphore.
async fn gated() -> (Receiver, Arc<Semaphore>) {
    let gate = Arc::new(Semaphore::new(0));
    let inner = Arc::clone(&gate);
    let broker =
        Receiver::start(move |request| Answer::Gate(Arc::clone(&inner), Box::new(accepted(request)))).await;
    (broker, gate)
}

pub(crate) async fn only_orders_that_can_be_sent_at_once_are_claimed<S: Stores>(h: Harness<S>) {
    let mut rig = OrderRig::with(h, OrderSetup { batch_size: 3, ..OrderSetup::default() });
    let (broker, gate) = gated().await;
    rig.add_worker(&broker.url("/"));
    rig.submit("order", 10).await;
    let now = rig.now();
    let mut progress = Vec::new();
    for _ in 0..3 {
        progress.push(rig.processes[0].worker.step(now).await.expect("a step"));
    }
    // The first step claims three orders, the batch size. The second claims one for the fourth sender, the third
    // none.
    assert_eq!(progress, [Progress::More, Progress::Idle, Progress::Idle]);
    assert_eq!(rig.count(OrderStatus::Sending).await, 4);
    rig.watch().await;
    assert_eq!(rig.metric("outbox_inflight"), Some(4.0));
    assert_eq!(rig.metric(r#"outbox_dequeue_total{result="claimed"}"#), Some(2.0));
    gate.add_permits(10);
    rig.until_quiet().await;
    assert_eq!(rig.count(OrderStatus::Sent).await, 10);
    assert!(rig.metric(r#"outbox_dequeue_total{result="empty"}"#).is_some());
    rig.watch().await;
    assert_eq!(rig.metric("outbox_inflight"), Some(0.0));
    rig.check_audit().await;
}

pub(crate) async fn a_free_sender_claims_the_next_order_without_a_poll<S: Stores>(h: Harness<S>) {
    let mut rig = OrderRig::new(h);
    let broker = Receiver::start(accepted).await;
    rig.add_worker(&broker.url("/"));
    rig.submit("order", 50).await;
    let process = rig.processes.remove(0);
    let mut runner = Runner::new(rig.clock.clone(), rig.metrics.clone());
    let (wake_up, never) = (process.wake_up.clone(), Duration::from_secs(3600));
    runner.start(Service::new("outbox", process.worker, wake_up, never));
    assert_eq!(broker.wait_for(50).await.len(), 50);
    assert!(runner.stop(Duration::from_secs(30)).await, "sends are settled at shutdown");
    assert_eq!(rig.count(OrderStatus::Sent).await, 50);
}

pub(crate) async fn a_stuck_order_is_rewound_and_its_late_sender_is_fenced<S: Stores>(h: Harness<S>) {
    let mut rig = OrderRig::new(h);
    let (slow, gate) = gated().await;
    rig.add_worker(&slow.url("/"));
    let key = rig.submit("order", 1).await.remove(0);
    let now = rig.now();
    rig.processes[0].worker.step(now).await.expect("a step");
    slow.wait_for(1).await;
    // A second worker takes over while the first still waits for its response.
    let mut late = rig.processes.remove(0);
    let quick = Receiver::start(|_| Answer::Status(500)).await;
    rig.add_worker(&quick.url("/"));
    rig.move_by(STUCK_THRESHOLD);
    rig.until_quiet().await;
    assert_eq!(rig.order(&key).await.status, OrderStatus::Sending, "not before the threshold has passed");
    rig.move_by(SECOND * 10);
    rig.until_quiet().await;
    let before = rig.order(&key).await;
    assert_eq!(
        (before.status, before.retry_count),
        (OrderStatus::Failed, 2),
        "the rewind and the send are both counted"
    );
    assert!(before.maybe_executed);
    assert_eq!(rig.metric("outbox_rewound_total"), Some(1.0));
    gate.add_permits(1);
    late.worker.settle().await;
    assert_eq!(rig.order(&key).await, before, "the late sender changes nothing");
    let note = rig.audit(&key).await.into_iter().filter_map(|entry| entry.note).collect::<Vec<_>>();
    assert_eq!(note, ["no outcome was reported within the threshold", "the broker returned 500"]);
    rig.check_audit().await;
}

pub(crate) async fn an_old_claim_is_released_unsent<S: Stores>(h: Harness<S>) {
    let mut rig = OrderRig::new(h);
    let broker = Receiver::start(accepted).await;
    rig.add_worker(&broker.url("/"));
    let key = rig.submit("order", 1).await.remove(0);
    // Simulates a process that is suspended between claiming an order and sending it.
    let claimed_at = rig.now();
    rig.move_by(STUCK_THRESHOLD - SECOND);
    rig.processes[0].worker.step(claimed_at).await.expect("a step");
    rig.processes[0].worker.settle().await;
    let order = rig.order(&key).await;
    assert_eq!((order.status, order.retry_count, order.maybe_executed), (OrderStatus::Queued, 0, false));
    assert!(broker.received().is_empty());
    rig.until_quiet().await;
    assert_eq!(rig.order(&key).await.status, OrderStatus::Sent);
    assert_eq!(broker.received().len(), 1);
    rig.check_audit().await;
}

/// A broker adapter that panics on the first `left` orders and rejects all others.
struct Explosive {
    left: AtomicUsize,
}

impl Broker for Explosive {
    async fn send_order(&self, _order: &ClaimedOrder, _now: Timestamp) -> BrokerOutcome {
        let explodes = self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        assert!(explodes.is_err(), "a fault of the adapter");
        BrokerOutcome::BadRequest { status: 400 }
    }

    fn deadline(&self) -> Duration {
        SECOND
    }
}

pub(crate) async fn a_panicking_send_frees_its_sender<S: Stores>(h: Harness<S>) {
    let mut rig = OrderRig::new(h);
    let mut process = rig.process(Explosive { left: AtomicUsize::new(8) });
    rig.submit("order", 12).await;
    for _ in 0..3 {
        process.worker.step(rig.now()).await.expect("a step");
        process.worker.settle().await;
    }
    assert_eq!((rig.count(OrderStatus::Sending).await, rig.count(OrderStatus::Dead).await), (8, 4));
    rig.move_by(STUCK_THRESHOLD + SECOND);
    for _ in 0..4 {
        process.worker.step(rig.now()).await.expect("a step");
        process.worker.settle().await;
    }
    assert_eq!(
        rig.count(OrderStatus::Dead).await,
        12,
        "orders whose send panicked are rewound like any stuck order"
    );
    rig.check_audit().await;
}

pub(crate) async fn a_drain_waits_for_sends_in_progress<S: Stores>(h: Harness<S>) {
    let mut rig = OrderRig::new(h);
    let (broker, gate) = gated().await;
    rig.add_worker(&broker.url("/"));
    rig.submit("order", 4).await;
    let now = rig.now();
    rig.processes[0].worker.step(now).await.expect("a step");
    broker.wait_for(4).await;
    gate.add_permits(2);
    let clock = Clock::fixed(now);
    // Two requests succeed and two get no response. When the grace period ends, orders that may have been
    // executed are not released.
    while rig.count(OrderStatus::Sent).await < 2 {
        tokio::task::yield_now().await;
    }
    rig.processes[0].worker.drain(&clock, Duration::ZERO).await;
    assert_eq!((rig.count(OrderStatus::Sent).await, rig.count(OrderStatus::Sending).await), (2, 2));
    gate.add_permits(2);
    rig.add_worker(&broker.url("/"));
    rig.move_by(STUCK_THRESHOLD + SECOND);
    gate.add_permits(4);
    rig.until_quiet().await;
    assert_eq!(rig.count(OrderStatus::Sent).await, 4);
    rig.check_audit().await;
}

pub(crate) async fn settlements_delayed_by_an_outage_are_written_before_rewinds<S: Stores>(h: Harness<S>) {
    let mut rig = OrderRig::new(h);
    let (broker, gate) = gated().await;
    rig.add_worker(&broker.url("/"));
    let key = rig.submit("order", 1).await.remove(0);
    let now = rig.now();
    rig.processes[0].worker.step(now).await.expect("a step");
    broker.wait_for(1).await;
    // The store is unavailable until the stuck threshold of the order has passed.
    rename(&rig, "outbox_orders", "orders_away").await;
    rig.move_by(STUCK_THRESHOLD + SECOND);
    let now = rig.now();
    assert!(rig.processes[0].worker.step(now).await.is_err());
    rename(&rig, "orders_away", "outbox_orders").await;
    rig.processes[0].worker.step(now).await.expect("a step");
    assert_eq!(rig.order(&key).await.status, OrderStatus::Sending, "not rewound during the grace period");
    gate.add_permits(1);
    rig.processes[0].worker.settle().await;
    let order = rig.order(&key).await;
    assert_eq!((order.status, order.retry_count), (OrderStatus::Sent, 0));
    rig.check_audit().await;
}

/// Renames a table. Store calls fail until the table has its original name again.
async fn rename<S: Stores>(rig: &OrderRig<S>, from: &str, to: &str) {
    rig.h.direct.run(&format!("ALTER TABLE {from} RENAME TO {to}")).await;
}

/// Inserts six orders with the digest of another order, bypassing the store.
async fn tamper<S: Stores>(rig: &OrderRig<S>, prefix: &str) {
    let micros = rig.now().micros();
    let moment = match rig.h.engine {
        Engine::Sqlite => micros.to_string(),
        Engine::Postgres | Engine::PostgresCut => {
            format!("'epoch'::timestamptz + {micros} * interval '1 microsecond'")
        }
    };
    let foreign = digest_of(b"another order");
    for number in 0..6 {
        let insert = format!(
            "INSERT INTO outbox_orders (idempotency_key, request_json, request_digest, status, next_attempt_at,
                created_at, updated_at)
            VALUES ('{prefix}-{number}', '{{}}', '{}', 'queued', {moment}, {moment}, {moment})",
            foreign.as_str()
        );
        rig.h.direct.run(&insert).await;
    }
}

pub(crate) async fn a_tampered_order_does_not_block_others<S: Stores>(h: Harness<S>) {
    let mut rig = OrderRig::new(h);
    let broker = Receiver::start(accepted).await;
    rig.add_worker(&broker.url("/"));
    tamper(&rig, "foreign").await;
    rig.move_by(SECOND);
    rig.submit("order", 3).await;
    rig.until_quiet().await;
    assert_eq!((rig.count(OrderStatus::Sent).await, rig.count(OrderStatus::Dead).await), (3, 6));
    // While the lane sends only probes, a tampered order does not use up a probe.
    rig.h.direct.run("UPDATE outbox_lane SET faults_in_row = 5").await;
    tamper(&rig, "again").await;
    rig.move_by(SECOND);
    rig.submit("behind", 3).await;
    rig.until_quiet().await;
    assert_eq!((rig.count(OrderStatus::Sent).await, rig.count(OrderStatus::Dead).await), (6, 12));
    assert_eq!(broker.received().len(), 6, "no tampered order was sent");
    assert_eq!(rig.metric(r#"outbox_send_total{outcome="dead"}"#), Some(12.0));
    rig.check_audit().await;
}

pub(crate) async fn expired_keys_are_purged<S: Stores>(h: Harness<S>) {
    let mut rig = OrderRig::new(h);
    let broker = Receiver::start(accepted).await;
    rig.add_worker(&broker.url("/"));
    rig.submit("order", 3).await;
    rig.until_quiet().await;
    let ledger = "SELECT count(*) FROM idempo_ledger";
    assert_eq!(rig.h.direct.number(ledger).await, 3);
    rig.move_by(SECOND * 86_400 * 8);
    rig.until_quiet().await;
    assert_eq!(rig.h.direct.number(ledger).await, 0);
    assert_eq!(rig.count(OrderStatus::Sent).await, 3, "the orders are kept");
}
