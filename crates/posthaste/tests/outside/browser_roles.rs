//! Who signs in with which role finds which buttons; and the judge of our pages is able to condemn one.

use crate::browser::Scene;
use crate::served::ROOT_KEY;
use crate::tools;
use serde_json::json;

/// What can be pressed in the content of a page, without what only looks: filters.
const BUTTONS: &str = "[...document.querySelectorAll('main button, main .button')].filter((one) => !one.closest('.filter')).map((one) => one.textContent.trim())";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_role_finds_its_buttons() {
    let scene = Scene::set().await;
    let browser = &scene.browser;
    scene.make_history(1);
    scene.pause_the_lane();
    const EXAMINE: &str = "Examine all of history";
    let looks: &[(&str, &[&str])] =
        &[("/dead-letters", &[]), ("/dead-letters/1", &[]), ("/deliveries/2", &[]), ("/orders", &[])];
    let mends: &[(&str, &[&str])] = &[
        ("/dead-letters", &["Requeue all that fit…"]),
        ("/dead-letters/1", &["Requeue"]),
        ("/deliveries/2", &["Requeue"]),
        ("/orders", &["Resume the lane"]),
    ];
    for (role, expected) in [("viewer", looks), ("admin", looks), ("operator", mends), ("root", mends)] {
        let key = if role == "root" { ROOT_KEY.to_owned() } else { scene.key_of(role) };
        scene.sign_in(&key);
        assert_eq!(browser.text(".out span"), role);
        for (path, buttons) in expected.iter().chain(&[("/", &[][..]), ("/system", &[EXAMINE])]) {
            scene.open(path);
            assert_eq!(browser.value(BUTTONS), json!(buttons), "{role} {path}");
        }
        let sees_audit = browser.value("document.querySelector(\"nav a[href='/audit']\") !== null");
        assert_eq!(sees_audit, ["admin", "root"].contains(&role), "{role}");
        // What is not offered is refused to whoever knows its address.
        scene.open("/dead-letters/requeue");
        let title = if expected == looks { "Not allowed" } else { "Requeue dead letters" };
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
            browser.text("[role=alert]").contains(&format!("role {role} cannot look")),
            "{}",
            browser.source()
        );
    }
}

/// Without this, a judge that never says anything would let every page pass.
#[test]
fn axe_condemns_a_page_that_keeps_people_out() {
    let (browser, axe) = (crate::webdriver::Browser::start(), tools::axe());
    let page =
        |body: &str| format!("data:text/html,<html lang=\"en\"><title>t</title><main>{body}</main></html>");
    browser.open(&page("<h1>Fine</h1><p>Nothing is wrong here.</p>"));
    assert_eq!(browser.complaints(&axe), Vec::<String>::new());
    for (fault, body) in [
        ("image-alt", "<h1>t</h1><img src=\"data:,\">"),
        ("label", "<h1>t</h1><form><input name=\"unnamed\"></form>"),
        ("button-name", "<h1>t</h1><button></button>"),
        ("color-contrast", "<h1>t</h1><p style=\"color: %23ddd; background: %23fff\">hardly to be read</p>"),
    ] {
        browser.open(&page(body));
        let complaints = browser.complaints(&axe);
        let is_named = |line: &String| line.starts_with(&format!("{fault}: "));
        assert!(complaints.iter().any(is_named), "{fault} is not among {complaints:?}");
    }
}
