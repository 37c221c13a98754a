//! The event types, patterns and filters of subscriptions in the API, and the list of subscriptions that match an
//! event.

use crate::server::TestApi;
use posthaste_api::key_hash;
use posthaste_core::ports::{KeyRole, KeyStore as _, Stores};
use posthaste_core::tenant::Tenant;
use posthaste_testkit::fixtures::{T0, actor};
use serde_json::{Value, json};

const URL: &str = "https://receiver.example/hook";

/// Creates a key of role admin that is bound to a tenant.
pub(crate) async fn bound_key<S: Stores>(api: &TestApi<S>, tenant: &str) -> String {
    let key = format!("a-key-of-tenant-{tenant}");
    let bound = Some(Tenant::from_store(tenant.to_owned()));
    let name = format!("admin of {tenant}");
    let made = api.h.store.keys().create_key(name, KeyRole::Admin, bound, key_hash(&key), actor(), T0).await;
    made.expect("a key");
    key
}

/// Creates a subscription with these fields and a URL, and returns it.
pub(crate) async fn create<S: Stores>(api: &TestApi<S>, fields: Value) -> Value {
    api.post("/v1/subscriptions").json(with_url(fields).to_string()).expect(201).await
}

pub(crate) fn with_url(mut fields: Value) -> Value {
    fields.as_object_mut().expect("an object").entry("callback_url").or_insert_with(|| URL.into());
    fields
}

pub(crate) fn path(subscription: &Value) -> String {
    format!("/v1/subscriptions/{}", subscription["id"])
}

pub(crate) async fn types_and_filters_are_stored_and_changed<S: Stores>(api: &TestApi<S>) {
    let filter = json!([{"prefix": {"type": "order."}}, {"not": {"exact": {"region": "us"}}}]);
    let made = create(api, json!({"event_types": ["order.*", "invoice.paid"], "filter": filter})).await;
    assert_eq!(made["event_types"], json!(["order.*", "invoice.paid"]));
    assert_eq!((&made["event_type"], &made["filter"]), (&Value::Null, &filter));
    let path = path(&made);
    let patch = async |body: Value| api.call("PATCH", &path).json(body.to_string()).expect(200).await;
    let one = patch(json!({"event_type": "order.*"})).await;
    assert_eq!((&one["event_types"], &one["event_type"]), (&json!(["order.*"]), &"order.*".into()));
    assert_eq!(one["filter"], filter, "an absent field is unchanged");
    let all = patch(json!({"event_types": ["*"], "filter": null})).await;
    assert_eq!((&all["event_type"], &all["filter"]), (&"*".into(), &Value::Null));
    let many: Vec<String> = (0..100).map(|number| format!("kind.{number}")).collect();
    assert_eq!(patch(json!({"event_types": many})).await["event_types"], json!(many));
}

pub(crate) async fn bad_types_and_filters_are_refused_by_name<S: Stores>(api: &TestApi<S>) {
    let made = create(api, json!({"event_type": "a"})).await;
    let deep = format!("{}{}{}", r#"{"not":"#.repeat(8), r#"{"exact":{"a":"1"}}"#, "}".repeat(8));
    let deep: Value = serde_json::from_str(&deep).expect("JSON");
    let leaves: Vec<Value> = (0..101).map(|number| json!({"exact": {"a": number.to_string()}})).collect();
    let long = json!({"exact": {"a": "x".repeat(4_096)}});
    let many: Vec<String> = (0..101).map(|number| format!("kind.{number}")).collect();
    let rows = [
        ("event_types", json!([]), "1 to 100"),
        ("event_types", json!(many), "1 to 100"),
        ("event_types", json!("a"), "a list of strings"),
        ("event_types", json!([1]), "a list of strings"),
        ("event_types", json!(["a", "a"]), "event_types[1] must not repeat"),
        ("event_types", json!(["a", "a.*.b"]), "event_types[1]: a * must be the last segment"),
        ("event_types", json!(["**"]), "must not contain **"),
        ("event_types", json!(["a.**"]), "must not contain **"),
        ("event_types", json!(["a*"]), "a whole segment"),
        ("event_types", json!(["a..b"]), "an empty segment"),
        ("event_types", json!([".a"]), "an empty segment"),
        ("event_types", json!([""]), "must not be empty"),
        ("event_types", json!(["two words"]), "must contain only"),
        ("event_types", json!([format!("{}*", "a.".repeat(16))]), "at most 15 segments"),
        ("event_type", json!("a.*.b"), "event_type: a * must be the last segment"),
        ("event_type", json!(["a"]), "a string"),
        ("filter", json!("a"), "filter at # must be an object"),
        ("filter", json!([]), "at least one clause"),
        ("filter", json!({"sql": "1 = 1"}), "\"sql\""),
        ("filter", json!({"exact": {"a": "1"}, "prefix": {"a": "1"}}), "exactly one"),
        ("filter", json!({"exact": {"a": 1}}), "must be text"),
        ("filter", json!({"exact": {"a": ""}}), "must not be empty text"),
        ("filter", json!({"exact": {"Region": "eu"}}), "filter at #/exact"),
        ("filter", deep, "deeper than 8"),
        ("filter", json!(leaves), "at most 100 comparisons"),
        ("filter", long, "at most 4096 bytes"),
    ];
    for (field, value, rule) in rows {
        let mut body = json!({"callback_url": URL, field: value});
        if field == "filter" {
            body["event_type"] = "a".into();
        }
        let problem = api.post("/v1/subscriptions").json(body.to_string()).refused(422, field).await;
        let detail = problem["detail"].as_str().expect("a detail");
        assert!(detail.starts_with(field) && detail.contains(rule), "{value}: {detail}");
        let patch = json!({field: value}).to_string();
        api.call("PATCH", &path(&made)).json(patch).refused(422, field).await;
    }
    let both = json!({"event_type": "a", "event_types": ["a"]});
    api.post("/v1/subscriptions").json(with_url(both.clone()).to_string()).refused(422, "event_type").await;
    api.call("PATCH", &path(&made)).json(both.to_string()).refused(422, "event_type").await;
    api.call("PATCH", &path(&made)).json(r#"{"event_types":null}"#).refused(422, "event_types").await;
    api.post("/v1/subscriptions").json(with_url(json!({})).to_string()).refused(422, "event_type").await;
    assert_eq!(api.count("subscriptions").await, 1);
}

/// Checks that a key that is bound to a tenant cannot subscribe to operational events, which describe all tenants.
pub(crate) async fn operational_types_need_an_unbound_key<S: Stores>(api: &TestApi<S>) {
    let (admin, acme) = (api.key(KeyRole::Admin).await, bound_key(api, "acme").await);
    for types in [json!(["posthaste.*"]), json!(["a", "posthaste.delivery.failed"])] {
        let body = with_url(json!({"event_types": types})).to_string();
        api.post("/v1/subscriptions").key(&acme).json(body.clone()).refused(403, "").await;
        api.post("/v1/subscriptions").key(&admin).json(body).expect(201).await;
    }
    let own = with_url(json!({"event_type": "a"})).to_string();
    let own = api.post("/v1/subscriptions").key(&acme).json(own).expect(201).await;
    let patch = r#"{"event_type":"posthaste.*"}"#;
    api.call("PATCH", &path(&own)).key(&acme).json(patch).refused(403, "").await;
    assert_eq!(api.get(&path(&own)).expect(200).await["event_type"], "a");
}

pub(crate) async fn matching_subscriptions_are_explained<S: Stores>(api: &TestApi<S>) {
    let eu = json!({"all": [{"prefix": {"type": "order."}}, {"exact": {"region": "eu"}}]});
    let exact = create(api, json!({"event_types": ["order.*", "order.paid"], "uid": "exact"})).await;
    let filtered = create(api, json!({"event_type": "order.*", "filter": eu})).await;
    let other = create(api, json!({"event_type": "invoice.*"})).await;
    let paused = create(api, json!({"event_type": "*", "active": false})).await;
    let unverified = create(api, json!({"event_type": "*"})).await;
    let of_acme = create(api, json!({"event_type": "*", "tenant": "acme"})).await;
    let verified = format!("UPDATE subscriptions SET verified = true WHERE id <> {}", unverified["id"]);
    api.h.direct.run(&verified).await;
    let list = async |query: &str| {
        let page =
            api.get(&format!("/v1/subscriptions/match?event_type=order.paid{query}")).expect(200).await;
        page["items"].clone()
    };
    let item = |of: &Value, pattern: Value, clause: Value, reason: Value| {
        let (id, uid) = (&of["id"], &of["uid"]);
        json!({
            "subscription_id": id, "uid": uid, "matched": reason.is_null(), "pattern": pattern, "clause": clause,
            "reason": reason
        })
    };
    let null = Value::Null;
    let clause = json!(r##"#/all/1 {"exact":{"region":"eu"}}"##);
    let with_pattern = [
        item(&unverified, "*".into(), null.clone(), "unverified".into()),
        item(&paused, "*".into(), null.clone(), "paused".into()),
        item(&filtered, "order.*".into(), clause.clone(), "filtered".into()),
        item(&exact, "order.paid".into(), null.clone(), null.clone()),
    ];
    assert_eq!(list("").await, json!(with_pattern));
    let region = list("&attributes=%7B%22region%22%3A%22eu%22%7D").await;
    assert_eq!((&region[2]["matched"], &region[2]["reason"]), (&true.into(), &null), "{region}");
    let all = list("&all=true").await;
    assert_eq!(all.as_array().map(Vec::len), Some(5));
    assert_eq!(all[2], item(&other, null.clone(), null.clone(), "other_type".into()));
    let acme = json!([item(&of_acme, "*".into(), null.clone(), null.clone())]);
    assert_eq!(list("&tenant=acme").await, acme);

    let key = bound_key(api, "acme").await;
    let call = |query: &str| api.get(&format!("/v1/subscriptions/match?{query}")).key(&key);
    assert_eq!(call("event_type=order.paid").expect(200).await["items"], acme);
    assert_eq!(call("event_type=order.paid&tenant=other").expect(200).await["items"], json!([]));
    for (query, parameter) in [
        ("", "event_type"),
        ("event_type=a..b", "event_type"),
        ("event_type=a&attributes=1", "attributes"),
        ("event_type=a&all=perhaps", "all"),
        ("event_type=a&limit=0", "limit"),
        ("event_type=a&more=1", "more"),
    ] {
        call(query).refused(422, parameter).await;
    }
    // Every subscription is examined once, page by page.
    let (mut ids, mut cursor) = (Vec::new(), String::new());
    loop {
        let query = format!("/v1/subscriptions/match?event_type=order.paid&all=true&limit=2&cursor={cursor}");
        let page = api.get(&query).expect(200).await;
        ids.extend(
            page["items"].as_array().expect("items").iter().map(|item| item["subscription_id"].clone()),
        );
        let Some(next) = page["next_cursor"].as_str() else { break };
        next.clone_into(&mut cursor);
    }
    let listed: Vec<Value> =
        all.as_array().expect("items").iter().map(|item| item["subscription_id"].clone()).collect();
    assert_eq!(ids, listed);
}
