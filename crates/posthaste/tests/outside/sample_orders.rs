//! The orders in the sample data. Most are executed immediately, some after retries; one is rejected, and one is
//! waiting for a retry.

use crate::sample_data::{process, second};
use posthaste_core::Timestamp;
use posthaste_core::broker::{PROCESSED_MARKER, classify_answer};
use posthaste_core::order::{IdempotencyKey, OrderStatus};
use posthaste_core::ports::{
    OrderReport, OutboxClaim, OutboxIntakeStore as _, OutboxWorkerStore as _, Settled, Stores,
};
use posthaste_core::retry::OrderRetryPolicy;
use posthaste_testkit::fixtures::{order, order_claim};
use posthaste_testkit::harness::Harness;
use std::collections::BTreeMap;
use std::time::Duration;

const LEDGER_TTL: Duration = Duration::from_secs(7 * 86_400);

/// The step in which each order is submitted, and the status of the broker's response to each attempt. The last order
/// receives only a 503 and is due for a retry at the end of the hour.
const ORDERS: [(u64, &[u16]); 14] = [
    (4, &[200]),
    (31, &[200]),
    (58, &[503, 200]),
    (90, &[200]),
    (117, &[200]),
    (149, &[200]),
    (171, &[422]),
    (204, &[200]),
    (233, &[503, 503, 200]),
    (262, &[200]),
    (290, &[200]),
    (318, &[200]),
    (341, &[200]),
    (357, &[503, 503, 503, 503]),
];

/// Returns the idempotency key of the order at the index `place` in [`ORDERS`].
fn key(place: usize) -> String {
    format!("fx-20261116-{:04}", 117 + place)
}

/// Returns the idempotency key of an order that is executed after retries.
pub(crate) fn retried_key() -> String {
    key(8)
}

/// Submits the orders of this step and sends each order until it is finished or has no more responses in [`ORDERS`].
pub(crate) async fn step<S: Stores>(
    h: &Harness<S>,
    step: u64,
    now: Timestamp,
    counters: &mut BTreeMap<String, i64>,
) {
    for (place, (at, statuses)) in ORDERS.into_iter().enumerate() {
        if at == step {
            send(h, place, statuses, now, counters).await;
        }
    }
}

async fn send<S: Stores>(
    h: &Harness<S>,
    place: usize,
    statuses: &[u16],
    submitted_at: Timestamp,
    counters: &mut BTreeMap<String, i64>,
) {
    let (text, worker) = (key(place), h.store.outbox_worker());
    let quantity = 10_000 * (1 + u32::try_from(place % 7).expect("a small number"));
    let intake = h.store.outbox_intake();
    intake.submit_orders(vec![order(&text, quantity)], LEDGER_TTL, submitted_at).await.expect("a submission");
    let idempotency_key = IdempotencyKey::parse(&text).expect("a key");
    let mut due = submitted_at;
    for status in statuses {
        worker.requeue_due_orders(10, OrderRetryPolicy::ORDER, due).await.expect("requeued orders");
        let claim = OutboxClaim { worker_id: process(due), ..order_claim(1) };
        let token = claim.token;
        let claimed = worker.claim_orders(claim, due).await.expect("a claim");
        let id = claimed.orders.first().expect("an order").id;
        let body = match status {
            200 => format!(
                r#"{{"idempotency_key":"{text}","broker_order_id":"B-{}","filled":{quantity},"price":154.37}}"#,
                880_000 + place
            ),
            _ => r#"{"error":"not accepted"}"#.to_owned(),
        };
        let now = due.after(Duration::from_millis(180));
        let outcome =
            classify_answer(*status, body.as_bytes(), &idempotency_key, PROCESSED_MARKER, None, now);
        let report = OrderReport { id, token, probe: claimed.probe, outcome };
        let settled =
            worker.settle_orders(vec![report], OrderRetryPolicy::ORDER, now).await.expect("a settlement");
        let [Settled::Accepted(record)] = &settled[..] else { panic!("{settled:?}") };
        let counter = match record.status {
            OrderStatus::Sent => "orders_sent",
            OrderStatus::Failed => "orders_retried",
            OrderStatus::Dead => "orders_dead",
            OrderStatus::Queued | OrderStatus::Sending => panic!("{record:?}"),
        };
        *counters.entry(counter.to_owned()).or_default() += 1;
        due = record.next_attempt_at;
    }
}

/// Makes the broker refuse the credentials of five orders, which pauses the lane.
pub(crate) async fn pause_lane<S: Stores>(h: &Harness<S>) {
    let mut counters = BTreeMap::new();
    for place in ORDERS.len()..ORDERS.len() + 5 {
        send(h, place, &[401], second(3_599), &mut counters).await;
    }
}
