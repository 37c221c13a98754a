//! Checks which actions each role sees in a real browser, and that axe-core reports faults.

use crate::browser::Scene;
use crate::served::ROOT_KEY;
use crate::tools;
use serde_json::json;

/// A JavaScript expression for the labels of the buttons in the content of a page, except those in filters.
pub(crate) const BUTTONS: &str = "[...document.querySelectorAll('main button, main .button')]\
    .filter((one) => !one.closest('.filter')).map((one) => one.textContent.trim())";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_role_sees_its_buttons() {
    let scene = Scene::set().await;
    let browser = &scene.browser;
    scene.make_history(1);
    scene.pause_the_lane();
    const CHECK: &str = "Check history";
    let read_only: &[(&str, &[&str])] =
        &[("/dead-letters", &[]), ("/dead-letters/1", &[]), ("/deliveries/2", &[]), ("/orders", &[])];
    let operator: &[(&str, &[&str])] = &[
        ("/dead-letters", &["Requeue all matching…"]),
        ("/dead-letters/1", &["Requeue"]),
        ("/deliveries/2", &["Requeue"]),
        ("/orders", &["Resume lane"]),
    ];
    for (role, expected) in
        [("viewer", read_only), ("admin", read_only), ("operator", operator), ("root", operator)]
    {
        let key = if role == "root" { ROOT_KEY.to_owned() } else { scene.key_of(role) };
        scene.sign_in(&key);
        assert_eq!(browser.text(".out span"), role);
        for (path, buttons) in expected.iter().chain(&[("/", &[][..]), ("/system", &[CHECK])]) {
            scene.open(path);
            assert_eq!(browser.value(BUTTONS), json!(buttons), "{role} {path}");
        }
        let sees_audit = browser.value("document.querySelector(\"nav a[href='/audit']\") !== null");
        assert_eq!(sees_audit, ["admin", "root"].contains(&role), "{role}");
        // An action that is not offered is also refused if its URL is opened directly.
        scene.open("/dead-letters/requeue");
        let title = if expected == read_only { "Forbidden" } else { "Requeue dead letters" };
        assert_eq!(browser.text("h1"), title, "{role}");
        browser.click(".out button");
        browser.until("document.querySelector('#key')");
    }
    for role in ["ingest", "orders"] {
        let key = scene.key_of(role);
        scene.open("/");
        browser.write("#key", &format!("{key}\u{e007}"));
        browser.until("document.querySelector('[role=alert]')");
        assert!(
            browser.text("[role=alert]").contains(&format!("role {role} cannot use the dashboard")),
            "{}",
            browser.source()
        );
    }
}

/// Checks that axe-core reports faults. If it never reported any, all accessibility tests would pass.
#[test]
fn axe_reports_inaccessible_pages() {
    let (browser, axe) = (crate::webdriver::Browser::start(), tools::axe());
    let page =
        |body: &str| format!("data:text/html,<html lang=\"en\"><title>t</title><main>{body}</main></html>");
    browser.open(&page("<h1>Fine</h1><p>Nothing is wrong here.</p>"));
    assert_eq!(browser.complaints(&axe), Vec::<String>::new());
    for (fault, body) in [
        ("image-alt", "<h1>t</h1><img src=\"data:,\">"),
        ("label", "<h1>t</h1><form><input name=\"unnamed\"></form>"),
        ("button-name", "<h1>t</h1><button></button>"),
        ("color-contrast", "<h1>t</h1><p style=\"color: %23ddd; background: %23fff\">low contrast</p>"),
    ] {
        browser.open(&page(body));
        let complaints = browser.complaints(&axe);
        let is_named = |line: &String| line.starts_with(&format!("{fault}: "));
        assert!(complaints.iter().any(is_named), "{fault} is not among {complaints:?}");
    }
}
