//! Problem details (RFC 9457): types, titles, and the location of each error in a request.

use crate::server::TestApi;
use posthaste_core::ports::{KeyRole, Stores};
use serde_json::{Value, json};

const URL: &str = "https://receiver.example/hook";

/// Returns the kind and the name of the location of each error. Checks that `detail` is that of the first error.
fn locations(problem: &Value) -> Vec<(&'static str, &str)> {
    let errors = problem["errors"].as_array().expect("errors");
    assert_eq!(problem["detail"], errors[0]["detail"], "{problem}");
    errors.iter().map(location).collect()
}

/// Returns the kind and the name of the location of an error. Checks that there is exactly one.
fn location(error: &Value) -> (&'static str, &str) {
    let fields = error.as_object().expect("an error");
    assert_eq!(fields.len(), 2, "a detail and one location: {error}");
    let name = ["pointer", "parameter", "header"].into_iter().find(|name| fields.contains_key(*name));
    let name = name.unwrap_or_else(|| panic!("no location in {error}"));
    (name, error[name].as_str().expect("text"))
}

pub(crate) async fn all_errors_of_a_request_are_reported<S: Stores>(api: &TestApi<S>) {
    let body = r#"{"event_type":"two words","max_retry_limit":0,"a/b":1}"#;
    let problem = api.post("/v1/subscriptions").json(body).refused(422, "event_type").await;
    let expected = [
        ("pointer", "#/event_type"),
        ("pointer", "#/callback_url"),
        ("pointer", "#/max_retry_limit"),
        ("pointer", "#/a~1b"),
    ];
    assert_eq!(locations(&problem), expected);

    let events = r#"[{"payload":1},{"event_type":"a","payload":1},7,{"event_type":"a","paylod":1}]"#;
    let problem = api.post("/v1/events").json(events).refused(422, "[0].event_type").await;
    let expected = [
        ("pointer", "#/0/event_type"),
        ("pointer", "#/2"),
        ("pointer", "#/3/payload"),
        ("pointer", "#/3/paylod"),
    ];
    assert_eq!(locations(&problem), expected);
    let many = format!("[{}]", vec!["{}"; 20].join(","));
    let problem = api.post("/v1/events").json(many).refused(422, "[0].event_type").await;
    assert_eq!(locations(&problem).len(), 20);
    assert_eq!(api.count("events").await, 0);

    let query = "/v1/deliveries?status=Lost&since=now&limit=0&cursor=x&sort=id";
    let problem = api.get(query).refused(422, "status").await;
    let expected = ["status", "since", "limit", "cursor", "sort"].map(|name| ("parameter", name));
    assert_eq!(locations(&problem), expected);
    let problem = api.get("/v1/events/x").refused(422, "id").await;
    assert_eq!(locations(&problem), [("parameter", "id")]);

    let binary = api.post("/v1/events").header("ce-specversion", "1.0").json("1");
    let problem = binary.refused(422, "ce-type").await;
    assert_eq!(locations(&problem), ["ce-type", "ce-source", "ce-id"].map(|name| ("header", name)));
    let order = r#"{"idempotency_key":"k","symbol":"USDJPY","intent":"BUY","qty":1}"#;
    let problem = api.post("/v1/orders").json(order).refused(400, "Idempotency-Key").await;
    assert_eq!(locations(&problem), [("header", "Idempotency-Key")]);
}

pub(crate) async fn each_problem_has_its_type_and_title<S: Stores>(api: &TestApi<S>) {
    let made = json!({"event_type": "a", "callback_url": URL}).to_string();
    let made = api.post("/v1/subscriptions").json(made).expect(201).await;
    let unverified = format!("/v1/subscriptions/{}/test", made["id"]);
    let (long, viewer) = ("x".repeat(65 * 1024), api.key(KeyRole::Viewer).await);
    for (call, status, field, name, title) in [
        (api.post("/v1/events").json("{"), 400, "", "malformed-request", "Malformed request"),
        (api.get("/v1/events").no_key(), 401, "", "unauthorized", "Unauthorized"),
        (api.get("/v1/keys").key(&viewer), 403, "", "forbidden", "Forbidden"),
        (api.get("/v1/events/7"), 404, "", "not-found", "Not found"),
        (api.get("/nowhere"), 404, "", "not-found", "Not found"),
        (api.call("PUT", "/v1/events"), 405, "", "method-not-allowed", "Method not allowed"),
        (api.post(&unverified), 409, "", "conflict", "Conflict"),
        (api.post("/v1/keys").json(long), 413, "", "content-too-large", "Content too large"),
        (
            api.post("/v1/events").header("content-type", "text/plain").body("1"),
            415,
            "",
            "unsupported-media-type",
            "Unsupported media type",
        ),
        (api.post("/v1/events").json("{}"), 422, "event_type", "validation-failed", "Validation failed"),
    ] {
        let problem = call.refused(status, field).await;
        assert_eq!(problem["type"], format!("tag:posthaste,2026:problem/{name}"), "{problem}");
        assert_eq!(problem["title"], title, "{problem}");
    }
}
