//! Checks that a Python receiver that uses the Standard Webhooks library (`receiver.py`) accepts our signatures, even
//! during the overlap of a rotation, and rejects tampered requests.

use crate::tools;
use posthaste_testkit::commands::{Dev, Running};
use serde_json::{Value, json};
use std::io::Write as _;
use std::process::Stdio;

struct Python {
    running: Running,
    url: String,
}

impl Python {
    fn start() -> Self {
        let mut command = tools::python();
        command.arg(tools::file("receiver.py")).stdin(Stdio::piped());
        let running = Running::of(&mut command);
        let port = parse(&running.line(&["port"]))["port"].to_string();
        Self { running, url: format!("http://127.0.0.1:{port}/hook") }
    }

    fn trust(&mut self, secrets: &[&str]) {
        let stdin = self.running.child.stdin.as_mut().expect("a pipe");
        writeln!(stdin, "{}", json!(secrets)).expect("writing to the receiver");
        self.running.line(&["secrets"]);
    }

    /// Waits for the next request with this event type and returns the receiver's report about it.
    fn request(&self, event_type: &str) -> Value {
        parse(&self.running.line(&[&format!("\"event_type\": \"{event_type}\"")]))
    }
}

fn parse(line: &str) -> Value {
    serde_json::from_str(line).expect("JSON")
}

#[track_caller]
fn check(request: &Value, signatures: u64, genuine: &[bool]) {
    assert_eq!(request["signatures"], signatures, "{request:#}");
    assert_eq!(request["genuine"], json!(genuine), "{request:#}");
    let none = json!(vec![false; genuine.len()]);
    assert_eq!((&request["tampered_body"], &request["tampered_id"]), (&none, &none), "{request:#}");
}

#[test]
fn a_python_receiver_verifies_our_signatures() {
    let folder = tempfile::tempdir().expect("a folder");
    let (dev, mut python) = (Dev::start(&folder), Python::start());
    let created = dev.json(&["subscription", "create", "order.paid", &python.url, "--max-retry-limit", "1"]);
    let (id, first) = (created["id"].to_string(), created["secret"].as_str().expect("a secret"));
    // A receiver with another secret rejects the challenge.
    let foreign = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    python.trust(&[foreign]);
    dev.run(&["subscription", "verify", &id]).expect(1);
    check(&python.request("posthaste.verification"), 1, &[false]);
    python.trust(&[first]);
    dev.run(&["subscription", "verify", &id]).expect(0);
    check(&python.request("posthaste.verification"), 1, &[true]);

    let payload = r#"{"id": 7, "amount": 1.10, "name": "Żółć €"}"#;
    dev.run(&["event", "send", "order.paid", "--payload", payload]).expect(0);
    let delivery = python.request("order.paid");
    check(&delivery, 1, &[true]);
    assert_eq!(delivery["body"], payload);
    let is_completed = |list: &Value| list["items"][0]["status"] == "Completed";
    dev.json_until(&["delivery", "list", "--subscription", &id], is_completed);

    // During the overlap, requests are signed with both secrets, so the receiver may switch at any time.
    let rotated = dev.json(&["subscription", "rotate-secret", &id, "--overlap", "3600"]);
    let second = rotated["secret"].as_str().expect("a secret");
    python.trust(&[first, second, foreign]);
    dev.run(&["event", "send", "order.paid", "--payload", "2"]).expect(0);
    check(&python.request("order.paid"), 2, &[true, true, false]);
    dev.json(&["subscription", "rotate-secret", &id, "--overlap", "0"]);
    dev.run(&["event", "send", "order.paid", "--payload", "3"]).expect(0);
    check(&python.request("order.paid"), 1, &[false, false, false]);
}
