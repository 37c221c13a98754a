//! Tests the HTTP request that a broker receives.

use crate::broker::accepted;
use posthaste_core::digest::digest_of;
use posthaste_core::order::{Order, OrderStatus};
use posthaste_core::ports::{OutboxIntakeStore as _, Stores};
use posthaste_testkit::harness::Harness;
use posthaste_testkit::order_lane::OrderRig;
use posthaste_testkit::receiver::Receiver;
use std::time::Duration;

pub(crate) async fn an_order_is_sent_with_its_key_and_canonical_bytes<S: Stores>(h: Harness<S>) {
    const TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let mut rig = OrderRig::new(h);
    let broker = Receiver::start(accepted).await;
    rig.add_worker(&broker.url("/orders?venue=1"));
    let traces = ["do-outbox-01JB4A", TRACE, "zwölf"];
    let mut orders = Vec::new();
    for (number, trace) in traces.into_iter().enumerate() {
        let text = format!(
            r#"{{"qty":10000.0,"symbol":"USDJPY","trace_id":"{trace}","limit_price":1.450010e2,"intent":"BUY","meta":{{"z":1,"a":"ü"}},"idempotency_key":"key-{number}","extra":[true]}}"#
        );
        orders.push(Order::parse(text.as_bytes()).expect("an order"));
    }
    let ttl = Duration::from_secs(86_400);
    rig.h.store.outbox_intake().submit_orders(orders.clone(), ttl, rig.now()).await.expect("a result");
    rig.until_quiet().await;
    let received = broker.received();
    assert_eq!(received.len(), 3);
    for (order, trace) in orders.iter().zip(traces) {
        let key = order.key.as_str();
        let request =
            received.iter().find(|request| request.header("idempotency-key") == key).expect("a send");
        assert_eq!(request.path, "/orders?venue=1");
        assert_eq!(request.body, order.canonical.as_bytes(), "the canonical bytes");
        assert_eq!(digest_of(&request.body), order.digest);
        assert_eq!(request.header("content-type"), "application/json");
        assert_eq!(request.header("authorization"), "Bearer hush");
        assert!(request.header("user-agent").starts_with("posthaste/"));
        assert_eq!(request.header("x-trace-id"), if trace.is_ascii() { trace } else { "" });
        assert_eq!(request.header("traceparent"), if trace == TRACE { TRACE } else { "" });
        let record = rig.order(&order.key).await;
        assert_eq!((record.status, record.last_error.as_deref()), (OrderStatus::Sent, None));
        assert_eq!(record.broker_order_id, Some(format!("brk-{key}")));
        assert_eq!(rig.audit(&order.key).await.last().and_then(|entry| entry.note.clone()), None);
    }
    let broker_said = format!("{:?} {:?}", rig.processes, rig.lane);
    assert!(!broker_said.contains("hush"), "Debug output contains no credentials");
    rig.check_audit().await;
}
