//! Error pages: store unavailable, or not found. Each says what is wrong and what to do.

use crate::dashboard::{Visitor, dead_letter};
use crate::server::{ROOT_KEY, TestApi};
use posthaste_core::ports::{KeyRole, Stores};
use posthaste_testkit::harness::Harness;

pub(crate) async fn an_unknown_id_links_to_its_list<S: Stores>(api: &TestApi<S>) {
    dead_letter(api, "a").await;
    let visitor = Visitor::sign_in(api, &api.key(KeyRole::Operator).await).await;
    for (path, status, told, link) in [
        ("/deliveries/99", 404, "there is no such delivery", "href=\"/deliveries\""),
        ("/dead-letters/99", 404, "there is no such dead letter", "href=\"/dead-letters\""),
        ("/orders/none", 404, "there is no such order", "href=\"/orders\""),
        ("/orders?idempotency_key=none", 404, "there is no such order", "href=\"/orders\""),
        ("/deliveries/9223372036854775807", 404, "there is no such delivery", "href=\"/deliveries\""),
        ("/deliveries/9223372036854775808", 422, "must be a whole number", "href=\"/\""),
        ("/dead-letters/one", 422, "must be a whole number", "href=\"/\""),
        ("/deliveries?cursor=x", 422, "cursor must be", "href=\"/\""),
    ] {
        let html = visitor.page(path, status).await;
        for part in [told, link, "<h1>", "Sign out"] {
            assert!(html.contains(part), "{path}: no {part:?} in {html}");
        }
        assert!(!html.contains("http-equiv"), "{path}: no automatic reload");
    }
    let pressed = visitor.press("/dead-letters/99/requeue", "").await;
    assert_eq!(pressed.status, 404);
    assert!(pressed.text().contains("there is no such dead letter"), "{}", pressed.text());
    // Requests refused before a page handler runs: a browser gets a page, a program a problem.
    for (method, path, status, told) in [
        ("GET", "/events/%FF", 400, "this address cannot be read"),
        ("GET", "/orders/%FF", 400, "this address cannot be read"),
        ("GET", "/outbox/resume", 405, "takes what a button sends"),
        ("GET", "/sign-out", 405, "takes what a button sends"),
        ("DELETE", "/subscriptions/1", 405, "takes what a button sends"),
    ] {
        let html = visitor.call(method, path).header("accept", "text/html").expect_text(status).await;
        assert!(html.contains(told) && html.contains("href=\"/\""), "{path}: {html}");
        visitor.call(method, path).refused(status, "").await;
    }
    let nowhere = visitor.call("GET", "/system/nowhere").header("accept", "text/html");
    assert!(nowhere.expect_text(404).await.contains("there is no page at this address"));
}

/// The page says that the store is unavailable, reloads itself, and hides the cause.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unavailable_store_is_shown() {
    let mut api = TestApi::start(Harness::postgres_cut("pages").await).await;
    let visitor = Visitor::sign_in(&api, ROOT_KEY).await;
    let (cookie, mut seen) = (visitor.cookie.clone(), 0);
    let token = loop {
        // The connection breaks occasionally.
        let answer = visitor.call("GET", "/deliveries").send().await;
        if answer.status == 200 {
            break crate::dashboard::hidden(&answer.text(), "token");
        }
        seen += 1;
        assert!(seen < 500, "the store was never available");
    };
    drop(api.h.proxy.take());
    let call = |method, path: &str| api.call(method, path).no_key().header("cookie", &cookie);
    for path in [
        "/",
        "/deliveries",
        "/deliveries/1",
        "/dead-letters",
        "/dead-letters/requeued?first=1&last=2&begun=2027-01-15T08:00:00Z",
        "/orders",
        "/orders/k",
        "/system",
    ] {
        let answer = loop {
            let answer = call("GET", path).send().await;
            if answer.status == 503 {
                break answer;
            }
            seen += 1;
            assert!(seen < 1_000, "the store never became unavailable for {path}: {}", answer.text());
        };
        let html = answer.text();
        assert_eq!(answer.header("retry-after"), "1", "{path}: {html}");
        assert!(
            html.contains("http-equiv=\"refresh\"") && html.contains("goes on by itself"),
            "{path}: {html}"
        );
        assert!(!html.contains("127.0.0.1"), "{path}: {html}");
    }
    // A form is not submitted again automatically.
    let pressed = call("POST", "/outbox/resume").body(format!("token={token}")).send().await;
    let html = pressed.text();
    assert_eq!((pressed.status, pressed.header("retry-after")), (503, "1"), "{html}");
    assert!(!html.contains("http-equiv") && html.contains("press it again"), "{html}");
}
