//! The form that creates and edits every field of a subscription, the events that it matches, and the request that it
//! leads to.

use crate::dashboard::{Visitor, has};
use crate::dashboard_subscription_edit::{encoded, fields};
use crate::server::{ROOT_KEY, TestApi};
use posthaste_core::attributes::Attributes;
use posthaste_core::event::NewEvent;
use posthaste_core::ports::{IngestStore as _, KeyRole, Stores};
use posthaste_core::tenant::Tenant;
use posthaste_testkit::fixtures::{T0, at, event};
use posthaste_testkit::receiver::{Answer, Received, Receiver};
use serde_json::{Value, json};

const TOKEN: &str = "hush-header";
const PASSWORD: &str = "hush-password";

fn form(pairs: &[(&str, &str)]) -> String {
    pairs.iter().map(|(name, value)| format!("{name}={}", encoded(value))).collect::<Vec<_>>().join("&")
}

fn behave(received: &Received) -> Answer {
    let is_challenge = received.header("posthaste-event-type") == "posthaste.verification";
    if is_challenge { Answer::to_challenge(received) } else { Answer::Status(204) }
}

async fn create<S: Stores>(visitor: &Visitor<'_, S>, url: &str) {
    let headers = format!("X-Team: billing\r\nX-Token (secret): {TOKEN}");
    let created = visitor
        .press(
            "/subscriptions",
            &form(&[
                ("event_types", "order.*\r\ninvoice.paid\r\n"),
                ("filter", "{\r\n  \"suffix\": {\"type\": \".paid\"}\r\n}"),
                ("tenant", "acme"),
                ("callback_url", url),
                ("name", "the <shop>"),
                ("uid", "shop-1"),
                ("metadata", "team=billing\r\nplan=gold"),
                ("envelope", "standard"),
                ("signatures", "standard_both"),
                ("headers", &headers),
                ("auth", "basic"),
                ("auth_basic_username", "posthaste"),
                ("auth_basic_password", PASSWORD),
                ("timeout", "20s"),
            ]),
        )
        .await;
    assert_eq!(created.status, 200, "{}", created.text());
    has(&created.text(), &["whsec_", "whpk_"]);
}

pub(crate) async fn every_field_is_created_shown_and_edited<S: Stores>(api: &TestApi<S>) {
    let receiver = Receiver::start(behave).await;
    let visitor = Visitor::sign_in(api, &api.key(KeyRole::Admin).await).await;
    create(&visitor, &receiver.url("/hook")).await;
    let before = api.get("/v1/subscriptions/1").expect(200).await;
    let expected = json!({
        "event_types": ["order.*", "invoice.paid"], "filter": {"suffix": {"type": ".paid"}}, "tenant": "acme",
        "name": "the <shop>", "uid": "shop-1", "metadata": {"team": "billing", "plan": "gold"},
        "envelope": "standard", "signatures": ["standard", "standard_ed25519"],
        "headers": {"X-Team": "billing", "X-Token": {"secret": true}}, "auth": {"basic": {"username": "posthaste"}},
        "timeout": "20s",
    });
    for (name, value) in expected.as_object().expect("an object") {
        assert_eq!(&before[name], value, "{name}");
    }
    let verified = visitor.press("/subscriptions/1/verify", "").await.text();
    has(&verified, &["Verified: ", "<dt>Verified</dt>", "challenge"]);
    let page = visitor.page("/subscriptions/1", 200).await;
    has(
        &page,
        &[
            "the &#60;shop&#62;",
            "shop-1",
            ">acme</a>",
            "order.*, invoice.paid",
            "&#34;suffix&#34;",
            "Standard Webhooks (HMAC), Standard Webhooks (Ed25519)",
            before["public_key"].as_str().expect("a key"),
            ">billing<",
            "user name and password",
        ],
    );

    // Saving the form as it was opened changes nothing.
    let edit = visitor.page("/subscriptions/1/edit", 200).await;
    has(&edit, &["X-Token (secret): ••••••", "value=\"posthaste\""]);
    for html in [&page, &edit] {
        assert!(!html.contains(TOKEN) && !html.contains(PASSWORD), "{html}");
    }
    let current = api.get("/v1/subscriptions/1").expect(200).await;
    api.clock.set(at(1));
    let saved = visitor.press("/subscriptions/1/edit", &fields(&edit, &[])).await;
    assert_eq!(saved.status, 200, "{}", saved.text());
    assert_eq!(api.get("/v1/subscriptions/1").expect(200).await, current);

    // Stored secrets are kept when other parts change.
    let headers = "X-Team: sales\r\nX-Token (secret): ••••••";
    let changes = [
        ("headers", headers),
        ("auth_basic_username", "other"),
        ("filter", ""),
        ("metadata", ""),
        ("envelope", "raw"),
        ("event_types", "*"),
    ];
    let saved = visitor.press("/subscriptions/1/edit", &fields(&edit, &changes)).await;
    assert_eq!(saved.status, 200, "{}", saved.text());
    let after = api.get("/v1/subscriptions/1").expect(200).await;
    assert_eq!(
        (&after["headers"]["X-Team"], &after["filter"], &after["metadata"], &after["event_types"]),
        (&json!("sales"), &Value::Null, &json!({}), &json!(["*"]))
    );
    assert_eq!((&after["verified"], &after["public_key"]), (&json!(true), &current["public_key"]));
    has(&visitor.press("/subscriptions/1/test", "").await.text(), &["Test event delivered"]);
    let requests = receiver.received();
    let test = requests.last().expect("a request");
    assert_eq!((test.header("x-token"), test.header("x-team")), (TOKEN, "sales"));
    // other:hush-password
    assert_eq!(test.header("authorization"), "Basic b3RoZXI6aHVzaC1wYXNzd29yZA==");

    // The uid of another subscription is reported in the form.
    let twin = form(&[
        ("event_types", "a"),
        ("callback_url", "https://x.example/"),
        ("tenant", "acme"),
        ("uid", "shop-1"),
    ]);
    let refused = visitor.press("/subscriptions", &twin).await;
    assert_eq!(refused.status, 409, "{}", refused.text());
    has(
        &refused.text(),
        &["Not created: another subscription of the tenant has this uid", "value=\"shop-1\""],
    );
}

pub(crate) async fn the_form_shows_matching_events<S: Stores>(api: &TestApi<S>) {
    let new = |kind: &str, tenant: Option<&str>, region: &str| NewEvent {
        tenant: tenant.map(|tenant| Tenant::parse(tenant).expect("a tenant")),
        attributes: Attributes::parse(&json!({"region": region}).to_string()).expect("attributes"),
        ..event(kind)
    };
    let mut events = vec![new("order.paid", Some("acme"), "eu"), new("order.sent", None, "us")];
    events.extend((0..12).map(|_| new("order.paid", None, "eu")));
    api.h.store.ingest().insert_events(vec![events], T0).await.expect("events");
    let visitor = Visitor::sign_in(api, &api.key(KeyRole::Admin).await).await;
    let ask = async |pairs: &[(&str, &str)]| visitor.press("/subscriptions/matches", &form(pairs)).await;
    let part = ("part", "matches");
    let eu = r#"{"exact": {"region": "eu"}}"#;
    for (types, filter, tenant, summary) in [
        ("", "", "", "Enter an event type"),
        ("order.*", "", "", "13 of the newest 14 events match."),
        ("order.*\r\n*", eu, "", "12 of the newest 14 events match."),
        ("order.*", eu, "acme", "1 of the newest 14 events match."),
        ("invoice.*", "", "", "0 of the newest 14 events match."),
    ] {
        let shown = ask(&[part, ("event_types", types), ("filter", filter), ("tenant", tenant)]).await;
        assert_eq!(shown.status, 200, "{}", shown.text());
        has(&shown.text(), &[summary]);
        assert!(!shown.text().contains("<form"), "only a part: {}", shown.text());
    }
    let shown = ask(&[part, ("event_types", "*")]).await.text();
    assert_eq!(shown.matches("href=\"/events/").count(), 10, "the newest ten: {shown}");
    has(&shown, &["href=\"/events/14\""]);
    let wrong = ask(&[part, ("event_types", "a.*.b"), ("filter", "{\"<b>\": 1}")]).await.text();
    has(&wrong, &["data-field=\"event_types\"", "data-field=\"filter\"", "must be the last segment"]);
    assert!(!wrong.contains("<b>") && !wrong.contains("newest"), "{wrong}");

    // Without the script, a button requests the whole page, which keeps all inputs.
    let typed = [("event_types", "order.*"), ("name", "the shop"), ("callback_url", "x")];
    has(
        &ask(&typed).await.text(),
        &["13 of the newest", "value=\"the shop\"", "Create subscription</button>"],
    );
    let id = api.h.subscribe("a").await.to_string();
    let edited = ask(&[&typed[..], &[("id", &id), ("seen", "then")]].concat()).await.text();
    has(
        &edited,
        &["13 of the newest", "value=\"the shop\"", "name=\"seen\" value=\"then\"", "Save changes</button>"],
    );
    let again = visitor.call("GET", "/subscriptions/matches").send().await;
    assert_eq!((again.status, again.header("location")), (303, "/subscriptions/new"));

    let forged = visitor.call("POST", "/subscriptions/matches").body("token=x&event_types=*");
    assert_eq!(forged.send().await.status, 403);
    let viewer = Visitor::sign_in(api, &api.key(KeyRole::Viewer).await).await;
    assert_eq!(viewer.press("/subscriptions/matches", "event_types=*").await.status, 403);
}

pub(crate) async fn the_request_is_shown_as_it_will_be_sent<S: Stores>(api: &TestApi<S>) {
    let visitor = Visitor::sign_in(api, &api.key(KeyRole::Admin).await).await;
    create(&visitor, "https://x.example/hook").await;
    api.h.publish("order.paid", 1).await;
    let page = visitor.page("/subscriptions/1", 200).await;
    has(
        &page,
        &["POST https://x.example/hook\n", "\nx-team: billing", "webhook-signature: v1,", " v1a,", "•••"],
    );
    has(&page, &["&#34;type&#34;:&#34;order.sample&#34;"]);
    has(&visitor.page("/subscriptions/1?event_id=1", 200).await, &["&#34;type&#34;:&#34;order.paid&#34;"]);
    for (event, detail) in [("99", "event"), ("x", "event_id must be a whole number")] {
        let html = visitor.page(&format!("/subscriptions/1?event_id={event}"), 200).await;
        has(&html, &["id=\"preview-error\"", detail]);
    }
    assert!(!page.contains(TOKEN) && !page.contains(PASSWORD), "{page}");
    let viewer = Visitor::sign_in(api, &api.key(KeyRole::Viewer).await).await;
    assert!(!viewer.page("/subscriptions/1", 200).await.contains("id=\"preview\""));
}

pub(crate) async fn subscriptions_are_listed_by_tenant_uid_and_name<S: Stores>(api: &TestApi<S>) {
    for (tenant, uid, name, kind) in [
        ("acme", "u-1", "billing <x>", "order.*"),
        ("acme", "u-2", "sales", "a"),
        ("other", "u-1", "sales", "order.paid"),
    ] {
        let new = json!({"tenant": tenant, "uid": uid, "name": name, "event_types": [kind],
            "callback_url": "https://x.example/"});
        api.post("/v1/subscriptions").json(new.to_string()).expect(201).await;
    }
    let visitor = Visitor::sign_in(api, ROOT_KEY).await;
    let rows = |html: &str| html.matches("<td><a href=\"/subscriptions/").count();
    has(&visitor.page("/subscriptions", 200).await, &["billing &#60;x&#62;", "u-2", ">other<", ">order.*<"]);
    for (query, count) in [
        ("tenant=acme", 2),
        ("uid=u-1", 2),
        ("tenant=other&uid=u-1", 1),
        ("name=sales", 2),
        ("event_type=order.paid", 2),
        ("tenant=acme&event_type=order.paid&state=unverified", 1),
        ("tenant=nobody", 0),
    ] {
        assert_eq!(rows(&visitor.page(&format!("/subscriptions?{query}"), 200).await), count, "{query}");
    }
}
