//! The operator audit in the API and on its page: records contain the key, the client address, the action and the
//! object, but no secrets.

use crate::dashboard::{Visitor, enter, has};
use crate::server::{ROOT_KEY, TestApi};
use posthaste_core::ports::{KeyRole, Stores};
use posthaste_services::failed_sign_ins::{FailedSignInWriter, WINDOW};
use posthaste_services::step::{Progress, Step as _};
use posthaste_testkit::fixtures::{T0, at};
use posthaste_testkit::receiver::{Answer, Receiver};
use serde_json::{Value, json};
use std::time::Duration;

/// Returns the audit entries, oldest first, as key name, action and object.
async fn listed<S: Stores>(api: &TestApi<S>, query: &str) -> Vec<(String, String, String)> {
    let page = api.get(&format!("/v1/audit?limit=200&{query}")).expect(200).await;
    let text = |item: &Value, field: &str| item[field].as_str().unwrap_or("-").to_owned();
    let items = page["items"].as_array().expect("items").iter().rev();
    items.map(|item| (text(item, "key_name"), text(item, "action"), text(item, "object"))).collect()
}

fn row(who: &str, action: &str, object: &str) -> (String, String, String) {
    (who.to_owned(), action.to_owned(), object.to_owned())
}

pub(crate) async fn every_change_names_its_key_and_address<S: Stores>(api: &TestApi<S>) {
    let receiver = Receiver::start(|received| {
        let body: Value = serde_json::from_slice(&received.body).expect("JSON");
        let echo = json!({ "challenge": body["challenge"] }).to_string();
        Answer::With { status: 200, headers: Vec::new(), body: echo.into_bytes() }
    })
    .await;
    let made = api.post("/v1/keys").json(r#"{"name":"ann","role":"admin"}"#).expect(201).await;
    let ann = made["key"].as_str().expect("a key").to_owned();
    let body = format!(r#"{{"event_type":"a","callback_url":"{}"}}"#, receiver.url("/"));
    let created = api.post("/v1/subscriptions").key(&ann).json(body).expect(201).await;
    api.post("/v1/subscriptions/1/verify").key(&ann).expect(200).await;
    let pause = r#"{"active":false}"#;
    for _ in 0..2 {
        // The second PATCH is a no-op.
        api.call("PATCH", "/v1/subscriptions/1").key(&ann).json(pause).expect(200).await;
    }
    let rotated = api.post("/v1/subscriptions/1/rotate-secret").key(&ann).expect(200).await;
    api.call("DELETE", "/v1/subscriptions/1").key(&ann).expect(204).await;
    let visitor = Visitor::sign_in(api, &ann).await;
    let by_form = format!("event_types=b&callback_url={}", receiver.url("/"));
    assert_eq!(visitor.press("/subscriptions", &by_form).await.status, 200);
    visitor.press("/subscriptions/2/pause", "").await;
    let (_, _, letter) = api.h.dead_letter("c").await;
    let (_, _, other) = api.h.dead_letter("d").await;
    let arranged = listed(api, "").await.len();
    api.post(&format!("/v1/dead-letters/{letter}/requeue")).expect(201).await;
    api.post(&format!("/v1/dead-letters/{letter}/requeue")).expect(200).await;
    api.post("/v1/dead-letters/requeue").json(r#"{"dry_run":true}"#).expect(200).await;
    api.post("/v1/dead-letters/requeue").json("{}").expect(200).await;
    api.post("/v1/outbox/resume").expect(200).await;
    api.call("DELETE", "/v1/keys/1").expect(204).await;

    let (mine, theirs) = ("subscriptions/1", "subscriptions/2");
    let mut found = listed(api, "").await;
    let last = found.split_off(arranged);
    found.truncate(9);
    let expected = [
        row("root", "key_created", "keys/1"),
        row("ann", "subscription_created", mine),
        row("ann", "subscription_verified", mine),
        row("ann", "subscription_changed", mine),
        row("ann", "secret_rotated", mine),
        row("ann", "subscription_deleted", mine),
        row("ann", "signed_in", "dashboard"),
        row("ann", "subscription_created", theirs),
        row("ann", "subscription_changed", theirs),
    ];
    assert_eq!(found, expected);
    let expected = [
        row("root", "dead_letters_requeued", &format!("dead-letters/{letter}")),
        row("root", "dead_letters_requeued", &format!("dead-letters/{other}")),
        row("root", "lane_resumed", "outbox"),
        row("root", "key_revoked", "keys/1"),
    ];
    assert_eq!(last, expected);

    let page = api.get("/v1/audit?limit=200").send().await;
    for secret in [&created["secret"], &rotated["secret"], &made["key"]] {
        assert!(!page.text().contains(secret.as_str().expect("a secret")), "{}", page.text());
    }
    let page = page.json();
    let items = page["items"].as_array().expect("items");
    let revoked = &items[0];
    assert_eq!(
        (&revoked["key_id"], &revoked["before"]),
        (&Value::Null, &json!({"name": "ann", "role": "admin", "tenant": null}))
    );
    let changed = items.iter().find(|item| item["action"] == "subscription_changed").expect("a change");
    assert_eq!((&changed["key_id"], &changed["client_address"]), (&1.into(), &"127.0.0.1".into()));
    assert_eq!(
        (&changed["before"], &changed["after"]),
        (&json!({"active": true}), &json!({"active": false}))
    );
    let stored = api.h.direct.rows("SELECT * FROM operator_audit").await;
    assert!(!format!("{stored:?}").contains("whsec_"), "{stored:?}");
}

pub(crate) async fn the_audit_is_found_by_action_and_time<S: Stores>(api: &TestApi<S>) {
    for (second, name) in (0..).zip(["a", "b", "c"]) {
        // SQLite uses this clock, PostgreSQL the clock of the server.
        api.clock.set(at(second));
        api.post("/v1/keys").json(format!(r#"{{"name":"{name}","role":"viewer"}}"#)).expect(201).await;
    }
    api.call("DELETE", "/v1/keys/2").expect(204).await;
    assert_eq!(listed(api, "action=key_revoked").await, [row("root", "key_revoked", "keys/2")]);
    assert_eq!(listed(api, "action=").await.len(), 4);
    let page = api.get("/v1/audit?limit=3").expect(200).await;
    let oldest = page["items"][2]["created_at"].as_str().expect("a time").to_owned();
    assert_eq!(listed(api, &format!("since={oldest}")).await.len(), 3);
    assert_eq!(listed(api, &format!("until={oldest}")).await, [row("root", "key_created", "keys/1")]);
    let cursor = page["next_cursor"].as_str().expect("a cursor");
    let rest = api.get(&format!("/v1/audit?cursor={cursor}")).expect(200).await;
    assert_eq!((&rest["items"][0]["object"], &rest["next_cursor"]), (&"keys/1".into(), &Value::Null));
    for (query, field) in [
        ("action=key", "action"),
        ("action=KEY_CREATED", "action"),
        ("since=yesterday", "since"),
        ("until=2026-01-31", "until"),
        ("key_id=1", "key_id"),
    ] {
        api.get(&format!("/v1/audit?{query}")).refused(422, field).await;
    }
}

pub(crate) async fn failed_sign_ins_are_written_once_a_minute<S: Stores>(api: &TestApi<S>) {
    let ingest = api.key(KeyRole::Ingest).await;
    let written = async || {
        let page = api.get("/v1/audit?action=sign_in_failed").expect(200).await;
        let items = page["items"].as_array().expect("items").iter().rev();
        items.map(|item| (item["client_address"].clone(), item["after"]["count"].clone())).collect::<Vec<_>>()
    };
    let row = |count: u32| (Value::from("127.0.0.1"), Value::from(count));
    for (key, status) in [("wrong", 401), ("", 401), (&*ingest, 403)] {
        assert_eq!(enter(api, key, "/").send().await.status, status);
    }
    assert_eq!(written().await, [row(1)], "the first at once, the others after a minute");
    let mut writer = FailedSignInWriter::new(api.h.store.keys(), api.failed_sign_ins.clone());
    let before = T0.after(WINDOW - Duration::from_micros(1));
    assert_eq!(writer.step(before).await.expect("a step"), Progress::Unasked);
    assert_eq!(writer.step(T0.after(WINDOW)).await.expect("a step"), Progress::Idle);
    assert_eq!(written().await, [row(1), row(2)]);
    assert_eq!(writer.step(T0.after(3 * WINDOW)).await.expect("a step"), Progress::Unasked);
    // A process that drains writes the counted sign-ins.
    assert_eq!(enter(api, "wrong", "/").send().await.status, 401);
    assert_eq!(enter(api, "wrong", "/").send().await.status, 401);
    writer.drain(&api.clock, Duration::from_secs(30)).await;
    assert_eq!(written().await, [row(1), row(2), row(1), row(1)]);
    // The client is unknown, and the entered key must not be stored.
    let stored = api.h.direct.rows("SELECT * FROM operator_audit WHERE action = 'sign_in_failed'").await;
    assert!(!format!("{stored:?}").contains(&ingest), "{stored:?}");
}

pub(crate) async fn the_audit_page_requires_an_admin<S: Stores>(api: &TestApi<S>) {
    let script = "<script>alert(1)</script>";
    let named = json!({"name": script, "role": "viewer"}).to_string();
    api.post("/v1/keys").json(named).expect(201).await;
    for (role, may) in [(KeyRole::Viewer, false), (KeyRole::Operator, false), (KeyRole::Admin, true)] {
        let visitor = Visitor::sign_in(api, &api.key(role).await).await;
        assert_eq!(visitor.page("/", 200).await.contains("href=\"/audit\""), may, "{role:?}");
        let page = visitor.call("GET", "/audit").send().await;
        assert_eq!(page.status, if may { 200 } else { 403 }, "{role:?}");
    }
    let visitor = Visitor::sign_in(api, ROOT_KEY).await;
    let (_, _, letter) = api.h.dead_letter("a").await;
    api.post(&format!("/v1/dead-letters/{letter}/requeue")).expect(201).await;
    let page = visitor.page("/audit", 200).await;
    let link = format!("<a href=\"/dead-letters/{letter}\">dead-letters/{letter}</a>");
    has(&page, &["aria-current=\"page\">Audit", "key created", "127.0.0.1", "&#60;script&#62;", &link]);
    assert!(!page.contains(script), "{page}");
    let rows = |html: &str| html.matches("<td class=\"value\">").count() / 2;
    let revoked = visitor.page("/audit?action=key_revoked&since=&until=", 200).await;
    assert_eq!(rows(&revoked), 0, "{revoked}");
    let signed_in = visitor.page("/audit?action=signed_in&limit=3", 200).await;
    assert_eq!(rows(&signed_in), 3);
    has(&signed_in, &["<option selected>signed_in</option>", "Older entries"]);
    let wrong = visitor.page("/audit?action=gone&since=now", 422).await;
    has(&wrong, &["action must be one of", "<option selected>gone</option>"]);
}
