//! Error pages: unknown objects, malformed URLs and an unavailable store.

use crate::dashboard::{Visitor, dead_letter, problem_detail};
use crate::server::{ROOT_KEY, TestApi};
use posthaste_core::ports::{KeyRole, Stores};
use posthaste_testkit::harness::Harness;

pub(crate) async fn an_unknown_id_gets_a_helpful_error_page<S: Stores>(api: &TestApi<S>) {
    dead_letter(api, "a").await;
    let visitor = Visitor::sign_in(api, &api.key(KeyRole::Operator).await).await;
    for (path, call, status, link) in [
        ("/deliveries/99", "/v1/deliveries/99", 404, "href=\"/deliveries\""),
        ("/dead-letters/99", "/v1/dead-letters/99", 404, "href=\"/dead-letters\""),
        ("/orders/none", "/v1/orders/none", 404, "href=\"/orders\""),
        ("/orders?idempotency_key=none", "/v1/orders/none", 404, "href=\"/orders\""),
        (
            "/deliveries/9223372036854775807",
            "/v1/deliveries/9223372036854775807",
            404,
            "href=\"/deliveries\"",
        ),
        ("/deliveries/9223372036854775808", "/v1/deliveries/9223372036854775808", 422, "href=\"/\""),
        ("/dead-letters/one", "/v1/dead-letters/one", 422, "href=\"/\""),
        ("/deliveries?cursor=x", "/v1/deliveries?cursor=x", 422, "href=\"/\""),
    ] {
        let html = visitor.page(path, status).await;
        let detail = problem_detail(api, call).await;
        for part in [&*detail, link, "<h1>", "Sign out"] {
            assert!(html.contains(part), "{path}: no {part:?} in {html}");
        }
        assert!(!html.contains("http-equiv"), "{path}: reloading does not help");
    }
    let pressed = visitor.press("/dead-letters/99/requeue", "").await;
    assert_eq!(pressed.status, 404);
    let detail = problem_detail(api, "/v1/dead-letters/99").await;
    assert!(pressed.text().contains(&detail), "{}", pressed.text());
    // For errors before a page handler, browsers get a page and API clients a problem.
    for (method, path, status, detail) in [
        ("GET", "/events/%FF", 400, "this address is malformed"),
        ("GET", "/orders/%FF", 400, "this address is malformed"),
        ("GET", "/outbox/resume", 405, "accepts only forms"),
        ("GET", "/sign-out", 405, "accepts only forms"),
        ("DELETE", "/subscriptions/1", 405, "accepts only forms"),
    ] {
        let html = visitor.call(method, path).header("accept", "text/html").expect_text(status).await;
        assert!(html.contains(detail) && html.contains("href=\"/\""), "{path}: {html}");
        visitor.call(method, path).refused(status, "").await;
    }
    let nowhere = visitor.call("GET", "/system/nowhere").header("accept", "text/html");
    assert!(nowhere.expect_text(404).await.contains("there is no page at this address"));
}

/// Checks that the error page reloads itself and does not reveal the cause.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unavailable_store_is_reported() {
    let mut api = TestApi::start(Harness::postgres_cut("pages").await).await;
    let visitor = Visitor::sign_in(&api, ROOT_KEY).await;
    let (cookie, mut seen) = (visitor.cookie.clone(), 0);
    let token = loop {
        // The connection fails occasionally.
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
        "/dead-letters/requeued?first=1&last=2&started=2027-01-15T08:00:00Z",
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
            assert!(seen < 1_000, "the store stayed available for {path}: {}", answer.text());
        };
        let html = answer.text();
        assert_eq!(answer.header("retry-after"), "1", "{path}: {html}");
        assert!(
            html.contains("http-equiv=\"refresh\"") && html.contains("reloads automatically"),
            "{path}: {html}"
        );
        assert!(!html.contains("127.0.0.1"), "{path}: {html}");
    }
    // A form submission is not repeated automatically.
    let pressed = call("POST", "/outbox/resume").body(format!("token={token}")).send().await;
    let html = pressed.text();
    assert_eq!((pressed.status, pressed.header("retry-after")), (503, "1"), "{html}");
    assert!(!html.contains("http-equiv") && html.contains("submit the form again"), "{html}");
}
