//! Tests of the validation of orders.

use proptest::prelude::*;

use super::*;
use crate::json::NESTING_MAX;

const SEED: &str = r#"{
  "idempotency_key": "01JABCXYZ-ULID-5678",
  "symbol": "USDJPY",
  "intent": "BUY",
  "qty": 10000,
  "limit_price": 145.001,
  "trace_id": "do-outbox-01JB4A",
  "meta": {"source":"DoLayer"}
}"#;

/// Returns a valid order with some members replaced or added. An empty text removes a member.
fn order_with(changes: &[(&str, &str)]) -> String {
    let mut members =
        vec![("idempotency_key", r#""k""#), ("symbol", r#""S""#), ("intent", r#""BUY""#), ("qty", "1")];
    for (name, json) in changes {
        members.retain(|(kept, _)| kept != name);
        members.push((name, json));
    }
    let written: Vec<String> = members
        .iter()
        .filter(|(_, json)| !json.is_empty())
        .map(|(name, json)| format!("\"{name}\":{json}"))
        .collect();
    format!("{{{}}}", written.join(","))
}

fn text(length: usize) -> String {
    format!("\"{}\"", "X".repeat(length))
}

#[test]
fn example_of_the_specification_is_accepted() {
    let order = Order::parse(SEED.as_bytes()).unwrap();
    let canonical = concat!(
        r#"{"idempotency_key":"01JABCXYZ-ULID-5678","intent":"BUY","limit_price":145.001,"#,
        r#""meta":{"source":"DoLayer"},"qty":10000,"symbol":"USDJPY","trace_id":"do-outbox-01JB4A"}"#
    );
    assert_eq!(order.canonical, canonical);
    assert_eq!(order.digest, digest_of(canonical.as_bytes()));
    assert_eq!(order.key.as_str(), "01JABCXYZ-ULID-5678");
    assert_eq!((order.symbol.as_str(), order.intent.as_str()), ("USDJPY", "BUY"));
    assert_eq!((order.qty, order.limit_price), (10000.0, Some(145.001)));
    assert_eq!(order.trace_id.as_deref(), Some("do-outbox-01JB4A"));
    let printed = format!("{order:?}");
    assert!(printed.contains("01JABCXYZ") && !printed.contains("145.001"), "{printed}");
}

#[test]
fn limits_are_exact() {
    let key_bad = "a string of 1 to 200 visible ASCII characters other than \" and \\";
    let symbol_bad = "a string of 1 to 64 visible ASCII characters";
    let intent_bad = "a string of at most 32 upper-case letters and _, such as BUY";
    let qty_bad = "a number above 0 and at most 9007199254740992";
    let price_bad = "a number above 0, null or absent";
    let trace_bad = "a string of at most 200 characters, null or absent";
    let meta_bad = "an object, null or absent";
    let long_trace = format!("\"{}\"", "ä".repeat(200));
    let rows: &[(&'static str, &str, Option<&'static str>)] = &[
        ("idempotency_key", &text(200), None),
        ("idempotency_key", &text(201), Some(key_bad)),
        ("idempotency_key", r#""""#, Some(key_bad)),
        ("idempotency_key", r#""a b""#, Some(key_bad)),
        ("idempotency_key", r#""ä""#, Some(key_bad)),
        ("idempotency_key", r#""a\"b""#, Some(key_bad)),
        ("idempotency_key", r#""a\\b""#, Some(key_bad)),
        ("idempotency_key", "7", Some(key_bad)),
        ("idempotency_key", "null", Some(key_bad)),
        ("symbol", &text(64), None),
        ("symbol", &text(65), Some(symbol_bad)),
        ("symbol", r#""""#, Some(symbol_bad)),
        ("symbol", r#""US JPY""#, Some(symbol_bad)),
        ("symbol", r#""\u20ac""#, Some(symbol_bad)),
        ("symbol", "[]", Some(symbol_bad)),
        ("intent", &text(32), None),
        ("intent", r#""SELL_SHORT""#, None),
        ("intent", &text(33), Some(intent_bad)),
        ("intent", r#""buy""#, Some(intent_bad)),
        ("intent", r#""_BUY""#, Some(intent_bad)),
        ("intent", r#""BUY1""#, Some(intent_bad)),
        ("intent", r#""""#, Some(intent_bad)),
        ("qty", "0.5", None),
        ("qty", "9007199254740992", None),
        ("qty", "9007199254740994", Some(qty_bad)),
        ("qty", "0", Some(qty_bad)),
        ("qty", "-0.0", Some(qty_bad)),
        ("qty", "-1", Some(qty_bad)),
        ("qty", r#""1""#, Some(qty_bad)),
        ("qty", r#""NaN""#, Some(qty_bad)),
        ("qty", "null", Some(qty_bad)),
        ("limit_price", "1e-9", None),
        ("limit_price", "null", None),
        ("limit_price", "0", Some(price_bad)),
        ("limit_price", "-1", Some(price_bad)),
        ("limit_price", r#""145""#, Some(price_bad)),
        ("limit_price", "true", Some(price_bad)),
        ("trace_id", "null", None),
        ("trace_id", r#""""#, None),
        ("trace_id", &long_trace, None),
        ("trace_id", &text(201), Some(trace_bad)),
        ("trace_id", "1", Some(trace_bad)),
        ("meta", "null", None),
        ("meta", "{}", None),
        ("meta", "[]", Some(meta_bad)),
        ("meta", r#""x""#, Some(meta_bad)),
    ];
    for (field, json, expected) in rows {
        let error = Order::parse(order_with(&[(field, json)]).as_bytes()).err();
        let expected = expected.map(|expected| OrderError::Wrong { field, expected });
        assert_eq!(error, expected, "{field}: {json}");
    }
}

#[test]
fn error_names_the_missing_field() {
    for field in ["idempotency_key", "symbol", "intent", "qty"] {
        let error = Order::parse(order_with(&[(field, "")]).as_bytes()).err();
        assert_eq!(error, Some(OrderError::Missing { field }));
    }
}

#[test]
fn syntax_errors_are_distinguished_from_invalid_content() {
    let deep = |levels: usize| order_with(&[("x", &("[".repeat(levels) + &"]".repeat(levels)))]);
    let big = |bytes: usize| order_with(&[("x", &text(bytes - order_with(&[("x", r#""""#)]).len()))]);
    // Columns: the body, and whether the error is a syntax error, or `None` if the body is valid.
    let rows: Vec<(Vec<u8>, Option<bool>)> = vec![
        (deep(NESTING_MAX - 1).into_bytes(), None),
        (deep(NESTING_MAX).into_bytes(), Some(false)),
        (big(ORDER_BYTES_MAX).into_bytes(), None),
        (big(ORDER_BYTES_MAX + 1).into_bytes(), Some(false)),
        (b"".to_vec(), Some(true)),
        (b"{".to_vec(), Some(true)),
        (b"\xff".to_vec(), Some(true)),
        (order_with(&[("qty", "NaN")]).into_bytes(), Some(true)),
        (order_with(&[("qty", "01")]).into_bytes(), Some(true)),
        (b"[]".to_vec(), Some(false)),
        (b"null".to_vec(), Some(false)),
        (b"{}".to_vec(), Some(false)),
        (order_with(&[("qty", "1e400")]).into_bytes(), Some(false)),
        (order_with(&[("x", r#"{"n":9007199254740993}"#)]).into_bytes(), Some(false)),
        (order_with(&[("x", r#"[{"a":1,"a":1}]"#)]).into_bytes(), Some(false)),
        (order_with(&[("meta", r#"{"a":"\u0000"}"#)]).into_bytes(), Some(false)),
        (order_with(&[("meta", r#"{"\udc00":1}"#)]).into_bytes(), Some(false)),
        (br#"{"qty":1,"idempotency_key":"k","symbol":"S","intent":"BUY","qty":1}"#.to_vec(), Some(false)),
    ];
    for (body, expected) in rows {
        let error = Order::parse(&body).err();
        let head = String::from_utf8_lossy(body.get(..60).unwrap_or(&body));
        assert_eq!(error.as_ref().map(OrderError::is_syntax), expected, "{head}: {error:?}");
    }
}

#[test]
fn digest_depends_on_content_and_not_on_notation() {
    let digest = |changes: &[(&str, &str)]| Order::parse(order_with(changes).as_bytes()).unwrap().digest;
    let plain = digest(&[]);
    for same in ["1.0", "1.00", "1e0", "10e-1", "0.1E+1"] {
        assert_eq!(digest(&[("qty", same)]), plain, "{same}");
    }
    assert_eq!(digest(&[("symbol", r#""\u0053""#)]), plain);
    let spaced = order_with(&[]).replace(',', " ,\n\t").replace(':', " : ");
    assert_eq!(Order::parse(spaced.as_bytes()).unwrap().digest, plain);
    for other in [("qty", "2"), ("symbol", r#""T""#), ("extra", "1"), ("meta", "{}"), ("meta", "null")] {
        assert_ne!(digest(&[other]), plain, "{other:?}");
    }
}

#[test]
fn unknown_fields_are_kept() {
    let order = Order::parse(order_with(&[("zeta", r#"[1.50,"é"]"#)]).as_bytes()).unwrap();
    let expected = r#"{"idempotency_key":"k","intent":"BUY","qty":1,"symbol":"S","zeta":[1.5,"é"]}"#;
    assert_eq!(order.canonical, expected);
}

#[test]
fn header_may_be_quoted_or_bare() {
    let long = "x".repeat(200);
    let longer = "x".repeat(201);
    let rows: &[(&str, Option<&str>)] = &[
        ("k-1", Some("k-1")),
        ("\"k-1\"", Some("k-1")),
        (" \t\"k-1\" ", Some("k-1")),
        ("a,b;c=d", Some("a,b;c=d")),
        (&long, Some(&long)),
        (&longer, None),
        ("", None),
        ("\"\"", None),
        ("\"", None),
        ("\"k", None),
        ("k\"", None),
        ("\"a\"b\"", None),
        ("\"a\\\"b\"", None),
        ("a b", None),
        ("\"a b\"", None),
        ("ä", None),
    ];
    for (header, expected) in rows {
        let key = IdempotencyKey::from_header(header.as_bytes()).ok();
        assert_eq!(key.as_ref().map(IdempotencyKey::as_str), *expected, "{header}");
    }
    assert_eq!(IdempotencyKey::from_header(b"\xff"), Err(BadIdempotencyKey));
}

proptest! {
    #[test]
    fn canonical_form_is_parsed_to_the_same_order(
        qty in 1_u64..=9_007_199_254_740_992,
        price in prop::num::f64::POSITIVE,
        extra in "[^\u{0}]{0,20}",
    ) {
        prop_assume!(price > 0.0 && price.is_finite());
        let extra = Value::from(extra).to_string();
        let price = canonical(&Value::from(price)).unwrap();
        let body = order_with(&[("qty", &qty.to_string()), ("limit_price", &price), ("x", &extra)]);
        let order = Order::parse(body.as_bytes()).unwrap();
        let again = Order::parse(order.canonical.as_bytes()).unwrap();
        prop_assert_eq!(&again, &order);
    }

    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(Order::parse(&bytes).is_err());
        let _ = IdempotencyKey::from_header(&bytes);
    }
}
