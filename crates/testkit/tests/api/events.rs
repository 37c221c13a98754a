//! Events in the API: publishing and reading.

use crate::server::{BATCH_EVENTS_MAX, PAYLOAD_BYTES_MAX, TestApi};
use posthaste_core::ports::Stores;
use posthaste_testkit::fixtures::T0;

pub(crate) async fn an_event_is_accepted_once<S: Stores>(api: &TestApi<S>) {
    let named = r#"{"event_type":"order.paid","payload":{"a":1},"external_event_id":"x-1"}"#;
    let first = api.post("/v1/events").json(named).expect(202).await;
    assert_eq!(first["duplicate"], false);
    let again = api.post("/v1/events").json(named).expect(200).await;
    assert_eq!(again["duplicate"], true);
    assert_eq!(again["id"], first["id"]);
    let other = api.post("/v1/events").json(r#"{"event_type":"order.paid","payload":1}"#).expect(202).await;
    assert_ne!(other["id"], first["id"]);
    assert_eq!(api.count("events").await, 2);
    assert_eq!(api.count("routing_queue").await, 2);
    // A body without a media type is parsed as JSON.
    api.post("/v1/events").body(named).expect(200).await;
    let list = api.post("/v1/events").json(format!("[{named}]")).expect(200).await;
    assert_eq!(list[0]["id"], first["id"]);
}

pub(crate) async fn payloads_are_kept_byte_for_byte<S: Stores>(api: &TestApi<S>) {
    for payload in [
        "null",
        r#""""#,
        r#"{ "b" : 1.50 ,  "a":[ 1e99999, -0.0 ] }"#,
        r#"{"a":1,"a":2}"#,
        r#""\u0041\ud800 \/ é 語""#,
        r#"{"event_type":"inner","payload":{}}"#,
    ] {
        let body = format!(r#" {{ "payload" : {payload} , "event_type":"a.b" }} "#);
        let id = api.post("/v1/events").json(body).expect(202).await["id"].clone();
        let stored = api.h.direct.texts(&format!("SELECT payload FROM events WHERE id = {id}")).await;
        assert_eq!(stored, [payload]);
        let shown = api.get(&format!("/v1/events/{id}")).send().await;
        assert!(shown.text().contains(&format!(r#""payload":{payload}"#)), "{}", shown.text());
    }
    let largest = format!(r#"{{"event_type":"a","payload":"{}"}}"#, "x".repeat(PAYLOAD_BYTES_MAX - 2));
    api.post("/v1/events").json(largest).expect(202).await;
    let deepest = format!(r#"[{{"event_type":"a","payload":{}{}}}]"#, "[".repeat(128), "]".repeat(128));
    api.post("/v1/events").json(deepest).expect(202).await;
}

pub(crate) async fn a_batch_is_all_or_nothing<S: Stores>(api: &TestApi<S>) {
    let event = |number: usize| {
        format!(r#"{{"event_type":"a","payload":{number},"external_event_id":"e-{number}"}}"#)
    };
    let events = |numbers: &[usize]| numbers.iter().map(|n| event(*n)).collect::<Vec<_>>().join(",");
    let accepted = api.post("/v1/events").json(format!("[{}]", events(&[1, 2]))).expect(202).await;
    assert_eq!(accepted.as_array().map(Vec::len), Some(2));
    // The response keeps the order of a mix of new and known events.
    let mixed = api.post("/v1/events").json(format!("[{}]", events(&[3, 1, 4]))).expect(202).await;
    let duplicates: Vec<bool> = (0..3).map(|index| mixed[index]["duplicate"] == true).collect();
    assert_eq!(duplicates, [false, true, false]);
    assert_eq!(mixed[1]["id"], accepted[0]["id"]);
    api.post("/v1/events").json(format!("[{}]", events(&[2, 3]))).expect(200).await;
    assert_eq!(api.count("events").await, 4);
    let good = events(&[5]);
    for (bad, field) in [
        (r#"{"event_type":"","payload":1}"#, "[1].event_type"),
        (r#"{"event_type":"a"}"#, "[1].payload"),
        (r#"{"event_type":"a","payload":1,"more":1}"#, "[1].more"),
        ("7", "[1]"),
    ] {
        api.post("/v1/events").json(format!("[{good},{bad}]")).refused(422, field).await;
    }
    api.post("/v1/events").json("[]").refused(422, "body").await;
    let many: Vec<usize> = (100..=100 + BATCH_EVENTS_MAX).collect();
    api.post("/v1/events").json(format!("[{}]", events(&many))).refused(413, "").await;
    // Elements after the first excess one are not read.
    let endless = format!("[{}", "1,".repeat(BATCH_EVENTS_MAX + 1));
    api.post("/v1/events").json(endless).refused(413, "").await;
    assert_eq!(api.count("events").await, 4);
    api.post("/v1/events").json(format!("[{}]", events(&many[1..]))).expect(202).await;
}

pub(crate) async fn duplicates_in_a_batch_are_stored_once<S: Stores>(api: &TestApi<S>) {
    let event = r#"{"event_type":"a","payload":1,"external_event_id":"twin"}"#;
    let answer = api.post("/v1/events").json(format!("[{event},{event}]")).expect(202).await;
    assert_eq!(answer[0]["id"], answer[1]["id"]);
    assert_eq!((&answer[0]["duplicate"], &answer[1]["duplicate"]), (&false.into(), &true.into()));
    assert_eq!(api.count("events").await, 1);
}

pub(crate) async fn an_external_id_identifies_one_content<S: Stores>(api: &TestApi<S>) {
    let event = |kind: &str, payload: &str, name: &str| {
        format!(r#"{{"event_type":"{kind}","payload":{payload},"external_event_id":"{name}"}}"#)
    };
    let first = api.post("/v1/events").json(event("a", "1", "x")).expect(202).await["id"].clone();
    for other in [event("b", "1", "x"), event("a", "1.0", "x")] {
        let refused = api.post("/v1/events").json(other.clone()).refused(422, "external_event_id").await;
        assert!(
            refused["detail"].as_str().is_some_and(|text| text.contains(&format!("event {first},"))),
            "{refused}"
        );
        let array = format!("[{},{other}]", event("a", "1", "new"));
        api.post("/v1/events").json(array).refused(422, "[1].external_event_id").await;
    }
    let twins = format!("[{},{}]", event("a", "1", "y"), event("a", "2", "y"));
    api.post("/v1/events").json(twins).refused(422, "[1].external_event_id").await;
    assert_eq!(api.count("events").await, 1);
}

pub(crate) async fn correlation_and_trace_are_kept<S: Stores>(api: &TestApi<S>) {
    let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let shown = async |extra: &str, headers: &[(&str, &str)]| {
        let mut call = api.post("/v1/events").json(format!(r#"{{"event_type":"a","payload":1{extra}}}"#));
        for (name, value) in headers {
            call = call.header(name, value);
        }
        let id = call.expect(202).await["id"].clone();
        let event = api.get(&format!("/v1/events/{id}")).expect(200).await;
        (event["correlation_id"].clone(), event["traceparent"].clone())
    };
    let state = async |headers: &[(&str, &str)]| {
        let call = api.post("/v1/events").json(r#"{"event_type":"a","payload":1}"#);
        let call = headers.iter().fold(call, |call, (name, value)| call.header(name, value));
        let id = call.expect(202).await["id"].clone();
        api.get(&format!("/v1/events/{id}")).expect(200).await["tracestate"].clone()
    };
    let parent = ("traceparent", trace);
    assert_eq!(state(&[parent, ("tracestate", "a=1"), ("tracestate", "b=2")]).await, "a=1,b=2");
    // Without a valid traceparent, a tracestate has no meaning.
    for headers in [&[parent, ("tracestate", "A=1")][..], &[("tracestate", "a=1")]] {
        assert_eq!(state(headers).await, serde_json::Value::Null, "{headers:?}");
    }
    let both = [("traceparent", trace), ("x-correlation-id", "c-1")];
    assert_eq!(shown("", &both).await, ("c-1".into(), trace.into()));
    assert_eq!(shown(r#","correlation_id":"own""#, &both).await, ("own".into(), trace.into()));
    let broken = [("traceparent", "00-zz")];
    assert_eq!(shown(r#","correlation_id":null"#, &broken).await, (None::<&str>.into(), None::<&str>.into()));
    let event = r#"{"event_type":"a","payload":1}"#;
    api.post("/v1/events")
        .json(event)
        .header("x-correlation-id", "two words")
        .refused(422, "x-correlation-id")
        .await;
}

pub(crate) async fn bad_events_are_refused_by_name<S: Stores>(api: &TestApi<S>) {
    let deep = format!(r#"{{"event_type":"a","payload":{}{}}}"#, "[".repeat(129), "]".repeat(129));
    let bottomless = "[".repeat(1_000_000);
    let long = format!(r#"{{"event_type":"a","payload":"{}"}}"#, "x".repeat(PAYLOAD_BYTES_MAX));
    let long_id = format!(r#"{{"event_type":"a","payload":1,"external_event_id":"{}"}}"#, "x".repeat(201));
    let rows: &[(&[u8], u16, &str)] = &[
        (b"", 400, ""),
        (b"not JSON", 400, ""),
        (b"{\"event_type\":\"a\",\"payload\":1", 400, ""),
        (b"{\"event_type\":\"a\",\"payload\":1}}", 400, ""),
        (b"{\"event_type\":\"a\",\"payload\":NaN}", 400, ""),
        (b"{\"event_type\":\"a\",\"payload\":\"\xff\"}", 400, ""),
        (b"\xef\xbb\xbf{\"event_type\":\"a\",\"payload\":1}", 400, ""),
        (b"\"text\"", 422, "body"),
        (b"null", 422, "body"),
        (b"{}", 422, "event_type"),
        (br#"{"event_type":"","payload":1}"#, 422, "event_type"),
        (br#"{"event_type":"two words","payload":1}"#, 422, "event_type"),
        (br#"{"event_type":7,"payload":1}"#, 422, "event_type"),
        (br#"{"event_type":"\ud800","payload":1}"#, 422, "event_type"),
        (br#"{"event_type":"a","event_type":"a","payload":1}"#, 422, "body"),
        (br#"{"event_type":"a"}"#, 422, "payload"),
        (br#"{"event_type":"a","payload":1,"external_event_id":7}"#, 422, "external_event_id"),
        (br#"{"event_type":"a","payload":1,"external_event_id":""}"#, 422, "external_event_id"),
        (br#"{"event_type":"a","payload":1,"external_event_id":"\u0000"}"#, 422, "external_event_id"),
        (br#"{"event_type":"a","payload":1,"correlation_id":"a b"}"#, 422, "correlation_id"),
        (br#"{"event_type":"a","payload":1,"surprise":1}"#, 422, "surprise"),
        (long_id.as_bytes(), 422, "external_event_id"),
        (deep.as_bytes(), 422, "payload"),
        (bottomless.as_bytes(), 400, ""),
        (long.as_bytes(), 413, "payload"),
    ];
    for (body, status, field) in rows {
        api.post("/v1/events").json(*body).refused(*status, field).await;
    }
    let event = r#"{"event_type":"a","payload":1}"#;
    for encoding in ["gzip", "br", "deflate"] {
        api.post("/v1/events").json(event).header("content-encoding", encoding).refused(415, "").await;
    }
    for media in ["text/plain", "application/x-www-form-urlencoded", "application/jsonx"] {
        api.post("/v1/events").header("content-type", media).body(event).refused(415, "").await;
    }
    assert_eq!(api.count("events").await, 0);
    api.post("/v1/events")
        .header("content-type", "Application/JSON; charset=utf-8")
        .body(event)
        .expect(202)
        .await;
}

pub(crate) async fn an_event_is_shown_with_its_deliveries<S: Stores>(api: &TestApi<S>) {
    let subscription = api.h.subscribe("order.paid").await;
    let event = r#"{"event_type":"order.paid","payload":{"a":1},"external_event_id":"x-1"}"#;
    let id = api.post("/v1/events").json(event).expect(202).await["id"].clone();
    api.h.route_all(T0).await;
    let shown = api.get(&format!("/v1/events/{id}")).expect(200).await;
    for (field, expected) in [
        ("event_type", "order.paid"),
        ("external_event_id", "x-1"),
        ("created_at", "2027-01-15T08:00:00.000000Z"),
    ] {
        assert_eq!(shown[field], expected, "{field}");
    }
    assert_eq!((&shown["id"], &shown["payload"]["a"]), (&id, &1.into()));
    assert_eq!(shown["deliveries"].as_array().map(Vec::len), Some(1));
    assert_eq!(shown["deliveries"][0]["subscription_id"], subscription.get());
    assert_eq!(shown["deliveries"][0]["status"], "Pending");
    assert_eq!(shown["deliveries_next_cursor"], serde_json::Value::Null);
    let found = async |query: &str| {
        let page = api.get(&format!("/v1/events?{query}")).expect(200).await;
        page["items"].as_array().map(Vec::len).expect("items")
    };
    assert_eq!(found("event_type=order.paid").await, 1);
    assert_eq!(found("event_type=order.sent").await, 0);
    assert_eq!(found("external_event_id=x-1&limit=5").await, 1);
    api.get("/v1/events?event_type=%20").refused(422, "event_type").await;
    api.get("/v1/events?sort=id").refused(422, "sort").await;
}
