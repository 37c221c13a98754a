//! The pages for orders, and resuming a paused lane.

use crate::dashboard::{Visitor, problem_detail};
use crate::orders::{body, outcome_of, send_one, submit};
use crate::server::{ROOT_KEY, TestApi};
use posthaste_core::ports::{KeyRole, Stores};
use posthaste_testkit::fixtures::T0;

#[track_caller]
fn has(html: &str, parts: &[&str]) {
    for part in parts {
        assert!(html.contains(part), "no {part:?} in {html}");
    }
}

pub(crate) async fn orders_are_filtered_by_status_and_key<S: Stores>(api: &TestApi<S>) {
    // Keys with reserved URL characters and relative path segments.
    for key in ["k-1", "k-2", "a/b?c=d&e#f%2F", "<i>", "..", "resume"] {
        submit(api, key, body(key)).expect(202).await;
    }
    send_one(api, outcome_of("k-1", 200, r#"{"idempotency_key":"k-1","broker_order_id":"b-9"}"#), T0).await;
    let visitor = Visitor::sign_in(api, ROOT_KEY).await;
    let count = |html: &str| html.matches("<td class=\"clip\"><a href=\"/orders").count();
    for (query, expected) in
        [("", 6), ("status=sent", 1), ("status=queued&idempotency_key=", 5), ("limit=4", 4)]
    {
        let html = visitor.page(&format!("/orders?{query}"), 200).await;
        assert_eq!(count(&html), expected, "{query}");
    }
    let page = visitor.page("/orders?status=queued&limit=2", 200).await;
    let (_, rest) = page.split_once("class=\"more\"><a href=\"").expect("a next page");
    let next = rest.split('"').next().unwrap_or_default().replace("&#38;", "&");
    assert!(next.starts_with("/orders?status=queued&limit=2&cursor="), "{next}");
    let second = visitor.page(&next, 200).await;
    assert_eq!(count(&second), 2, "the next two of the queued");
    assert!(!second.contains("id=\"list\" data-live"), "only the first page is refreshed");
    // Every row links to its order, regardless of the characters in its key.
    let html = visitor.page("/orders", 200).await;
    let links = html.split("<td class=\"clip\"><a href=\"").skip(1);
    let links: Vec<String> =
        links.map(|rest| rest.split('"').next().unwrap_or_default().replace("&#38;", "&")).collect();
    let titles = ["resume", "..", "&#60;i&#62;", "a/b?c=d&#38;e#f%2F", "k-2", "k-1"];
    for (link, title) in links.iter().zip(titles) {
        has(&visitor.page(link, 200).await, &[&format!("<h1 class=\"wrap\">Order {title}</h1>")]);
    }
    has(&visitor.page("/orders?idempotency_key=k-2", 200).await, &["Order k-2</h1>", "next attempt"]);
    for path in ["/orders/k-9", "/orders?idempotency_key=k-9"] {
        let detail = problem_detail(api, "/v1/orders/k-9").await;
        has(&visitor.page(path, 404).await, &[&detail, "href=\"/orders\"", "Sign out"]);
    }
    has(&visitor.page("/orders?status=Lost", 422).await, &["status must be one of"]);
    has(&visitor.page("/orders?idempotency_key=%22", 422).await, &["aria-invalid"]);
}

pub(crate) async fn an_order_is_shown_with_its_audit<S: Stores>(api: &TestApi<S>) {
    let script = "<script>alert(1)</script>";
    submit(api, "k", body("k")).expect(202).await;
    let answer = format!(r#"{{"idempotency_key":"k","broker_order_id":"{script}"}}"#);
    send_one(api, outcome_of("k", 200, &answer), T0).await;
    submit(api, "dead", body("dead")).expect(202).await;
    send_one(api, outcome_of("dead", 422, ""), T0).await;
    let visitor = Visitor::sign_in(api, &api.key(KeyRole::Viewer).await).await;
    let html = visitor.page("/orders/k", 200).await;
    has(
        &html,
        &[
            "id=\"status\">sent<",
            "queued → <span class=\"badge sending\"",
            "sending → <span class=\"badge sent\"",
            "worker-1",
        ],
    );
    has(&html, &["&#60;script&#62;alert(1)", "sha256:", "Response of the broker"]);
    assert!(!html.contains(script) && !html.contains("data-live"), "{html}");
    has(
        &visitor.page("/orders/dead", 200).await,
        &["id=\"status\">dead<", "BAD_REQUEST", "May have been executed</dt><dd>no</dd>"],
    );
}

/// Checks that the page of an order shows only the end of a long audit, such as after hours of probing.
pub(crate) async fn a_long_audit_is_truncated<S: Stores>(api: &TestApi<S>) {
    submit(api, "k", body("k")).expect(202).await;
    let visitor = Visitor::sign_in(api, ROOT_KEY).await;
    let count = |html: &str| html.matches("<li class=\"").count();
    let add = "INSERT INTO outbox_audit (outbox_id, status_from, status_to, retry_count, idempotency_key, created_at)
        SELECT outbox_id, 'failed', 'queued', 0, 'k', created_at FROM outbox_audit";
    for _ in 0..6 {
        api.h.direct.force(add).await;
    }
    let html = visitor.page("/orders/k", 200).await;
    assert_eq!((count(&html), html.contains("The last")), (64, false), "{html}");
    api.h.direct.force(add).await;
    let html = visitor.page("/orders/k", 200).await;
    assert_eq!((count(&html), html.contains("The last 100 changes")), (100, true), "{html}");
}

pub(crate) async fn only_an_operator_resumes_a_paused_lane<S: Stores>(api: &TestApi<S>) {
    let visitor = Visitor::sign_in(api, ROOT_KEY).await;
    let open = visitor.page("/orders", 200).await;
    has(&open, &["id=\"lane-state\">open<", "1000 orders per second"]);
    assert!(!open.contains("Resume lane"), "an open lane cannot be resumed");
    for number in 0..5 {
        submit(api, &format!("k-{number}"), body(&format!("k-{number}"))).expect(202).await;
        send_one(api, outcome_of("k", 401, ""), T0).await;
    }
    for (role, may_resume) in [(KeyRole::Viewer, false), (KeyRole::Admin, false), (KeyRole::Operator, true)] {
        let visitor = Visitor::sign_in(api, &api.key(role).await).await;
        let html = visitor.page("/orders", 200).await;
        has(&html, &["id=\"lane-state\">paused<", "2027-01-15 08:00:00", "credentials", "Next probe"]);
        assert_eq!(html.contains("/outbox/resume"), may_resume, "{role:?}");
        let pressed = visitor.press("/outbox/resume", "").await;
        assert_eq!(pressed.status, if may_resume { 303 } else { 403 }, "{role:?}");
        let expected = if may_resume { "open" } else { "paused" };
        assert_eq!(api.get("/v1/outbox").expect(200).await["state"], expected, "{role:?}");
    }
    has(&visitor.page("/orders", 200).await, &["id=\"lane-state\">open<"]);
    assert_eq!(visitor.press("/outbox/resume", "").await.status, 303, "a repetition has no effect");
}
