//! The dashboard in a real browser: signed in with each role, watched while it changes, used to mend what
//! failed; nothing that others wrote comes alive, and nothing keeps people from using it.

use crate::served::{Engine, ROOT_KEY, Served};
use crate::webdriver::Browser;
use crate::{tools, world};
use posthaste_testkit::broker::TestBroker;
use posthaste_testkit::broker::behaviour::Behaviour;
use posthaste_testkit::receiver::{Answer, Received, Receiver};
use serde_json::json;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

pub(crate) const SCRIPT: &str = "<script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'>";

/// A system with a receiver that can be told to refuse, and a browser beside it.
pub(crate) struct Scene {
    pub(crate) served: Served,
    pub(crate) receiver: Receiver,
    pub(crate) broker: TestBroker,
    pub(crate) refuses: Arc<AtomicBool>,
    pub(crate) browser: Browser,
}

impl Scene {
    pub(crate) async fn set() -> Self {
        Self::over(async |settings| Served::start(Engine::Sqlite, settings).await).await
    }

    /// The same over a system that is started with these settings.
    pub(crate) async fn over(start: impl AsyncFnOnce(&[(&str, &str)]) -> Served) -> Self {
        let refuses = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&refuses);
        let answer = move |received: &Received| {
            let is_challenge = received.header("posthaste-event-type") == "posthaste.verification";
            if is_challenge || !told.load(Ordering::SeqCst) {
                return world::answer(received);
            }
            Answer::With { status: 500, headers: Vec::new(), body: SCRIPT.as_bytes().to_vec() }
        };
        let receiver = Receiver::start(answer).await;
        let broker = TestBroker::start(Behaviour::Well).await;
        let served = start(&[("POSTHASTE_BROKER_URL", &broker.url())]).await;
        world::subscribe(&served, "order.paid", &receiver.url("/hook"), 1);
        Self { served, receiver, broker, refuses, browser: Browser::start() }
    }

    pub(crate) fn open(&self, path: &str) {
        self.browser.open(&format!("{}{path}", self.served.url()));
    }

    #[track_caller]
    pub(crate) fn sign_in(&self, key: &str) {
        self.open("/");
        self.browser.write("#key", key);
        // As the keyboard does it: Enter.
        self.browser.write("#key", "\u{e007}");
        self.browser.until("document.querySelector('.out')");
    }

    pub(crate) fn send(&self, count: usize) {
        for _ in 0..count {
            let event = json!({"event_type": "order.paid", "payload": {"note": SCRIPT}}).to_string();
            self.served.post("/v1/events", &event).expect(202);
        }
    }

    pub(crate) fn key_of(&self, role: &str) -> String {
        let made = self.served.post("/v1/keys", &json!({"name": role, "role": role}).to_string()).expect(201);
        made.json()["key"].as_str().expect("a key").to_owned()
    }

    /// One delivered and some given up.
    pub(crate) fn make_history(&self, given_up: usize) {
        self.send(1);
        self.wait_for("Completed", 1);
        self.refuses.store(true, Ordering::SeqCst);
        self.send(given_up);
        self.wait_for("DeadLettered", given_up);
    }

    pub(crate) fn wait_for(&self, status: &str, count: usize) {
        let path = format!("/v1/deliveries?status={status}");
        let fits = |items: &Vec<serde_json::Value>| items.len() == count;
        self.served.get_until(&path, |answer| answer.json()["items"].as_array().is_some_and(fits));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failure_is_seen_and_mended() {
    let scene = Scene::set().await;
    let browser = &scene.browser;
    scene.sign_in(ROOT_KEY);
    browser.value("window.same = true");
    scene.send(1);
    browser.until("document.querySelector('#delivered')?.textContent === '1'");
    assert_eq!(browser.value("window.same"), true, "the page was not loaded again");

    scene.open("/deliveries");
    browser.value("window.same = true");
    scene.refuses.store(true, Ordering::SeqCst);
    scene.send(1);
    browser.until("document.querySelector('.badge.DeadLettered')");
    assert_eq!(browser.value("window.same"), true, "the page was not loaded again");
    browser.click("tbody tr:first-child a");
    browser.until("document.querySelector('.machine .now.DeadLettered')");
    browser.click("a[href='/dead-letters/1']");
    browser.until("document.querySelector('pre')");
    assert!(browser.text("pre").contains("<script>window.hacked = 1</script>"), "{}", browser.source());

    scene.refuses.store(false, Ordering::SeqCst);
    browser.click("form[action$='/requeue'] button");
    browser.until("document.querySelector('#status')?.textContent === 'Completed'");
    assert!(browser.value("location.pathname").as_str().is_some_and(|path| path == "/deliveries/3"));
    assert_eq!(browser.value("window.hacked ?? null"), serde_json::Value::Null, "a script came alive");

    browser.click(".out button");
    browser.until("location.pathname === '/sign-in'");
    scene.open("/deliveries/3");
    browser.until("location.pathname === '/sign-in'");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_are_requeued_and_only_by_who_may() {
    let scene = Scene::set().await;
    let browser = &scene.browser;
    scene.make_history(3);
    for role in ["viewer", "admin"] {
        scene.sign_in(&scene.key_of(role));
        assert_eq!(browser.text(".out span"), role);
        for path in ["/dead-letters", "/dead-letters/1", "/deliveries/2"] {
            scene.open(path);
            assert_eq!(browser.value("document.querySelectorAll('main button, main .button').length - document.querySelectorAll('.filter button').length"), 0, "{role} {path}");
        }
        browser.click(".out button");
        browser.until("document.querySelector('#key')");
    }
    scene.sign_in(&scene.key_of("operator"));
    scene.open("/dead-letters?event_type=order.paid");
    browser.click("a.button");
    browser.until("document.querySelector('#matched')?.textContent === '3'");
    scene.refuses.store(false, Ordering::SeqCst);
    browser.click("main button");
    browser.until("document.querySelector('#requeued')?.textContent === '3'");
    browser.value("window.same = true");
    browser.until("document.querySelector('#fate-delivered')?.textContent === '3'");
    assert_eq!(browser.value("window.same"), true, "the page was not loaded again");
    scene.open("/deliveries?status=Completed");
    browser.until("document.querySelectorAll('tbody tr').length === 4");
    // A form that a page of ours did not make.
    browser.value("document.querySelector('.out [name=token]').value = 'forged'");
    browser.click(".out button");
    browser.until("document.querySelector('h1').textContent === 'The form is not ours'");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_page_can_be_used_by_everybody() {
    let scene = Scene::set().await;
    let (browser, axe) = (&scene.browser, tools::axe());
    scene.make_history(2);
    world::subscribe(&scene.served, "order.sent", &scene.receiver.url("/hook"), 1);
    scene.served.call("DELETE", "/v1/subscriptions/2").send_blocking().expect(204);
    let pictures = std::env::var_os("POSTHASTE_BLESS").map(|_| tools::repository("docs/screenshots"));
    let pages = [
        ("sign-in", "/sign-in"),
        ("overview", "/"),
        ("events", "/events"),
        ("event", "/events/2"),
        ("subscriptions", "/subscriptions"),
        ("subscription", "/subscriptions/1"),
        ("new-subscription", "/subscriptions/new"),
        ("edit-subscription", "/subscriptions/1/edit"),
        ("delete-subscription", "/subscriptions/1/delete"),
        ("deleted-subscription", "/subscriptions/2"),
        ("deliveries", "/deliveries"),
        ("wrong-filter", "/deliveries?event_id=seven&status=Completed&since=2026-01-31T12:00"),
        ("delivery", "/deliveries/2"),
        ("dead-letters", "/dead-letters"),
        ("dead-letter", "/dead-letters/1"),
        ("requeue", "/dead-letters/requeue"),
        ("not-found", "/deliveries/999"),
        ("orders", "/orders"),
        ("order", "/orders/order-5678"),
        ("system", "/system"),
        ("audit", "/audit"),
    ];
    scene.order("order-5678");
    scene.wait_for_order("order-5678", "sent");
    scene.pause_the_lane();
    scene.sign_in(ROOT_KEY);
    browser.until("document.querySelector('#delivered')?.textContent === '1'");
    for (name, path) in pages {
        scene.inspect(name, &axe, pictures.as_deref(), || scene.open(path));
    }
    scene.inspect("tested", &axe, pictures.as_deref(), || {
        scene.open("/subscriptions/1");
        browser.click("form[action$='/test'] button");
        browser.until("document.querySelector('#answer')");
    });
    scene.inspect("history", &axe, pictures.as_deref(), || {
        scene.open("/system");
        browser.click("form[action='/system/history'] button");
        browser.until("document.querySelector('#walked')");
    });
    scene.refuses.store(false, Ordering::SeqCst);
    scene.served.post("/v1/dead-letters/1/requeue", "").expect(201);
    scene.wait_for("Completed", 2);
    scene.inspect("requeued", &axe, pictures.as_deref(), || {
        scene.open("/dead-letters/requeued?first=1&last=2&begun=2026-01-31T12:00:00Z");
        assert_eq!(browser.text("#fate-delivered"), "1");
    });
}

impl Scene {
    /// On every kind of screen: axe finds nothing, nothing is too wide, nobody else is asked. Takes pictures
    /// where a folder is given for them.
    fn inspect(&self, name: &str, axe: &str, pictures: Option<&Path>, arrive: impl Fn()) {
        let browser = &self.browser;
        for (size, width, height) in [("wide", 1280, 860), ("narrow", 390, 844)] {
            for (scheme, dark) in [("light", false), ("dark", true)] {
                let what = format!("{name}-{size}-{scheme}");
                browser.screen(width, height, dark);
                arrive();
                assert_eq!(browser.complaints(axe), Vec::<String>::new(), "{what}");
                let overflow = browser.value("document.documentElement.scrollWidth - window.innerWidth");
                assert!(overflow.as_i64().is_some_and(|pixels| pixels <= 0), "{what}: {overflow} too wide");
                let foreign = "performance.getEntriesByType('resource').filter((one) => !one.name.startsWith(location.origin) && !one.name.startsWith('data:')).map((one) => one.name)";
                assert_eq!(browser.value(foreign), json!([]), "{what} asks another host");
                if let Some(folder) = pictures {
                    let picture = self.picture_of_nowhere();
                    std::fs::write(folder.join(format!("{what}.png")), picture).expect("to write");
                }
            }
        }
    }

    /// A picture that does not tell the name of the machine, which every worker's name begins with. A page that
    /// was refreshed meanwhile is taken again.
    fn picture_of_nowhere(&self) -> Vec<u8> {
        let workers = "[...document.querySelectorAll('.worker')]";
        loop {
            self.browser
                .value(&format!("{workers}.forEach((one) => {{ one.textContent = 'node1-77-5f3a0c1e' }})"));
            let picture = self.browser.picture();
            let is_masked = format!("{workers}.every((one) => one.textContent === 'node1-77-5f3a0c1e')");
            if self.browser.value(&is_masked) == true {
                return picture;
            }
        }
    }
}
