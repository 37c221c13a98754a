//! Tests the dashboard's script in a real browser: a refresh keeps focus, scroll position and selection, and a form is
//! submitted only once.

use crate::browser::Scene;
use crate::served::ROOT_KEY;
use serde_json::json;

/// A JavaScript expression for the number of refreshes so far.
const REFRESHES: &str =
    "performance.getEntriesByType('resource').filter((one) => one.initiatorType === 'fetch').length";
const LINK: &str = "document.querySelector('tbody a[href=\"/deliveries/2\"]')";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refresh_keeps_focus_scroll_position_and_selection() {
    let scene = Scene::set().await;
    let browser = &scene.browser;
    scene.make_history(2);
    scene.sign_in(ROOT_KEY);
    browser.screen(375, 812, true);
    scene.open("/deliveries");
    browser.value(&format!("window.list = document.querySelector('#list'), {LINK}.focus()"));
    browser.value("document.querySelector('.scroll').scrollTo(120, 0)");
    browser.value("getSelection().selectAllChildren(document.querySelector('tbody .badge'))");
    // The response to the previous refresh is processed before the next one starts.
    let refreshes = browser.value(REFRESHES).as_u64().unwrap_or_default();
    browser.until(&format!("{REFRESHES} >= {}", refreshes + 3));
    assert_eq!(browser.value("list.isConnected"), true, "unchanged content is not replaced");
    assert_eq!(browser.value("getSelection().toString()"), "DeadLettered");

    scene.send(1);
    browser.until("document.querySelectorAll('tbody tr').length === 4");
    assert_eq!(browser.value(&format!("{LINK} === document.activeElement")), true, "{}", browser.source());
    assert_eq!(browser.value("document.querySelector('.scroll').scrollLeft"), 120);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_form_is_submitted_once() {
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
