//! CloudEvents 1.0 in all HTTP modes.

use crate::server::TestApi;
use posthaste_core::ports::Stores;
use serde_json::json;

const ONE: &str = "application/cloudevents+json";
const BATCH: &str = "application/cloudevents-batch+json";
const EVENT: &str = r#"{"specversion":"1.0","type":"order.paid","source":"/shop","id":"1","subject":"s","time":"2026-01-01T00:00:00Z","myext":"7","datacontenttype":"application/json","data":{ "amount" : 1.50 }}"#;

pub(crate) async fn all_modes_produce_the_same_event<S: Stores>(api: &TestApi<S>) {
    let first = api.post("/v1/events").header("content-type", ONE).body(EVENT).expect(202).await;
    let id = first["id"].clone();
    let sql = format!("SELECT event_type, external_event_id, payload FROM events WHERE id = {id}");
    let stored = api.h.direct.rows(&sql).await;
    let expected = ["order.paid", "/shop\u{1f}1", r#"{ "amount" : 1.50 }"#];
    assert_eq!(stored[0], expected.map(|text| Some(text.to_owned())));
    let charset = format!("{ONE}; charset=UTF-8");
    let again = api.post("/v1/events").header("content-type", &charset).body(EVENT).expect(200).await;
    assert_eq!(again["id"], id);
    let batch =
        api.post("/v1/events").header("content-type", BATCH).body(format!("[{EVENT}]")).expect(200).await;
    assert_eq!((&batch[0]["id"], &batch[0]["duplicate"]), (&id, &true.into()));
    let binary = || {
        let call = api.post("/v1/events").header("ce-specversion", "1.0").header("ce-type", "order.paid");
        call.header("ce-source", "/shop")
    };
    let extended = || {
        let call = binary().header("ce-id", "1").header("ce-subject", "s").header("ce-myext", "7");
        call.header("ce-time", "2026-01-01T00:00:00Z")
    };
    let again = extended().json(r#"{ "amount" : 1.50 }"#).expect(200).await;
    assert_eq!(again["id"], id);
    // Payloads are compared byte for byte.
    extended().json(r#"{"amount":1.50}"#).refused(422, "external_event_id").await;
    // Attributes are part of the content.
    binary().header("ce-id", "1").json(r#"{ "amount" : 1.50 }"#).refused(422, "external_event_id").await;
    let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let euro =
        binary().header("ce-id", "%E2%82%AC").header("traceparent", trace).json("[1]").expect(202).await;
    let shown = api.get(&format!("/v1/events/{}", euro["id"])).expect(200).await;
    assert_eq!(shown["external_event_id"], "/shop\u{1f}€");
    assert_eq!((&shown["traceparent"], &shown["payload"]), (&trace.into(), &serde_json::json!([1])));
    // Events without data, and with data as base64.
    let bare = r#"{"specversion":"1.0","type":"a","source":"s","id":"2"}"#;
    let bare = api.post("/v1/events").header("content-type", ONE).body(bare).expect(202).await;
    assert!(api.get(&format!("/v1/events/{}", bare["id"])).expect(200).await["payload"].is_null());
    let encoded = r#"{"specversion":"1.0","type":"a","source":"s","id":"3","data_base64":"eyJhIjogMX0="}"#;
    let encoded = api.post("/v1/events").header("content-type", ONE).body(encoded).expect(202).await;
    let shown = api.get(&format!("/v1/events/{}", encoded["id"])).send().await;
    assert!(shown.text().contains(r#""payload":{"a": 1}"#), "{}", shown.text());
}

pub(crate) async fn attributes_are_stored<S: Stores>(api: &TestApi<S>) {
    let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let body = json!({
        "specversion": "1.0", "type": "a", "source": "/shop", "id": "1", "subject": "order 7",
        "time": "2026-01-01T00:00:00Z", "dataschema": "https://schema.example/a", "region": "eu", "total": 1.5,
        "vip": true, "absent": null, "tenant": "x", "traceparent": trace, "tracestate": "a=1", "data": 1
    });
    let accepted =
        api.post("/v1/events").header("content-type", ONE).body(body.to_string()).expect(202).await;
    let shown = api.get(&format!("/v1/events/{}", accepted["id"])).expect(200).await;
    let expected = json!({
        "dataschema": "https://schema.example/a", "region": "eu", "source": "/shop", "subject": "order 7",
        "tenant": "x", "time": "2026-01-01T00:00:00Z", "total": 1.5, "vip": true
    });
    assert_eq!((&shown["attributes"], &shown["tenant"]), (&expected, &serde_json::Value::Null));
    assert_eq!((&shown["traceparent"], &shown["tracestate"]), (&trace.into(), &"a=1".into()));
    let listed = api.get("/v1/events").expect(200).await;
    assert_eq!(
        (&listed["items"][0]["attributes"], &listed["items"][0]["tracestate"]),
        (&expected, &"a=1".into())
    );
    // In binary mode, all values are text, and the attributes of the event override the headers of the request.
    let call = api.post("/v1/events").header("ce-specversion", "1.0").header("ce-type", "a");
    let call = call.header("ce-source", "/shop").header("ce-id", "2").header("ce-region", "Z%C3%BCrich");
    let call = call.header("ce-total", "1.5").header("ce-traceparent", trace).header("ce-tracestate", "a=1");
    let other = trace.replace("00f0", "11f0");
    let call =
        call.header("traceparent", &other).header("tracestate", "b=2").header("posthaste-tenant", "acme");
    let accepted = call.json("1").expect(202).await;
    let shown = api.get(&format!("/v1/events/{}", accepted["id"])).expect(200).await;
    let expected = json!({"region": "Zürich", "source": "/shop", "total": "1.5"});
    assert_eq!((&shown["attributes"], &shown["tenant"]), (&expected, &"acme".into()));
    assert_eq!((&shown["traceparent"], &shown["tracestate"]), (&trace.into(), &"a=1".into()));
}

pub(crate) async fn invalid_attributes_are_refused_by_name<S: Stores>(api: &TestApi<S>) {
    let long = "x".repeat(1_025);
    for (name, value) in [
        ("myext", json!([])),
        ("myext", json!({"a": 1})),
        ("myext", json!("")),
        ("myext", json!(long)),
        ("myext", json!("a\u{0}b")),
        ("MyExt", json!("a")),
        ("my_ext", json!("a")),
        ("subject", json!(7)),
        ("time", json!("soon")),
    ] {
        let mut body = json!({"specversion": "1.0", "type": "a", "source": "s", "id": "1"});
        body[name] = value;
        api.post("/v1/events").header("content-type", ONE).body(body.to_string()).refused(422, name).await;
        let batch = format!("[{body}]");
        let field = format!("[0].{name}");
        api.post("/v1/events").header("content-type", BATCH).body(batch).refused(422, &field).await;
    }
    let binary = || {
        let call = api.post("/v1/events").header("ce-specversion", "1.0").header("ce-type", "a");
        call.header("ce-source", "s").header("ce-id", "1")
    };
    for (name, value) in
        [("ce-my-ext", "a"), ("ce-myext", ""), ("ce-time", "soon"), ("ce-data", "1"), ("ce-myext", "%ff")]
    {
        binary().header(name, value).json("1").refused(422, name).await;
    }
    binary().header("ce-myext", "a").header("ce-myext", "b").json("1").refused(422, "ce-myext").await;
    let operational =
        json!({"specversion": "1.0", "type": "posthaste.a", "source": "s", "id": "1"}).to_string();
    api.post("/v1/events").header("content-type", ONE).body(operational).refused(422, "type").await;
    let mut many = json!({"specversion": "1.0", "type": "a", "source": "s", "id": "1"});
    (0..20).for_each(|n| many[format!("a{n}")] = 1.into());
    api.post("/v1/events").header("content-type", ONE).body(many.to_string()).refused(422, "a9").await;
    assert_eq!(api.count("events").await, 0);
}

pub(crate) async fn ids_are_unique_within_their_source_only<S: Stores>(api: &TestApi<S>) {
    let event = |source: &str, id: &str| {
        format!(r#"{{"specversion":"1.0","type":"a","source":"{source}","id":"{id}","data":1}}"#)
    };
    for (source, id) in [("a", "1"), ("b", "1"), ("a", "2"), ("a1", "1"), ("a", "11")] {
        api.post("/v1/events").header("content-type", ONE).body(event(source, id)).expect(202).await;
    }
    api.post("/v1/events").header("content-type", ONE).body(event("a", "1")).expect(200).await;
    assert_eq!(api.count("events").await, 5);
}

pub(crate) async fn bad_cloud_events_are_refused<S: Stores>(api: &TestApi<S>) {
    let long = format!(r#"{{"specversion":"1.0","type":"a","source":"s","id":"{}"}}"#, "x".repeat(200));
    for (body, status, field) in [
        ("{", 400, ""),
        (r#"{"type":"a","source":"s","id":"1"}"#, 422, "specversion"),
        (r#"{"specversion":"0.3","type":"a","source":"s","id":"1"}"#, 422, "specversion"),
        (r#"{"specversion":"1.0","source":"s","id":"1"}"#, 422, "type"),
        (r#"{"specversion":"1.0","type":"a b","source":"s","id":"1"}"#, 422, "type"),
        (r#"{"specversion":"1.0","type":"a","id":"1"}"#, 422, "source"),
        (r#"{"specversion":"1.0","type":"a","source":"","id":"1"}"#, 422, "source"),
        (r#"{"specversion":"1.0","type":"a","source":"s","id":1}"#, 422, "id"),
        (r#"{"specversion":"1.0","type":"a","source":"s","id":"a\u001fb"}"#, 422, "id"),
        (
            r#"{"specversion":"1.0","type":"a","source":"s","id":"1","data":1,"data_base64":"MQ=="}"#,
            422,
            "data_base64",
        ),
        (r#"{"specversion":"1.0","type":"a","source":"s","id":"1","data_base64":"*"}"#, 422, "data_base64"),
        (
            r#"{"specversion":"1.0","type":"a","source":"s","id":"1","data_base64":"eHg="}"#,
            422,
            "data_base64",
        ),
        (
            r#"{"specversion":"1.0","type":"a","source":"s","id":"1","datacontenttype":"text/plain","data":"hello"}"#,
            422,
            "datacontenttype",
        ),
        (
            r#"{"specversion":"1.0","type":"a","source":"s","id":"1","datacontenttype":"text/plain"}"#,
            422,
            "datacontenttype",
        ),
        (
            r#"{"specversion":"1.0","type":"a","source":"s","id":"1","datacontenttype":"image/png","data_base64":"MQ=="}"#,
            422,
            "datacontenttype",
        ),
        (long.as_str(), 422, "id"),
    ] {
        api.post("/v1/events").header("content-type", ONE).body(body).refused(status, field).await;
    }
    let binary = |version: &str| api.post("/v1/events").header("ce-specversion", version);
    binary("1.0").header("ce-source", "s").header("ce-id", "1").json("1").refused(422, "ce-type").await;
    binary("2.0")
        .header("ce-type", "a")
        .header("ce-source", "s")
        .header("ce-id", "1")
        .json("1")
        .refused(422, "ce-specversion")
        .await;
    let whole = || binary("1.0").header("ce-type", "a").header("ce-source", "s").header("ce-id", "1");
    whole().json("{").refused(400, "").await;
    whole().header("content-type", "text/plain").body("1").refused(415, "").await;
    assert_eq!(api.count("events").await, 0);
}
