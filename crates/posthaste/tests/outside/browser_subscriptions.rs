//! Tests the subscription pages in a real browser: creation and all actions, with the mouse and with the keyboard only.

use crate::browser::{SCRIPT, Scene};
use crate::served::ROOT_KEY;
use crate::tools;
use crate::webdriver::{ENTER, TAB};
use serde_json::Value;
use std::sync::atomic::Ordering;

const STATE_IS: fn(&str) -> String =
    |state| format!("document.querySelector('#state')?.textContent === '{state}'");

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subscription_is_created_and_verified_with_the_keyboard() {
    let scene = Scene::set().await;
    let browser = &scene.browser;
    scene.open("/");
    browser.tab_to("#key");
    browser.press(&format!("{ROOT_KEY}{ENTER}"));
    browser.until("document.querySelector('.out')");
    browser.tab_to("nav a[href='/subscriptions']");
    browser.press(ENTER);
    browser.until("document.querySelector('a[href=\"/subscriptions/new\"]')");
    browser.tab_to("a[href='/subscriptions/new']");
    browser.press(ENTER);
    browser.until("document.querySelector('#event_types')");
    browser.tab_to("#event_types");
    browser.press("order.sent");
    browser.tab_to("#callback_url");
    browser.press(&format!("ftp://x.example/{TAB}3"));
    browser.tab_to("#description");
    browser.press(&format!("the shop{ENTER}"));
    browser.until("document.querySelector('#error')");
    assert!(browser.text("#error").contains("must use https"), "{}", browser.source());
    assert_eq!(
        browser.value("document.querySelector('#description').value"),
        "the shop",
        "the input is kept"
    );

    browser.tab_to("#callback_url");
    // Focusing a field selects its content, so typing replaces it.
    browser.press(&format!("{}{ENTER}", scene.receiver.url("/hook")));
    browser.until("document.querySelector('#secret')");
    let secret = browser.text("#secret");
    assert!(secret.starts_with("whsec_"), "{secret}");
    assert_eq!(browser.complaints(&tools::axe()), Vec::<String>::new(), "with a secret");
    browser.reload();
    browser.until(&STATE_IS("unverified"));
    let made = scene.served.get("/v1/subscriptions").expect(200).json();
    assert_eq!(made["items"].as_array().map(Vec::len), Some(2), "reloading the result creates nothing");
    assert!(!browser.source().contains(&secret), "a secret is shown once");
    browser.tab_to("form[action$='/verify'] button");
    browser.press(ENTER);
    browser.until(&STATE_IS("active"));
    assert!(browser.text("#result").starts_with("Verified"), "{}", browser.source());
    assert_eq!(browser.complaints(&tools::axe()), Vec::<String>::new(), "with a result");
    browser.tab_to("form[action$='/pause'] button");
    browser.press(ENTER);
    browser.until(&STATE_IS("paused"));
    browser.tab_to("form[action$='/resume'] button");
    browser.press(ENTER);
    browser.until(&STATE_IS("active"));
    assert_eq!(browser.value("location.pathname"), "/subscriptions/2");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subscription_is_paused_resumed_and_tested() {
    let scene = Scene::set().await;
    let browser = &scene.browser;
    scene.sign_in(ROOT_KEY);
    scene.open("/subscriptions/1");
    browser.click("form[action$='/pause'] button");
    browser.until(&STATE_IS("paused"));
    scene.open("/subscriptions");
    browser.until("document.querySelector('.badge.paused')");
    browser.value("window.same = true");
    // Changes made through the API appear without a reload.
    let resume = scene.served.call("PATCH", "/v1/subscriptions/1").json(r#"{"active": true}"#);
    resume.send_blocking().expect(200);
    browser.until("document.querySelector('.badge.active')");
    assert_eq!(browser.value("window.same"), true, "the page was not reloaded");
    browser.click("tbody a");
    browser.until(&STATE_IS("active"));
    browser.click("form[action$='/test'] button");
    browser.until("document.querySelector('#result.good')");
    assert!(browser.text("#result").contains("response 200"), "{}", browser.source());
    scene.refuses.store(true, Ordering::SeqCst);
    browser.click("form[action$='/test'] button");
    browser.until("document.querySelector('#result.bad')");
    assert!(browser.text("#result").contains("response 500"), "{}", browser.source());

    scene.open("/subscriptions/new");
    browser.write("#event_types", SCRIPT);
    browser.write("#callback_url", &scene.receiver.url("/hook?%22%3E%3Cscript%3E"));
    browser.write("#description", SCRIPT);
    browser.click("main button");
    browser.until("document.querySelector('#error')");
    assert_eq!(browser.value("document.querySelector('#event_types').value"), SCRIPT);
    browser.value("document.querySelector('#event_types').value = 'a'");
    browser.click("main button");
    browser.until("document.querySelector('#secret')");
    assert!(browser.source().contains(SCRIPT), "{}", browser.source());
    assert_eq!(browser.value("window.hacked ?? null"), Value::Null, "a script was executed");
}
