//! Tests the order pages in a real browser: a paused lane is shown and resumed.

use crate::browser::Scene;
use serde_json::json;

impl Scene {
    pub(crate) fn order(&self, key: &str) {
        let body = json!({"idempotency_key": key, "symbol": "USDJPY", "intent": "BUY", "qty": 10_000});
        let call = self.served.call("POST", "/v1/orders").header("idempotency-key", key);
        call.json(body.to_string()).send_blocking().expect(202);
    }

    pub(crate) fn wait_for_order(&self, key: &str, status: &str) {
        self.served.get_until(&format!("/v1/orders/{key}"), |answer| answer.json()["status"] == status);
    }

    /// Makes the broker refuse our credentials until the lane pauses. The broker keeps refusing afterwards.
    pub(crate) fn pause_the_lane(&self) {
        self.broker.set_trusting(false);
        for number in 1..=5 {
            self.order(&format!("refused-{number}"));
        }
        self.served.get_until("/v1/outbox", |answer| answer.json()["state"] == "paused");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_paused_lane_is_shown_and_resumed() {
    let scene = Scene::set().await;
    let browser = &scene.browser;
    scene.sign_in(&scene.key_of("operator"));
    scene.order("order-1");
    scene.wait_for_order("order-1", "sent");
    scene.open("/orders");
    browser.value("window.same = true");
    assert_eq!(browser.text("#lane-state"), "open");
    scene.pause_the_lane();
    browser.until("document.querySelector('#lane-state').textContent === 'paused'");
    assert_eq!(browser.value("window.same"), true, "the page was not reloaded");
    assert!(browser.text("#lane .notice").contains("credentials"), "{}", browser.source());
    browser.until("document.querySelectorAll('.badge.dead').length === 5");
    // A probe would be refused too, so only the button opens the lane.
    browser.click("#lane button");
    browser.until("document.querySelector('#lane-state')?.textContent === 'open'");
    assert_eq!(browser.value("document.querySelector('#lane button')"), serde_json::Value::Null);
    scene.broker.set_trusting(true);
    scene.order("order-2");
    browser.until("document.querySelectorAll('.badge.sent').length === 2");
    browser.click("a[href='/orders/order-2']");
    browser.until("document.querySelector('#status')?.textContent === 'sent'");
    assert_eq!(browser.value("document.querySelectorAll('.timeline li').length"), 3);
    scene.open("/orders");
    browser.write("[name=idempotency_key]", "refused-3\u{e007}");
    browser.until("document.querySelector('h1').textContent === 'Order refused-3'");
    assert_eq!(browser.text("#status"), "dead");
}
