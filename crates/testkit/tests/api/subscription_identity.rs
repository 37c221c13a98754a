//! The identity of subscriptions in the API: tenant, uid, name and metadata; replacement by uid, entity tags, and the
//! separation of tenants.

use crate::server::TestApi;
use crate::subscription_patterns::{bound_key, create, path, with_url};
use posthaste_core::ports::Stores;
use serde_json::{Value, json};

fn by_uid(uid: &str) -> String {
    format!("/v1/subscriptions/uid/{uid}")
}

pub(crate) async fn identities_are_stored_and_unique_per_tenant<S: Stores>(api: &TestApi<S>) {
    let fields = json!({
        "event_type": "a", "tenant": "acme", "uid": "shop 1", "name": "Shop", "metadata": {"team": "billing", "x": ""}
    });
    let made = create(api, fields.clone()).await;
    for field in ["tenant", "uid", "name", "metadata"] {
        assert_eq!(made[field], fields[field], "{field}");
    }
    api.post("/v1/subscriptions").json(with_url(fields.clone()).to_string()).refused(409, "").await;
    let other = create(api, json!({"event_type": "a", "uid": "shop 1"})).await;
    assert_eq!(other["tenant"], Value::Null, "another tenant may use the same uid");
    let third = create(api, json!({"event_type": "a", "uid": "shop 2"})).await;
    let patch = |of: &Value, body: &str| api.call("PATCH", &path(of)).json(body);
    patch(&third, r#"{"uid":"shop 1"}"#).refused(409, "").await;
    patch(&third, r#"{"tenant":"acme"}"#).refused(422, "tenant").await;
    let changed = patch(&third, r#"{"uid":null,"name":"n","metadata":{"a":"b"}}"#).expect(200).await;
    assert_eq!((&changed["uid"], &changed["name"]), (&Value::Null, &"n".into()));
    assert_eq!(changed["metadata"], json!({"a": "b"}));
    api.call("DELETE", &path(&other)).expect(204).await;
    let again = patch(&third, r#"{"uid":"shop 1","metadata":null}"#).expect(200).await;
    assert_eq!((&again["uid"], &again["metadata"]), (&"shop 1".into(), &json!({})), "its owner was deleted");

    let long = "x".repeat(201);
    for (field, value) in [
        ("uid", json!("")),
        ("uid", json!("a\nb")),
        ("uid", json!(7)),
        ("name", json!(long)),
        ("tenant", json!("")),
        ("tenant", json!(long)),
        ("metadata", json!({"a b": "x"})),
        ("metadata", json!({"a": 1})),
        ("metadata", json!(["a"])),
    ] {
        let body = with_url(json!({"event_type": "a", field: value}));
        api.post("/v1/subscriptions").json(body.to_string()).refused(422, field).await;
    }
}

pub(crate) async fn lists_are_filtered_by_identity<S: Stores>(api: &TestApi<S>) {
    let rows = [
        json!({
            "event_types": ["order.*"], "tenant": "acme", "uid": "u1", "name": "n1",
            "metadata": {"team": "a", "env": "prod"}
        }),
        json!({"event_types": ["order.paid", "*"], "tenant": "acme", "name": "n2", "metadata": {"team": "a"}}),
        json!({"event_types": ["invoice.paid"], "uid": "u1", "name": "n2", "metadata": {"team": "b"}}),
    ];
    for row in rows {
        create(api, row).await;
    }
    let found = async |query: &str| -> Vec<i64> {
        let page = api.get(&format!("/v1/subscriptions?{query}")).expect(200).await;
        page["items"].as_array().expect("items").iter().filter_map(|item| item["id"].as_i64()).collect()
    };
    for (query, expected) in [
        ("", vec![3, 2, 1]),
        ("tenant=acme", vec![2, 1]),
        ("tenant=nobody", vec![]),
        ("uid=u1", vec![3, 1]),
        ("uid=u1&tenant=acme", vec![1]),
        ("name=n2", vec![3, 2]),
        ("metadata.team=a", vec![2, 1]),
        ("metadata.team=a&metadata.env=prod", vec![1]),
        ("metadata.team=c", vec![]),
        ("event_type=order.paid", vec![2, 1]),
        ("event_type=invoice.paid", vec![3, 2]),
        ("event_type=order", vec![2]),
        ("state=unverified&name=n2&tenant=acme", vec![2]),
        ("state=active", vec![]),
    ] {
        assert_eq!(found(query).await, expected, "{query}");
    }
    api.get("/v1/subscriptions?metadata.a%20b=1").refused(422, "metadata.a b").await;
    api.get("/v1/subscriptions?metadata=1").refused(422, "metadata").await;
}

/// Checks that a subscription of another tenant does not exist for a bound key.
pub(crate) async fn a_bound_key_sees_its_own_tenant_only<S: Stores>(api: &TestApi<S>) {
    let (acme, other) = (bound_key(api, "acme").await, bound_key(api, "other").await);
    let body = with_url(json!({"event_type": "a", "uid": "u"}));
    let made = api.post("/v1/subscriptions").key(&acme).json(body.to_string()).expect(201).await;
    assert_eq!(made["tenant"], "acme", "the key implies the tenant");
    let shared = create(api, json!({"event_type": "a"})).await;
    let foreign = with_url(json!({"event_type": "a", "tenant": "acme"})).to_string();
    api.post("/v1/subscriptions").key(&other).json(foreign.clone()).refused(422, "tenant").await;
    api.call("PUT", &by_uid("u")).key(&other).json(foreign).refused(422, "tenant").await;
    for (of, keys) in [(&made, vec![&other]), (&shared, vec![&acme, &other])] {
        for key in keys {
            let path = path(of);
            api.get(&path).key(key).refused(404, "").await;
            api.call("PATCH", &path).key(key).json(r#"{"active":false}"#).refused(404, "").await;
            api.call("DELETE", &path).key(key).refused(404, "").await;
            for action in ["verify", "test", "rotate-secret"] {
                api.post(&format!("{path}/{action}")).key(key).refused(404, "").await;
            }
            assert_eq!(api.get("/v1/subscriptions").key(&other).expect(200).await["items"], json!([]));
        }
    }
    let listed = async |query: &str| {
        let page = api.get(&format!("/v1/subscriptions{query}")).key(&acme).expect(200).await;
        page["items"].as_array().expect("items").len()
    };
    assert_eq!((listed("").await, listed("?tenant=acme").await, listed("?tenant=other").await), (1, 1, 0));
    api.get(&by_uid("u")).key(&other).refused(404, "").await;
    api.get(&format!("{}?tenant=acme", by_uid("u"))).key(&other).refused(404, "").await;
    assert_eq!(api.get(&by_uid("u")).key(&acme).expect(200).await["id"], made["id"]);
    api.post("/v1/subscriptions/reseal-secrets").key(&acme).refused(403, "").await;
    // The same uid of another tenant is another subscription.
    let body = with_url(json!({"event_type": "b"})).to_string();
    let second = api.call("PUT", &by_uid("u")).key(&other).json(body).expect(201).await;
    assert_ne!(second["id"], made["id"]);
    assert_eq!(api.get(&path(&made)).key(&acme).expect(200).await["event_type"], "a");
    api.call("PATCH", &path(&made)).key(&acme).json(r#"{"active":false}"#).expect(200).await;
    api.call("DELETE", &path(&made)).key(&acme).expect(204).await;
}

pub(crate) async fn a_replacement_creates_or_replaces_by_uid<S: Stores>(api: &TestApi<S>) {
    let put = |body: Value| api.call("PUT", &by_uid("shop%201")).json(with_url(body).to_string());
    let made = put(json!({"event_type": "a", "name": "n", "metadata": {"a": "b"}, "active": false}))
        .expect(201)
        .await;
    assert_eq!((&made["uid"], &made["name"]), (&"shop 1".into(), &"n".into()));
    assert!(made["secret"].is_string(), "{made}");
    let replaced =
        put(json!({"event_types": ["b", "c"], "uid": "shop 1", "description": "d"})).expect(200).await;
    assert_eq!((&replaced["id"], &replaced["uid"]), (&made["id"], &made["uid"]));
    assert_eq!(
        (&replaced["name"], &replaced["metadata"]),
        (&Value::Null, &json!({})),
        "absent fields get defaults"
    );
    assert_eq!((&replaced["active"], &replaced["description"]), (&true.into(), &"d".into()));
    assert!(replaced.get("secret").is_none(), "{replaced}");
    let got = api.get(&by_uid("shop%201")).send().await;
    assert_eq!((got.status, got.json()), (200, replaced.clone()));
    assert_eq!(got.header("etag"), format!("\"{}-2\"", made["id"]));
    put(json!({"event_type": "a", "uid": "other"})).refused(422, "uid").await;
    put(json!({"event_type": "a", "verified": true})).refused(422, "verified").await;
    put(json!({})).refused(422, "event_type").await;
    api.get(&by_uid("nobody")).refused(404, "").await;
    api.call("PUT", &by_uid(&"x".repeat(201))).json("{}").refused(422, "uid").await;
    assert_eq!(api.get(&by_uid("shop%201")).expect(200).await, replaced);
    // A deleted subscription does not come back: its uid is free.
    api.call("DELETE", &path(&made)).expect(204).await;
    api.get(&by_uid("shop%201")).refused(404, "").await;
    let second = put(json!({"event_type": "a"})).expect(201).await;
    assert_ne!(second["id"], made["id"]);
}

pub(crate) async fn entity_tags_detect_other_changes<S: Stores>(api: &TestApi<S>) {
    let answer =
        api.post("/v1/subscriptions").json(with_url(json!({"event_type": "a"})).to_string()).send().await;
    let made = answer.expect(201);
    let (path, first) = (path(&made.json()), made.header("etag").to_owned());
    assert_eq!(api.get(&path).send().await.header("etag"), first);
    let patch = |tag: &str, body: &str| api.call("PATCH", &path).header("if-match", tag).json(body);
    let changed = patch(&first, r#"{"name":"one"}"#).send().await.expect(200);
    let second = changed.header("etag").to_owned();
    assert_ne!(first, second);
    let problem = patch(&first, r#"{"name":"two"}"#).refused(412, "").await;
    assert_eq!(problem["type"], "tag:posthaste,2026:problem/precondition-failed");
    patch(&format!("W/{second}"), r#"{"name":"two"}"#).refused(412, "").await;
    assert_eq!(api.get(&path).expect(200).await["name"], "one");
    patch(&format!("{first}, {second}"), r#"{"name":"two"}"#).expect(200).await;
    patch("*", r#"{"name":"three"}"#).expect(200).await;
    patch("three", "{}").refused(422, "if-match").await;
    let unless = |tag: &str| api.call("PATCH", &path).header("if-none-match", tag).json(r#"{"name":"four"}"#);
    unless("*").refused(412, "").await;
    unless(&second).expect(200).await;

    let put = |name: &str, tag: &str, body: Value| {
        api.call("PUT", &by_uid("u")).header(name, tag).json(with_url(body).to_string())
    };
    put("if-match", "*", json!({"event_type": "a"})).refused(412, "").await;
    let made = put("if-none-match", "*", json!({"event_type": "a"})).send().await.expect(201);
    put("if-none-match", "*", json!({"event_type": "b"})).refused(412, "").await;
    let tag = made.header("etag");
    let replaced = put("if-match", tag, json!({"event_type": "b"})).send().await.expect(200);
    assert_ne!(replaced.header("etag"), tag);
    put("if-match", tag, json!({"event_type": "c"})).refused(412, "").await;
    assert_eq!(api.get(&by_uid("u")).expect(200).await["event_type"], "b");
}

/// Checks that of concurrent changes with the same tag one is made, and that concurrent changes of secret headers
/// without a tag are all made.
pub(crate) async fn concurrent_changes_are_not_lost<S: Stores>(api: &TestApi<S>) {
    const CALLERS: usize = 4;
    let made = create(api, json!({"event_type": "a"})).await;
    let path = path(&made);
    let tag = api.get(&path).send().await.header("etag").to_owned();
    let calls = (0..CALLERS).map(|number| {
        let body = json!({"name": format!("n{number}")}).to_string();
        tokio::spawn(api.call("PATCH", &path).header("if-match", &tag).json(body).send())
    });
    let mut statuses = Vec::new();
    for call in calls.collect::<Vec<_>>() {
        statuses.push(call.await.expect("a response").status);
    }
    statuses.sort_unstable();
    assert_eq!(statuses, [vec![200], vec![412; CALLERS - 1]].concat());

    let puts = (0..CALLERS).map(|_| {
        let body = with_url(json!({"event_type": "a"})).to_string();
        tokio::spawn(api.call("PUT", &by_uid("raced")).json(body).send())
    });
    let mut created = Vec::new();
    for call in puts.collect::<Vec<_>>() {
        created.push(call.await.expect("a response").status);
    }
    created.sort_unstable();
    assert_eq!(created, [vec![200; CALLERS - 1], vec![201]].concat(), "one of them creates it");

    let mut patches = Vec::new();
    for _ in 0..CALLERS {
        let one = create(api, json!({"event_type": "a"})).await;
        let call = api.call("PATCH", &crate::subscription_patterns::path(&one)).json(r#"{"uid":"wanted"}"#);
        patches.push(tokio::spawn(call.send()));
    }
    let mut taken = Vec::new();
    for call in patches {
        taken.push(call.await.expect("a response").status);
    }
    taken.sort_unstable();
    assert_eq!(taken, [vec![200], vec![409; CALLERS - 1]].concat(), "one of them gets the uid");

    // Each caller adds its own secret value; the other field is changed at the same time.
    let body = json!({"headers": {"X-Token": {"value": "first-token-value", "secret": true}}}).to_string();
    api.call("PATCH", &path).json(body).expect(200).await;
    let calls = (0..CALLERS).flat_map(|number| {
        let keep =
            json!({"headers": {"X-Token": {"secret": true}, "X-Number": number.to_string()}}).to_string();
        let name = json!({"name": format!("m{number}")}).to_string();
        [keep, name].map(|body| tokio::spawn(api.call("PATCH", &path).json(body).send()))
    });
    for call in calls.collect::<Vec<_>>() {
        let answer = call.await.expect("a response");
        assert!(matches!(answer.status, 200 | 409), "{}", answer.whole());
    }
    let after = api.get(&path).expect(200).await;
    assert_eq!(after["headers"]["X-Token"], json!({"secret": true}));
}
