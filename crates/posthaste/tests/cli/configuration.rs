//! Tests `posthaste subscription export`, `apply` and `match` against a [`Stub`].

use crate::folder;
use crate::stub::{State, Stub};
use posthaste_testkit::commands::run;
use serde_json::{Value, json};
use std::path::Path;

fn write(folder: &Path, name: &str, document: &Value) -> String {
    let path = folder.join(name);
    std::fs::write(&path, document.to_string()).expect("a file");
    path.to_str().expect("a path").to_owned()
}

fn entry(uid: &str, more: &Value) -> Value {
    let mut entry = json!({"uid": uid, "callback_url": "https://h.example/", "event_types": ["order.paid"]});
    entry.as_object_mut().expect("an object").extend(more.as_object().cloned().expect("an object"));
    entry
}

fn document(entries: &[Value]) -> Value {
    json!({ "subscriptions": entries })
}

/// The subscriptions of the tests: three with a uid in two tenants, and one without.
fn state() -> State {
    let mut state = State::default();
    let body = |more: Value| {
        let mut body = entry("", &more);
        body.as_object_mut().expect("an object").remove("uid");
        body
    };
    state.add(
        Some("b"),
        &body(json!({"tenant": "acme", "headers": {"X-Token": {"value": "hush", "secret": true}}})),
    );
    state.add(None, &body(json!({})));
    state.add(
        Some("a"),
        &body(json!({"tenant": "acme", "auth": {"bearer": {"token": "hush"}}, "metadata": {"k": "v"}})),
    );
    state.add(Some("c"), &body(json!({"description": "no tenant", "timeout": "5s"})));
    state
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn export_has_no_secrets_and_applies_without_changes() {
    let (stub, folder) = (Stub::start(state()).await, folder());
    let ran = stub.run(&["subscription", "export"]).expect(0);
    assert_eq!(ran.stderr, "posthaste: not exported, because they have no uid: subscriptions 2\n");
    let exported: Value = serde_json::from_str(&ran.stdout).expect("JSON");
    let uids: Vec<&Value> =
        exported["subscriptions"].as_array().expect("a list").iter().map(|entry| &entry["uid"]).collect();
    assert_eq!(uids, ["c", "a", "b"], "in the order of tenants and uids");
    assert_eq!(
        exported["subscriptions"][1],
        entry(
            "a",
            &json!({
                "tenant": "acme", "active": true, "auth": {"bearer": {}}, "envelope": "raw", "metadata": {"k": "v"},
                "signatures": ["standard"]
            })
        )
    );
    assert_eq!(exported["subscriptions"][2]["headers"], json!({"X-Token": {"secret": true}}));
    assert!(!ran.stdout.contains("hush") && !ran.stdout.contains("created_at"), "{ran:?}");
    assert_eq!(stub.run(&["subscription", "export", "-"]).expect(0).stdout, ran.stdout, "the text is stable");

    let file = folder.path().join("subscriptions.json");
    let file = file.to_str().expect("a path");
    let ran = stub.run(&["subscription", "export", file, "--tenant", "acme"]).expect(0);
    assert_eq!((ran.stdout, ran.stderr), (format!("2 subscriptions are written to {file}\n"), String::new()));
    let ran = stub.run(&["subscription", "apply", file, "--prune"]).expect(0);
    assert!(ran.stdout.ends_with("0 created, 0 changed, 2 unchanged, 0 failed\n"), "{ran:?}");
    assert!(stub.writes().is_empty());
    let ran = stub.run(&["subscription", "export", "/missing/file", "--json"]).expect(1);
    assert!(ran.stderr.contains("command-failed") && ran.stderr.contains("/missing/file"), "{ran:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn apply_creates_changes_and_prunes() {
    let (stub, folder) = (Stub::start(state()).await, folder());
    let desired = document(&[
        entry("new", &json!({"tenant": "acme", "secret": {"env": "SECRET"}})),
        entry(
            "b",
            &json!({
                "tenant": "acme", "event_types": ["order.*"], "headers": {"X-Token": {"env": "SECRET"}, "X-Other": "1"},
                "secret": {"env": "SECRET"}
            }),
        ),
    ]);
    let file = write(folder.path(), "subscriptions.json", &desired);
    let secret = [("SECRET", "whsec_from_env")];
    let dry = stub.run_with(&["subscription", "apply", &file, "--prune", "--dry-run"], &secret, "").expect(0);
    assert_eq!(
        dry.stdout,
        "RESULT  TENANT  UID  ID  CHANGED\n\
         change  acme    b    1   event_types, headers\n\
         create  acme    new  -   -\n\
         delete  acme    a    3   -\n\
         dry run, nothing was written: 1 create, 1 change, 0 unchanged, 1 delete, 0 failed\n"
    );
    assert!(stub.writes().is_empty(), "a dry run writes nothing");

    let ran =
        stub.run_with(&["subscription", "apply", "-", "--prune"], &secret, &desired.to_string()).expect(0);
    assert!(ran.stdout.ends_with("1 created, 1 changed, 0 unchanged, 1 deleted, 0 failed\n"), "{ran:?}");
    let (uids, written) = stub.with(|state| {
        let uids: Vec<Value> = state.subscriptions.values().map(|(item, _)| item["uid"].clone()).collect();
        (uids, state.written.clone())
    });
    assert_eq!(uids, [json!("b"), json!(null), json!("c"), json!("new")], "other tenants are not pruned");
    // The secret of an existing subscription is kept, and that of a new one is sent.
    assert_eq!(written[0].get("secret"), None);
    assert_eq!(written[0]["headers"], json!({"X-Token": {"secret": true}, "X-Other": "1"}));
    assert_eq!(written[1]["secret"], "whsec_from_env");
    let again = stub.run_with(&["subscription", "apply", &file, "--prune"], &secret, "").expect(0);
    assert!(again.stdout.ends_with("0 created, 0 changed, 2 unchanged, 0 failed\n"), "{again:?}");
    let forced = stub.run_with(&["subscription", "apply", &file, "--write-secrets"], &secret, "").expect(0);
    assert!(forced.stdout.contains("  secrets\n") && forced.stdout.contains(", 2 changed,"), "{forced:?}");
    assert_eq!(stub.with(|state| state.written[2]["secret"].clone()), "whsec_from_env");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pruning_is_limited_to_the_tenant() {
    let (stub, folder) = (Stub::start(state()).await, folder());
    let empty = write(folder.path(), "empty.json", &document(&[]));
    // No tenant appears in an empty file.
    stub.run(&["subscription", "apply", &empty, "--prune"]).expect(0);
    assert!(stub.writes().is_empty());
    let report = stub.json(&["subscription", "apply", &empty, "--prune", "--tenant", "acme"], 0);
    assert_eq!((&report["deleted"], report["items"].as_array().map(Vec::len)), (&2.into(), Some(2)));
    assert_eq!(stub.with(|state| state.subscriptions.len()), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_change_stops_the_entry_and_the_pruning() {
    let (stub, folder) = (Stub::start(State { interferes: true, ..state() }).await, folder());
    let file = write(
        folder.path(),
        "subscriptions.json",
        &document(&[
            entry("b", &json!({"tenant": "acme", "name": "changed"})),
            entry("d", &json!({"tenant": "acme", "callback_url": "https://refused.example/"})),
            entry("e", &json!({"tenant": "acme"})),
        ]),
    );
    let ran = stub.run(&["subscription", "apply", &file, "--prune"]).expect(1);
    for line in [
        "b of tenant acme: it was changed since it was read, and is left as it is; run the command again",
        "d of tenant acme: Refused: callback_url must have a public address",
        "not deleted, because an entry failed: 1 subscriptions",
        "1 created, 0 changed, 0 unchanged, 2 failed",
    ] {
        assert!(ran.stdout.lines().any(|found| found == line), "{line} in\n{}", ran.stdout);
    }
    assert!(ran.stdout.contains("rotate-secret 5"), "a generated secret is mentioned: {}", ran.stdout);
    assert!(!ran.stdout.contains("whsec_generated"), "{}", ran.stdout);

    // After a refusal that concerns all entries, no further one is tried. What was done is still reported.
    stub.with(|state| state.fails_with = Some(403));
    let ran = stub.run(&["subscription", "apply", &file]).expect(1);
    assert!(ran.stdout.starts_with("no subscriptions") && ran.stderr.contains("root key"), "{ran:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_files_are_refused_before_the_first_call() {
    let (stub, folder) = (Stub::start(state()).await, folder());
    let good = entry("a", &json!({}));
    for (name, wrong, message) in [
        (
            "unknown",
            document(&[good.clone(), entry("b", &json!({"colour": 1}))]),
            "subscriptions[1].colour is not known",
        ),
        ("twice", document(&[good.clone(), good.clone()]), "a appears twice"),
        (
            "variable",
            document(&[entry("a", &json!({"secret": {"env": "NONE"}}))]),
            "variable NONE is not set",
        ),
        ("list", json!([]), "expected {\"subscriptions\":[…]}"),
    ] {
        let file = write(folder.path(), name, &wrong);
        for flags in [&[][..], &["--dry-run"]] {
            let ran = stub.run(&[&["subscription", "apply", &file], flags].concat()).expect(2);
            assert!(ran.stderr.contains(message) && ran.stdout.is_empty(), "{name}: {ran:?}");
        }
    }
    assert!(stub.receiver.received().is_empty());
    // A secret that only the server of the export has is missing, which the list of the server shows.
    let secrets = json!({"headers": {"X-A": {"secret": true}}, "auth": {"bearer": {}}});
    let file = write(folder.path(), "secrets", &document(&[good, entry("b", &secrets)]));
    let ran = stub.run(&["subscription", "apply", &file]).expect(2);
    assert!(ran.stderr.contains("b: headers.X-A.value is required"), "{ran:?}");
    assert!(ran.stderr.contains("b: auth.bearer.token is required") && stub.writes().is_empty(), "{ran:?}");
    run(&["subscription", "apply", "/missing"], &[], "").expect(1);
    run(&["subscription", "apply"], &[], "").expect(2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn match_sends_type_attributes_and_tenant() {
    let stub = Stub::start(State::default()).await;
    let arguments = ["subscription", "match", "--type", "order.paid", "--attributes", r#"{"region":"eu"}"#];
    // The stub does not have this call.
    stub.run(&[&arguments[..], &["--tenant", "a b"]].concat()).expect(4);
    let path = stub.receiver.received()[0].path.clone();
    assert_eq!(
        path,
        "/v1/subscriptions/match?event_type=order.paid&attributes=%7B%22region%22%3A%22eu%22%7D&tenant=a+b"
    );
    let ran = run(&["subscription", "match", "--type", "a", "--attributes", "[]"], &[], "").expect(2);
    assert!(ran.stderr.contains("expected an object"), "{ran:?}");
    run(&["subscription", "match"], &[], "").expect(2);
}
