//! Bulk requeue of dead letters: preview, progress and outcomes.

use crate::dashboard::{Visitor, exhaust_attempts, hidden};
use crate::server::{ROOT_KEY, TestApi};
use posthaste_core::ports::{KeyRole, Stores, WorkerStore as _};
use posthaste_testkit::fixtures::{T0, at, delivered};

#[track_caller]
fn has(html: &str, parts: &[&str]) {
    for part in parts {
        assert!(html.contains(part), "no {part:?} in {html}");
    }
}

pub(crate) async fn matching_dead_letters_are_requeued_after_a_preview<S: Stores>(api: &TestApi<S>) {
    let one = api.h.subscribe("a").await;
    let other = api.h.subscribe("b").await;
    api.h.publish("a", 3).await;
    api.h.publish("b", 2).await;
    api.h.route_all(T0).await;
    exhaust_attempts(api, one).await;
    exhaust_attempts(api, other).await;
    api.clock.set(at(1_000));
    let visitor = Visitor::sign_in(api, ROOT_KEY).await;
    let filter = format!("subscription_id={one}");
    let html = visitor.page(&format!("/dead-letters/requeue?{filter}"), 200).await;
    has(&html, &["<b id=\"matched\">3</b>", "Requeue all", "name=\"of\" value=\"3\""]);
    assert_eq!(api.count("webhook_delivery_sagas").await, 5, "a preview changes nothing");
    let done = visitor.press("/dead-letters/requeue", &filter).await;
    assert_eq!((done.status, api.count("webhook_delivery_sagas").await), (303, 8));
    let results = done.header("location").to_owned();
    // Viewers can see the outcomes too.
    let viewer = Visitor::sign_in(api, &api.key(KeyRole::Viewer).await).await;
    has(&viewer.page(&results, 200).await, &["<b id=\"requeued\">3</b>", "data-live", "class=\"warn\">3<"]);
    let (jobs, token) = api.h.start_attempts(one, at(1_000)).await;
    let report = delivered(&jobs[0], token);
    api.h.store.worker().report_jobs(vec![report], at(1_000)).await.expect("a report");
    api.h.apply_all(at(1_000)).await;
    has(
        &viewer.page(&results, 200).await,
        &["id=\"outcome-delivered\" class=\"good\">1<", "class=\"warn\">2<"],
    );
    for job in &jobs[1..] {
        let report = delivered(job, token);
        api.h.store.worker().report_jobs(vec![report], at(1_000)).await.expect("a report");
    }
    api.h.apply_all(at(1_000)).await;
    let ended = viewer.page(&results, 200).await;
    has(
        &ended,
        &["id=\"outcome-delivered\" class=\"good\">3<", "id=\"outcome-dead-lettered\">0<", "All finished."],
    );
    assert!(!ended.contains("data-live"), "all deliveries are finished: {ended}");
    // A repeated requeue skips all dead letters and reports their number.
    let again = visitor.press("/dead-letters/requeue", &filter).await;
    has(
        &visitor.page(again.header("location"), 200).await,
        &["<b id=\"requeued\">0</b> requeued, 3 skipped"],
    );
    let wrong = visitor.press("/dead-letters/requeue", "subscription_id=x").await;
    assert_eq!(wrong.status, 422);
    assert!(wrong.text().contains("subscription_id"), "{}", wrong.text());
    visitor.page("/dead-letters/requeued?first=x", 422).await;
    // The client controls the numbers in the URL, so their sum must not overflow.
    let most = u64::MAX;
    let sums = format!(
        "/dead-letters/requeued?skipped={most}&delivered={most}&unfinished={most}&dead_lettered={most}"
    );
    has(&visitor.page(&sums, 200).await, &[&format!("<b id=\"requeued\">{most}</b>")]);
    visitor.page("/dead-letters/requeued", 200).await;
}

/// Checks that deliveries which fail after the preview are not requeued. Otherwise, a receiver that keeps failing would
/// make the requeue endless.
pub(crate) async fn failures_after_the_preview_are_not_requeued<S: Stores>(api: &TestApi<S>) {
    let subscription = api.h.subscribe_with("a", Some(1)).await;
    let fail = async |events: usize, second: u64| {
        api.h.publish("a", events).await;
        api.h.route_all(at(second)).await;
        api.h.fail_attempts(subscription, at(second)).await;
    };
    fail(2, 1).await;
    api.clock.set(at(10));
    let visitor = Visitor::sign_in(api, ROOT_KEY).await;
    let html = visitor.page("/dead-letters/requeue?event_type=a", 200).await;
    has(&html, &["<b id=\"matched\">2</b>"]);
    fail(1, 20).await;
    api.clock.set(at(30));
    let fields = format!("event_type=a&until={}", hidden(&html, "until"));
    let done = visitor.press("/dead-letters/requeue", &fields).await;
    assert_eq!((done.status, api.count("webhook_delivery_sagas").await), (303, 3 + 2), "{}", done.text());
    // An explicit end of the window is kept.
    let html = visitor.page("/dead-letters/requeue?until=2027-01-15T08:00:25Z", 200).await;
    assert_eq!(hidden(&html, "until"), "2027-01-15T08:00:25Z");
    has(&html, &["<b id=\"matched\">3</b>"]);
}

pub(crate) async fn a_large_requeue_shows_progress<S: Stores>(api: &TestApi<S>) {
    let subscription = api.h.subscribe_with("a", Some(1)).await;
    api.h.publish("a", 1_200).await;
    api.h.route_all(T0).await;
    api.h.fail_attempts(subscription, T0).await;
    assert_eq!(api.count("dead_letters").await, 1_200);
    api.clock.set(at(1));
    let visitor = Visitor::sign_in(api, ROOT_KEY).await;
    // The preview counts in parts, and each page requests the next one.
    let mut preview = visitor.page("/dead-letters/requeue?event_type=a", 200).await;
    for counted in [500, 1_000] {
        has(
            &preview,
            &[&format!("<b id=\"matched\">{counted}</b> or more"), "counting…", "data-auto-submit"],
        );
        let fields = ["event_type", "cursor", "matched", "examined"]
            .map(|name| format!("{name}={}", hidden(&preview, name)))
            .join("&");
        preview = visitor.page(&format!("/dead-letters/requeue?{fields}"), 200).await;
    }
    has(&preview, &["<b id=\"matched\">1200</b> dead letters match.", "name=\"of\" value=\"1200\""]);
    assert!(!preview.contains("data-auto-submit"), "{preview}");
    let first = visitor.press("/dead-letters/requeue", "event_type=a&of=1200").await.text();
    has(
        &first,
        &[
            "<b id=\"requeued\">1000</b>",
            "continuing",
            "<progress max=\"1200\" value=\"1000\">",
            "data-auto-submit",
        ],
    );
    assert_eq!(api.count("webhook_delivery_sagas").await, 2_200);
    let fields =
        ["event_type", "of", "cursor", "started", "examined", "requeued", "skipped", "first", "last"]
            .map(|name| format!("{name}={}", hidden(&first, name)))
            .join("&");
    let last = visitor.press("/dead-letters/requeue", &fields).await;
    assert_eq!((last.status, api.count("webhook_delivery_sagas").await), (303, 2_400));
    api.h.fail_attempts(subscription, at(1)).await;
    // Each page of outcomes requests the next part, as the script does.
    let mut html = visitor.page(last.header("location"), 200).await;
    for checked in [500, 1_000] {
        let dead_lettered = format!("id=\"outcome-dead-lettered\" class=\"bad\">{checked}<");
        has(&html, &["data-auto-submit", "Checking the next ones", &dead_lettered]);
        let fields =
            ["first", "last", "started", "event_type", "skipped", "delivered", "unfinished", "dead_lettered"]
                .map(|name| format!("{name}={}", hidden(&html, name).replace(':', "%3A")))
                .join("&");
        html = visitor.page(&format!("/dead-letters/requeued?{fields}"), 200).await;
    }
    assert!(!html.contains("data-auto-submit"), "{html}");
    has(
        &html,
        &[
            "<b id=\"requeued\">1200</b>",
            "id=\"outcome-dead-lettered\" class=\"bad\">1200<",
            "have new dead letters",
        ],
    );
}
