//! Sessions, roles, CSRF protection and escaping of the dashboard pages. `crates/posthaste/tests/outside/browser*.rs`
//! tests their behavior in a browser.

use crate::server::{ROOT_KEY, TestApi};
use posthaste_core::SubscriptionId;
use posthaste_core::ports::{KeyRole, KeyStore as _, Stores};
use posthaste_testkit::client::{Answer, Call};
use posthaste_testkit::fixtures::{T0, at};
use std::time::Duration;

/// A signed-in client of the dashboard.
pub(crate) struct Visitor<'a, S: Stores> {
    api: &'a TestApi<S>,
    pub(crate) cookie: String,
}

impl<'a, S: Stores> Visitor<'a, S> {
    pub(crate) async fn sign_in(api: &'a TestApi<S>, key: &str) -> Self {
        let answer = enter(api, key, "/").send().await;
        assert_eq!((answer.status, answer.header("location")), (303, "/"), "{}", answer.text());
        let cookie = answer.header("set-cookie").split(';').next().unwrap_or_default().to_owned();
        Self { api, cookie }
    }

    pub(crate) fn call(&self, method: &'static str, path: &str) -> Call {
        self.api.call(method, path).no_key().header("cookie", &self.cookie)
    }

    pub(crate) async fn page(&self, path: &str, status: u16) -> String {
        self.call("GET", path).expect_text(status).await
    }

    pub(crate) async fn token(&self) -> String {
        hidden(&self.page("/", 200).await, "token")
    }

    /// Submits a form with the headers and the token of a dashboard page.
    pub(crate) async fn press(&self, path: &str, fields: &str) -> Answer {
        let body = format!("token={}&{fields}", self.token().await);
        self.call("POST", path).header("sec-fetch-site", "same-origin").body(body).send().await
    }
}

pub(crate) fn enter<S: Stores>(api: &TestApi<S>, key: &str, next: &str) -> Call {
    api.post("/sign-in").no_key().body(format!("key={key}&next={next}"))
}

/// Returns the value of the hidden field `name`.
pub(crate) fn hidden(html: &str, name: &str) -> String {
    let (_, rest) = html.split_once(&format!("name=\"{name}\" value=\"")).expect("the field");
    rest.split('"').next().unwrap_or_default().to_owned()
}

const PAGES: &[&str] = &[
    "/",
    "/?window=24h",
    "/events",
    "/subscriptions",
    "/subscriptions/new",
    "/deliveries",
    "/dead-letters",
    "/orders",
    "/system",
    "/audit",
];

pub(crate) fn has(html: &str, parts: &[&str]) {
    for part in parts {
        assert!(html.contains(part), "no {part:?} in {html}");
    }
}

/// Returns the `detail` of the problem in the API's response to a GET request.
pub(crate) async fn problem_detail<S: Stores>(api: &TestApi<S>, path: &str) -> String {
    let problem = api.get(path).send().await.json();
    problem["detail"].as_str().unwrap_or_else(|| panic!("{path}: no detail in {problem}")).to_owned()
}

pub(crate) async fn pages_require_a_session<S: Stores>(api: &TestApi<S>) {
    for (path, place) in [
        ("/", "/sign-in"),
        ("/deliveries?status=Pending", "/sign-in?next=%2Fdeliveries%3Fstatus%3DPending"),
        ("/dead-letters/7", "/sign-in?next=%2Fdead-letters%2F7"),
    ] {
        let answer = api.get(path).no_key().send().await;
        assert_eq!((answer.status, answer.header("location")), (303, place), "{path}");
        // Pages accept only the cookie, not a bearer key.
        assert_eq!(api.get(path).send().await.status, 303, "{path}");
    }
    for (key, status) in [("wrong", 401), ("", 401), (&*"k".repeat(600), 401)] {
        let answer = enter(api, key, "/").send().await;
        assert_eq!((answer.status, answer.header("set-cookie")), (status, ""));
        assert!(answer.text().contains("is unknown or was revoked"));
    }
    let answer = enter(api, ROOT_KEY, "/deliveries").send().await;
    let cookie = answer.header("set-cookie");
    assert_eq!((answer.status, answer.header("location")), (303, "/deliveries"));
    for part in ["; HttpOnly", "; SameSite=Strict", "; Max-Age=43200", "; Path=/"] {
        assert!(cookie.contains(part), "{cookie}");
    }
    assert!(!cookie.contains("Secure") && !cookie.contains(ROOT_KEY), "{cookie}");
    let behind_https =
        enter(api, ROOT_KEY, "//evil.example").header("x-forwarded-proto", "https").send().await;
    assert!(behind_https.header("set-cookie").contains("; Secure"));
    assert_eq!(behind_https.header("location"), "/");
    for next in ["/%09/evil.example", "/%01", "/%5Cevil.example"] {
        let answer = enter(api, ROOT_KEY, next).send().await;
        assert_eq!((answer.status, answer.header("location")), (303, "/"), "{next}");
    }
    let visitor = Visitor::sign_in(api, ROOT_KEY).await;
    for path in PAGES.iter().copied() {
        let answer = visitor.call("GET", path).send().await;
        assert_eq!(
            (answer.status, answer.header("content-type")),
            (200, "text/html; charset=utf-8"),
            "{path}"
        );
        let policy = answer.header("content-security-policy");
        assert!(policy.starts_with("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
        assert!(!policy.contains("http"), "another host: {policy}");
    }
    let damaged = format!("{}x", visitor.cookie);
    assert_eq!(api.get("/").no_key().header("cookie", &damaged).send().await.status, 303);
    let left = visitor.press("/sign-out", "").await;
    assert_eq!((left.status, left.header("location")), (303, "/sign-in"));
    assert!(left.header("set-cookie").starts_with("posthaste_session=; Max-Age=0;"));
    assert_eq!(visitor.call("GET", "/").send().await.status, 303, "signed out");
    let visitor = Visitor::sign_in(api, ROOT_KEY).await;
    api.clock.set(T0.after(Duration::from_secs(12 * 3_600)));
    assert_eq!(visitor.call("GET", "/").send().await.status, 303, "twelve hours later");
}

/// Checks that a session is valid in all processes on one database, and ends in all of them.
pub(crate) async fn sessions_are_shared_by_all_processes<S: Stores>(api: &TestApi<S>) {
    let other = api.another().await;
    let visitor = Visitor::sign_in(api, ROOT_KEY).await;
    let copied =
        |path: &str| Call::new(other.address, "GET", path, "").no_key().header("cookie", &visitor.cookie);
    assert_eq!(copied("/").send().await.status, 200);
    visitor.press("/sign-out", "").await;
    for path in ["/", "/events"] {
        let answer = copied(path).send().await;
        assert_eq!(answer.status, 303, "a copied cookie after the sign-out");
        assert_eq!(visitor.call("GET", path).send().await.status, 303);
    }
}

/// Checks that a session expires even if the clock was set back, which would otherwise extend it.
pub(crate) async fn sessions_expire_after_twelve_hours<S: Stores>(api: &TestApi<S>) {
    let visitor = Visitor::sign_in(api, ROOT_KEY).await;
    for (now, status) in [
        (T0, 200),
        (T0.after(Duration::from_secs(12 * 3_600 - 1)), 200),
        (T0.after(Duration::from_secs(12 * 3_600)), 303),
        (T0.before(Duration::from_secs(1)), 303),
    ] {
        api.clock.set(now);
        assert_eq!(visitor.call("GET", "/").send().await.status, status, "{now:?}");
    }
    let long = "INSERT INTO sessions (token_hash, key_hash, created_at, ends_at)
        SELECT key_hash, key_hash, created_at, ends_at + (ends_at - created_at) FROM sessions";
    let refusal = api.h.direct.try_rows(long).await.expect_err("a session of 24 hours");
    assert!(refusal.contains("session_length"), "{refusal}");
}

pub(crate) async fn a_form_from_another_origin_is_refused<S: Stores>(api: &TestApi<S>) {
    let own = format!("http://{}", api.address);
    for (origin, status) in [(own.as_str(), 303), ("http://evil.example", 403), ("null", 403)] {
        let answer = enter(api, ROOT_KEY, "/").header("origin", origin).send().await;
        assert_eq!(answer.status, status, "{origin}");
        assert_eq!(answer.header("set-cookie").is_empty(), status == 403, "{origin}");
    }
    let visitor = Visitor::sign_in(api, ROOT_KEY).await;
    let body = format!("token={}", visitor.token().await);
    let pressed = visitor.call("POST", "/sign-out").header("origin", "https://evil.example").body(body);
    assert_eq!(pressed.send().await.status, 403);
    assert_eq!(visitor.call("GET", "/").send().await.status, 200);
}

pub(crate) async fn each_role_sees_only_its_actions<S: Stores>(api: &TestApi<S>) {
    let letter = dead_letter(api, "a").await;
    let path = format!("/dead-letters/{letter}");
    for (role, may_view, may_requeue) in [
        (KeyRole::Viewer, true, false),
        (KeyRole::Admin, true, false),
        (KeyRole::Ingest, false, false),
        (KeyRole::Orders, false, false),
        (KeyRole::Operator, true, true),
    ] {
        let key = api.key(role).await;
        if !may_view {
            let answer = enter(api, &key, "/").send().await;
            assert_eq!((answer.status, answer.header("set-cookie")), (403, ""), "{role:?}");
            continue;
        }
        let visitor = Visitor::sign_in(api, &key).await;
        let shown = [visitor.page(&path, 200).await, visitor.page("/dead-letters", 200).await];
        for html in shown {
            assert_eq!(html.contains("/requeue"), may_requeue, "{role:?}");
        }
        let status = visitor.call("GET", "/dead-letters/requeue").send().await.status;
        assert_eq!(status == 200, may_requeue, "{role:?}");
        let pressed = visitor.press(&format!("{path}/requeue"), "").await;
        assert_eq!(pressed.status, if may_requeue { 303 } else { 403 }, "{role:?}");
    }
    let keys = api.h.store.keys().list_keys().await.expect("the keys");
    let operator = keys.iter().find(|key| key.role == KeyRole::Operator).expect("the operator's");
    let visitor = Visitor::sign_in(api, "a-key-of-role-operator").await;
    api.call("DELETE", &format!("/v1/keys/{}", operator.id)).send().await;
    assert_eq!(visitor.call("GET", "/").send().await.status, 303, "a revoked key");
}

pub(crate) async fn a_forged_form_is_refused<S: Stores>(api: &TestApi<S>) {
    let letter = dead_letter(api, "a").await;
    let path = format!("/dead-letters/{letter}/requeue");
    let (visitor, other) = (Visitor::sign_in(api, ROOT_KEY).await, Visitor::sign_in(api, ROOT_KEY).await);
    let (own, others) = (visitor.token().await, other.token().await);
    assert_ne!(own, others);
    for (body, site) in [
        ("", "same-origin"),
        ("token=", "same-origin"),
        (&*format!("token={others}"), "same-origin"),
        (&*format!("token={own}"), "cross-site"),
        (&*format!("token={own}"), "same-site"),
    ] {
        let call = visitor.call("POST", &path).header("sec-fetch-site", site).body(body);
        let answer = call.send().await;
        assert_eq!(answer.status, 403, "{body} {site}");
        assert!(answer.text().contains("Form rejected"), "{}", answer.text());
    }
    assert_eq!(api.call("POST", &path).no_key().body(format!("token={own}")).send().await.status, 303);
    assert_eq!(enter(api, ROOT_KEY, "/").header("sec-fetch-site", "cross-site").send().await.status, 403);
    assert_eq!(
        api.h.direct.number("SELECT count(*) FROM webhook_delivery_sagas").await,
        1,
        "nothing was requeued"
    );
    let pressed = visitor.press(&path, "").await;
    assert_eq!((pressed.status, pressed.header("location")), (303, "/deliveries/2"));
    assert_eq!(visitor.press(&path, "").await.header("location"), "/deliveries/2", "a second click");
}

pub(crate) async fn a_delivery_links_to_its_dead_letter_and_requeued_delivery<S: Stores>(api: &TestApi<S>) {
    let letter = dead_letter(api, "a").await;
    let visitor = Visitor::sign_in(api, ROOT_KEY).await;
    let letter_link = format!("href=\"/dead-letters/{letter}\"");
    let listed = visitor.page("/dead-letters", 200).await;
    let links = ["deliveries", "events", "subscriptions"]
        .map(|list| format!("<td class=\"num\"><a href=\"/{list}/1\">1</a></td>"));
    has(&listed, &[&letter_link, &links[0], &links[1], &links[2]]);
    let ended = visitor.page("/deliveries/1", 200).await;
    has(&ended, &["now DeadLettered", "HTTP_500", &letter_link, "30 s after", "Requeue<"]);
    assert!(!ended.contains("data-live"), "a finished delivery is not refreshed: {ended}");
    visitor.press(&format!("/dead-letters/{letter}/requeue"), "").await;
    has(
        &visitor.page("/deliveries/2", 200).await,
        &["now Pending\"", "Requeued from", "href=\"/deliveries/1\"", "data-until", "data-live"],
    );
    let first = visitor.page("/deliveries/1", 200).await;
    has(&first, &["Requeued as", "href=\"/deliveries/2\""]);
    assert!(!first.contains("Requeue<"), "a dead letter is requeued once");
    for (query, count) in [("", 2), ("status=Pending", 1), ("event_type=a", 2), ("subscription_id=9", 0)] {
        let html = visitor.page(&format!("/deliveries?{query}"), 200).await;
        assert_eq!(html.matches("<td><a href=\"/deliveries/").count(), count, "{query}");
    }
    has(
        &visitor.page("/deliveries/99", 404).await,
        &[&problem_detail(api, "/v1/deliveries/99").await, "href=\"/deliveries\"", "Sign out"],
    );
    let malformed = problem_detail(api, "/v1/deliveries/x").await;
    assert!(malformed.contains("must be a whole number"), "{malformed}");
    has(&visitor.page("/deliveries/x", 422).await, &[&malformed]);
    has(&visitor.page("/deliveries?status=Lost", 422).await, &["status must be one of"]);
    let nowhere = api.get("/no-such-page").no_key().header("accept", "text/html");
    has(&nowhere.expect_text(404).await, &["there is no page at this address"]);
    api.get("/no-such-page").no_key().refused(404, "").await;
}

pub(crate) async fn user_content_is_escaped<S: Stores>(api: &TestApi<S>) {
    let script = "<script>alert(1)</script>";
    let subscription = api.h.subscribe("a").await;
    api.post("/v1/events")
        .json(format!(r#"{{"event_type":"a","payload":{{"x":"{script}"}},"external_event_id":"{script}"}}"#))
        .expect(202)
        .await;
    api.h.route_all(T0).await;
    exhaust_attempts(api, subscription).await;
    let visitor = Visitor::sign_in(api, ROOT_KEY).await;
    for path in [
        "/dead-letters/1",
        "/deliveries/1",
        "/events",
        "/events/1",
        "/events?external_event_id=%3Cscript%3Ealert(1)%3C/script%3E",
        "/subscriptions?state=%3Cscript%3Ealert(1)%3C/script%3E",
        "/deliveries?event_type=%3Cscript%3Ealert(1)%3C/script%3E",
        "/dead-letters/requeue?since=%3Cscript%3Ealert(1)%3C/script%3E",
        "/sign-in?next=/%22%3E%3Cscript%3Ealert(1)%3C/script%3E",
    ] {
        let answer = visitor.call("GET", path).send().await;
        assert!(!answer.text().contains(script), "{path}: {}", answer.text());
        assert_eq!(answer.header("content-type"), "text/html; charset=utf-8", "{path}");
    }
    for path in ["/dead-letters/1", "/events/1", "/events"] {
        assert!(visitor.page(path, 200).await.contains("&#60;script&#62;alert(1)"), "{path}");
    }
    let fields =
        "event_types=a&callback_url=https://x.example/&description=%3Cscript%3Ealert(1)%3C/script%3E";
    let made = visitor.press("/subscriptions", fields).await.text();
    assert!(made.contains("&#60;script&#62;alert(1)") && !made.contains(script), "{made}");
}

pub(crate) async fn dead_letter<S: Stores>(api: &TestApi<S>, kind: &str) -> i64 {
    let subscription = api.h.subscribe(kind).await;
    api.h.publish(kind, 1).await;
    api.h.route_all(T0).await;
    exhaust_attempts(api, subscription).await;
    api.h.direct.number("SELECT max(id) FROM dead_letters").await
}

/// Fails five attempts, each at its due time, so that the delivery is dead-lettered.
pub(crate) async fn exhaust_attempts<S: Stores>(api: &TestApi<S>, subscription: SubscriptionId) {
    for second in [0, 30, 90, 210, 450] {
        api.h.fail_attempts(subscription, at(second)).await;
    }
}
