//! Tests that the parser refuses invalid orders with a specific error, and that both engines refuse invalid orders
//! that bypass the parser.

use posthaste_core::order::{IdempotencyKey, Order, OrderError};
use posthaste_core::ports::{OutboxIntakeStore as _, StoreError, Stores};
use posthaste_testkit::fixtures::{T0, order};
use posthaste_testkit::harness::Harness;
use std::time::Duration;

fn parse(more: &str) -> OrderError {
    let text = format!(r#"{{"idempotency_key":"k","symbol":"USDJPY","intent":"BUY","qty":1,{more}}}"#);
    Order::parse(text.as_bytes()).expect_err(&text)
}

#[test]
fn orders_that_cannot_be_stored_exactly_are_refused() {
    for text in [r#""meta":{"a":"\u0000"}"#, r#""meta":{"\u0000":1}"#, r#""meta":{"a":["x\u0000y"]}"#] {
        assert_eq!(parse(text), OrderError::Nul, "{text}");
    }
    for text in [r#""meta":{"a":"\ud800"}"#, r#""meta":{"a":"\udc00\ud800"}"#, r#""meta":{"\udbffx":1}"#] {
        assert_eq!(parse(text), OrderError::LoneSurrogate, "{text}");
    }
    for text in [r#""qty":1"#, r#""meta":{"a":1,"a":1}"#, r#""meta":{"a":1,"\u0061":2}"#] {
        assert!(matches!(parse(text), OrderError::DuplicateKey { .. }), "{text}");
    }
    for number in [
        "9007199254740993",
        "1e400",
        "-1e400",
        "0.1000000000000000055511151231257828",
        "1e-400",
        "123456789.123456789123",
    ] {
        let text = format!(r#""meta":{{"n":{number}}}"#);
        assert!(matches!(parse(&text), OrderError::InexactNumber { .. }), "{text}");
    }
    for text in ["{", "", "[1]x", "\u{feff}{}"] {
        assert!(Order::parse(text.as_bytes()).expect_err(text).is_syntax(), "{text:?}");
    }
}

/// Returns invalid orders, which the parser never returns. Each is submitted in a batch with valid orders.
fn broken() -> Vec<(&'static str, Order)> {
    let fine = || order("fine", 1);
    let long = IdempotencyKey::from_store("k".repeat(201));
    vec![
        ("a key over its length", Order { key: long, ..fine() }),
        ("an empty key", Order { key: IdempotencyKey::from_store(String::new()), ..fine() }),
        ("a key with U+0000", Order { key: IdempotencyKey::from_store("a\0b".to_owned()), ..fine() }),
        ("no JSON", Order { canonical: "{".to_owned(), ..fine() }),
        ("no text at all", Order { canonical: String::new(), ..fine() }),
        ("U+0000 behind the JSON", Order { canonical: "{}\0".to_owned(), ..fine() }),
        ("a trace id with U+0000", Order { trace_id: Some("a\0b".to_owned()), ..fine() }),
    ]
}

async fn check<S: Stores>(h: &Harness<S>) {
    for (what, broken) in broken() {
        let orders = vec![order("before", 1), broken, order("after", 1)];
        let outcome = h.store.outbox_intake().submit_orders(orders, Duration::from_secs(60), T0).await;
        assert!(matches!(outcome, Err(StoreError::Refused { .. })), "{what}: {outcome:?}");
        for table in ["outbox_orders", "idempo_ledger", "outbox_audit"] {
            assert_eq!(h.direct.number(&format!("SELECT count(*) FROM {table}")).await, 0, "{what}: {table}");
        }
    }
    let fine = vec![order("before", 1), order("after", 1)];
    h.store
        .outbox_intake()
        .submit_orders(fine, Duration::from_secs(60), T0)
        .await
        .expect("the store still works");
}

#[tokio::test(flavor = "multi_thread")]
async fn sqlite_refuses_broken_orders() {
    check(&Harness::sqlite("broken").await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn postgres_refuses_broken_orders() {
    check(&Harness::postgres("broken").await).await;
}
