//! A page that keeps itself fresh takes nothing from whoever reads it: neither the focus, nor the place that was
//! scrolled to, nor what was selected. And what is pressed twice is sent once.

use crate::browser::Scene;
use crate::served::ROOT_KEY;
use serde_json::json;

/// How often the page has asked for itself.
const ASKED: &str =
    "performance.getEntriesByType('resource').filter((one) => one.initiatorType === 'fetch').length";
const LINK: &str = "document.querySelector('tbody a[href=\"/deliveries/2\"]')";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fresh_page_leaves_its_reader_alone() {
    let scene = Scene::set().await;
    let browser = &scene.browser;
    scene.make_history(2);
    scene.sign_in(ROOT_KEY);
    browser.screen(375, 812, true);
    scene.open("/deliveries");
    browser.value(&format!("window.list = document.querySelector('#list'), {LINK}.focus()"));
    browser.value("document.querySelector('.scroll').scrollTo(120, 0)");
    browser.value("getSelection().selectAllChildren(document.querySelector('tbody .badge'))");
    // The answer that is taken in before the third question is asked brings nothing new.
    let asked = browser.value(ASKED).as_u64().unwrap_or_default();
    browser.until(&format!("{ASKED} >= {}", asked + 3));
    assert_eq!(browser.value("list.isConnected"), true, "nothing changed, so nothing was replaced");
    assert_eq!(browser.value("getSelection().toString()"), "DeadLettered");

    scene.send(1);
    browser.until("document.querySelectorAll('tbody tr').length === 4");
    assert_eq!(browser.value(&format!("{LINK} === document.activeElement")), true, "{}", browser.source());
    assert_eq!(browser.value("document.querySelector('.scroll').scrollLeft"), 120);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_form_is_sent_once() {
    let scene = Scene::set().await;
    let browser = &scene.browser;
    scene.sign_in(ROOT_KEY);
    scene.open("/subscriptions/1");
    let twice = "(() => {
        const form = document.querySelector('form[action$=\"/rotate-secret\"]');
        const presses = [1, 2].map(() => new SubmitEvent('submit', { bubbles: true, cancelable: true }));
        return [...presses.map((press) => form.dispatchEvent(press)), form.querySelector('button').ariaDisabled];
    })()";
    assert_eq!(browser.value(twice), json!([true, false, "true"]));
}
