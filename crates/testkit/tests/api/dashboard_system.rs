//! The system page: processes, engine, and the findings of the doctor; the history check runs page by page
//! and stops at problems.

use crate::dashboard::{Visitor, hidden};
use crate::doctor::{NOW_S, run_all_roles};
use crate::server::{Options, ROOT_KEY, SCHEMA_VERSION, TestApi};
use posthaste_core::ports::{IngestStore as _, KeyRole, PresenceStore as _, ProcessSeen, Stores};
use posthaste_testkit::fixtures::{T0, at, event, worker_id};
use posthaste_testkit::harness::Harness;

#[track_caller]
fn has(html: &str, parts: &[&str]) {
    for part in parts {
        assert!(html.contains(part), "no {part:?} in {html}");
    }
}

pub(crate) async fn the_system_page_is_shown_to_viewers<S: Stores>(api: &TestApi<S>) {
    api.clock.set(at(NOW_S + 1));
    let visitor = Visitor::sign_in(api, &api.key(KeyRole::Viewer).await).await;
    let nobody = visitor.page("/system", 200).await;
    has(&nobody, &["None has reported yet", ">problem</span> <b>roles</b>", "no process runs api, router"]);
    run_all_roles(&api.h).await;
    let gone = ProcessSeen {
        process_id: worker_id(2),
        role: "worker".to_owned(),
        version: "<b>9</b>".to_owned(),
        started_at: T0,
        seen_at: at(NOW_S - 100),
    };
    api.h.store.presence().report_presence(gone, vec![]).await.expect("a report");
    let html = visitor.page("/system", 200).await;
    let schema = format!("id=\"schema\">{SCHEMA_VERSION}<");
    has(&html, &[&schema, "api, cleaner, orchestrator, outbox, router, worker", ">running<", ">gone<"]);
    has(&html, &["&#60;b&#62;9&#60;/b&#62;", "<b>leases</b>", "<b>lane</b>", "Examine all of history"]);
    assert!(!html.contains("no process runs"), "{html}");
    assert!(!html.contains("<b>conservation</b>"), "history is examined only on request: {html}");
    let engine = api.get("/v1/system").expect(200).await["engine"]["name"].clone();
    has(&html, &[engine.as_str().unwrap_or("a name")]);
    let walk = visitor.call("GET", "/system/history").send().await;
    assert_eq!((walk.status, walk.header("location")), (303, "/system"), "a GET does not start the check");
}

pub(crate) async fn history_is_examined_on_request<S: Stores>(api: &TestApi<S>) {
    const PER_PAGE: usize = 10_000;
    api.h.subscribe("a").await;
    for request in [vec![event("b"); PER_PAGE], vec![event("a")]] {
        api.h.store.ingest().insert_events(vec![request], at(NOW_S)).await.expect("events");
    }
    api.h.route_all(at(NOW_S)).await;
    api.clock.set(at(NOW_S + 1));
    let visitor = Visitor::sign_in(api, ROOT_KEY).await;
    let first = visitor.press("/system/history", "").await.text();
    has(&first, &["data-goes-on", "id=\"events\">10000<", "Going on…", "<b>conservation</b>"]);
    let fields = |html: &str| {
        ["cursor", "events", "deliveries", "orders", "undecidable", "faults"]
            .map(|name| format!("{name}={}", hidden(html, name)))
            .join("&")
    };
    let second = visitor.press("/system/history", &fields(&first)).await.text();
    has(&second, &["id=\"events\">10001<", "id=\"faults\">0<", "everything is there"]);
    assert!(!second.contains("data-goes-on") && !second.contains("name=\"cursor\""), "{second}");
    // There is a problem on the first page: the check stops until the user continues.
    api.h.direct.force("DELETE FROM webhook_delivery_sagas").await;
    api.h.direct.force("UPDATE events SET event_type = 'a' WHERE id = (SELECT min(id) FROM events)").await;
    let wrong = visitor.press("/system/history", "").await.text();
    has(&wrong, &["Something is wrong", ">problem</span>", "To do:", ">Go on<"]);
    assert!(!wrong.contains("data-goes-on"), "{wrong}");
    let last = visitor.press("/system/history", &fields(&wrong)).await.text();
    has(&last, &["All of history was examined: faults 2."]);
    let bad = visitor.press("/system/history", "cursor=x").await;
    assert_eq!(bad.status, 422);
    assert_eq!(visitor.call("POST", "/system/history").body("token=x").send().await.status, 403);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn warnings_about_settings_are_shown() {
    let warnings = vec!["anybody <could> read them".to_owned()];
    let options = Options { warnings, ..Options::default() };
    let api = TestApi::start_with(Harness::sqlite("warnings").await, options).await;
    let html = Visitor::sign_in(&api, ROOT_KEY).await.page("/system", 200).await;
    has(&html, &["<li class=\"told warn\">anybody &#60;could&#62; read them</li>"]);
}
