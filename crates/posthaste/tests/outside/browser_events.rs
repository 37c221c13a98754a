//! Tests the event pages in a real browser: filters, explanation, escaping, long values, and the search through a long
//! list.

use crate::browser::{SCRIPT, Scene};
use crate::served::ROOT_KEY;
use crate::world;
use serde_json::{Value, json};

const PAYLOAD_BYTES: usize = 256 * 1024;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_is_found_and_its_content_is_escaped() {
    let scene = Scene::set().await;
    let browser = &scene.browser;
    let renames = "</pre><script>document.title = 'hacked'</script>";
    let event =
        json!({"event_type": "order.paid", "external_event_id": SCRIPT, "payload": {renames: renames}});
    scene.make_history(1);
    scene.served.post("/v1/events", &event.to_string()).expect(202);
    scene.wait_for("DeadLettered", 2);
    let outcome = |event: i64| {
        let explained = scene.served.get(&format!("/v1/events/{event}/explain")).expect(200).json();
        explained["deliveries"][0]["told"].as_str().expect("a text").to_owned()
    };
    assert!(outcome(3).contains("HTTP_500"), "{}", outcome(3));
    scene.sign_in(ROOT_KEY);
    scene.open("/events");
    browser.write("[name=external_event_id]", SCRIPT);
    browser.click(".filter button");
    browser.until("document.querySelectorAll('tbody tr').length === 1");
    browser.click("tbody a");
    browser.until("document.querySelector('#payload')");
    assert!(
        browser.text("#payload").contains(&format!("\"{renames}\": \"{renames}\"")),
        "{}",
        browser.source()
    );
    assert!(browser.source().contains(SCRIPT), "{}", browser.source());
    assert!(browser.text("#explanation").contains(&outcome(3)), "{}", browser.source());
    assert_eq!(browser.value("document.title"), "Event 3 · Posthaste");
    browser.click("#explanation a[href^='/deliveries/']");
    browser.until("document.querySelector('.machine .now.DeadLettered')");
    browser.click("a[href='/events/3']");
    browser.until("document.querySelector('#payload')");
    scene.open("/events");
    browser.write("[name=id]", "1");
    browser.click(".filter button");
    browser.until("location.pathname === '/events/1'");
    assert!(browser.text("#explanation").contains(&outcome(1)), "{}", browser.source());
    scene.open("/events");
    browser.write("[name=id]", "one");
    browser.value("document.querySelector('[name=since]').value = '2026-01-01T00:00'");
    browser.click(".filter button");
    browser.until("document.querySelector('[name=id][aria-invalid]')?.value === 'one'");
    assert_eq!(browser.text("#error"), "id must be a whole number from 1 to 9223372036854775807");
    let since = "document.querySelector('[name=since]').valueAsNumber === Date.UTC(2026, 0, 1)";
    assert_eq!(browser.value(since), true, "the other field was lost");
    browser.value("document.querySelector('[name=id]').value = ''");
    browser.click(".filter button");
    browser.until("document.querySelectorAll('tbody tr').length === 3");
    assert_eq!(browser.value(since), true, "{}", browser.source());
    assert_eq!(browser.value("window.hacked ?? null"), Value::Null, "a script was executed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_values_do_not_widen_a_page() {
    let scene = Scene::set().await;
    let browser = &scene.browser;
    let kind = "n".repeat(200);
    let url = scene.receiver.url(&format!("/{}", "u".repeat(1_500)));
    world::subscribe(&scene.served, &kind, &url, 1);
    let payload = "p".repeat(PAYLOAD_BYTES - 2);
    let event = json!({"event_type": kind, "external_event_id": "e".repeat(200), "payload": payload});
    scene.served.post("/v1/events", &event.to_string()).expect(202);
    scene.wait_for("Completed", 1);
    scene.sign_in(ROOT_KEY);
    let many = format!("/events?event_type={kind}");
    for (width, height) in [(390, 844), (320, 640), (1280, 860)] {
        browser.screen(width, height, false);
        for path in [
            "/events",
            &many,
            "/events/1",
            "/subscriptions",
            "/subscriptions/2",
            "/deliveries",
            "/deliveries/1",
        ] {
            scene.open(path);
            let room = "document.documentElement.clientWidth - document.documentElement.scrollWidth";
            assert_eq!(browser.value(room), 0, "{path} at {width}");
            assert!(browser.source().contains(&kind), "{path} at {width}: {}", browser.source());
        }
        scene.open("/events/1");
        let length = browser.value("document.querySelector('#payload').textContent.length");
        assert_eq!(length, PAYLOAD_BYTES, "the whole payload");
    }
}

/// Checks that a search continues automatically and shows its progress, and that a refresh repeats only its first page.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_search_continues_automatically_and_runs_once() {
    let scene = Scene::set().await;
    let browser = &scene.browser;
    let of = |kind: &str, count: usize| Value::from(vec![json!({"event_type": kind, "payload": 1}); count]);
    for (kind, count) in [("rare", 1), ("often", 1_000), ("often", 200), ("recent", 1)] {
        scene.served.post("/v1/events", &of(kind, count).to_string()).expect(202);
    }
    scene.sign_in(ROOT_KEY);
    // The list is sorted by time, and no index covers both event type and time.
    scene.open("/events?event_type=rare&since=2020-01-01T00%3A00%3A00Z");
    browser
        .until("document.querySelector('#search-progress').textContent === 'Searched all events: 1 found.'");
    assert_eq!(browser.value("document.querySelectorAll('#older tbody tr').length"), 1);
    assert!(browser.text("#list").contains("Searched the newest 500 events"), "{}", browser.source());
    let requests = |with: &str| {
        format!(
            "performance.getEntriesByType('resource').filter((one) => one.initiatorType === 'fetch' && {with}).length"
        )
    };
    let (pages, refreshes) =
        (requests("one.name.includes('cursor=')"), requests("!one.name.includes('cursor=')"));
    assert_eq!(browser.value(&pages), 2, "the first of three parts is the page itself");
    browser.until(&format!("{refreshes} >= 2"));
    assert_eq!(browser.value(&pages), 2, "the search runs once");
    assert_eq!(browser.value("document.querySelectorAll('#older tbody tr').length"), 1, "its results remain");
    assert_eq!(
        browser.value("getComputedStyle(document.querySelector('#list [data-continue]')).display"),
        "none"
    );
    // A full first page needs no continuation.
    scene.open("/events?event_type=often&since=2020-01-01T00%3A00%3A00Z");
    assert_eq!(browser.value("document.querySelectorAll('#list tbody tr').length"), 50);
    assert_eq!(browser.value("document.querySelector('#older')"), Value::Null);
}
