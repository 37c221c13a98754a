//! Tests of the outcome for each HTTP status and each fault.

use super::*;

const NOW: Timestamp = Timestamp::from_micros(0);

fn key() -> IdempotencyKey {
    IdempotencyKey::parse("k-1").unwrap()
}

fn classify(status: u16, body: &str, retry_after: Option<&[u8]>) -> BrokerOutcome {
    classify_answer(status, body.as_bytes(), &key(), PROCESSED_MARKER, retry_after, NOW)
}

#[test]
fn each_status_has_a_code_and_shows_whether_the_order_may_have_been_executed() {
    // Columns: status, error code, may have executed, uses `Retry-After`.
    let rows = [
        (200, None, false, false),
        (202, None, false, false),
        (299, None, false, false),
        (100, Some("UNKNOWN"), true, false),
        (301, Some("UNKNOWN"), true, false),
        (304, Some("UNKNOWN"), true, false),
        (400, Some("BAD_REQUEST"), false, false),
        (401, Some("UNAUTHORIZED"), false, false),
        (402, Some("BAD_REQUEST"), false, false),
        (403, Some("UNAUTHORIZED"), false, false),
        (404, Some("BAD_REQUEST"), false, false),
        (408, Some("NETWORK_TIMEOUT"), true, false),
        (409, Some("UNKNOWN"), true, false),
        (422, Some("BAD_REQUEST"), false, false),
        (429, Some("RATE_LIMITED"), false, true),
        (499, Some("BAD_REQUEST"), false, false),
        (500, Some("BROKER_5XX"), true, false),
        (503, Some("BROKER_5XX"), true, true),
        (599, Some("BROKER_5XX"), true, false),
        (600, Some("UNKNOWN"), true, false),
        (0, Some("UNKNOWN"), true, false),
        (u16::MAX, Some("UNKNOWN"), true, false),
    ];
    for (status, code, may_have_executed, uses_header) in rows {
        let outcome = classify(status, "{}", Some(b"60"));
        assert_eq!(outcome.code().as_ref().map(ErrorCode::as_str), code, "{status}");
        assert_eq!(outcome.may_have_executed(), may_have_executed, "{status}");
        assert_eq!(outcome.retry_after(), uses_header.then_some(Duration::from_secs(60)), "{status}");
        if let Some(code) = outcome.code() {
            assert_eq!(ErrorCode::parse(code.as_str()), Ok(code));
        }
    }
}

#[test]
fn each_fault_has_a_code_and_shows_whether_the_order_may_have_been_executed() {
    let rows = [
        (BrokerFault::ConnectFailed, "NETWORK_TIMEOUT", false),
        (BrokerFault::DnsFailed, "NETWORK_TIMEOUT", false),
        (BrokerFault::TlsFailed, "NETWORK_TIMEOUT", false),
        (BrokerFault::BlockedAddress, "NETWORK_TIMEOUT", false),
        (BrokerFault::TimedOut { bytes_written: false }, "NETWORK_TIMEOUT", false),
        (BrokerFault::TimedOut { bytes_written: true }, "NETWORK_TIMEOUT", true),
        (BrokerFault::Reset { bytes_written: false }, "NETWORK_TIMEOUT", false),
        (BrokerFault::Reset { bytes_written: true }, "NETWORK_TIMEOUT", true),
        (BrokerFault::Unreadable, "UNKNOWN", true),
    ];
    let mut notes = Vec::new();
    for (fault, code, may_have_executed) in rows {
        let outcome = BrokerOutcome::NoAnswer(fault);
        assert_eq!(outcome.code().as_ref().map(ErrorCode::as_str), Some(code), "{fault:?}");
        assert_eq!(outcome.may_have_executed(), may_have_executed, "{fault:?}");
        assert_eq!(outcome.retry_after(), None);
        notes.push(outcome.note());
    }
    notes.sort_unstable();
    notes.dedup();
    assert_eq!(notes.len(), rows.len(), "each cause has its own note");
}

#[test]
fn conflict_counts_as_processed_only_with_evidence() {
    let rows = [
        // The key of the order, and a broker order id or the marker.
        (r#"{"idempotency_key":"k-1","broker_order_id":"b-1"}"#, true),
        (r#"{"idempotency_key":"k-1","broker_order_id":77}"#, true),
        (r#"{"idempotency_key":"k-1","error":"Order was ALREADY Processed."}"#, true),
        (r#"{"idempotency_key":"k-1","error":{"detail":["x","already processed"]}}"#, true),
        (r#"{"idempotency_key":"k-1","already processed":true}"#, true),
        // Only the key of the order.
        (r#"{"idempotency_key":"k-1"}"#, false),
        (r#"{"idempotency_key":"k-1","error":"in progress"}"#, false),
        (r#"{"idempotency_key":"k-1","broker_order_id":null}"#, false),
        (r#"{"idempotency_key":"k-1","broker_order_id":""}"#, false),
        (r#"{"idempotency_key":"k-1","broker_order_id":{}}"#, false),
        // A different key, or no key.
        (r#"{"idempotency_key":"k-11","broker_order_id":"b-1"}"#, false),
        (r#"{"idempotency_key":"K-1","broker_order_id":"b-1"}"#, false),
        (r#"{"idempotency_key":1,"broker_order_id":"b-1"}"#, false),
        (r#"{"broker_order_id":"b-1","error":"already processed"}"#, false),
        (r#"{"error":"k-1 already processed"}"#, false),
        (r#"{"order":{"idempotency_key":"k-1","broker_order_id":"b-1"}}"#, false),
        // Not a JSON object.
        (r#"[{"idempotency_key":"k-1","broker_order_id":"b-1"}]"#, false),
        ("already processed k-1", false),
        ("", false),
    ];
    for (body, is_processed) in rows {
        let outcome = classify(409, body, None);
        let found = matches!(outcome, BrokerOutcome::AlreadyProcessed(_));
        assert_eq!(found, is_processed, "{body}");
        if let BrokerOutcome::AlreadyProcessed(receipt) = outcome {
            assert_eq!(receipt.result_digest, digest_of(body.as_bytes()));
            assert_eq!(receipt.note, None);
        }
    }
}

#[test]
fn key_that_contains_the_marker_is_no_evidence() {
    let key = IdempotencyKey::parse("processed-1").unwrap();
    let is_processed = |body: &str, marker: &str| {
        let outcome = classify_answer(409, body.as_bytes(), &key, marker, None, NOW);
        matches!(outcome, BrokerOutcome::AlreadyProcessed(_))
    };
    assert!(!is_processed(r#"{"idempotency_key":"processed-1","error":"in progress"}"#, "processed"));
    assert!(is_processed(r#"{"idempotency_key":"processed-1","error":"Processed"}"#, "processed"));
    assert!(!is_processed(r#"{"idempotency_key":"processed-1","error":"x"}"#, " "));
    assert!(!is_processed(r#"{"idempotency_key":"processed-1","error":"x"}"#, ""));
}

#[test]
fn every_2xx_is_accepted_and_unexpected_bodies_are_noted() {
    let odd = Some("the broker's response is not a JSON object");
    let other = Some("the broker's response has another idempotency_key");
    let silent = Some("the broker's response has no idempotency_key");
    let long = format!(r#"{{"idempotency_key":"k-1","broker_order_id":"{}"}}"#, "b".repeat(201));
    let rows = [
        (r#"{"idempotency_key":"k-1","broker_order_id":"b-1"}"#, Some("b-1"), true, None),
        (r#" {"idempotency_key":"k-1","broker_order_id":8842} "#, Some("8842"), true, None),
        (r#"{"idempotency_key":"k-2","broker_order_id":"b-1"}"#, Some("b-1"), true, other),
        (r#"{"idempotency_key":null}"#, None, true, other),
        (r#"{"broker_order_id":"b-1"}"#, Some("b-1"), true, silent),
        (r#"{"idempotency_key":"k-1","broker_order_id":"a\u0000"}"#, None, false, None),
        (r#"{"idempotency_key":"k-1","x":["\u0000"]}"#, None, false, None),
        (r#"{"idempotency_key":"k-1","broker_order_id":"line\nline"}"#, None, true, None),
        (&long, None, true, None),
        ("[]", None, false, odd),
        (r#"{"idempotency_key":"\ud800"}"#, None, false, odd),
        ("<html>", None, false, odd),
        ("", None, false, odd),
    ];
    for (body, broker_order_id, has_json, note) in rows {
        let BrokerOutcome::Accepted(receipt) = classify(200, body, None) else {
            panic!("a 2xx was not accepted: {body}")
        };
        assert_eq!(receipt.broker_order_id.as_deref(), broker_order_id, "{body}");
        assert_eq!(receipt.result_json.as_ref().map(JsonText::as_str), has_json.then_some(body), "{body}");
        assert_eq!(receipt.result_digest, digest_of(body.as_bytes()), "{body}");
        assert_eq!(receipt.note, note, "{body}");
    }
    let not_text = classify_answer(200, b"\xff", &key(), PROCESSED_MARKER, None, NOW);
    assert!(matches!(not_text, BrokerOutcome::Accepted(Receipt { result_json: None, .. })));
}

#[test]
fn deeply_nested_response_does_not_overflow_the_stack() {
    let body = "[".repeat(1_000_000);
    assert!(matches!(classify(200, &body, None), BrokerOutcome::Accepted(_)));
    assert_eq!(classify(409, &body, None), BrokerOutcome::Unclear { status: 409 });
}

proptest::proptest! {
    #[test]
    fn no_response_panics(
        status in proptest::prelude::any::<u16>(),
        body in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..100),
        header in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..30),
    ) {
        let outcome = classify_answer(status, &body, &key(), PROCESSED_MARKER, Some(&header), NOW);
        let _ = (outcome.code(), outcome.note(), outcome.may_have_executed(), outcome.retry_after());
    }
}
