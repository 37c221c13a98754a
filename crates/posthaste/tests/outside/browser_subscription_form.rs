//! Tests the form of a subscription in a real browser: patterns, a filter with live matches, a header and Ed25519; then
//! verification, a test event, a delivery and an edit.

use crate::browser::Scene;
use crate::tools;
use crate::webdriver::ENTER;
use serde_json::json;

const DELETE: &str = "\u{e017}";

const SUMMARY_IS: fn(&str) -> String =
    |text| format!("document.querySelector('#match-summary')?.textContent === '{text}'");

impl Scene {
    fn publish(&self, kind: &str) -> i64 {
        let event = json!({"event_type": kind, "payload": {"of": kind}}).to_string();
        let accepted = self.served.post("/v1/events", &event).expect(202).json();
        accepted["id"].as_i64().expect("an id")
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subscription_with_a_filter_is_created_tested_matched_and_edited() {
    let scene = Scene::set().await;
    let browser = &scene.browser;
    for kind in ["order.paid", "order.sent", "invoice.paid"] {
        scene.publish(kind);
    }
    scene.wait_for("Completed", 1);
    scene.sign_in(&scene.key_of("admin"));
    fill_in(&scene);
    browser.click("main button");
    browser.until("document.querySelector('#public-key')");
    assert!(browser.text("#public-key").starts_with("whpk_"), "{}", browser.source());
    assert_eq!(browser.text("#event-types"), "order.*, invoice.*");
    assert!(browser.text("#request").contains("Standard Webhooks (Ed25519)"), "{}", browser.source());
    assert_eq!(browser.complaints(&tools::axe()), Vec::<String>::new(), "after the creation");

    browser.click("form[action$='/verify'] button");
    browser.until("document.querySelector('#state')?.textContent === 'active'");
    browser.click("form[action$='/test'] button");
    browser.until("document.querySelector('#result.good')");
    let requests = scene.receiver.received();
    let test = requests.iter().rfind(|request| request.path == "/customer").expect("a request");
    assert_eq!((test.header("x-team"), test.header("x-token")), ("billing", "hush"));
    assert!(test.header("webhook-signature").starts_with("v1a,"), "{test:?}");
    let request = browser.text("#preview-head");
    for part in ["x-team: billing", "webhook-signature: v1a,"] {
        assert!(request.contains(part), "no {part} in {request}");
    }
    assert!(!browser.source().contains("hush"), "{}", browser.source());

    let (paid, sent) = (scene.publish("order.paid"), scene.publish("order.sent"));
    // Subscription 1 also gets order.paid, and the filter of subscription 2 refuses order.sent.
    scene.wait_for("Completed", 3);
    for (event, is_delivered) in [(paid, true), (sent, false)] {
        scene.open(&format!("/events/{event}"));
        browser.until("document.querySelector('#summary')");
        let link =
            "document.querySelector('#explanation li:not(.none) a[href=\"/subscriptions/2\"]') !== null";
        assert_eq!(browser.value(link), is_delivered, "{}", browser.source());
    }
    edit(&scene);
    scene.publish("order.sent");
    scene.wait_for("Completed", 4);
}

/// Fills in the form of a new subscription, and checks the matches that it shows.
fn fill_in(scene: &Scene) {
    let browser = &scene.browser;
    scene.open("/subscriptions/new");
    browser.until(&SUMMARY_IS("Enter an event type to see which of the newest events match."));
    browser.write("#event_types", &format!("order.*{ENTER}invoice.*"));
    browser.until(&SUMMARY_IS("3 of the newest 3 events match."));
    browser.write("#filter", r#"{"suffix": {"type": ".paid"}"#);
    browser.until("document.querySelector('#filter[aria-invalid][aria-describedby=match-error-filter]')");
    assert_eq!(browser.complaints(&tools::axe()), Vec::<String>::new(), "with an error");
    browser.write("#filter", "}");
    browser.until(&SUMMARY_IS("2 of the newest 3 events match."));
    assert_eq!(browser.value("document.querySelector('#filter[aria-invalid]')"), json!(null));
    assert_eq!(browser.value("document.querySelectorAll('.matched li').length"), 2);
    browser.write("#callback_url", &scene.receiver.url("/customer"));
    browser.write("#name", "the customer");
    browser.write("#headers", &format!("X-Team: billing{ENTER}X-Token (secret): hush"));
    browser.click("#signatures option[value=standard_ed25519]");
    let room = "document.documentElement.clientWidth - document.documentElement.scrollWidth";
    let is_shown = |kind: &str| {
        let class = format!("document.querySelector('.when-{kind}')");
        browser.value(&format!("getComputedStyle({class}).display !== 'none'"))
    };
    for (width, height, dark) in [(390, 844, true), (1280, 1000, false)] {
        browser.screen(width, height, dark);
        for kind in ["basic", "bearer", "api_key", "oauth2_client_credentials", "mtls"] {
            browser.click(&format!("#auth option[value={kind}]"));
            assert_eq!((is_shown(kind), is_shown("custom")), (json!(true), json!(false)), "{kind}");
            assert_eq!(browser.value(room), 0, "{kind} at {width}");
            assert_eq!(browser.complaints(&tools::axe()), Vec::<String>::new(), "{kind}");
        }
    }
    browser.click("#auth option[value='']");
    assert_eq!(is_shown("mtls"), false);
}

/// Removes the filter of subscription 2 in its form.
fn edit(scene: &Scene) {
    let browser = &scene.browser;
    scene.open("/subscriptions/2/edit");
    browser.until(&SUMMARY_IS("3 of the newest 5 events match."));
    let value = |id: &str| browser.value(&format!("document.querySelector('#{id}').value"));
    assert_eq!(value("event_types"), "order.*\ninvoice.*");
    assert_eq!(value("headers"), "X-Team: billing\nX-Token (secret): ••••••");
    assert_eq!(value("signatures"), "standard_ed25519");
    browser.value("document.querySelector('#filter').select()");
    browser.write("#filter", DELETE);
    browser.until(&SUMMARY_IS("5 of the newest 5 events match."));
    browser.click("main button");
    browser.until("document.querySelector('#result.good')");
    assert!(browser.text("#result").contains("Saved."), "{}", browser.source());
    let after = scene.served.get("/v1/subscriptions/2").expect(200).json();
    assert_eq!((&after["filter"], &after["verified"]), (&json!(null), &json!(true)));
    assert_eq!(after["headers"], json!({"X-Team": "billing", "X-Token": {"secret": true}}));
}
