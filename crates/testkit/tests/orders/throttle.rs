//! Tests how the lane adapts to rate limits of the broker.

use crate::broker::accepted;
use posthaste_core::lane::{LaneMode, RATE_MAX};
use posthaste_core::order::OrderStatus;
use posthaste_core::ports::Stores;
use posthaste_testkit::harness::Harness;
use posthaste_testkit::order_lane::OrderRig;
use posthaste_testkit::receiver::{Answer, Receiver};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

pub(crate) async fn a_rate_limit_slows_the_lane_and_successes_speed_it_up<S: Stores>(h: Harness<S>) {
    let mut rig = OrderRig::new(h);
    let refuses = Arc::new(AtomicBool::new(true));
    let inner = Arc::clone(&refuses);
    let broker =
        Receiver::start(
            move |request| {
                if inner.load(Ordering::SeqCst) { Answer::Status(429) } else { accepted(request) }
            },
        )
        .await;
    rig.add_worker(&broker.url("/"));
    // 429 responses in eight different seconds halve the rate eight times, regardless of their number per second.
    for number in 0..8 {
        rig.submit(&format!("slow-{number}"), 1).await;
        rig.turn().await;
        rig.move_by(Duration::from_secs(1));
    }
    refuses.store(false, Ordering::SeqCst);
    let slowest = rig.stored_lane().await;
    assert_eq!(slowest.mode(), LaneMode::Throttled);
    assert!((slowest.rate - RATE_MAX / 256.0).abs() < 0.001, "{}", slowest.rate);
    rig.watch().await;
    assert_eq!(rig.metric("outbox_rate"), Some(slowest.rate));
    // Another process starts later and reads the stored state of the lane.
    rig.processes.clear();
    rig.add_worker(&broker.url("/"));
    rig.submit("order", 40).await;
    let (began, before) = (rig.now(), broker.received().len());
    rig.turn().await;
    let at_once = broker.received().len() - before;
    assert!((1..=4).contains(&at_once), "{at_once} were sent at once at four per second");
    rig.pass(Duration::from_secs(60)).await;
    assert_eq!(rig.count(OrderStatus::Sent).await, 48);
    let last = rig.orders().await.into_iter().map(|order| order.updated_at).max().expect("an order");
    let took = last.since(began).as_secs_f64();
    assert!((2.0..10.0).contains(&took), "48 orders, starting at four per second, took {took} s");
    let faster = rig.stored_lane().await.rate;
    assert!(faster > slowest.rate + 5.0, "from {} to {faster} after 48 successes", slowest.rate);
    rig.watch().await;
    assert_eq!(rig.metric("outbox_rate"), Some(faster));
    assert!(rig.metric(r#"outbox_dequeue_total{result="held"}"#).is_some());
    rig.check_audit().await;
}
