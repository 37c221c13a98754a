//! The preview of a request: it shows what a test event sends, and no secret.

use crate::server::TestApi;
use posthaste_api::key_hash;
use posthaste_core::ports::{KeyRole, KeyStore as _, Stores};
use posthaste_core::tenant::Tenant;
use posthaste_testkit::fixtures::{T0, actor};
use posthaste_testkit::receiver::{Answer, Received, Receiver};
use serde_json::{Value, json};

/// Creates a verified subscription with an envelope, headers and authentication.
async fn subscribe<S: Stores>(api: &TestApi<S>, url: &str) -> String {
    let body = json!({"event_type": "order.paid", "callback_url": url}).to_string();
    let made = api.post("/v1/subscriptions").json(body).expect(201).await;
    let path = format!("/v1/subscriptions/{}", made["id"]);
    let (id, credentials) = (&made["id"], json!({"headers": {"x-token": "hush-1"}, "auth": "hush-2"}));
    let sql = format!(
        "UPDATE subscriptions SET envelope = 'standard', signatures = '[\"standard\",{{\"preset\":\"github\"}}]', \
         headers = '{{\"X-Team\":\"billing\",\"X-Token\":{{\"secret\":true}}}}', auth = '{{\"bearer\":{{}}}}', \
         credentials = '{credentials}' WHERE id = {id}"
    );
    api.h.direct.force(&sql).await;
    let verified = api.post(&format!("{path}/verify")).expect(200).await;
    assert_eq!(verified["verified"], true, "{verified}");
    path
}

fn headers(preview: &Value) -> Vec<(&str, &str)> {
    let headers = preview["headers"].as_array().expect("headers").iter();
    headers
        .map(|one| (one["name"].as_str().expect("a name"), one["value"].as_str().expect("a value")))
        .collect()
}

#[track_caller]
fn check_headers(request: &Received) {
    let rows = [("x-team", "billing"), ("x-token", "hush-1"), ("authorization", "Bearer hush-2")];
    for (name, expected) in rows {
        assert_eq!(request.header(name), expected, "{name}");
    }
    assert!(request.header("x-hub-signature-256").starts_with("sha256="), "{request:?}");
}

pub(crate) async fn a_preview_shows_the_request_without_secrets<S: Stores>(api: &TestApi<S>) {
    let receiver = Receiver::start(Answer::to_challenge).await;
    let path = subscribe(api, &receiver.url("/hook")).await;
    // The challenge is sent without the envelope, so that receivers can compare it.
    let challenge = receiver.received().pop().expect("a challenge");
    check_headers(&challenge);
    assert!(challenge.body.starts_with(br#"{"type":"posthaste.verification","challenge":"#), "{challenge:?}");
    api.post(&format!("{path}/test")).expect(200).await;
    let test = receiver.received().pop().expect("a test event");
    check_headers(&test);
    let body: Value = serde_json::from_slice(&test.body).expect("JSON");
    assert_eq!((&body["type"], &body["data"]["type"]), (&json!("posthaste.test"), &json!("posthaste.test")));

    let sent = receiver.received().len();
    let shown = api.post(&format!("{path}/preview")).expect(200).await;
    assert_eq!((&shown["method"], &shown["url"]), (&json!("POST"), &json!(receiver.url("/hook"))));
    let expected = json!({"type": "order.paid", "timestamp": T0.to_string(), "data": {"sample": true}});
    let body: Value = serde_json::from_str(shown["body"].as_str().expect("text")).expect("JSON");
    assert_eq!(body, expected);
    let shown_headers = headers(&shown);
    let mut names: Vec<&str> = shown_headers.iter().map(|(name, _)| *name).collect();
    let mut sent_names: Vec<&str> = test.headers.keys().map(http::HeaderName::as_str).collect();
    // The number of the attempt is sent with deliveries only.
    sent_names.push("posthaste-attempt");
    names.sort_unstable();
    sent_names.sort_unstable();
    assert_eq!(names, sent_names);
    for expected in [("x-team", "billing"), ("x-token", "•••"), ("authorization", "Bearer •••")] {
        assert!(shown_headers.contains(&expected), "{shown:#}");
    }
    assert!(!shown.to_string().contains("hush"), "{shown:#}");

    let event = json!({"event_type": "a", "payload": {"n": 7}, "external_event_id": "e-1"}).to_string();
    let event = api.post("/v1/events").json(event).expect(202).await["id"].clone();
    let shown = api.post(&format!("{path}/preview")).json(json!({"event_id": event}).to_string());
    let body = shown.expect(200).await["body"].to_string();
    assert!(body.contains(r#"\"data\":{\"n\":7}"#), "{body}");
    for (body, status) in
        [(json!({"event_id": 999_999}), 404), (json!({"event_id": 0}), 422), (json!({"x": 1}), 422)]
    {
        api.post(&format!("{path}/preview")).json(body.to_string()).expect(status).await;
    }
    assert_eq!(receiver.received().len(), sent, "a preview sends nothing");
}

pub(crate) async fn a_preview_shows_only_objects_of_the_tenant<S: Stores>(api: &TestApi<S>) {
    let receiver = Receiver::start(Answer::to_challenge).await;
    let path = subscribe(api, &receiver.url("/hook")).await;
    let (keys, tenant) = (api.h.store.keys(), Tenant::parse("acme").expect("a tenant"));
    let (name, hash) = ("bound".to_owned(), key_hash("the-key-of-acme"));
    keys.create_key(name, KeyRole::Admin, Some(tenant), hash, actor(), T0).await.expect("a key");
    let preview = || api.post(&format!("{path}/preview")).key("the-key-of-acme");
    preview().expect(404).await;
    let id = path.rsplit('/').next().expect("an id");
    api.h.direct.force(&format!("UPDATE subscriptions SET tenant = 'acme' WHERE id = {id}")).await;
    preview().expect(200).await;
    let event = json!({"event_type": "a", "payload": 1}).to_string();
    let event = api.post("/v1/events").json(event).expect(202).await["id"].clone();
    preview().json(json!({"event_id": event}).to_string()).expect(404).await;
}
