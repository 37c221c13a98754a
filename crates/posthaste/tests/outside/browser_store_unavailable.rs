//! Tests pages in a real browser while the store is unavailable: they report the outage and recover automatically.

use crate::browser::Scene;
use crate::served::{ROOT_KEY, Served};
use posthaste_testkit::commands::{MIGRATE, run};
use posthaste_testkit::private_server::PrivateServer;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_recover_after_an_outage_of_the_store() {
    let server = PrivateServer::start("pages");
    let database = server.url("postgres");
    let scene = Scene::over(async |settings| {
        run(MIGRATE, &[("POSTHASTE_DATABASE_URL", &database)], "").expect(0);
        let own = [
            ("POSTHASTE_DATABASE_URL", database.as_str()),
            ("POSTHASTE_LISTEN", "127.0.0.1:0"),
            ("POSTHASTE_ROOT_KEY", ROOT_KEY),
        ];
        let folder = tempfile::tempdir().expect("a folder");
        Served::over(folder, &database, &[&own, settings].concat()).await
    })
    .await;
    let browser = &scene.browser;
    scene.sign_in(ROOT_KEY);
    scene.make_history(1);
    scene.open("/deliveries");
    browser.value("window.same = true");
    assert_eq!(browser.value("document.querySelectorAll('tbody tr').length"), 2);

    server.pg_ctl(&["stop", "-m", "immediate"]);
    browser.until("!document.getElementById('stale').hidden");
    // The page shows the same title as the API's problem details.
    let outage = scene.served.get_until("/v1/deliveries", |answer| answer.status == 503).json();
    let title = outage["title"].as_str().expect("a title");
    browser.until(&format!("document.getElementById('stale').textContent.startsWith({title:?})"));
    assert_eq!(
        browser.value("document.querySelectorAll('tbody tr').length"),
        2,
        "the previous content remains"
    );
    server.pg_ctl(&["start"]);
    browser.until("document.getElementById('stale').hidden");
    scene.send(1);
    browser.until("document.querySelectorAll('tbody tr').length === 3");
    assert_eq!(browser.value("window.same"), true, "the page was not reloaded");

    // A page opened during the outage reloads after the outage.
    server.pg_ctl(&["stop", "-m", "immediate"]);
    browser.until("!document.getElementById('stale').hidden");
    scene.open("/system");
    browser.until(&format!("document.querySelector('h1').textContent === {title:?}"));
    assert!(browser.source().contains("reloads automatically"), "{}", browser.source());
    server.pg_ctl(&["start"]);
    browser.until("document.querySelector('h1')?.textContent === 'System'");
}
