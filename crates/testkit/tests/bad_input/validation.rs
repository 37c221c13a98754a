//! Tests validation in the core, before any store is called, with one row for each kind of invalid input.

use posthaste_core::event::{CorrelationId, EventError, EventType, ExternalEventId, TraceParent};
use posthaste_core::ids::IdOutOfRange;
use posthaste_core::json::{JsonError, JsonText, NESTING_MAX, PAYLOAD_BYTES_MAX};
use posthaste_core::subscription::{SubscriptionError, check_description};
use posthaste_core::{DeadLetterId, EventId, JobId, OrderId, SagaId, SubscriptionId, WorkerId};

#[test]
fn ids_out_of_range_are_refused() {
    for raw in [0, -1, i64::MIN] {
        assert_eq!(EventId::new(raw), Err(IdOutOfRange(raw)));
        assert_eq!(SubscriptionId::new(raw), Err(IdOutOfRange(raw)));
        assert_eq!(SagaId::new(raw), Err(IdOutOfRange(raw)));
        assert_eq!(JobId::new(raw), Err(IdOutOfRange(raw)));
        assert_eq!(DeadLetterId::new(raw), Err(IdOutOfRange(raw)));
        assert_eq!(OrderId::new(raw), Err(IdOutOfRange(raw)));
    }
}

#[test]
fn texts_out_of_bounds_are_refused() {
    let long = "x".repeat(201);
    for text in ["", &long, "\0", "a\0b"] {
        assert_eq!(EventType::parse(text), Err(EventError::EventType), "{text:?}");
        assert_eq!(ExternalEventId::parse(text), Err(EventError::ExternalId), "{text:?}");
        assert_eq!(CorrelationId::parse(text), Err(EventError::CorrelationId), "{text:?}");
        assert_eq!(TraceParent::parse(text), Err(EventError::TraceParent), "{text:?}");
        assert!(WorkerId::parse(text).is_err(), "{text:?}");
    }
    for text in ["\0".to_owned(), "ü".repeat(1_001)] {
        assert_eq!(check_description(&text), Err(SubscriptionError::Description));
    }
}

#[test]
fn payloads_that_are_not_json_are_refused() {
    let parse = |bytes: &[u8]| JsonText::parse(bytes, PAYLOAD_BYTES_MAX).expect_err("a refusal");
    for text in [
        "",
        " ",
        "{",
        "[1,]",
        "{'a':1}",
        "01",
        "+1",
        "nul",
        "\"\t\"",
        "1 2",
        "{\"a\":1}\0",
        "\u{feff}1",
        "NaN",
    ] {
        assert!(matches!(parse(text.as_bytes()), JsonError::Invalid { .. }), "{text:?}");
    }
    assert!(matches!(parse(b"\"\xff\""), JsonError::NotUtf8 { at: 1 }));
    assert!(matches!(parse(b"\"\xed\xa0\x80\""), JsonError::NotUtf8 { .. }), "a surrogate in UTF-8");
    let deep = "[".repeat(NESTING_MAX + 1) + &"]".repeat(NESTING_MAX + 1);
    assert_eq!(parse(deep.as_bytes()), JsonError::TooDeep { max: NESTING_MAX });
    let large = format!("\"{}\"", "x".repeat(PAYLOAD_BYTES_MAX - 1));
    assert_eq!(parse(large.as_bytes()), JsonError::TooLong { bytes: large.len(), max: PAYLOAD_BYTES_MAX });
}
