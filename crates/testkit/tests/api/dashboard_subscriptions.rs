//! The pages for subscriptions: creation, actions, roles and delivery health.

use crate::dashboard::{Visitor, has, problem_detail};
use crate::dashboard_events::next_of;
use crate::server::{ROOT_KEY, TestApi};
use posthaste_core::health::{Attempts, interval_start};
use posthaste_core::outcome::Failure;
use posthaste_core::ports::{HealthSum, KeyRole, PresenceStore as _, Stores};
use posthaste_testkit::fixtures::{T0, at};
use posthaste_testkit::harness::Engine;
use posthaste_testkit::receiver::{Answer, Received, Receiver};
use std::collections::BTreeSet;
use std::time::Duration;

const SECRET: &str = "whsec_";

/// Returns the challenge, or a response that depends on the path of the request.
fn behave(received: &Received) -> Answer {
    let is_challenge = received.header("posthaste-event-type") == "posthaste.verification";
    if is_challenge && received.path != "/silent" {
        return Answer::to_challenge(received);
    }
    Answer::Status(if received.path == "/hook" { 204 } else { 500 })
}

fn secret_of(html: &str) -> String {
    let (_, rest) = html.split_once(SECRET).expect("a secret");
    rest.split('<').next().unwrap_or_default().to_owned()
}

/// Adds `count` subscriptions of one type with URLs of the maximum length.
async fn add<S: Stores>(api: &TestApi<S>, count: u32, event_type: &str, is_verified: bool) {
    let (time, secret_ref, is_verified, event_types) = match api.h.engine {
        Engine::Sqlite => {
            let types = format!("json_array('{event_type}')");
            ("1800000001000000", "randomblob(16)", u8::from(is_verified).to_string(), types)
        }
        Engine::Postgres | Engine::PostgresCut => {
            let types = format!("ARRAY['{event_type}']");
            ("to_timestamp(1800000001)", "gen_random_uuid()", is_verified.to_string(), types)
        }
    };
    let url = format!("https://x.example/{}", "x".repeat(1_982));
    let columns =
        "event_type, event_types, callback_url, verified, secret_ref, secret, created_at, updated_at";
    let sql = format!(
        "WITH RECURSIVE counted (k) AS (VALUES (1) UNION ALL SELECT k + 1 FROM counted WHERE k < {count})
         INSERT INTO subscriptions ({columns})
         SELECT '{event_type}', {event_types}, '{url}', {is_verified}, {secret_ref}, 's', {time}, {time} FROM counted"
    );
    api.h.direct.force(&sql).await;
    // The triggers that would do this are off.
    let patterns = "INSERT INTO subscription_patterns (tenant, pattern, subscription_id, current)
        SELECT '', event_type, id, id > 0 FROM subscriptions WHERE secret = 's' ON CONFLICT DO NOTHING";
    api.h.direct.force(patterns).await;
}

pub(crate) async fn the_secret_of_a_new_subscription_is_shown_once<S: Stores>(api: &TestApi<S>) {
    let receiver = Receiver::start(behave).await;
    let visitor = Visitor::sign_in(api, &api.key(KeyRole::Admin).await).await;
    has(&visitor.page("/subscriptions/new", 200).await, &["name=\"callback_url\"", "name=\"event_types\""]);
    let problem =
        api.post("/v1/subscriptions").json(r#"{"event_type": "a"}"#).refused(422, "callback_url").await;
    let missing = format!("Not created: {}.", problem["detail"].as_str().expect("a detail"));
    for (fields, invalid, detail) in [
        ("event_types=a%20b&callback_url=https://x.example/", "event_types", "event_types"),
        ("event_types=a&callback_url=ftp://x.example/%3Cb%3E", "callback_url", "must use https"),
        ("event_types=a&callback_url=https://x.example/&max_retry_limit=many", "max_retry_limit", "1 to 100"),
        ("event_types=a", "callback_url", &missing),
    ] {
        let answer = visitor.press("/subscriptions", fields).await;
        let html = answer.text();
        assert_eq!(answer.status, 422, "{fields}: {html}");
        has(&html, &["role=\"alert\"", detail]);
        let (_, field) = html.split_once(&format!("id=\"{invalid}\"")).expect("the field");
        assert!(field.split('>').next().is_some_and(|field| field.contains("aria-invalid")), "{html}");
        assert!(!html.contains("<b>"), "{html}");
    }
    assert_eq!(api.count("subscriptions").await, 0, "nothing was created");

    let url = receiver.url("/hook");
    let fields = format!("event_types=a&callback_url={url}&description=the+shop&max_retry_limit=3");
    let made = visitor.press("/subscriptions", &fields).await;
    assert_eq!((made.status, made.header("cache-control")), (200, "no-store"), "{}", made.text());
    let first = secret_of(&made.text());
    has(&made.text(), &["Subscription 1", "unverified", &url, "the shop"]);
    let shown = visitor.page("/subscriptions/1", 200).await;
    has(&shown, &["the shop", ">Verify<", "<dd>3</dd>", "data-live"]);
    assert!(!shown.contains("Send test event"), "nothing is sent to an unverified URL");
    assert_eq!(visitor.press("/subscriptions/1/test", "").await.status, 409);

    let verified = visitor.press("/subscriptions/1/verify", "").await.text();
    has(&verified, &["Verified: the receiver returned the challenge (response 200", ">active<"]);
    has(&visitor.press("/subscriptions/1/test", "").await.text(), &["Test event delivered (response 204"]);
    let rotated = visitor.press("/subscriptions/1/rotate-secret", "overlap_s=3600").await.text();
    let second = secret_of(&rotated);
    assert_ne!(first, second);
    assert_eq!(visitor.press("/subscriptions/1/rotate-secret", "overlap_s=x").await.status, 422);
    let own = "secret=whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz&overlap_s=3600";
    has(
        &visitor.press("/subscriptions/1/rotate-secret", own).await.text(),
        &["whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz"],
    );
    for html in [shown, verified, visitor.page("/subscriptions", 200).await] {
        assert!(!html.contains(SECRET), "{html}");
    }
    let again = visitor.call("GET", "/subscriptions/1/rotate-secret").send().await;
    assert_eq!((again.status, again.header("location")), (303, "/subscriptions/1"));
    assert!(!visitor.page("/subscriptions/1", 200).await.contains(&second));
}

pub(crate) async fn a_subscription_is_paused_and_resumed<S: Stores>(api: &TestApi<S>) {
    let visitor = Visitor::sign_in(api, ROOT_KEY).await;
    let id = api.h.subscribe("a").await;
    let page = format!("/subscriptions/{id}");
    for (verb, state, next) in [("pause", ">paused<", "Resume"), ("resume", ">active<", "Pause")] {
        let pressed = visitor.press(&format!("{page}/{verb}"), "").await;
        assert_eq!((pressed.status, pressed.header("location")), (303, page.as_str()), "{verb}");
        has(&visitor.page(&page, 200).await, &[state, &format!(">{next}</button>")]);
    }
    let receiver = Receiver::start(behave).await;
    for path in ["/silent", "/refuse"] {
        let fields = format!("event_types=a&callback_url={}", receiver.url(path));
        let created = visitor.press("/subscriptions", &fields).await.text();
        let (_, rest) = created.split_once("<h1>Subscription ").expect("its id");
        let page = format!("/subscriptions/{}", rest.split('<').next().unwrap_or_default());
        let verified = visitor.press(&format!("{page}/verify"), "").await.text();
        let (action, html, result) = if path == "/silent" {
            ("verify", verified, "Not verified")
        } else {
            has(&verified, &["Verified: "]);
            ("test", visitor.press(&format!("{page}/test"), "").await.text(), "Test event failed")
        };
        let outcome = api.post(&format!("/v1{page}/{action}")).expect(200).await;
        let reason = outcome["reason"].as_str().expect("a reason");
        assert!(reason.contains("500"), "{reason}");
        has(&html, &[&format!("{result}: {reason} (response 500, HTTP_500, after "), "notice bad"]);
    }
    let unknown = problem_detail(api, "/v1/subscriptions/99").await;
    has(&visitor.page("/subscriptions/99", 404).await, &[&unknown]);
    assert_eq!(visitor.press("/subscriptions/99/pause", "").await.status, 404);
}

pub(crate) async fn only_an_admin_changes_subscriptions<S: Stores>(api: &TestApi<S>) {
    let id = api.h.subscribe("a").await;
    let page = format!("/subscriptions/{id}");
    for (role, may) in [(KeyRole::Viewer, false), (KeyRole::Operator, false), (KeyRole::Admin, true)] {
        let visitor = Visitor::sign_in(api, &api.key(role).await).await;
        for path in ["/subscriptions", &page] {
            let html = visitor.page(path, 200).await;
            let offers = html.contains("method=\"post\" action=\"/subscriptions") || html.contains("/new\"");
            assert_eq!(offers, may, "{role:?} {path}");
        }
        assert_eq!(visitor.call("GET", "/subscriptions/new").send().await.status == 200, may, "{role:?}");
        if !may {
            let new = "event_types=a&callback_url=https://x.example/";
            assert_eq!(visitor.press("/subscriptions", new).await.status, 403, "{role:?}");
            for verb in ["verify", "test", "pause", "resume", "rotate-secret"] {
                let pressed = visitor.press(&format!("{page}/{verb}"), "").await;
                assert_eq!(pressed.status, 403, "{role:?} {verb}");
            }
        }
    }
    assert_eq!(api.count("subscription_changes").await, 2, "creation and verification only");
}

pub(crate) async fn the_list_shows_the_health_of_subscriptions<S: Stores>(api: &TestApi<S>) {
    let one = api.h.subscribe_with("a", Some(1)).await;
    api.h.publish("a", 2).await;
    api.h.route_all(T0).await;
    api.h.fail_attempts(one, at(1)).await;
    api.h.publish("a", 3).await;
    api.h.route_all(at(2)).await;
    for _ in 0..60 {
        api.h.subscribe_unverified("b", None).await;
    }
    let visitor = Visitor::sign_in(api, ROOT_KEY).await;
    has(
        &visitor.page(&format!("/subscriptions/{one}"), 200).await,
        &["no attempts<", "<dt>Backlog</dt><dd>3</dd>", "HTTP_500</a>", "the last 24 hours"],
    );
    api.clock.set(at(6));
    let now = api.clock.now();
    let mut attempts = Attempts::default();
    attempts.fail(Failure::Timeout.code(), at(5));
    (0..3).for_each(|_| attempts.succeed(Duration::from_millis(7)));
    let sum = HealthSum { subscription_id: one, interval_start: interval_start(now), attempts };
    api.h.store.presence().report_health(vec![sum], now).await.expect("a report");
    has(
        &visitor.page(&format!("/subscriptions/{one}"), 200).await,
        &["75.00% of 4 attempts", "<dt>Latency p50</dt><dd>10 ms</dd>", "TIMEOUT</a>"],
    );
    visitor.press(&format!("/subscriptions/{one}/pause"), "").await;
    has(&visitor.page("/subscriptions?event_type=a", 200).await, &["3 held", "75.00%", "10 ms", "TIMEOUT"]);
    has(&visitor.page("/subscriptions?event_type=b", 200).await, &["no attempts", "(last hour)"]);
    let rows = |html: &str| html.matches("<td><a href=\"/subscriptions/").count();
    for (query, count) in [
        ("", 50),
        ("state=paused", 1),
        ("state=active", 0),
        ("event_type=b&state=unverified", 50),
        ("event_type=c", 0),
    ] {
        assert_eq!(rows(&visitor.page(&format!("/subscriptions?{query}"), 200).await), count, "{query}");
    }
    let first = visitor.page("/subscriptions?event_type=b", 200).await;
    let second = visitor.page(&next_of(&first).expect("more"), 200).await;
    assert_eq!((rows(&second), second.contains("class=\"more\"")), (10, false), "{second}");
    has(&visitor.page("/subscriptions?state=lost", 422).await, &["state must be one of"]);
}

pub(crate) async fn a_search_over_many_subscriptions_can_be_continued<S: Stores>(api: &TestApi<S>) {
    let active = api.h.subscribe("a").await;
    add(api, 550, "b", false).await;
    let visitor = Visitor::sign_in(api, ROOT_KEY).await;
    let first = visitor.page("/subscriptions?state=active", 200).await;
    has(&first, &["No matches so far.", "Searched the newest 500 subscriptions", ">Continue search<"]);
    let second = visitor.page(&next_of(&first).expect("more"), 200).await;
    has(&second, &[&format!("href=\"/subscriptions/{active}\"")]);
    assert!(!second.contains("Continue search"), "{second}");
}

pub(crate) async fn ten_thousand_subscriptions_are_listed_in_short_pages<S: Stores>(api: &TestApi<S>) {
    const COUNT: u32 = 10_000;
    /// The maximum size of a page in bytes. A page has 50 rows, each with the longest URL twice.
    const PAGE_BYTES_MAX: usize = 250_000;
    add(api, COUNT, "b", true).await;
    let visitor = Visitor::sign_in(api, ROOT_KEY).await;
    let (mut listed, mut next) = (BTreeSet::new(), Some("/subscriptions".to_owned()));
    while let Some(path) = next {
        let html = visitor.page(&path, 200).await;
        assert!(html.len() < PAGE_BYTES_MAX, "{path}: {} bytes", html.len());
        let ids = html.split("href=\"/subscriptions/").skip(1).filter_map(|rest| rest.split('"').next());
        listed.extend(ids.filter_map(|id| id.parse::<u32>().ok()));
        next = next_of(&html);
    }
    assert_eq!((listed.len(), listed.first(), listed.last()), (10_000, Some(&1), Some(&COUNT)));

    // Publishes one event that is delivered to all subscriptions.
    api.h.publish("b", 1).await;
    api.h.route_all(T0).await;
    assert_eq!(api.count("webhook_delivery_sagas").await, i64::from(COUNT));
    for path in ["/events/1", "/deliveries", "/"] {
        let html = visitor.page(path, 200).await;
        assert!(html.len() < PAGE_BYTES_MAX, "{path}: {} bytes", html.len());
    }
}

pub(crate) async fn a_url_is_verified_with_the_selected_method<S: Stores>(api: &TestApi<S>) {
    let receiver = Receiver::start(|received| match received.method.as_str() {
        "OPTIONS" => {
            let allowed = [("webhook-allowed-origin", "*"), ("webhook-allowed-rate", "30")];
            let headers = allowed.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
            Answer::With { status: 200, headers, body: Vec::new() }
        }
        _ => behave(received),
    })
    .await;
    let visitor = Visitor::sign_in(api, &api.key(KeyRole::Admin).await).await;
    let offered = [
        "name=\"method\"",
        "<option>challenge</option><option>cloudevents</option><option>asserted</option>",
    ];
    for (method, result) in [
        ("challenge", "Verified: the receiver returned the challenge"),
        ("cloudevents", "Verified: the receiver allows our origin, at most 0.5 requests per second"),
        ("asserted", "Verified: you vouch for the URL"),
    ] {
        let fields = format!("event_types=a&callback_url={}", receiver.url("/hook"));
        let created = visitor.press("/subscriptions", &fields).await.text();
        has(&created, &offered);
        let (_, rest) = created.split_once("<h1>Subscription ").expect("its id");
        let page = format!("/subscriptions/{}", rest.split('<').next().unwrap_or_default());
        let verified = visitor.press(&format!("{page}/verify"), &format!("method={method}")).await.text();
        has(&verified, &[result, "notice good", ">active<"]);
    }
    let refused = visitor.press("/subscriptions/1/verify", "method=dns").await;
    assert_eq!(refused.status, 422);
}
