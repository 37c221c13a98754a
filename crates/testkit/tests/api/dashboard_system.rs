//! The system page, and the check of the history, which runs page by page and stops at faults.

use crate::dashboard::{Visitor, hidden};
use crate::doctor::{NOW_S, run_all_roles};
use crate::server::{Options, ROOT_KEY, SCHEMA_VERSION, TestApi};
use posthaste_core::ports::{IngestStore as _, KeyRole, PresenceStore as _, ProcessSeen, Stores};
use posthaste_testkit::fixtures::{T0, at, event, worker_id};
use posthaste_testkit::harness::{Engine, Harness};

#[track_caller]
fn has(html: &str, parts: &[&str]) {
    for part in parts {
        assert!(html.contains(part), "no {part:?} in {html}");
    }
}

pub(crate) async fn a_viewer_sees_the_state_of_the_system<S: Stores>(api: &TestApi<S>) {
    api.clock.set(at(NOW_S + 1));
    let visitor = Visitor::sign_in(api, &api.key(KeyRole::Viewer).await).await;
    let empty = visitor.page("/system", 200).await;
    let diagnosis = api.get("/v1/doctor").expect(200).await;
    let checks = diagnosis["checks"].as_array().expect("checks");
    let roles = checks.iter().find(|check| check["name"] == "roles").expect("the check of the roles");
    let found = roles["found"].as_str().expect("a text");
    assert!(found.contains("api, router"), "{found}");
    has(&empty, &["No process has reported yet", ">problem</span> <b>roles</b>", found]);
    run_all_roles(&api.h).await;
    let offline = ProcessSeen {
        process_id: worker_id(2),
        role: "worker".to_owned(),
        version: "<b>9</b>".to_owned(),
        started_at: T0,
        seen_at: at(NOW_S - 100),
    };
    api.h.store.presence().report_presence(offline, vec![]).await.expect("a report");
    let html = visitor.page("/system", 200).await;
    let schema = format!("id=\"schema\">{SCHEMA_VERSION}<");
    has(&html, &[&schema, "api, cleaner, orchestrator, outbox, router, worker", ">running<", ">offline<"]);
    has(&html, &["&#60;b&#62;9&#60;/b&#62;", "<b>leases</b>", "<b>lane</b>", "Check history"]);
    assert!(!html.contains(found), "{html}");
    assert!(!html.contains("<b>conservation</b>"), "the history is checked on request only: {html}");
    let engine = api.get("/v1/system").expect(200).await["engine"]["name"].clone();
    assert!(html.to_lowercase().contains(engine.as_str().expect("a name")), "{engine} {html}");
    match api.h.engine {
        Engine::Sqlite => assert!(!html.contains("Database server"), "{html}"),
        Engine::Postgres | Engine::PostgresCut => {
            has(
                &html,
                &["<h2>Database server</h2>", "<dd>127.0.0.1:", "<dd>primary</dd>", "<dd>not in use</dd>"],
            );
        }
    }
    let opened = visitor.call("GET", "/system/history").send().await;
    assert_eq!((opened.status, opened.header("location")), (303, "/system"), "only the form starts a check");
}

pub(crate) async fn the_history_is_checked_on_request<S: Stores>(api: &TestApi<S>) {
    const PER_PAGE: usize = 10_000;
    api.h.subscribe("a").await;
    for request in [vec![event("b"); PER_PAGE], vec![event("a")]] {
        api.h.store.ingest().insert_events(vec![request], at(NOW_S)).await.expect("events");
    }
    api.h.route_all(at(NOW_S)).await;
    api.clock.set(at(NOW_S + 1));
    let visitor = Visitor::sign_in(api, ROOT_KEY).await;
    let first = visitor.press("/system/history", "").await.text();
    has(&first, &["data-auto-submit", "id=\"events\">10000<", "Checking…", "<b>conservation</b>"]);
    let fields = |html: &str| {
        ["cursor", "events", "deliveries", "orders", "undecidable", "faults"]
            .map(|name| format!("{name}={}", hidden(html, name)))
            .join("&")
    };
    let second = visitor.press("/system/history", &fields(&first)).await.text();
    has(&second, &["id=\"events\">10001<", "id=\"faults\">0<", "no faults found"]);
    assert!(!second.contains("data-auto-submit") && !second.contains("name=\"cursor\""), "{second}");
    // After a fault on the first page, the check waits until the user continues.
    api.h.direct.force("DELETE FROM webhook_delivery_sagas").await;
    api.h.direct.force("UPDATE events SET event_type = 'a' WHERE id = (SELECT min(id) FROM events)").await;
    let faulty = visitor.press("/system/history", "").await.text();
    has(&faulty, &["Faults found.", ">problem</span>", "To do:", ">Continue<"]);
    assert!(!faulty.contains("data-auto-submit"), "{faulty}");
    let last = visitor.press("/system/history", &fields(&faulty)).await.text();
    has(&last, &["Check complete. Faults found: 2."]);
    let bad = visitor.press("/system/history", "cursor=x").await;
    assert_eq!(bad.status, 422);
    assert_eq!(visitor.call("POST", "/system/history").body("token=x").send().await.status, 403);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn configuration_warnings_are_shown() {
    let warnings = vec!["anybody <could> read them".to_owned()];
    let options = Options { warnings, ..Options::default() };
    let api = TestApi::start_with(Harness::sqlite("warnings").await, options).await;
    let html = Visitor::sign_in(&api, ROOT_KEY).await.page("/system", 200).await;
    has(&html, &["<li class=\"notice warn\">anybody &#60;could&#62; read them</li>"]);
}
