//! Imports a bundle of Svix into a running server: receivers that were never changed verify the first request with
//! Svix's own library, and no application gets the events of the other.

use crate::served::{Engine, ROOT_KEY, Served};
use crate::signature_libraries::Library;
use posthaste_testkit::commands::run;
use posthaste_testkit::receiver::{Answer, Received, Receiver};
use serde_json::{Value, json};

const SECRETS: [&str; 2] =
    ["whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"];

async fn a_bundle_of_two_applications_is_imported(engine: Engine) {
    let served = Served::start(engine, &[("POSTHASTE_VERIFICATION_METHODS", "challenge,asserted")]).await;
    // A receiver of Svix answers 204 and knows no challenges.
    let accepted = |_: &Received| Answer::With { status: 204, headers: Vec::new(), body: Vec::new() };
    let receivers = [Receiver::start(accepted).await, Receiver::start(accepted).await];
    let endpoint = |index: usize, types: Value| {
        json!({"id": format!("ep_{index}"), "url": receivers[index].url("/svix"), "filterTypes": types,
            "secret": SECRETS[index], "headers": {"X-App": format!("app-{index}")}})
    };
    let bundle = json!([
        {"application": {"id": "app_1", "uid": "acme"}, "endpoints": [endpoint(0, json!(["invoice.paid"]))]},
        {"application": {"id": "app_2"}, "endpoints": [endpoint(1, Value::Null)]},
    ]);
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("bundle.json");
    std::fs::write(&file, bundle.to_string()).expect("a file");
    let (url, file) = (served.url(), file.to_str().expect("a path").to_owned());
    let import = move || {
        let arguments = ["--json", "import", "svix", &file, "--verification", "asserted"];
        let ran = run(&arguments, &[("POSTHASTE_URL", &url), ("POSTHASTE_KEY", ROOT_KEY)], "").expect(0);
        serde_json::from_str::<Value>(&ran.stdout).expect("JSON")
    };
    let (first, import) = tokio::task::spawn_blocking(move || (import(), import)).await.expect("an import");
    assert_eq!((&first["created"], &first["failed"]), (&2.into(), &0.into()), "{first:#}");
    let again = tokio::task::spawn_blocking(import).await.expect("an import");
    assert_eq!((&again["created"], &again["unchanged"]), (&0.into(), &2.into()), "{again:#}");

    for (tenant, event_type) in
        [("acme", "invoice.paid"), ("acme", "invoice.void"), ("app_2", "user.created")]
    {
        let event = json!({"event_type": event_type, "tenant": tenant, "payload": {"of": tenant}});
        let call = served.call("POST", "/v1/events").json(event.to_string());
        assert_eq!(call.send().await.status, 202);
    }
    for (index, (receiver, of)) in receivers.iter().zip(["acme", "app_2"]).enumerate() {
        receiver.wait_for(1).await;
        let request = &receiver.received()[0];
        assert_eq!(request.body, json!({"of": of}).to_string(), "{request:#?}");
        assert_eq!(request.header("x-app"), format!("app-{index}"));
        assert_eq!(Library::Python.verify("svix", SECRETS[index], request), (true, false), "{request:#?}");
    }
    // Every event is routed when each subscription has its last delivery.
    served.get_until("/v1/deliveries?status=Completed", |page| {
        page.json()["items"].as_array().is_some_and(|items| items.len() == 2)
    });
    for receiver in &receivers {
        assert_eq!(receiver.received().len(), 1, "{:#?}", receiver.received());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bundle_of_svix_is_imported_on_sqlite() {
    a_bundle_of_two_applications_is_imported(Engine::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bundle_of_svix_is_imported_on_postgres() {
    a_bundle_of_two_applications_is_imported(Engine::Postgres).await;
}
