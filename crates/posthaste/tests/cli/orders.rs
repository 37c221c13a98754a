//! Tests orders on the command line with a broker that accepts all orders.

use crate::{folder, listen};
use posthaste_testkit::commands::{Dev, run};
use serde_json::Value;

#[test]
fn orders_are_sent_listed_and_shown() {
    let (broker, url) = listen(&[]);
    let folder = folder();
    // `posthaste dev` allows a broker on this machine.
    let dev = Dev::start_with(&folder, &[("POSTHASTE_BROKER_URL", &url)]);
    let flags = ["order", "send", "--symbol", "USDJPY", "--intent", "BUY", "--qty", "10000"];

    // A missing key is generated and printed before the order is sent.
    let ran = dev.run(&[&flags[..], &["--json"]].concat()).expect(0);
    let made: Value = serde_json::from_str(&ran.stdout).expect("JSON");
    let key = made["idempotency_key"].as_str().expect("a key");
    let printed: Value = serde_json::from_str(&ran.stderr).expect("one line of JSON");
    assert_eq!(printed["idempotency_key"], key);
    let ran = run(&flags, &[("POSTHASTE_URL", "http://127.0.0.1:1")], "").expect(3);
    assert!(ran.stderr.contains("repeat the order with --idempotency-key "), "{ran:?}");

    // The same order from a file, with the same key, is a duplicate.
    let file = folder.path().join("order.json");
    std::fs::write(&file, r#"{"symbol": "USDJPY", "intent": "BUY", "qty": 1e4}"#).expect("a file");
    let file = file.to_str().expect("a path");
    let again = dev.json(&["order", "send", "--file", file, "--idempotency-key", key]);
    assert_eq!(
        (&again["idempotency_key"], &again["created_at"]),
        (&made["idempotency_key"], &made["created_at"])
    );
    let other = r#"{"idempotency_key":"a/b?c","symbol":"A","intent":"SELL","qty":0.5}"#;
    dev.run_with_stdin(&["order", "send"], other).expect(0);

    let list = dev.json(&["order", "list"]);
    assert_eq!(list["items"].as_array().map(Vec::len), Some(2), "{list}");
    assert!(dev.run(&["order", "show", "a/b?c"]).expect(0).stdout.contains("order "));
    let audit = dev.json(&["order", "audit", "a/b?c"]);
    assert_eq!(
        (&audit["items"][0]["status_from"], &audit["items"][0]["status_to"]),
        (&Value::Null, &"queued".into())
    );
    for key in [key, "a/b?c"] {
        dev.json_until(&["order", "show", key], |order| order["status"] == "sent");
    }
    broker.line(&["-> 200"]);
    assert!(dev.run(&["order", "audit", key]).expect(0).stdout.starts_with("CREATED "), "a table");
    let first = dev.json(&["order", "audit", key, "--limit", "1"]);
    let cursor = first["next_cursor"].as_str().expect("more");
    let second = dev.json(&["order", "audit", key, "--limit", "1", "--cursor", cursor]);
    assert_eq!(
        (&first["items"][0]["status_to"], &second["items"][0]["status_to"]),
        (&"queued".into(), &"sending".into())
    );
    assert!(dev.run(&["outbox", "show"]).expect(0).stdout.contains("state "));
    assert_eq!(dev.json(&["outbox", "resume"])["state"], "open");

    for (arguments, stdin, code, message) in [
        (&["order", "show", "nobody"][..], "", 4, "this order does not exist"),
        (&["order", "list", "--status", "Sent"], "", 1, "queued, sending, sent, failed, dead"),
        (&["order", "show", "a b"], "", 2, "visible ASCII"),
        (&["order", "send", "--symbol", "A"], "", 2, "--intent"),
        (&["order", "send"], "[]", 2, "must be an object"),
        (&["order", "send", "--idempotency-key", "x"], other, 2, "has the idempotency_key a/b?c"),
        (
            &["order", "send"],
            r#"{"idempotency_key":"q","symbol":"A","intent":"BUY","qty":0}"#,
            1,
            "qty must be",
        ),
    ] {
        let ran = dev.run_with_stdin(arguments, stdin).expect(code);
        assert!(ran.stderr.contains(message), "{arguments:?}: {ran:?}");
    }
    // Another order with a key that is in use.
    let changed = [&flags[..7], &["2", "--idempotency-key", key]].concat();
    assert!(dev.run(&changed).expect(1).stderr.contains("use a new key for a new order"));
}

#[test]
fn refusal_without_a_broker_names_the_setting() {
    let folder = folder();
    let dev = Dev::start(&folder);
    let order = r#"{"idempotency_key":"k","symbol":"A","intent":"BUY","qty":1}"#;
    let refused = dev.run_with_stdin(&["order", "send"], order).expect(1);
    assert!(refused.stderr.contains("POSTHASTE_BROKER_URL"), "{refused:?}");
    run(&["order", "list"], &[("POSTHASTE_URL", "http://127.0.0.1:1")], "").expect(3);
}
