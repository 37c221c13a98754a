//! Keys that are bound to a tenant: a matrix of every call in the OpenAPI document and a key of another tenant, by id
//! and by cursor; the tenant of new events; and calls that concern the installation as a whole.

use crate::dashboard::enter;
use crate::server::{Options, TestApi};
use posthaste_api::key_hash;
use posthaste_core::attribute_rules::AttributeRules;
use posthaste_core::attributes::Attributes;
use posthaste_core::event::{ExternalEventId, NewEvent};
use posthaste_core::identity::{SubscriptionName, Uid};
use posthaste_core::ports::{IngestStore as _, KeyRole, KeyStore as _, Stores};
use posthaste_core::subscription::NewSubscription;
use posthaste_core::tenant::Tenant;
use posthaste_testkit::fixtures::{
    T0, actor, at, callback, event, id_of, json as payload, stored, subscribe_verified, subscription,
};
use posthaste_testkit::harness::Harness;
use serde_json::{Value, json};
use std::collections::BTreeSet;

const ALPHA: &str = "alpha-tenant";
const BETA: &str = "beta-tenant";
/// The text in every value of the tenant alpha, which must not occur in any response to a key of beta.
const MARKER: &str = "alpha";
/// The number of events, deliveries and dead letters of each tenant.
const EACH: usize = 3;
/// The roles of keys that can be bound to a tenant.
const BINDABLE: [KeyRole; 4] = [KeyRole::Admin, KeyRole::Operator, KeyRole::Viewer, KeyRole::Ingest];

/// The effect of a call with a key that is bound to a tenant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reach {
    /// The call concerns the installation as a whole: 403.
    Installation,
    /// The call concerns the object in its path: 404 if it belongs to another tenant.
    Object(Kind),
    /// The call lists objects of its own tenant.
    List(Kind),
    /// The call is checked by its own test.
    Separately,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Event,
    Subscription,
    Delivery,
    DeadLetter,
}

const MATRIX: &[(&str, &str, Reach)] = &[
    ("POST", "/v1/events", Reach::Separately),
    ("GET", "/v1/events", Reach::List(Kind::Event)),
    ("GET", "/v1/events/{id}", Reach::Object(Kind::Event)),
    ("GET", "/v1/events/{id}/explain", Reach::Object(Kind::Event)),
    ("POST", "/v1/subscriptions", Reach::Separately),
    ("GET", "/v1/subscriptions", Reach::List(Kind::Subscription)),
    ("GET", "/v1/subscriptions/match", Reach::Separately),
    ("GET", "/v1/subscriptions/uid/{uid}", Reach::Separately),
    ("PUT", "/v1/subscriptions/uid/{uid}", Reach::Separately),
    ("GET", "/v1/subscriptions/{id}", Reach::Object(Kind::Subscription)),
    ("PATCH", "/v1/subscriptions/{id}", Reach::Object(Kind::Subscription)),
    ("DELETE", "/v1/subscriptions/{id}", Reach::Object(Kind::Subscription)),
    ("POST", "/v1/subscriptions/{id}/verify", Reach::Object(Kind::Subscription)),
    ("POST", "/v1/subscriptions/{id}/rotate-secret", Reach::Object(Kind::Subscription)),
    ("POST", "/v1/subscriptions/{id}/test", Reach::Object(Kind::Subscription)),
    ("POST", "/v1/subscriptions/{id}/preview", Reach::Object(Kind::Subscription)),
    ("POST", "/v1/subscriptions/reseal-secrets", Reach::Installation),
    ("GET", "/v1/deliveries", Reach::List(Kind::Delivery)),
    ("GET", "/v1/deliveries/{id}", Reach::Object(Kind::Delivery)),
    ("GET", "/v1/dead-letters", Reach::List(Kind::DeadLetter)),
    ("GET", "/v1/dead-letters/{id}", Reach::Object(Kind::DeadLetter)),
    ("POST", "/v1/dead-letters/{id}/requeue", Reach::Object(Kind::DeadLetter)),
    ("POST", "/v1/dead-letters/requeue", Reach::Separately),
    ("POST", "/v1/orders", Reach::Installation),
    ("GET", "/v1/orders", Reach::Installation),
    ("GET", "/v1/orders/{idempotency_key}", Reach::Installation),
    ("GET", "/v1/orders/{idempotency_key}/audit", Reach::Installation),
    ("GET", "/v1/outbox", Reach::Installation),
    ("POST", "/v1/outbox/resume", Reach::Installation),
    ("GET", "/v1/stats", Reach::Separately),
    ("GET", "/v1/system", Reach::Installation),
    ("GET", "/v1/doctor", Reach::Installation),
    ("GET", "/v1/audit", Reach::Installation),
    ("GET", "/v1/keys", Reach::Installation),
    ("POST", "/v1/keys", Reach::Installation),
    ("DELETE", "/v1/keys/{id}", Reach::Installation),
];

/// The objects of one tenant.
struct Owned {
    subscription: i64,
    events: Vec<i64>,
    deliveries: Vec<i64>,
    letters: Vec<i64>,
}

impl Owned {
    fn ids(&self, kind: Kind) -> &[i64] {
        match kind {
            Kind::Event => &self.events,
            Kind::Subscription => std::slice::from_ref(&self.subscription),
            Kind::Delivery => &self.deliveries,
            Kind::DeadLetter => &self.letters,
        }
    }
}

fn tenant(name: &str) -> Tenant {
    Tenant::parse(name).expect("a tenant")
}

/// Creates a key of a role that is bound to a tenant.
async fn bound<S: Stores>(api: &TestApi<S>, role: KeyRole, name: &str) -> String {
    let key = format!("a-key-of-{name}-{}", role.as_str());
    let (hash, tenant) = (key_hash(&key), Some(tenant(name)));
    api.h.store.keys().create_key("bound".to_owned(), role, tenant, hash, actor(), T0).await.expect("a key");
    key
}

/// Creates events of both tenants and of no tenant in turn, each with a dead-lettered delivery.
async fn fill<S: Stores>(api: &TestApi<S>) -> (Owned, Owned) {
    let mut subscriptions = Vec::new();
    for name in [Some(ALPHA), Some(BETA), None] {
        let url = format!("https://{}.example/hook", name.unwrap_or("nobody"));
        let new = NewSubscription {
            tenant: name.map(tenant),
            uid: name.map(|name| Uid::parse(format!("{name}-uid")).expect("a uid")),
            name: name.map(|name| SubscriptionName::parse(name).expect("a name")),
            max_retry_limit: Some(1),
            callback_url: callback(&url),
            ..subscription("a")
        };
        subscriptions.push((name, subscribe_verified(&api.h.calm, new, T0).await));
    }
    for turn in 0..EACH {
        for (name, _) in &subscriptions {
            let text = name.unwrap_or("nobody");
            let new = NewEvent {
                tenant: name.map(tenant),
                attributes: Attributes::parse(&json!({"region": text}).to_string()).expect("attributes"),
                payload: payload(&json!({"secret": text}).to_string()),
                external_event_id: Some(
                    ExternalEventId::parse(format!("{text}-{turn}")).expect("an external id"),
                ),
                ..event("a")
            };
            let outcomes = api.h.calm.ingest().insert_events(vec![vec![new]], T0).await.expect("an event");
            assert!(id_of(stored(&outcomes[0])[0]).get() > 0);
            api.h.route_all(at(1)).await;
        }
    }
    for (_, id) in &subscriptions {
        api.h.fail_attempts(*id, at(1)).await;
    }
    let owned = async |(_, id): (Option<&str>, posthaste_core::SubscriptionId)| {
        let sql = format!(
            "SELECT event_id, saga_id, id FROM dead_letters WHERE subscription_id = {id} ORDER BY event_id"
        );
        let rows = api.h.direct.rows(&sql).await;
        assert_eq!(rows.len(), EACH, "dead letters of subscription {id}");
        let column = |index: usize| {
            let number = |row: &Vec<Option<String>>| row[index].as_deref().and_then(|text| text.parse().ok());
            rows.iter().map(|row| number(row).expect("an id")).collect()
        };
        Owned { subscription: id.get(), events: column(0), deliveries: column(1), letters: column(2) }
    };
    (owned(subscriptions[0]).await, owned(subscriptions[1]).await)
}

/// Returns the role that an operation requires, or the bindable role that comes closest.
fn role_of(operation: &Value) -> KeyRole {
    let scope = operation["security"][0]["api_key"][0].as_str().expect("a role");
    let role = KeyRole::parse(scope).expect("a role");
    if BINDABLE.contains(&role) { role } else { KeyRole::Admin }
}

/// Returns everything that the root key sees of an owner's objects.
async fn snapshot<S: Stores>(api: &TestApi<S>, owner: &Owned) -> Vec<Value> {
    let mut seen = Vec::new();
    let ids =
        [("events", &owner.events), ("deliveries", &owner.deliveries), ("dead-letters", &owner.letters)];
    for (list, ids) in ids {
        for id in ids {
            seen.push(api.get(&format!("/v1/{list}/{id}")).expect(200).await);
        }
    }
    seen.push(api.get(&format!("/v1/subscriptions/{}", owner.subscription)).expect(200).await);
    seen
}

/// Checks every call of the OpenAPI document with keys of beta: objects of alpha are 404 as if they did not exist, and
/// calls that concern all tenants are 403. A call that is missing from the matrix fails.
pub(crate) async fn every_call_is_limited_to_the_tenant_of_its_key<S: Stores>(api: &TestApi<S>) {
    let (alpha, beta) = fill(api).await;
    let mut keys = Vec::new();
    for role in BINDABLE {
        keys.push((role, bound(api, role, BETA).await));
    }
    let key_of = |wanted: KeyRole| &keys.iter().find(|(role, _)| *role == wanted).expect("a key").1;
    let before = snapshot(api, &alpha).await;
    let document = api.get("/openapi.json").no_key().expect(200).await;
    let mut found = BTreeSet::new();
    for (path, methods) in document["paths"].as_object().expect("paths") {
        for (method, operation) in methods.as_object().expect("methods") {
            if !path.starts_with("/v1/") {
                continue;
            }
            let method = method.to_uppercase();
            let row = MATRIX.iter().find(|(verb, call, _)| *verb == method && call == path);
            let (verb, call, reach) = row.unwrap_or_else(|| panic!("{method} {path} is not in the matrix"));
            found.insert((*verb, *call));
            let send = async |path: String, key: &str| {
                let answer = api.call(verb, &path).key(key).json("{}").send().await;
                assert!(!answer.whole().contains(MARKER), "{method} {path}: {}", answer.whole());
                answer
            };
            match reach {
                Reach::Installation => {
                    for (role, key) in &keys {
                        let id = alpha.subscription.to_string();
                        let path = path.replace("{id}", &id).replace("{idempotency_key}", &id);
                        let answer = send(path.clone(), key).await;
                        assert_eq!(answer.status, 403, "{role:?} {method} {path}: {}", answer.text());
                    }
                }
                Reach::Object(kind) => {
                    let key = key_of(role_of(operation));
                    let unknown = send(path.replace("{id}", "999999999"), key).await;
                    for id in alpha.ids(*kind) {
                        let answer = send(path.replace("{id}", &id.to_string()), key).await;
                        assert_eq!(answer.status, 404, "{method} {path} {id}: {}", answer.text());
                        assert_eq!(answer.json()["detail"], unknown.json()["detail"], "{method} {path}");
                    }
                    // A change of an own object would change the lists; the tests of the handlers cover it.
                    if method != "GET" {
                        continue;
                    }
                    let own = send(path.replace("{id}", &beta.ids(*kind)[0].to_string()), key).await;
                    assert!((200..300).contains(&own.status), "{method} {path}: {}", own.text());
                }
                Reach::List(kind) => {
                    check_list(api, path, key_of(role_of(operation)), *kind, &alpha, &beta).await;
                }
                Reach::Separately => {}
            }
        }
    }
    assert_eq!(found, MATRIX.iter().map(|(method, path, _)| (*method, *path)).collect());
    assert_eq!(snapshot(api, &alpha).await, before, "the objects of alpha have not changed");
}

/// Checks that a list has only the objects of beta: on all pages, after every cursor, and with every filter.
async fn check_list<S: Stores>(
    api: &TestApi<S>,
    path: &str,
    key: &str,
    kind: Kind,
    alpha: &Owned,
    beta: &Owned,
) {
    let page = async |query: &str| {
        let answer = api.get(&format!("{path}?{query}")).key(key).send().await;
        assert_eq!(answer.status, 200, "{path}?{query}: {}", answer.text());
        assert!(!answer.text().contains(MARKER), "{path}?{query}: {}", answer.text());
        let page = answer.json();
        let items = page["items"].as_array().expect("items");
        let ids: Vec<i64> = items.iter().map(|item| item["id"].as_i64().expect("an id")).collect();
        (ids, page["next_cursor"].as_str().map(str::to_owned))
    };
    let expected: Vec<i64> = beta.ids(kind).iter().rev().copied().collect();
    let (mut listed, mut query) = (Vec::new(), "limit=1".to_owned());
    loop {
        let (ids, next) = page(&query).await;
        listed.extend(ids);
        match next {
            Some(next) => query = format!("limit=1&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(listed, expected, "{path}");
    assert_eq!(page(&format!("tenant={BETA}")).await.0, expected);
    assert_eq!(page(&format!("tenant={ALPHA}")).await, (vec![], None));
    let root = api.get(&format!("{path}?tenant={BETA}")).expect(200).await;
    assert_eq!(root["items"].as_array().map(Vec::len), Some(beta.ids(kind).len()), "{root}");
    // The cursors of alpha.
    let own = bound_viewer(api, ALPHA).await;
    let mut query = "limit=1".to_owned();
    for _ in 0..EACH {
        let found = api.get(&format!("{path}?{query}")).key(&own).expect(200).await;
        let Some(cursor) = found["next_cursor"].as_str() else { break };
        query = format!("limit=1&cursor={cursor}");
        let (ids, _) = page(&format!("cursor={cursor}")).await;
        assert!(ids.iter().all(|id| beta.ids(kind).contains(id)), "{path}: {ids:?}");
    }
    let (event, subscription) = (alpha.events[0], alpha.subscription);
    let filters = match kind {
        Kind::Event => vec!["payload=true".to_owned(), format!("external_event_id={ALPHA}-0")],
        Kind::Subscription => vec![format!("name={ALPHA}"), format!("uid={ALPHA}-uid")],
        Kind::Delivery => vec![format!("event_id={event}"), format!("subscription_id={subscription}")],
        Kind::DeadLetter => vec!["payload=true".to_owned(), format!("subscription_id={subscription}")],
    };
    for filter in filters {
        let expected = if filter == "payload=true" { expected.clone() } else { vec![] };
        assert_eq!(page(&filter).await.0, expected, "{path}?{filter}");
    }
}

/// Returns a viewer key of a tenant, which is created once.
async fn bound_viewer<S: Stores>(api: &TestApi<S>, name: &str) -> String {
    let key = format!("a-key-of-{name}-viewer");
    match api.h.store.keys().find_key(key_hash(&key)).await.expect("the keys") {
        Some(_) => key,
        None => bound(api, KeyRole::Viewer, name).await,
    }
}

pub(crate) async fn a_bound_key_creates_and_finds_subscriptions_of_its_tenant<S: Stores>(api: &TestApi<S>) {
    let (alpha, beta) = fill(api).await;
    let key = bound(api, KeyRole::Admin, BETA).await;
    let answer = async |method: &'static str, path: &str, body: &Value| {
        let answer = api.call(method, path).key(&key).json(body.to_string()).send().await;
        assert!(!answer.text().contains(&format!("{ALPHA}.example")), "{method} {path}: {}", answer.text());
        answer
    };
    let new = json!({"event_types": ["a"], "callback_url": "https://new.example/"});
    let created = answer("POST", "/v1/subscriptions", &new).await;
    assert_eq!((created.status, &created.json()["tenant"]), (201, &BETA.into()), "{}", created.text());
    let mut foreign = new.clone();
    foreign["tenant"] = ALPHA.into();
    assert!([404, 422].contains(&answer("POST", "/v1/subscriptions", &foreign).await.status));

    let uid = format!("/v1/subscriptions/uid/{ALPHA}-uid");
    assert_eq!(answer("GET", &uid, &json!({})).await.status, 404);
    let own = answer("PUT", &uid, &new).await;
    assert_eq!((own.status, &own.json()["tenant"]), (201, &BETA.into()), "{}", own.text());
    let kept = api.get(&format!("/v1/subscriptions/{}", alpha.subscription)).expect(200).await;
    assert_eq!(
        (&kept["tenant"], &kept["callback_url"]),
        (&ALPHA.into(), &format!("https://{ALPHA}.example/hook").into())
    );

    let matched = answer("GET", "/v1/subscriptions/match?event_type=a&all=true", &json!({})).await.json();
    let ids: Vec<_> =
        matched["items"].as_array().expect("items").iter().map(|item| &item["subscription_id"]).collect();
    assert!(
        ids.contains(&&beta.subscription.into()) && !ids.contains(&&alpha.subscription.into()),
        "{ids:?}"
    );
    let other = format!("/v1/subscriptions/match?event_type=a&tenant={ALPHA}");
    let matched = answer("GET", &other, &json!({})).await;
    assert!(matched.status == 404 || matched.json()["items"] == json!([]), "{}", matched.text());
}

pub(crate) async fn a_bound_key_requeues_dead_letters_of_its_tenant_only<S: Stores>(api: &TestApi<S>) {
    let (alpha, beta) = fill(api).await;
    let key = bound(api, KeyRole::Operator, BETA).await;
    let requeue = async |body: Value| {
        let call = api.post("/v1/dead-letters/requeue").key(&key).json(body.to_string());
        let answer = call.send().await.expect(200);
        assert!(!answer.text().contains(MARKER), "{}", answer.text());
        answer.json()
    };
    assert_eq!(requeue(json!({"dry_run": true})).await["ids"], json!(beta.letters));
    for other in [json!({"tenant": ALPHA}), json!({"subscription_id": alpha.subscription})] {
        let answer = requeue(other.clone()).await;
        assert_eq!((&answer["matched"], &answer["requeued"]), (&0.into(), &0.into()), "{other}: {answer}");
    }
    let unbound = json!({"tenant": ALPHA, "dry_run": true}).to_string();
    let seen = api.post("/v1/dead-letters/requeue").json(unbound).expect(200).await;
    assert_eq!(seen["ids"], json!(alpha.letters));
    let answer = requeue(json!({})).await;
    assert_eq!((&answer["requeued"], &answer["ids"]), (&EACH.into(), &json!(beta.letters)), "{answer}");
    for letter in &alpha.letters {
        let shown = api.get(&format!("/v1/dead-letters/{letter}")).expect(200).await;
        assert_eq!((&shown["requeued_as"], &shown["tenant"]), (&Value::Null, &ALPHA.into()));
    }
}

pub(crate) async fn a_bound_key_implies_the_tenant_of_new_events<S: Stores>(api: &TestApi<S>) {
    let key = bound(api, KeyRole::Ingest, BETA).await;
    let post = || api.post("/v1/events").key(&key);
    let shown = async |accepted: Value| {
        let event = api.get(&format!("/v1/events/{}", accepted["id"])).expect(200).await;
        event["tenant"].clone()
    };
    let plain = json!({"event_type": "a", "payload": 1});
    let named = json!({"event_type": "a", "payload": 1, "tenant": BETA});
    let other = json!({"event_type": "a", "payload": 1, "tenant": ALPHA});
    for body in [&plain, &named] {
        assert_eq!(shown(post().json(body.to_string()).expect(202).await).await, BETA);
    }
    let problem = post().json(other.to_string()).refused(422, "tenant").await;
    assert_eq!(problem["detail"], "tenant must be beta-tenant, the tenant of the API key, got alpha-tenant");
    post().json(json!([plain, other]).to_string()).refused(422, "[1].tenant").await;
    let by_header = |tenant: &str| post().header("posthaste-tenant", tenant).json(plain.to_string());
    assert_eq!(shown(by_header(BETA).expect(202).await).await, BETA);
    by_header(ALPHA).refused(422, "posthaste-tenant").await;
    let cloud =
        json!({"specversion": "1.0", "type": "a", "source": "s", "id": "1", "tenant": ALPHA}).to_string();
    let cloud = post().header("content-type", "application/cloudevents+json").body(cloud).expect(202).await;
    assert_eq!(shown(cloud).await, BETA, "the extension tenant is an attribute");
    // A key that is not bound chooses the tenant. The field overrides the header.
    for (header, body, expected) in [
        (None, &plain, Value::Null),
        (None, &other, ALPHA.into()),
        (Some(BETA), &plain, BETA.into()),
        (Some(BETA), &other, ALPHA.into()),
        (Some("Z%C3%BCrich"), &plain, "Zürich".into()),
    ] {
        let call = api.post("/v1/events").json(body.to_string());
        let call = header.iter().fold(call, |call, tenant| call.header("posthaste-tenant", tenant));
        assert_eq!(shown(call.expect(202).await).await, expected, "{header:?} {body}");
    }
    api.post("/v1/events")
        .header("posthaste-tenant", "")
        .json(plain.to_string())
        .refused(422, "posthaste-tenant")
        .await;
    // The id of an event of another tenant is not revealed.
    let mine =
        json!({"event_type": "a", "payload": 1, "external_event_id": "x", "tenant": ALPHA}).to_string();
    let id = api.post("/v1/events").json(mine).expect(202).await["id"].clone();
    let taken = json!({"event_type": "a", "payload": 1, "external_event_id": "x"}).to_string();
    let problem = post().json(taken).refused(422, "external_event_id").await;
    assert!(!problem.to_string().contains(&format!("event {id}")), "{problem}");
}

pub(crate) async fn tenant_and_attributes_are_part_of_the_content<S: Stores>(api: &TestApi<S>) {
    let event = |extra: Value| {
        let mut event = json!({"event_type": "a", "payload": 1, "external_event_id": "x"});
        event.as_object_mut().expect("an object").extend(extra.as_object().cloned().expect("an object"));
        event.to_string()
    };
    let content = json!({"tenant": ALPHA, "attributes": {"region": "eu", "n": 10}});
    let first = api.post("/v1/events").json(event(content)).expect(202).await;
    let same = concat!(
        r#"{"event_type":"a","payload":1,"external_event_id":"x","tenant":"alpha-tenant","#,
        r#""attributes":{"n":1e1,"region":"eu"}}"#
    );
    assert_eq!(api.post("/v1/events").json(same).expect(200).await["id"], first["id"]);
    for other in [
        json!({}),
        json!({"tenant": ALPHA}),
        json!({"attributes": {"region": "eu", "n": 10}}),
        json!({"tenant": BETA, "attributes": {"region": "eu", "n": 10}}),
        json!({"tenant": ALPHA, "attributes": {"region": "eu", "n": "10"}}),
    ] {
        api.post("/v1/events").json(event(other)).refused(422, "external_event_id").await;
    }
    let shown = api.get(&format!("/v1/events/{}", first["id"])).expect(200).await;
    assert_eq!((&shown["tenant"], &shown["attributes"]), (&ALPHA.into(), &json!({"n": 10, "region": "eu"})));
    assert_eq!(api.count("events").await, 1);
    let long = "x".repeat(201);
    let many: serde_json::Map<String, Value> = (0..21).map(|n| (format!("a{n}"), 1.into())).collect();
    for (extra, field) in [
        (json!({"tenant": ""}), "tenant"),
        (json!({"tenant": long}), "tenant"),
        (json!({"tenant": 7}), "tenant"),
        (json!({"attributes": []}), "attributes"),
        (json!({"attributes": {"Region": 1}}), "attributes"),
        (json!({"attributes": {"region": null}}), "attributes"),
        (json!({"attributes": {"time": "soon"}}), "attributes"),
        (json!({"attributes": many}), "attributes"),
        (json!({"event_type": "posthaste.subscription.disabled"}), "event_type"),
    ] {
        api.post("/v1/events").json(event(extra)).refused(422, field).await;
    }
}

pub(crate) async fn statistics_of_a_tenant_count_its_subscriptions_only<S: Stores>(api: &TestApi<S>) {
    fill(api).await;
    let key = bound(api, KeyRole::Viewer, BETA).await;
    let own = api.get("/v1/stats").key(&key).expect(200).await;
    assert_eq!(
        (&own["tenant"], &own["subscriptions"], &own["truncated"]),
        (&BETA.into(), &1.into(), &false.into())
    );
    assert!(own.get("outbox").is_none() && own.get("totals").is_none(), "{own}");
    assert_eq!(api.get("/v1/stats?tenant=beta-tenant&window=24h").expect(200).await["subscriptions"], 1);
    assert_eq!(api.get("/v1/stats?tenant=gamma").expect(200).await["subscriptions"], 0);
    api.get("/v1/stats?tenant=alpha-tenant").key(&key).refused(404, "").await;
    api.get("/v1/stats?tenant=").expect(200).await;
}

pub(crate) async fn keys_are_bound_at_their_creation<S: Stores>(api: &TestApi<S>) {
    let create = |role: &str| {
        api.post("/v1/keys").json(json!({"name": "shop", "role": role, "tenant": BETA}).to_string())
    };
    for role in ["admin", "operator", "viewer", "ingest"] {
        assert_eq!(create(role).expect(201).await["tenant"], BETA, "{role}");
    }
    for role in ["root", "orders"] {
        create(role).refused(422, "tenant").await;
    }
    let unbound = r#"{"name":"shop","role":"root"}"#;
    assert_eq!(api.post("/v1/keys").json(unbound).expect(201).await["tenant"], Value::Null);
    let listed = api.get("/v1/keys").expect(200).await;
    let tenants: Vec<&Value> =
        listed["items"].as_array().expect("keys").iter().map(|key| &key["tenant"]).collect();
    assert_eq!(json!(tenants), json!([BETA, BETA, BETA, BETA, null]));
    // The dashboard shows all tenants.
    let key = bound(api, KeyRole::Admin, BETA).await;
    let page = enter(api, &key, "/").send().await;
    assert_eq!(page.status, 403, "{}", page.whole());
    assert!(page.text().contains("bound to a tenant"), "{}", page.text());
    assert_eq!(api.count("sessions").await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rules_fill_attributes_of_all_modes() {
    let rules =
        AttributeRules::parse("region=/customer/region,total=/total,vip=/vip,note=/note").expect("rules");
    let options = Options { attribute_rules: rules, ..Options::default() };
    let api = TestApi::start_with(Harness::sqlite("rules").await, options).await;
    let data = r#"{"customer":{"region":"eu"},"total":12.50,"vip":true,"note":{"no":"text"}}"#;
    let attributes = async |accepted: Value| {
        api.get(&format!("/v1/events/{}", accepted["id"])).expect(200).await["attributes"].clone()
    };
    let plain = format!(r#"{{"event_type":"a","payload":{data}}}"#);
    let expected = json!({"region": "eu", "total": 12.5, "vip": true});
    assert_eq!(attributes(api.post("/v1/events").json(plain.clone()).expect(202).await).await, expected);
    let array = api.post("/v1/events").json(format!("[{plain}]")).expect(202).await;
    assert_eq!(attributes(array[0].clone()).await, expected);
    let given = format!(r#"{{"event_type":"a","payload":{data},"attributes":{{"region":"us"}}}}"#);
    let given = attributes(api.post("/v1/events").json(given).expect(202).await).await;
    assert_eq!(given, json!({"region": "us", "total": 12.5, "vip": true}));
    let binary = api.post("/v1/events").header("ce-specversion", "1.0").header("ce-type", "a");
    let binary =
        binary.header("ce-source", "/shop").header("ce-id", "1").header("ce-region", "uk").json(data);
    let binary = attributes(binary.expect(202).await).await;
    assert_eq!(binary, json!({"region": "uk", "source": "/shop", "total": 12.5, "vip": true}));
}
