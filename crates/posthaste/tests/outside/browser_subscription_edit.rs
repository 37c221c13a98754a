//! Tests a subscription's page in a real browser: a test event, then editing and deletion with the keyboard.

use crate::browser::{SCRIPT, Scene};
use crate::webdriver::{ENTER, TAB};
use serde_json::Value;
use std::sync::atomic::Ordering;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subscription_is_tested_edited_and_deleted() {
    let scene = Scene::set().await;
    let browser = &scene.browser;
    scene.sign_in(&scene.key_of("admin"));
    scene.refuses.store(true, Ordering::SeqCst);
    scene.open("/subscriptions/1");
    browser.click("form[action$='/test'] button");
    browser.until("document.querySelector('#result.bad')");
    assert!(browser.text("#result").contains("response 500, HTTP_500"), "{}", browser.source());
    assert_eq!(browser.text("#response"), SCRIPT);
    assert_eq!(browser.value("window.hacked ?? null"), Value::Null, "a script was executed");

    browser.tab_to("a[href='/subscriptions/1/edit']");
    browser.press(ENTER);
    browser.until("document.querySelector('h1').textContent === 'Edit subscription 1'");
    browser.tab_to("#event_types");
    browser.value("document.activeElement.select()");
    browser.press("order.sent");
    browser.tab_to("#callback_url");
    // Focusing a field of one line selects its content, so typing replaces it.
    let other = scene.receiver.url("/other");
    browser.press(&format!("{other}{TAB}0"));
    browser.tab_to("#description");
    browser.press(&format!("the shop{ENTER}"));
    browser.until("document.querySelector('#error')");
    assert!(browser.text("#error").contains("1 to 100"), "{}", browser.source());
    browser.tab_to("#max_retry_limit");
    browser.press(&format!("3{ENTER}"));
    browser.until("document.querySelector('#state')?.textContent === 'unverified'");
    assert!(browser.text("#result").contains("Verify the new URL"), "{}", browser.source());
    assert_eq!(browser.value("location.pathname"), "/subscriptions/1");
    for part in ["order.sent", &other, "the shop"] {
        assert!(browser.source().contains(part), "no {part} in {}", browser.source());
    }
    browser.click("form[action$='/verify'] button");
    browser.until("document.querySelector('#state')?.textContent === 'active'");

    browser.tab_to("a[href='/subscriptions/1/delete']");
    browser.press(ENTER);
    browser.until("document.querySelector('h1').textContent === 'Delete subscription 1?'");
    browser.tab_to("form[action$='/delete'] button");
    browser.press(ENTER);
    browser.until("document.querySelector('#deleted')");
    scene.served.get("/v1/subscriptions/1").expect(404);
    scene.open("/subscriptions");
    assert_eq!(browser.value("document.querySelectorAll('tbody tr').length"), 0);
}
