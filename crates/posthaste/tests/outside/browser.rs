//! Tests the dashboard in a real browser: live updates, requeuing of failed deliveries, roles, and escaping of user
//! content. [`Scene`] is the environment that all browser tests share.

use crate::browser_roles::BUTTONS;
use crate::served::{Engine, ROOT_KEY, Served};
use crate::webdriver::Browser;
use crate::world;
use posthaste_testkit::broker::TestBroker;
use posthaste_testkit::broker::behaviour::Behaviour;
use posthaste_testkit::receiver::{Answer, Received, Receiver};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

pub(crate) const SCRIPT: &str = "<script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'>";

/// A running server with a broker, a receiver that can be made to fail, and a browser.
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

    /// Creates a scene. `start` starts its server with the settings that it receives.
    pub(crate) async fn over(start: impl AsyncFnOnce(&[(&str, &str)]) -> Served) -> Self {
        let refuses = Arc::new(AtomicBool::new(false));
        let is_refusing = Arc::clone(&refuses);
        let answer = move |received: &Received| {
            let is_challenge = received.header("posthaste-event-type") == "posthaste.verification";
            if is_challenge || !is_refusing.load(Ordering::SeqCst) {
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
        // Submits the form with the Enter key.
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

    /// Creates one completed delivery and the given number of dead-lettered deliveries.
    pub(crate) fn make_history(&self, dead_lettered: usize) {
        self.send(1);
        self.wait_for("Completed", 1);
        self.refuses.store(true, Ordering::SeqCst);
        self.send(dead_lettered);
        self.wait_for("DeadLettered", dead_lettered);
    }

    pub(crate) fn wait_for(&self, status: &str, count: usize) {
        let path = format!("/v1/deliveries?status={status}");
        let fits = |items: &Vec<serde_json::Value>| items.len() == count;
        self.served.get_until(&path, |answer| answer.json()["items"].as_array().is_some_and(fits));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_delivery_is_shown_and_requeued() {
    let scene = Scene::set().await;
    let browser = &scene.browser;
    scene.sign_in(ROOT_KEY);
    browser.value("window.same = true");
    scene.send(1);
    browser.until("document.querySelector('#delivered')?.textContent === '1'");
    assert_eq!(browser.value("window.same"), true, "the page was not reloaded");

    scene.open("/deliveries");
    browser.value("window.same = true");
    scene.refuses.store(true, Ordering::SeqCst);
    scene.send(1);
    browser.until("document.querySelector('.badge.DeadLettered')");
    assert_eq!(browser.value("window.same"), true, "the page was not reloaded");
    browser.click("tbody tr:first-child a");
    browser.until("document.querySelector('.machine .now.DeadLettered')");
    browser.click("a[href='/dead-letters/1']");
    browser.until("document.querySelector('pre')");
    assert!(browser.text("pre").contains("<script>window.hacked = 1</script>"), "{}", browser.source());

    scene.refuses.store(false, Ordering::SeqCst);
    browser.click("form[action$='/requeue'] button");
    browser.until("document.querySelector('#status')?.textContent === 'Completed'");
    assert!(browser.value("location.pathname").as_str().is_some_and(|path| path == "/deliveries/3"));
    assert_eq!(browser.value("window.hacked ?? null"), serde_json::Value::Null, "a script was executed");

    browser.click(".out button");
    browser.until("location.pathname === '/sign-in'");
    scene.open("/deliveries/3");
    browser.until("location.pathname === '/sign-in'");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_an_operator_requeues_many_dead_letters() {
    let scene = Scene::set().await;
    let browser = &scene.browser;
    scene.make_history(3);
    for role in ["viewer", "admin"] {
        scene.sign_in(&scene.key_of(role));
        assert_eq!(browser.text(".out span"), role);
        for path in ["/dead-letters", "/dead-letters/1", "/deliveries/2"] {
            scene.open(path);
            assert_eq!(browser.value(BUTTONS), json!([]), "{role} {path}");
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
    browser.until("document.querySelector('#outcome-delivered')?.textContent === '3'");
    assert_eq!(browser.value("window.same"), true, "the page was not reloaded");
    scene.open("/deliveries?status=Completed");
    browser.until("document.querySelectorAll('tbody tr').length === 4");
    // Submit a form with a wrong token.
    browser.value("document.querySelector('.out [name=token]').value = 'forged'");
    browser.click(".out button");
    browser.until("document.querySelector('h1').textContent === 'Form rejected'");
}
