//! Checks every page with realistic data, on wide and narrow screens in light and dark mode: it must be accessible, fit
//! the width of the screen, and send no requests to other hosts. `POSTHASTE_BLESS=1` also takes the screenshots in
//! `docs/screenshots`.

use crate::sample_api::SampleApi;
use crate::sample_data::NOW;
use crate::served::ROOT_KEY;
use crate::webdriver::Browser;
use crate::{sample_data, sample_orders, tools, world};
use posthaste_testkit::receiver::Receiver;
use serde_json::json;
use std::path::PathBuf;

/// The pages that have screenshots for all kinds of screens. Other pages have only one, for a wide screen in light
/// mode.
const ON_ALL_SCREENS: [&str; 3] = ["overview", "deliveries", "subscription"];

/// A JavaScript expression for the URLs on other hosts that the page has requested.
const FOREIGN_REQUESTS: &str = "performance.getEntriesByType('resource').map((one) => one.name)\
    .filter((name) => !name.startsWith(location.origin) && !name.startsWith('data:'))";

/// A browser for inspecting pages.
struct Inspector<'a> {
    api: &'a SampleApi,
    browser: Browser,
    axe: String,
    /// The folder for screenshots, or `None` if none are taken.
    screenshots: Option<PathBuf>,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_page_is_accessible_on_every_screen() {
    let api = &SampleApi::start().await;
    let screenshots = std::env::var_os("POSTHASTE_BLESS").map(|_| tools::repository("docs/screenshots"));
    let mut inspector = Inspector { api, browser: Browser::start(), axe: tools::axe(), screenshots };
    inspector.browser.set_time(NOW.micros() / 1_000);
    inspector.inspect("sign-in", || inspector.open("/sign-in"));
    inspector.sign_in();
    for (name, path) in pages(api) {
        inspector.inspect(name, || inspector.open(&path));
    }
    let browser = &inspector.browser;
    inspector.inspect("history", || {
        inspector.open("/system");
        browser.click("form[action='/system/history'] button");
        browser.until("document.querySelector('#progress')");
    });
    inspector.open(&format!("/dead-letters/requeue?subscription_id={}", api.samples.failing));
    browser.click("form[method=post][action='/dead-letters/requeue'] button");
    browser.until("location.pathname === '/dead-letters/requeued'");
    let results = browser.value("location.pathname + location.search");
    sample_data::recover(&api.h, api.samples.failing).await;
    inspector.inspect("requeued", || inspector.open(results.as_str().expect("an address")));
    sample_orders::pause_lane(&api.h).await;
    inspector.inspect("orders-paused", || inspector.open("/orders"));

    // No screenshots, because the duration of a test event and the address of its receiver differ between runs.
    inspector.screenshots = None;
    let receiver = Receiver::start(world::answer).await;
    let new = json!({"event_type": "order.paid", "callback_url": receiver.url("/hook")}).to_string();
    let created = api.call("POST", "/v1/subscriptions").json(new).send_blocking().expect(201).json();
    let page = format!("/subscriptions/{}", created["id"]);
    let verify = api.call("POST", &format!("/v1{page}/verify")).send_blocking().expect(200);
    assert_eq!(verify.json()["verified"], true, "{}", verify.text());
    inspector.inspect("tested", || {
        inspector.open(&page);
        inspector.browser.click("form[action$='/test'] button");
        inspector.browser.until("document.querySelector('#result')");
    });
}

/// Returns the names and the paths of the pages that can be opened directly.
fn pages(api: &SampleApi) -> Vec<(&'static str, String)> {
    let failing = api.samples.failing;
    let letter = api.find("/v1/dead-letters", "id", 0);
    let dead = api.find("/v1/dead-letters", "saga_id", 0);
    let event = api.find("/v1/dead-letters", "event_id", 0);
    let retrying = api.find("/v1/deliveries?status=PendingRetry", "saga_id", 2);
    let subscription = format!("/subscriptions/{failing}");
    vec![
        ("overview", "/".to_owned()),
        ("events", "/events".to_owned()),
        ("event", format!("/events/{event}")),
        ("subscriptions", "/subscriptions".to_owned()),
        ("subscription", subscription.clone()),
        ("new-subscription", "/subscriptions/new".to_owned()),
        ("edit-subscription", format!("{subscription}/edit")),
        ("delete-subscription", format!("{subscription}/delete")),
        ("deleted-subscription", format!("/subscriptions/{}", api.samples.deleted)),
        ("deliveries", "/deliveries".to_owned()),
        ("invalid-filter", "/deliveries?event_id=seven&status=Completed&since=2026-11-16T13:00".to_owned()),
        ("empty-list", "/deliveries?event_type=order.lost".to_owned()),
        ("delivery", format!("/deliveries/{retrying}")),
        ("delivery-dead-lettered", format!("/deliveries/{dead}")),
        ("dead-letters", "/dead-letters".to_owned()),
        ("dead-letter", format!("/dead-letters/{letter}")),
        ("requeue", format!("/dead-letters/requeue?subscription_id={failing}")),
        ("not-found", "/deliveries/999999".to_owned()),
        ("orders", "/orders".to_owned()),
        ("order", format!("/orders/{}", sample_orders::retried_key())),
        ("system", "/system".to_owned()),
        ("audit", "/audit".to_owned()),
    ]
}

impl Inspector<'_> {
    fn open(&self, path: &str) {
        self.browser.open(&format!("http://{}{path}", self.api.address));
    }

    fn sign_in(&self) {
        self.open("/");
        self.browser.write("#key", &format!("{ROOT_KEY}\u{e007}"));
        self.browser.until("document.querySelector('.out')");
    }

    /// Checks the page that `arrive` opens on every kind of screen, and takes its screenshots.
    fn inspect(&self, name: &str, arrive: impl Fn()) {
        let browser = &self.browser;
        for (size, width, height) in [("wide", 1280, 1000), ("narrow", 390, 844)] {
            for (scheme, dark) in [("light", false), ("dark", true)] {
                let what = format!("{name}-{size}-{scheme}");
                browser.screen(width, height, dark);
                arrive();
                assert_eq!(browser.complaints(&self.axe), Vec::<String>::new(), "{what}");
                let overflow = browser.value("document.documentElement.scrollWidth - window.innerWidth");
                assert!(overflow.as_i64().is_some_and(|pixels| pixels <= 0), "{what}: {overflow} too wide");
                assert_eq!(browser.value(FOREIGN_REQUESTS), json!([]), "{what} requests another host");
                let is_kept = (size == "wide" && !dark) || ON_ALL_SCREENS.contains(&name);
                if let Some(folder) = self.screenshots.as_ref().filter(|_| is_kept) {
                    let file = folder.join(format!("{what}.png"));
                    std::fs::write(file, browser.screenshot()).expect("a written file");
                }
            }
        }
    }
}
