//! Tests broker outages: credentials refused for two days, a broker that is unreachable for an hour, and a broker
//! that fails every request for an hour.

use crate::broker::accepted;
use posthaste_core::lane::{LaneMode, UNAUTHORIZED_MAX};
use posthaste_core::order::OrderStatus;
use posthaste_core::ports::Stores;
use posthaste_testkit::harness::Harness;
use posthaste_testkit::order_lane::{OrderRig, http_broker, loopback_sender};
use posthaste_testkit::receiver::{Answer, Receiver, closed_port};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

pub(crate) async fn revoked_credentials_end_few_orders_and_probes_end_none<S: Stores>(h: Harness<S>) {
    const ORDERS: usize = 1_000;
    const SENDERS: usize = 12;
    let mut rig = OrderRig::new(h);
    let revoked = Arc::new(AtomicBool::new(false));
    let inner = Arc::clone(&revoked);
    let broker =
        Receiver::start(
            move |request| {
                if inner.load(Ordering::SeqCst) { Answer::Status(401) } else { accepted(request) }
            },
        )
        .await;
    for _ in 0..3 {
        rig.add_worker(&broker.url("/"));
    }
    rig.submit("order", ORDERS).await;
    while rig.count(OrderStatus::Sent).await < 100 {
        rig.turn().await;
    }
    let sent = rig.count(OrderStatus::Sent).await;
    revoked.store(true, Ordering::SeqCst);
    rig.until_quiet().await;
    let dead = rig.count(OrderStatus::Dead).await;
    let handful = UNAUTHORIZED_MAX as usize..=UNAUTHORIZED_MAX as usize - 1 + SENDERS;
    assert!(handful.contains(&dead), "{dead} orders are dead");
    rig.watch().await;
    assert_eq!(rig.metric("outbox_paused"), Some(1.0));
    let lane = rig.lane.seen().expect("a lane");
    assert_eq!(lane.mode(), LaneMode::Paused);
    assert!(lane.reason.is_some_and(|reason| reason.contains("credentials")));
    // Runs one turn every 15 minutes for two days. Each turn sends one probe.
    let before = broker.received().len();
    for _ in 0..2 * 24 * 4 {
        rig.move_by(Duration::from_secs(15 * 60));
        rig.turn().await;
    }
    let probes = broker.received().len() - before;
    assert!((150..=2 * 24 * 4 + 1).contains(&probes), "{probes} probes");
    assert_eq!(rig.count(OrderStatus::Dead).await, dead, "no probe ended an order");
    assert_eq!(rig.count(OrderStatus::Sent).await, sent);
    assert!(rig.orders().await.iter().all(|order| order.retry_count == 0), "no probe cost a retry");
    revoked.store(false, Ordering::SeqCst);
    rig.pass(Duration::from_secs(60)).await;
    assert_eq!(rig.count(OrderStatus::Sent).await, ORDERS - dead);
    rig.watch().await;
    assert_eq!(rig.metric("outbox_paused"), Some(0.0));
    assert_eq!(
        rig.metric(r#"outbox_send_total{outcome="dead"}"#),
        Some(f64::from(u32::try_from(dead).unwrap()))
    );
    rig.check_audit().await;
}

pub(crate) async fn an_unreachable_broker_ends_no_order<S: Stores>(h: Harness<S>) {
    let mut rig = OrderRig::new(h);
    let away = closed_port("/orders").await;
    rig.add_worker(&away);
    rig.add_worker(&away);
    rig.submit("order", 30).await;
    rig.pass(Duration::from_secs(3_600)).await;
    let orders = rig.orders().await;
    assert!(orders.iter().all(|order| !order.status.is_terminal()), "{orders:#?}");
    assert!(orders.iter().all(|order| order.retry_count <= 2 && !order.maybe_executed), "{orders:#?}");
    assert_eq!(rig.stored_lane().await.mode(), LaneMode::OneAtATime);
    let broker = Receiver::start(accepted).await;
    rig.processes.clear();
    rig.add_worker(&broker.url("/"));
    rig.pass(Duration::from_secs(120)).await;
    assert_eq!(rig.count(OrderStatus::Sent).await, 30);
    assert_eq!(broker.received().len(), 30);
    assert_eq!(rig.stored_lane().await.mode(), LaneMode::Open);
    rig.check_audit().await;
}

/// Tests a broker that fails after it has received an order, and so may have executed it. Each such attempt counts
/// toward the order's limit of nine, even during an outage. While the lane sends one order at a time, all waiting
/// orders share about one attempt per minute. After an hour, none of 30 orders is dead, but all of 6 orders are.
pub(crate) async fn a_failing_broker_uses_up_the_nine_sends_of_an_order<S: Stores>(h: Harness<S>) {
    const PATIENT: Duration = Duration::from_secs(30);
    // A real-time deadline, long enough to send the order. It expires because the broker never responds.
    const HANGS_FOR: Duration = Duration::from_millis(250);
    let mut rig = OrderRig::new(h);
    let (mut died, mut number) = (0, 0);
    for (fails, deadline, orders, dead) in [
        (Answer::Status(503), PATIENT, 1, 1),
        (Answer::Status(503), PATIENT, 6, 6),
        (Answer::Status(503), PATIENT, 30, 0),
        (Answer::Reset, PATIENT, 1, 1),
        (Answer::Reset, PATIENT, 6, 6),
        (Answer::Reset, PATIENT, 30, 0),
        (Answer::Hang, HANGS_FOR, 1, 1),
    ] {
        let row = format!("{orders} orders, {fails:?}");
        let broken = Receiver::start(move |_| fails.clone()).await;
        rig.processes.clear();
        let process = rig.process(http_broker(loopback_sender(), &broken.url("/"), deadline));
        rig.processes.push(process);
        number += 1;
        let keys = rig.submit(&format!("row-{number}"), orders).await;
        rig.pass(Duration::from_secs(3_600)).await;
        died += dead;
        assert_eq!(rig.count(OrderStatus::Dead).await, died, "{row}");
        for key in &keys {
            let order = rig.order(key).await;
            assert!(order.maybe_executed, "{row}: {order:#?}");
            let is_spent = if dead == 0 { order.retry_count <= 3 } else { order.retry_count == 9 };
            assert!(is_spent, "{row}: {order:#?}");
        }
        assert_eq!(rig.stored_lane().await.mode(), LaneMode::OneAtATime, "{row}");
        // The next probe succeeds, and the remaining orders are sent.
        let recovered = Receiver::start(accepted).await;
        rig.processes.clear();
        rig.add_worker(&recovered.url("/"));
        rig.submit(&format!("after-{number}"), 1).await;
        rig.pass(Duration::from_secs(600)).await;
        assert_eq!(recovered.received().len(), orders - dead + 1, "{row}");
        assert_eq!(rig.stored_lane().await.mode(), LaneMode::Open, "{row}");
    }
    rig.check_audit().await;
}
