//! Checks that the official libraries of other senders accept genuine requests of a running server in their formats,
//! and refuse a changed body: Standard Webhooks, Svix, Stripe, Slack and GitHub, and Ed25519 with the package
//! cryptography. `verify_signature.py` and `verify_signature.mjs` call the libraries.

use crate::tools;
use posthaste_core::signature::Ed25519Key;
use posthaste_testkit::commands::Dev;
use posthaste_testkit::receiver::{Answer, Received, Receiver};
use serde_json::{Map, Value, json};
use std::io::Write as _;
use std::process::{Command, Stdio};

const PAYLOAD: &str = r#"{"id": 7, "amount": 1.10, "name": "Żółć €"}"#;

/// A signature format, its entry in `signatures`, and the libraries that verify it.
struct Row {
    format: &'static str,
    signature: &'static str,
    libraries: &'static [Library],
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Library {
    Python,
    Node,
}

const ROWS: [Row; 6] = [
    Row { format: "standard", signature: "standard", libraries: &[Library::Python, Library::Node] },
    Row { format: "svix", signature: "svix", libraries: &[Library::Python] },
    Row { format: "stripe", signature: "stripe", libraries: &[Library::Python, Library::Node] },
    Row { format: "slack", signature: "slack", libraries: &[Library::Python] },
    Row { format: "github", signature: "github", libraries: &[Library::Node] },
    Row { format: "ed25519", signature: "standard_ed25519", libraries: &[Library::Python] },
];

impl Library {
    fn command(self) -> Command {
        match self {
            Self::Python => {
                let mut command = tools::python();
                command.arg(tools::file("verify_signature.py"));
                command
            }
            Self::Node => {
                let mut command = tools::node();
                command.arg(tools::file("verify_signature.mjs")).arg(tools::node_modules());
                command
            }
        }
    }

    /// Returns whether the library accepts a request, and the same request with a changed body.
    pub(crate) fn verify(self, format: &str, secret: &str, request: &Received) -> (bool, bool) {
        let header = |(name, value): (&http::HeaderName, &http::HeaderValue)| {
            (name.as_str().to_owned(), Value::from(value.to_str().expect("text")))
        };
        let headers: Map<String, Value> = request.headers.iter().map(header).collect();
        let body = std::str::from_utf8(&request.body).expect("text");
        let input = json!({"format": format, "secret": secret, "headers": headers, "body": body}).to_string();
        let mut command = self.command();
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the program runs");
        child.stdin.take().expect("a pipe").write_all(input.as_bytes()).expect("writing to the program");
        let output = child.wait_with_output().expect("an output");
        assert!(output.status.success(), "{self:?} failed for {format}");
        let result: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        (result["genuine"] == true, result["changed"] == true)
    }
}

#[test]
fn official_libraries_verify_our_requests() {
    let folder = tempfile::tempdir().expect("a folder");
    let dev = Dev::start(&folder);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    for row in &ROWS {
        let receiver = runtime.block_on(Receiver::start(Answer::to_challenge));
        let event_type = format!("format.{}", row.format);
        let url = receiver.url("/hook");
        let created = dev.json(&["subscription", "create", &event_type, &url, "--signature", row.signature]);
        let key_field = if row.format == "ed25519" { "public_key" } else { "secret" };
        let (id, key) = (created["id"].to_string(), created[key_field].as_str().expect("a key").to_owned());
        dev.run(&["subscription", "verify", &id]).expect(0);
        dev.run(&["event", "send", &event_type, "--payload", PAYLOAD]).expect(0);
        runtime.block_on(receiver.wait_for(2));
        let requests = receiver.received();
        let types: Vec<&str> =
            requests.iter().map(|request| request.header("posthaste-event-type")).collect();
        assert_eq!(types, ["posthaste.verification", &event_type]);
        assert_eq!(requests[1].body, PAYLOAD);
        for library in row.libraries {
            for request in &requests {
                let verified = library.verify(row.format, &key, request);
                assert_eq!(verified, (true, false), "{library:?}, {}: {request:#?}", row.format);
            }
            let (other, _) = library.verify(row.format, &other_key(row.format), &requests[1]);
            assert!(!other, "{library:?} accepts another key of {}", row.format);
        }
    }
}

/// Returns a valid key that did not sign any request.
fn other_key(format: &str) -> String {
    match format {
        "ed25519" => Ed25519Key::from_seed([8; 32]).public_key(),
        _ => "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".to_owned(),
    }
}
