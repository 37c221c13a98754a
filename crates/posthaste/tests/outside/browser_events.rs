//! Events in a real browser: found, explained, and harmless whatever they hold; nothing that is long breaks a page.

use crate::browser::{SCRIPT, Scene};
use crate::served::ROOT_KEY;
use crate::world;
use serde_json::{Value, json};

const PAYLOAD_BYTES: usize = 256 * 1024;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_is_found_and_stays_text() {
    let scene = Scene::set().await;
    let browser = &scene.browser;
    let renames = "</pre><script>document.title = 'hacked'</script>";
    let event =
        json!({"event_type": "order.paid", "external_event_id": SCRIPT, "payload": {renames: renames}});
    scene.make_history(1);
    scene.served.post("/v1/events", &event.to_string()).expect(202);
    scene.wait_for("DeadLettered", 2);
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
    assert!(browser.text("#explanation").contains("given up after 1 attempt with HTTP_500"));
    assert_eq!(browser.value("document.title"), "Event 3 · Posthaste");
    browser.click("#explanation a[href^='/deliveries/']");
    browser.until("document.querySelector('.machine .now.DeadLettered')");
    browser.click("a[href='/events/3']");
    browser.until("document.querySelector('#payload')");
    scene.open("/events");
    browser.write("[name=id]", "1");
    browser.click(".filter button");
    browser.until("location.pathname === '/events/1'");
    assert!(browser.text("#explanation").contains("delivered with 1 attempt"), "{}", browser.source());
    scene.open("/events");
    browser.write("[name=id]", "one");
    browser.value("document.querySelector('[name=since]').value = '2026-01-01T00:00'");
    browser.click(".filter button");
    browser.until("document.querySelector('[name=id][aria-invalid]')?.value === 'one'");
    assert_eq!(browser.text("#wrong"), "id must be a whole number from 1 to 9223372036854775807");
    let since = "document.querySelector('[name=since]').valueAsNumber === Date.UTC(2026, 0, 1)";
    assert_eq!(browser.value(since), true, "the other field was lost");
    browser.value("document.querySelector('[name=id]').value = ''");
    browser.click(".filter button");
    browser.until("document.querySelectorAll('tbody tr').length === 3");
    assert_eq!(browser.value(since), true, "{}", browser.source());
    assert_eq!(browser.value("window.hacked ?? null"), Value::Null, "a script came alive");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_long_keeps_within_the_page() {
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

/// A search goes on by itself and says how far it is; what keeps the page fresh repeats its first look alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_search_goes_on_by_itself_and_is_made_once() {
    let scene = Scene::set().await;
    let browser = &scene.browser;
    let of = |kind: &str, count: usize| Value::from(vec![json!({"event_type": kind, "payload": 1}); count]);
    for (kind, count) in [("rare", 1), ("often", 1_000), ("often", 200), ("recent", 1)] {
        scene.served.post("/v1/events", &of(kind, count).to_string()).expect(202);
    }
    scene.sign_in(ROOT_KEY);
    // In the order of time, which no index has for one type.
    scene.open("/events?event_type=rare&since=2020-01-01T00%3A00%3A00Z");
    browser.until("document.querySelector('#looking').textContent === 'Looked through all events: 1 found.'");
    assert_eq!(browser.value("document.querySelectorAll('#further tbody tr').length"), 1);
    assert!(browser.text("#list").contains("Looked through the newest 500 events"), "{}", browser.source());
    let asked = |with: &str| {
        format!(
            "performance.getEntriesByType('resource').filter((one) => one.initiatorType === 'fetch' && {with}).length"
        )
    };
    let (looks, refreshes) = (asked("one.name.includes('cursor=')"), asked("!one.name.includes('cursor=')"));
    assert_eq!(browser.value(&looks), 2, "of three looks the first is the page itself");
    browser.until(&format!("{refreshes} >= 2"));
    assert_eq!(browser.value(&looks), 2, "a search is made once");
    assert_eq!(browser.value("document.querySelectorAll('#further tbody tr').length"), 1, "and stays");
    assert_eq!(
        browser.value("getComputedStyle(document.querySelector('#list [data-further]')).display"),
        "none"
    );
    // What the first look finds needs no second one.
    scene.open("/events?event_type=often&since=2020-01-01T00%3A00%3A00Z");
    assert_eq!(browser.value("document.querySelectorAll('#list tbody tr').length"), 50);
    assert_eq!(browser.value("document.querySelector('#further')"), Value::Null);
}
