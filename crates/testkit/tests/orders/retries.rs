//! Tests the times and the number of retries of an order, and its final state.

use crate::broker::accepted;
use posthaste_core::Timestamp;
use posthaste_core::broker::BrokerFault;
use posthaste_core::order::OrderStatus;
use posthaste_core::ports::{OutboxWorkerStore as _, Stores};
use posthaste_core::retry::OrderRetryPolicy;
use posthaste_services::clock::Clock;
use posthaste_testkit::harness::Harness;
use posthaste_testkit::order_lane::{OrderRig, POLICY};
use posthaste_testkit::receiver::{Answer, Received, Receiver};
use std::sync::{Arc, Mutex};
use std::time::Duration;

type Times = Arc<Mutex<Vec<Timestamp>>>;

/// Starts a broker that records the time of each request, as read from `clock`.
async fn noting(
    clock: &Clock,
    answer: impl Fn(&Received, usize) -> Answer + Send + Sync + 'static,
) -> (Receiver, Times) {
    let (times, clock) = (Times::default(), clock.clone());
    let noted = Arc::clone(&times);
    let broker = Receiver::start(move |request| {
        let mut noted = noted.lock().expect("the list");
        noted.push(clock.now());
        answer(request, noted.len())
    })
    .await;
    (broker, times)
}

fn gaps(times: &Times) -> Vec<Duration> {
    let times = times.lock().expect("the list");
    times.windows(2).map(|pair| pair[1].since(pair[0])).collect()
}

pub(crate) async fn server_errors_are_retried_at_the_exact_times<S: Stores>(h: Harness<S>) {
    let mut rig = OrderRig::new(h);
    let (broker, times) =
        noting(&rig.clock, |request, sends| if sends <= 4 { Answer::Status(500) } else { accepted(request) })
            .await;
    rig.add_worker(&broker.url("/"));
    let key = rig.submit("order", 1).await.remove(0);
    rig.pass(Duration::from_secs(60)).await;
    let expected: Vec<_> = (1..=4)
        .map(|retry| {
            Duration::from_micros(u64::try_from(POLICY.backoff(key.as_str(), retry).as_micros()).unwrap())
        })
        .collect();
    assert_eq!(gaps(&times), expected, "each retry is sent when due, to the microsecond");
    for (gap, nominal) in expected.iter().zip([2, 4, 8, 16]) {
        let nominal = Duration::from_secs(nominal);
        assert!((nominal * 9 / 10..=nominal * 11 / 10).contains(gap), "{gap:?} is not {nominal:?} ± 10 %");
    }
    let order = rig.order(&key).await;
    assert_eq!((order.status, order.retry_count), (OrderStatus::Sent, 4));
    assert_eq!(order.last_error.as_deref(), Some("BROKER_5XX"), "the last error is kept");
    let keys: Vec<_> = broker.received().iter().map(|r| r.header("idempotency-key").to_owned()).collect();
    assert_eq!(keys, vec![key.as_str(); 5], "always under the same key");
    assert_eq!(rig.metric(r#"outbox_send_total{outcome="retry"}"#), Some(4.0));
    assert_eq!(rig.metric(r#"outbox_send_total{outcome="success"}"#), Some(1.0));
    assert_eq!(rig.metric("outbox_retry_count_sum"), Some(4.0));
    let lag = rig.metric("outbox_lag_seconds_sum").expect("a lag");
    let waited: Duration = expected.iter().sum();
    assert!((lag - waited.as_secs_f64()).abs() < 0.001, "{lag} s is not {waited:?}");
    rig.check_audit().await;
}

pub(crate) async fn an_order_is_dead_after_nine_sends<S: Stores>(h: Harness<S>) {
    let mut rig = OrderRig::new(h);
    let (broker, times) = noting(&rig.clock, |_, _| Answer::Reset).await;
    rig.add_worker(&broker.url("/"));
    let key = rig.submit("order", 1).await.remove(0);
    rig.pass(Duration::from_secs(3_600)).await;
    assert_eq!(broker.received().len(), 9);
    for (gap, nominal) in gaps(&times).into_iter().zip([2, 4, 8, 16, 32, 64, 128, 256]) {
        let nominal = Duration::from_secs(nominal);
        assert!((nominal * 9 / 10..=nominal * 11 / 10).contains(&gap), "{gap:?} is not {nominal:?} ± 10 %");
    }
    let order = rig.order(&key).await;
    assert_eq!((order.status, order.retry_count), (OrderStatus::Dead, 9));
    assert!(order.maybe_executed, "one of them may have been executed");
    assert_eq!(order.last_error.as_deref(), Some("NETWORK_TIMEOUT"));
    let note = rig.audit(&key).await.last().and_then(|entry| entry.note.clone());
    assert_eq!(note.as_deref(), Some(BrokerFault::Reset { bytes_written: true }.note()));
    assert_eq!(rig.metric(r#"outbox_send_total{outcome="dead"}"#), Some(1.0));
    assert_eq!(rig.metric("outbox_retry_count_sum"), Some(9.0));
    rig.check_audit().await;
}

pub(crate) async fn a_lowered_limit_ends_waiting_orders<S: Stores>(h: Harness<S>) {
    let mut rig = OrderRig::new(h);
    let broker = Receiver::start(|_| Answer::Status(500)).await;
    rig.add_worker(&broker.url("/"));
    let key = rig.submit("order", 1).await.remove(0);
    rig.pass(Duration::from_secs(10)).await;
    let due = rig.order(&key).await.next_attempt_at;
    let lowered = OrderRetryPolicy { retries_max: 1, ..POLICY };
    let moved = rig.h.store.outbox_worker().requeue_due_orders(10, lowered, due).await.expect("a result");
    assert_eq!(moved.iter().map(|order| order.status).collect::<Vec<_>>(), [OrderStatus::Dead]);
    let order = rig.order(&key).await;
    assert_eq!((order.status, order.last_error.as_deref()), (OrderStatus::Dead, Some("BROKER_5XX")));
    rig.check_audit().await;
}
