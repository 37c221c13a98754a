//! Tests the built binary with the embedded store.
#![allow(clippy::expect_used, clippy::panic)]

mod bench;
mod configuration;
mod contexts;
mod egress;
mod help;
mod https;
mod import;
mod json_errors;
mod lane;
mod operations;
mod orders;
mod print_roles;
mod reference;
mod secret_files;
mod settings;
mod stub;

use posthaste_testkit::commands::{Dev, Ran, Running, run};
use posthaste_testkit::processes::Program;
use serde_json::Value;
use std::io::{BufRead as _, BufReader};
use std::process::Command;
use tempfile::TempDir;

fn folder() -> TempDir {
    tempfile::tempdir().expect("a folder")
}

fn is_completed(list: &Value) -> bool {
    list["items"].as_array().is_some_and(|items| items.iter().any(|item| item["status"] == "Completed"))
}

#[test]
fn printed_commands_deliver_the_first_event() {
    let folder = folder();
    let dev = Dev::start(&folder);
    let send = format!("{} event send demo.hello", Program::find().path().display());
    assert!(dev.commands.iter().any(|line| line.contains(&send)));
    let pasted = Command::new("/bin/sh").arg("-ec").arg(dev.commands.join("\n")).env_clear().output();
    let pasted = Ran::of(&pasted.expect("a shell")).expect(0);
    assert!(pasted.stdout.contains("event 1 is accepted"), "{pasted:?}");
    dev.running.line(&["msg_", "demo.hello", "attempt 1", " verified ", "17 bytes", "-> 200"]);
    let list = dev.json_until(&["delivery", "list", "--event", "1"], is_completed);
    let id = list["items"][0]["saga_id"].to_string();
    let shown = dev.run(&["delivery", "show", &id]).expect(0).stdout;
    assert!(shown.lines().any(|line| line.starts_with("status ") && line.ends_with(" Completed")), "{shown}");
    assert_eq!(dev.json(&["event", "show", "1"])["payload"], serde_json::json!({"hello": "world"}));
}

#[test]
fn second_start_reuses_key_and_subscription() {
    let folder = folder();
    let first = Dev::start(&folder);
    let (key, was) = (first.key.clone(), first.json(&["subscription", "list"]));
    drop(first);
    let second = Dev::start(&folder);
    let is = second.json(&["subscription", "list"]);
    assert_eq!(second.key, key);
    assert_eq!(is["items"].as_array().map(Vec::len), Some(1), "{is}");
    assert_eq!((&is["items"][0]["id"], &is["items"][0]["verified"]), (&was["items"][0]["id"], &true.into()));
    second.run(&["event", "send", "demo.hello", "--payload", "1"]).expect(0);
    second.running.line(&["msg_", " verified ", "-> 200"]);
    // A deleted subscription is created again.
    second.run(&["subscription", "delete", &is["items"][0]["id"].to_string()]).expect(0);
    drop(second);
    let third = Dev::start(&folder).json(&["subscription", "list"]);
    assert_eq!(
        (third["items"].as_array().map(Vec::len), &third["items"][0]["verified"]),
        (Some(1), &true.into())
    );
}

#[test]
fn second_process_in_the_same_folder_says_that_it_waits() {
    let folder = folder();
    let _first = Dev::start(&folder);
    let mut command = Program::find().command();
    command.arg("dev").env_clear().current_dir(folder.path()).stderr(std::process::Stdio::piped());
    let mut second = Running::of(&mut command);
    let mut line = String::new();
    BufReader::new(second.child.stderr.take().expect("a pipe")).read_line(&mut line).expect("a line");
    assert!(line.contains("waiting for posthaste-data/posthaste.db"), "{line}");
}

#[test]
fn exit_codes_distinguish_failures() {
    let dev_folder = folder();
    let dev = Dev::start(&dev_folder);
    // A privileged port on which no server listens.
    let nobody = "http://127.0.0.1:1";
    for (arguments, code, message) in [
        (vec!["event", "list"], 0, ""),
        (vec!["event", "list", "--key", "not-a-key"], 1, "POSTHASTE_KEY"),
        (vec!["delivery", "list", "--status", "Done"], 1, "Completed, DeadLettered"),
        (vec!["delivery", "list", "--error", "HTTP_503", "--since", "2026-01-31T12:00:00Z"], 0, ""),
        (vec!["delivery", "list", "--error", "no code"], 1, "error_code"),
        (vec!["delivery", "list", "--since", "noon"], 1, "since must be a time"),
        (vec!["event", "list", "--until", "noon"], 1, "until must be a time"),
        (vec!["subscription", "list", "--type", "a b"], 1, "event_type"),
        (vec!["subscription", "list", "--state", "asleep"], 1, "active, paused, unverified"),
        (vec!["subscription", "create", "a.b", "ftp://h"], 1, "callback_url"),
        (vec!["event"], 2, "Usage"),
        (vec!["event", "show", "x"], 2, "invalid value"),
        (vec!["event", "send", "a.b", "--payload", "{"], 2, "the payload"),
        (vec!["event", "list", "--url", "127.0.0.1:8080"], 2, "http://"),
        (vec!["event", "list", "--url", nobody], 3, "posthaste dev"),
        (vec!["event", "show", "99"], 4, "this event does not exist"),
        (vec!["key", "revoke", "99"], 4, "this API key does not exist"),
    ] {
        let ran = dev.run(&arguments).expect(code);
        assert!(ran.stderr.contains(message), "{arguments:?}: {ran:?}");
        assert!(!ran.stderr.contains(&dev.key), "{arguments:?} printed the key");
        assert_eq!(ran.stdout.is_empty(), code != 0, "{arguments:?}: {ran:?}");
    }
    let unreachable = run(&["event", "list"], &[("POSTHASTE_URL", nobody)], "").expect(3);
    assert!(unreachable.stderr.contains(nobody), "{unreachable:?}");
    // POSTHASTE_ROOT_KEY is used if POSTHASTE_KEY is not set.
    let root = [("POSTHASTE_URL", dev.url.as_str()), ("POSTHASTE_ROOT_KEY", &dev.key)];
    run(&["key", "list"], &root, "").expect(0);
    run(&["key", "list"], &[root.as_slice(), &[("POSTHASTE_KEY", "other")]].concat(), "").expect(1);
}

#[test]
fn keys_are_created_and_revoked() {
    let folder = folder();
    let dev = Dev::start(&folder);
    let made = dev.json(&["key", "create", "shop", "viewer"]);
    let (id, key) = (made["id"].to_string(), made["key"].as_str().expect("a key"));
    dev.run(&["event", "list", "--key", key]).expect(0);
    let refused = dev.run(&["event", "send", "a.b", "--payload", "1", "--key", key]).expect(1);
    assert!(refused.stderr.contains("posthaste key create"), "{refused:?}");
    assert!(dev.run(&["key", "list"]).expect(0).stdout.contains("shop"));
    dev.run(&["key", "revoke", &id]).expect(0);
    dev.run(&["event", "list", "--key", key]).expect(1);
}

/// Starts `posthaste listen` on a free port and returns its URL.
fn listen(arguments: &[&str]) -> (Running, String) {
    let running =
        Running::start(std::path::Path::new("/"), &[&["listen", "--port", "0"], arguments].concat(), &[]);
    let line = running.line(&["listening on http://"]);
    let url = line.split(' ').find(|word| word.starts_with("http://")).expect("a URL").to_owned();
    (running, url)
}

#[test]
fn listener_verifies_signatures_and_fails_on_request() {
    let folder = folder();
    let dev = Dev::start(&folder);
    // A listener needs the secret of a subscription, so the subscription is created first and its URL is set later.
    let made =
        dev.json(&["subscription", "create", "order.paid", "http://127.0.0.1:9/", "--max-retry-limit", "2"]);
    let (id, secret) = (made["id"].to_string(), made["secret"].as_str().expect("a secret"));
    let lead_to = |url: &str| dev.run(&["subscription", "update", &id, "--callback-url", url]).expect(0);
    let send = |name: &str| {
        let ran =
            dev.run_with_stdin(&["event", "send", "order.paid", "--external-id", name], r#"{"n": 1.0}"#);
        ran.expect(0).stdout
    };

    let (stranger, url) = listen(&["--secret", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"]);
    lead_to(&url);
    let refused = dev.run(&["subscription", "verify", &id]).expect(1);
    assert!(refused.stdout.contains("not verified") && refused.stdout.contains("401"), "{refused:?}");
    stranger.line(&["posthaste.verification", "NOT VERIFIED: no signature", "-> 401"]);

    let (mute, url) = listen(&["--no-echo"]);
    lead_to(&url);
    dev.run(&["subscription", "verify", &id]).expect(1);
    mute.line(&["posthaste.verification", "not checked", "-> 200"]);

    let (listener, url) = listen(&["--secret", secret, "--fail", "503", "--fail-first", "3"]);
    lead_to(&url);
    dev.run(&["subscription", "test", &id]).expect(1);
    dev.run(&["subscription", "verify", &id]).expect(0);
    assert!(send("first").contains("is accepted"));
    assert!(send("first").contains("was accepted before"));
    for attempt in ["attempt 1", "attempt 2"] {
        listener.line(&["order.paid", attempt, " verified ", "10 bytes", "-> 503"]);
    }

    // Both attempts failed: the delivery is dead-lettered, and requeued as a new one.
    let letters = dev.json_until(&["dead-letter", "list", "--type", "order.paid"], |list| {
        list["items"].as_array().is_some_and(|items| items.len() == 1)
    });
    let letter = letters["items"][0]["id"].to_string();
    assert!(dev.run(&["dead-letter", "show", &letter]).expect(0).stdout.contains(r#"{"n":1.0}"#));
    let dry = dev.json(&["dead-letter", "requeue-all", "--subscription", &id, "--dry-run"]);
    assert_eq!((&dry["matched"], &dry["requeued"]), (&1.into(), &0.into()));
    let requeued = dev.json(&["dead-letter", "requeue", &letter])["saga_id"].clone();
    assert_eq!(dev.json(&["dead-letter", "requeue", &letter])["saga_id"], requeued);
    listener.line(&["order.paid", "attempt 1", " verified ", "-> 503"]);
    listener.line(&["order.paid", "attempt 2", " verified ", "-> 200"]);
    dev.json_until(&["delivery", "show", &requeued.to_string()], |shown| shown["status"] == "Completed");
    let all = dev.run(&["dead-letter", "requeue-all"]).expect(0).stdout;
    assert!(all.starts_with("1 matched: 0 requeued, 1 already requeued"), "{all}");
    dev.run(&["subscription", "test", &id]).expect(0);

    assert_eq!(dev.json(&["subscription", "pause", &id])["active"], false);
    assert_eq!(dev.json(&["subscription", "resume", &id])["active"], true);
    dev.run(&["subscription", "rotate-secret", &id, "--overlap", "1.5h"]).expect(2);
    let rotated = dev.json(&["subscription", "rotate-secret", &id, "--overlap", "1m"]);
    assert!(rotated["secret"].as_str().is_some_and(|new| new.starts_with("whsec_") && new != secret));
    // Requests are still signed with the previous secret.
    send("second");
    listener.line(&["order.paid", "attempt 1", " verified ", "-> 200"]);
}

#[test]
fn listener_prints_json_lines() {
    let folder = folder();
    let dev = Dev::start(&folder);
    let listener = Running::start(folder.path(), &["--json", "listen", "--port", "0", "--delay", "1ms"], &[]);
    let parse = |line: String| serde_json::from_str::<Value>(&line).expect("JSON");
    let first = parse(listener.line(&["listening"]));
    assert_eq!(first["verifies"], false);
    let url = first["listening"].as_str().expect("a URL");
    let id = dev.json(&["subscription", "create", "order.paid", url])["id"].to_string();
    dev.run(&["subscription", "verify", &id]).expect(0);
    dev.run(&["event", "send", "order.paid", "--payload", "1"]).expect(0);
    let request = parse(listener.line(&["order.paid"]));
    let expected = serde_json::json!({"attempt": 1, "signature": "not checked", "bytes": 1, "status": 200});
    for (name, value) in expected.as_object().expect("an object") {
        assert_eq!(&request[name], value, "{request}");
    }
    run(&["listen", "--port", "0", "--delay", "2"], &[], "").expect(2);
}

#[test]
fn openapi_document_and_completions_are_printed() {
    let document: Value = serde_json::from_str(&run(&["openapi"], &[], "").expect(0).stdout).expect("JSON");
    assert!(document["paths"]["/v1/events"]["post"].is_object());
    for shell in ["bash", "zsh", "fish"] {
        let script = run(&["completions", shell], &[], "").expect(0).stdout;
        assert!(script.contains("requeue-all") && script.contains("context"), "{shell}");
    }
    run(&["completions", "dos"], &[], "").expect(2);
}
