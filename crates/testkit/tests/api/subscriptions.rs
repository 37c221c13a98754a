//! Subscriptions in the API: creation, changes, deletion and secrets.

use crate::server::{Options, TestApi, sealer};
use posthaste_core::ports::{Stores, SubscriptionStore as _};
use posthaste_core::subscription::{SealedSecret, SecretColumn};
use posthaste_core::{SubscriptionId, Timestamp};
use posthaste_services::egress::EgressPolicy;
use posthaste_testkit::harness::Harness;
use std::time::Duration;

const URL: &str = "https://receiver.example/hook";

fn body(url: &str) -> String {
    format!(r#"{{"event_type":"order.paid","callback_url":"{url}"}}"#)
}

pub(crate) async fn a_subscription_is_created_changed_and_deleted<S: Stores>(api: &TestApi<S>) {
    let given = format!(
        r#"{{"event_type":"order.paid","callback_url":"{URL}","max_retry_limit":3,"timeout":"20s","description":"shop"}}"#
    );
    let mut made = api.post("/v1/subscriptions").json(given).expect(201).await;
    assert!(made["secret"].as_str().is_some_and(|secret| secret.starts_with("whsec_")));
    for (field, expected) in [
        ("event_type", "order.paid".into()),
        ("callback_url", URL.into()),
        ("active", true.into()),
        ("verified", false.into()),
        ("max_retry_limit", 3.into()),
        ("timeout", "20s".into()),
        ("description", "shop".into()),
        ("created_at", serde_json::Value::from("2027-01-15T08:00:00.000000Z")),
    ] {
        assert_eq!(made[field], expected, "{field}");
    }
    let path = format!("/v1/subscriptions/{}", made["id"]);
    made.as_object_mut().expect("an object").remove("secret");
    assert_eq!(api.get(&path).expect(200).await, made);
    assert_eq!(api.get("/v1/subscriptions").expect(200).await["items"], serde_json::json!([made]));
    api.clock.set(api.clock.now().after(Duration::from_secs(1)));
    let patch = r#"{"active":false,"max_retry_limit":null,"timeout":null,"description":null,"event_type":"order.sent"}"#;
    let changed = api.call("PATCH", &path).json(patch).expect(200).await;
    assert_eq!((&changed["active"], &changed["event_type"]), (&false.into(), &"order.sent".into()));
    assert!(
        changed["max_retry_limit"].is_null()
            && changed["timeout"].is_null()
            && changed["description"].is_null()
    );
    assert_eq!(changed["updated_at"], "2027-01-15T08:00:01.000000Z");
    // A no-op change modifies neither the subscription nor its history.
    api.clock.set(api.clock.now().after(Duration::from_secs(1)));
    let history = "SELECT count(*) FROM subscription_changes";
    let kept = api.h.direct.number(history).await;
    for nothing in ["{}", patch, r#"{"active":false}"#] {
        assert_eq!(api.call("PATCH", &path).json(nothing).expect(200).await, changed, "{nothing}");
    }
    assert_eq!(api.h.direct.number(history).await, kept);
    api.call("DELETE", &path).expect(204).await;
    api.get(&path).refused(404, "").await;
    api.call("PATCH", &path).json(r#"{"active":true}"#).refused(404, "").await;
    api.call("DELETE", &path).refused(404, "").await;
    for verb in ["verify", "rotate-secret", "test"] {
        api.post(&format!("{path}/{verb}")).refused(404, "").await;
        api.post(&format!("/v1/subscriptions/999/{verb}")).refused(404, "").await;
        api.post(&format!("/v1/subscriptions/x/{verb}")).refused(422, "id").await;
    }
    assert_eq!(api.get("/v1/subscriptions").expect(200).await["items"], serde_json::json!([]));
}

pub(crate) async fn bad_subscriptions_are_refused_by_name<S: Stores>(api: &TestApi<S>) {
    let made = api.post("/v1/subscriptions").json(body(URL)).expect(201).await;
    let path = format!("/v1/subscriptions/{}", made["id"]);
    let with = |extra: &str| format!(r#"{{"event_type":"a","callback_url":"{URL}",{extra}}}"#);
    let long = with(&format!(r#""description":"{}""#, "x".repeat(1_001)));
    for (body, field) in [
        ("[]", "body"),
        (r#"{"callback_url":"https://a.example/"}"#, "event_type"),
        (r#"{"event_type":"a"}"#, "callback_url"),
        (r#"{"event_type":"a","callback_url":7}"#, "callback_url"),
        (with(r#""max_retry_limit":0"#).as_str(), "max_retry_limit"),
        (with(r#""max_retry_limit":101"#).as_str(), "max_retry_limit"),
        (with(r#""max_retry_limit":-1"#).as_str(), "max_retry_limit"),
        (with(r#""max_retry_limit":"3""#).as_str(), "max_retry_limit"),
        (with(r#""timeout":"999ms""#).as_str(), "timeout"),
        (with(r#""timeout":"56s""#).as_str(), "timeout"),
        (with(r#""timeout":"soon""#).as_str(), "timeout"),
        (with(r#""timeout":20"#).as_str(), "timeout"),
        (with(r#""description":7"#).as_str(), "description"),
        (long.as_str(), "description"),
        (with(r#""secret":"whsec_mine""#).as_str(), "secret"),
        (with(r#""verified":true"#).as_str(), "verified"),
    ] {
        api.post("/v1/subscriptions").json(body).refused(422, field).await;
    }
    for (body, field) in [
        (r#"{"active":"yes"}"#, "active"),
        (r#"{"timeout":"0s"}"#, "timeout"),
        (r#"{"verified":true}"#, "verified"),
        (r#"{"event_type":"two words"}"#, "event_type"),
        (r#"{"callback_url":"nowhere"}"#, "callback_url"),
    ] {
        api.call("PATCH", &path).json(body).refused(422, field).await;
    }
    api.post("/v1/subscriptions").json("{").refused(400, "").await;
    api.post("/v1/subscriptions").header("content-type", "text/plain").body(body(URL)).refused(415, "").await;
    assert_eq!(api.count("subscriptions").await, 1);
}

/// Checks that null resets a field to its default (RFC 7396), and that a field without a default cannot be reset.
pub(crate) async fn a_change_is_a_merge_patch<S: Stores>(api: &TestApi<S>) {
    let given = format!(
        r#"{{"event_type":"order.paid","callback_url":"{URL}","max_retry_limit":3,"description":"shop"}}"#
    );
    let made = api.post("/v1/subscriptions").json(given).expect(201).await;
    let path = format!("/v1/subscriptions/{}", made["id"]);
    let patch = |media: &str, body: &str| {
        api.call("PATCH", &path).header("content-type", media).body(body.to_owned())
    };
    let merge = "application/merge-patch+json";
    let paused = patch(merge, r#"{"active":false}"#).expect(200).await;
    assert_eq!((&paused["active"], &paused["description"]), (&false.into(), &"shop".into()));
    let nulls = r#"{"active":null,"max_retry_limit":null,"description":null}"#;
    let reset = patch("application/json; charset=utf-8", nulls).expect(200).await;
    assert_eq!((&reset["active"], &reset["callback_url"]), (&true.into(), &URL.into()));
    assert!(reset["max_retry_limit"].is_null() && reset["description"].is_null(), "{reset}");
    let problem = patch(merge, r#"{"event_type":null,"callback_url":null}"#).refused(422, "event_type").await;
    let pointers: Vec<_> =
        problem["errors"].as_array().expect("errors").iter().map(|one| &one["pointer"]).collect();
    assert_eq!(pointers, ["#/event_type", "#/callback_url"]);
    for media in ["application/json-patch+json", "application/x-www-form-urlencoded", "text/plain"] {
        let problem = patch(media, "{}").refused(415, "").await;
        assert_eq!(problem["type"], "tag:posthaste,2026:problem/unsupported-media-type");
    }
    assert_eq!(api.get(&path).expect(200).await, reset);
}

/// Checks that address rules which need no DNS lookup are applied when the URL is set.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refused_urls_name_the_violated_rule() {
    let options = Options { policy: EgressPolicy::default(), ..Options::default() };
    let api = TestApi::start_with(Harness::sqlite("egress").await, options).await;
    for (url, rule) in [
        ("http://receiver.example/", "https"),
        ("ftp://receiver.example/", "https"),
        ("https://user:pw@receiver.example/", "user name"),
        ("https://receiver.example/#part", "fragment"),
        ("https://127.0.0.1/", "127.0.0.1 is"),
        ("https://2130706433/", "127.0.0.1 is"),
        ("https://10.1.2.3/", "10.1.2.3 is"),
        ("https://169.254.169.254/latest/meta-data", "169.254.169.254 is"),
        ("https://[::1]/", "::1 is"),
        ("https://[::ffff:10.0.0.1]/", "POSTHASTE_ALLOW_CIDRS"),
        ("https://localhost/", "this machine"),
        ("https://receiver.example:0/", "port 0"),
        ("receiver.example", "absolute URL"),
    ] {
        let problem = api.post("/v1/subscriptions").json(body(url)).refused(422, "callback_url").await;
        let detail = problem["detail"].as_str().expect("a detail");
        assert!(detail.contains(rule) && !detail.contains("pw"), "{url}: {detail}");
    }
    assert_eq!(api.count("subscriptions").await, 0);
}

pub(crate) async fn a_changed_url_must_be_verified_again<S: Stores>(api: &TestApi<S>) {
    let id = api.h.subscribe("order.paid").await;
    let path = format!("/v1/subscriptions/{id}");
    assert_eq!(api.get(&path).expect(200).await["verified"], true);
    let paused = api.call("PATCH", &path).json(r#"{"active":false}"#).expect(200).await;
    assert_eq!((&paused["active"], &paused["verified"]), (&false.into(), &true.into()));
    let moved =
        api.call("PATCH", &path).json(r#"{"callback_url":"https://other.example/"}"#).expect(200).await;
    assert_eq!(
        (&moved["verified"], &moved["callback_url"]),
        (&false.into(), &"https://other.example/".into())
    );
}

pub(crate) async fn secrets_are_shown_at_creation_and_rotation_only<S: Stores>(api: &TestApi<S>) {
    let made = api.post("/v1/subscriptions").json(body(URL)).expect(201).await;
    let first = made["secret"].as_str().expect("a secret").to_owned();
    let path = format!("/v1/subscriptions/{}", made["id"]);
    let rotated = api.post(&format!("{path}/rotate-secret")).expect(200).await;
    let second = rotated["secret"].as_str().expect("a secret").to_owned();
    assert_ne!(first, second);
    for list in [path.as_str(), "/v1/subscriptions"] {
        let text = api.get(list).send().await.text();
        assert!(!text.contains("whsec_") && !text.contains("secret"), "{text}");
    }
    let id = SubscriptionId::from_store(made["id"].as_i64().expect("an id"));
    let secrets =
        async || api.h.store.subscriptions().load_subscription(id).await.expect("a row").expect("it").1;
    let kept = secrets().await;
    let open =
        |sealed: &SealedSecret, column| sealer().open(sealed, kept.place(column)).expect("a secret").reveal();
    assert_eq!(open(&kept.current, SecretColumn::Current), second);
    let until = |hours: u64| -> Timestamp { api.clock.now().after(Duration::from_secs(hours * 3_600)) };
    assert_eq!(
        kept.previous.as_ref().map(|(secret, until)| (open(secret, SecretColumn::Previous), *until)),
        Some((first, until(24)))
    );
    api.post(&format!("{path}/rotate-secret")).json(r#"{"overlap_s":3600}"#).expect(200).await;
    assert_eq!(secrets().await.previous.map(|(_, until)| until), Some(until(1)));
    for bad in [r#"{"overlap_s":-1}"#, r#"{"overlap_s":"1h"}"#, r#"{"overlap_s":99999999}"#] {
        api.post(&format!("{path}/rotate-secret")).json(bad).refused(422, "overlap_s").await;
    }
    api.post(&format!("{path}/rotate-secret")).json(r#"{"overlap":1}"#).refused(422, "overlap").await;
    api.post(&format!("{path}/rotate-secret")).json(r#"{"overlap_s":0}"#).expect(200).await;
    assert_eq!(secrets().await.previous, None, "a secret without an overlap is not kept");
}
