//! Tests of [`super::Problem`].

use super::*;
use serde_json::json;

#[test]
fn an_unavailable_store_asks_for_a_retry_and_hides_the_cause() {
    let cause = "connection to 10.0.0.7 refused".into();
    let error = StoreError::Unavailable { doing: "storing events", source: cause };
    let problem = Problem::from(&error);
    assert_eq!((problem.status, problem.retry_after_s), (503, Some(1)));
    assert_eq!(problem.cause.as_deref(), Some("connection to 10.0.0.7 refused"));
    let text = serde_json::to_string(&problem).expect("JSON");
    assert!(text.contains("storing events") && !text.contains("10.0.0.7"), "{text}");
}

#[test]
fn messages_of_the_database_are_only_logged() {
    let text = "no pg_hba.conf entry for host \"10.0.0.7\", user \"keys\"";
    let unusable = StoreError::Unusable { what: text.to_owned() };
    let unreadable = StoreError::Unreadable { doing: "listing keys", reason: text.to_owned() };
    for (error, status) in [(unusable, 503), (unreadable, 500)] {
        let problem = Problem::from(&error);
        assert_eq!((problem.status, problem.retry_after_s), (status, (status == 503).then_some(1)));
        assert!(problem.cause.as_deref().is_some_and(|cause| cause.contains(text)), "{problem:?}");
        let shown = serde_json::to_string(&problem).expect("JSON");
        assert!(!shown.contains("pg_hba") && !shown.contains("10.0.0.7"), "{shown}");
    }
}

#[test]
fn a_refused_statement_is_an_internal_error_without_a_retry() {
    let error = StoreError::Refused { doing: "moving sagas", source: "trigger".into() };
    let problem = Problem::from(&error);
    assert_eq!((problem.status, problem.retry_after_s), (500, None));
}

#[test]
fn an_error_has_one_location() {
    for (error, location) in [
        (RequestError::in_body(&[], "wrong"), json!({"pointer": "#"})),
        (RequestError::in_body(&["0", "event_type"], "wrong"), json!({"pointer": "#/0/event_type"})),
        (RequestError::in_body(&["a/b~c d%\u{e9}"], "wrong"), json!({"pointer": "#/a~1b~0c%20d%25%C3%A9"})),
        (RequestError::in_parameter("limit", "wrong"), json!({"parameter": "limit"})),
        (RequestError::in_header("ce-id", "wrong"), json!({"header": "ce-id"})),
    ] {
        let mut expected = location;
        expected["detail"] = "wrong".into();
        assert_eq!(serde_json::to_value(&error).expect("JSON"), expected);
    }
}

#[test]
fn errors_are_collected_up_to_a_limit() {
    let mut errors = ValidationErrors::default();
    for number in 0..30 {
        assert_eq!(errors.is_full(), number >= ERRORS_MAX, "{number}");
        errors.add(Problem::invalid_parameter(&format!("p{number}"), format!("wrong {number}")));
    }
    errors.add(Problem::too_large("of another kind"));
    let problem = errors.into_result().expect_err("errors");
    assert_eq!((problem.field.as_deref(), problem.detail.as_str()), (Some("p0"), "wrong 0"));
    assert_eq!(problem.errors.len(), ERRORS_MAX);
    assert_eq!(problem.errors[19], RequestError::in_parameter("p19", "wrong 19"));
}

#[test]
fn the_form_is_that_of_rfc_9457() {
    let problem = Problem::invalid("event_type", "event_type is required");
    let expected = json!({
        "type": "tag:posthaste,2026:problem/validation-failed", "title": "Validation failed", "status": 422,
        "detail": "event_type is required", "field": "event_type",
        "errors": [{"detail": "event_type is required", "pointer": "#/event_type"}]
    });
    assert_eq!(serde_json::to_value(&problem).expect("JSON"), expected);
    let plain = serde_json::to_value(Problem::not_found("event")).expect("JSON");
    assert!(plain["errors"].is_null() && plain["field"].is_null(), "{plain}");
}
