//! A page whose store goes away says so, and comes back with the store: nobody presses anything.

use crate::browser::Scene;
use crate::served::{ROOT_KEY, Served};
use posthaste_testkit::commands::run;
use posthaste_testkit::private_server::PrivateServer;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_comes_back_with_its_store() {
    let server = PrivateServer::start("pages");
    let database = server.url("postgres");
    let scene = Scene::over(async |settings| {
        run(&["migrate"], &[("POSTHASTE_DATABASE_URL", &database)], "").expect(0);
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
    browser.until("!document.getElementById('away').hidden");
    browser.until("document.getElementById('away').textContent.startsWith('The store is away')");
    assert_eq!(
        browser.value("document.querySelectorAll('tbody tr').length"),
        2,
        "what was there can be read"
    );
    server.pg_ctl(&["start"]);
    browser.until("document.getElementById('away').hidden");
    scene.send(1);
    browser.until("document.querySelectorAll('tbody tr').length === 3");
    assert_eq!(browser.value("window.same"), true, "the page was not loaded again");

    // A page that could not be shown at all is shown when it can be.
    server.pg_ctl(&["stop", "-m", "immediate"]);
    browser.until("!document.getElementById('away').hidden");
    scene.open("/system");
    browser.until("document.querySelector('h1').textContent === 'The store is away'");
    assert!(browser.source().contains("goes on by itself"), "{}", browser.source());
    server.pg_ctl(&["start"]);
    browser.until("document.querySelector('h1')?.textContent === 'System'");
}
