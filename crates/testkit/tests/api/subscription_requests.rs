//! The headers, authentication and envelope of subscriptions in the API. Their secrets are stored encrypted, never
//! shown, and never sent to another host than the one they were stored for.

use crate::server::TestApi;
use crate::subscription_patterns::{create, path, with_url};
use crate::subscription_secrets::stored_credentials;
use posthaste_core::ports::Stores;
use serde_json::{Value, json};

/// Texts that no response and no audit row may contain.
const SECRETS: [&str; 4] = ["hidden-token", "hidden-password", "hidden-client", "hidden-second"];

fn check_hidden(text: &str) {
    for secret in SECRETS {
        assert!(!text.contains(secret), "{secret} is in {text}");
    }
}

pub(crate) async fn secret_values_are_kept_and_never_shown<S: Stores>(api: &TestApi<S>) {
    let made = create(
        api,
        json!({
            "event_type": "a", "envelope": "standard", "timeout": "20s",
            "headers": {"X-Team": "billing", "X-Token": {"value": "hidden-token", "secret": true}},
            "auth": {"basic": {"username": "posthaste", "password": "hidden-password"}}
        }),
    )
    .await;
    let shown = json!({"X-Team": "billing", "X-Token": {"secret": true}});
    assert_eq!((&made["headers"], &made["envelope"]), (&shown, &"standard".into()));
    assert_eq!(made["auth"], json!({"basic": {"username": "posthaste"}}));
    check_hidden(&made.to_string());
    let patch = |body: Value| api.call("PATCH", &path(&made)).json(body.to_string());
    let column = "SELECT count(*) FROM subscriptions WHERE credentials LIKE '%hidden%'";
    assert_eq!(api.h.direct.number(column).await, 0, "they are encrypted");

    let changed = patch(json!({"headers": {"x-token": {"secret": true}, "X-New": "1"}, "envelope": null}))
        .expect(200)
        .await;
    assert_eq!(changed["headers"], json!({"x-token": {"secret": true}, "X-New": "1"}));
    assert_eq!(changed["envelope"], "raw");
    let credentials = stored_credentials(api, &made).await;
    assert_eq!(credentials.headers.get("x-token").map(String::as_str), Some("hidden-token"));
    assert_eq!(credentials.auth.as_deref(), Some("hidden-password"));
    patch(json!({"auth": {"basic": {"username": "other"}}})).expect(200).await;
    assert_eq!(stored_credentials(api, &made).await.auth.as_deref(), Some("hidden-password"));
    // Another kind of authentication needs its own secret.
    patch(json!({"auth": {"bearer": {}}})).refused(422, "auth").await;
    let oauth2 = json!({"oauth2_client_credentials": {
        "token_url": "https://id.example/token", "client_id": "me", "client_secret": "hidden-client", "scope": "send"
    }});
    let changed = patch(json!({"auth": oauth2, "headers": null})).expect(200).await;
    let public = json!({"token_url": "https://id.example/token", "client_id": "me", "scope": "send"});
    assert_eq!(changed["auth"]["oauth2_client_credentials"], public);
    let mut moved = public.clone();
    moved["token_url"] = "https://other.example/token".into();
    patch(json!({"auth": {"oauth2_client_credentials": moved}})).refused(422, "auth").await;
    assert!(stored_credentials(api, &made).await.headers.is_empty());
    patch(json!({"auth": null})).expect(200).await;
    assert_eq!(
        api.h.direct.number("SELECT count(*) FROM subscriptions WHERE credentials IS NOT NULL").await,
        0
    );
    for list in ["/v1/subscriptions".to_owned(), path(&made), "/v1/audit?limit=200".to_owned()] {
        check_hidden(&api.get(&list).send().await.expect(200).text());
    }
}

pub(crate) async fn bad_requests_are_refused_by_name<S: Stores>(api: &TestApi<S>) {
    let made = create(api, json!({"event_type": "a"})).await;
    let many: serde_json::Map<String, Value> =
        (0..21).map(|number| (format!("X-{number}"), "v".into())).collect();
    let rows = [
        ("headers", json!("X: y")),
        ("headers", json!({"X-A": "line\r\nbreak"})),
        ("headers", json!({"X-A\r\nX-B": "v"})),
        ("headers", json!({"X A": "v"})),
        ("headers", json!({"": "v"})),
        ("headers", json!({"X-A": "é"})),
        ("headers", json!({"X-A": 1})),
        ("headers", json!({"X-A": "v".repeat(4_097)})),
        ("headers", json!({"X-A": "1", "x-a": "2"})),
        ("headers", json!({"Host": "v"})),
        ("headers", json!({"Content-Length": "1"})),
        ("headers", json!({"transfer-encoding": "chunked"})),
        ("headers", json!({"Webhook-Id": "v"})),
        ("headers", json!({"Proxy-Authorization": "v"})),
        ("headers", json!({"X-A": {"secret": true}})),
        ("headers", json!({"X-A": {"value": "", "secret": true}})),
        ("headers", json!(many)),
        ("auth", json!("basic")),
        ("auth", json!({})),
        ("auth", json!({"digest": {}})),
        ("auth", json!({"basic": {"username": "a"}})),
        ("auth", json!({"basic": {"username": "a:b", "password": "p"}})),
        ("auth", json!({"bearer": {"token": "line\nbreak"}})),
        ("auth", json!({"bearer": {"token": "t"}, "mtls": {}})),
        ("auth", json!({"api_key": {"header": "Host", "value": "v"}})),
        ("auth", json!({"api_key": {"header": "webhook-signature", "value": "v"}})),
        ("auth", json!({"mtls": {"certificate": "none", "key": "none"}})),
        (
            "auth",
            json!({"oauth2_client_credentials": {"token_url": "ftp://a", "client_id": "i", "client_secret": "s"}}),
        ),
        (
            "auth",
            json!({"oauth2_client_credentials": {
                "token_url": "https://10.1.2.3/token", "client_id": "i", "client_secret": "s"
            }}),
        ),
        ("envelope", json!("xml")),
        ("timeout", json!("0s")),
    ];
    for (field, value) in rows {
        let body = with_url(json!({"event_type": "a", field: value})).to_string();
        let problem = api.post("/v1/subscriptions").json(body).refused(422, field).await;
        assert!(problem["detail"].as_str().is_some_and(|detail| detail.starts_with(field)), "{problem}");
        api.call("PATCH", &path(&made)).json(json!({field: value}).to_string()).refused(422, field).await;
    }
    // The parts are also checked together, and with the stored ones.
    let token = json!({"bearer": {"token": "t"}});
    let twice =
        with_url(json!({"event_type": "a", "auth": token, "headers": {"Authorization": "v"}})).to_string();
    api.post("/v1/subscriptions").json(twice).refused(422, "headers").await;
    let patch = |body: Value| api.call("PATCH", &path(&made)).json(body.to_string());
    patch(json!({"headers": {"authorization": "v", "X-Hub-Signature-256": "mine"}})).expect(200).await;
    patch(json!({"auth": token})).refused(422, "headers").await;
    patch(json!({"signatures": ["standard", {"preset": "github"}]})).refused(422, "headers").await;
    assert_eq!(api.count("subscriptions").await, 1);
}

/// Checks that a caller who does not know a stored secret cannot have it sent to a host of its choice.
pub(crate) async fn stored_secrets_stay_with_their_host<S: Stores>(api: &TestApi<S>) {
    let made = create(
        api,
        json!({
            "event_type": "a", "uid": "u", "headers": {"X-Token": {"value": "hidden-token", "secret": true}},
            "auth": {"bearer": {"token": "hidden-client"}}
        }),
    )
    .await;
    let patch = |body: Value| api.call("PATCH", &path(&made)).json(body.to_string());
    let elsewhere = |extra: Value| {
        let mut body = json!({"callback_url": "https://other.example/hook"});
        body.as_object_mut().expect("an object").extend(extra.as_object().expect("an object").clone());
        body
    };
    for url in
        ["https://receiver.example:8443/hook", "http://receiver.example/hook", "https://evil.example/hook"]
    {
        patch(json!({"callback_url": url})).refused(422, "headers").await;
    }
    let header = json!({"X-Token": {"secret": true}});
    patch(elsewhere(json!({"headers": header, "auth": null}))).refused(422, "headers").await;
    patch(elsewhere(json!({"headers": {}}))).refused(422, "auth").await;
    let problem = patch(elsewhere(json!({"headers": {}, "auth": {"bearer": {}}}))).refused(422, "auth").await;
    check_hidden(&problem.to_string());
    let body = elsewhere(json!({"event_type": "a", "headers": header, "auth": {"bearer": {}}})).to_string();
    api.call("PUT", "/v1/subscriptions/uid/u").json(body).refused(422, "headers").await;
    assert_eq!(api.get(&path(&made)).expect(200).await["callback_url"], made["callback_url"]);
    let same_host = patch(json!({"callback_url": "https://receiver.example/v2?a=b"})).expect(200).await;
    assert_eq!(same_host["headers"], header);
    let new = json!({
        "headers": {"X-Token": {"value": "hidden-second", "secret": true}},
        "auth": {"bearer": {"token": "hidden-second"}}
    });
    patch(elsewhere(new)).expect(200).await;
    assert_eq!(stored_credentials(api, &made).await.auth.as_deref(), Some("hidden-second"));
    patch(json!({"callback_url": "https://third.example/", "headers": null, "auth": null})).expect(200).await;
    check_hidden(&api.get("/v1/audit?limit=200").send().await.expect(200).text());
}
