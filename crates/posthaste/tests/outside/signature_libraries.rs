//! Checks that the official libraries of other senders accept genuine requests of a running server in their formats,
//! and refuse a changed body: Standard Webhooks, Svix, Stripe, Slack and GitHub, and Ed25519 with the package
//! cryptography. `verify_signature.py` and `verify_signature.mjs` call the libraries.

use crate::tools;
use posthaste_core::signature::Ed25519Key;
use posthaste_testkit::commands::Dev;
use posthaste_testkit::direct::Direct;
use posthaste_testkit::receiver::{Answer, Received, Receiver};
use serde_json::{Map, Value, json};
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

const PAYLOAD: &str = r#"{"id": 7, "amount": 1.10, "name": "Żółć €"}"#;

/// A signature format, as stored, and the libraries that verify it.
struct Row {
    format: &'static str,
    signatures: &'static str,
    libraries: &'static [Library],
}

#[derive(Debug, Clone, Copy)]
enum Library {
    Python,
    Node,
}

const ROWS: [Row; 6] = [
    Row { format: "standard", signatures: r#"["standard"]"#, libraries: &[Library::Python, Library::Node] },
    Row { format: "svix", signatures: r#"[{"preset":"svix"}]"#, libraries: &[Library::Python] },
    Row {
        format: "stripe",
        signatures: r#"[{"preset":"stripe"}]"#,
        libraries: &[Library::Python, Library::Node],
    },
    Row { format: "slack", signatures: r#"[{"preset":"slack"}]"#, libraries: &[Library::Python] },
    Row { format: "github", signatures: r#"[{"preset":"github"}]"#, libraries: &[Library::Node] },
    Row { format: "ed25519", signatures: r#"["standard_ed25519"]"#, libraries: &[Library::Python] },
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
    fn verify(self, format: &str, secret: &str, request: &Received) -> (bool, bool) {
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

/// Stores a format, and for Ed25519 a key. Returns the key with which receivers verify.
async fn set_format(direct: &Direct, row: &Row, id: &str, secret: &str) -> String {
    let key = Ed25519Key::from_seed([9; 32]);
    let mut changes = format!("signatures = '{}'", row.signatures);
    if row.format == "ed25519" {
        let credentials = json!({"signing_keys": [{"key": key.reveal()}]});
        let public_key = key.public_key();
        changes.push_str(&format!(", credentials = '{credentials}', public_key = '{public_key}'"));
    }
    direct.force(&format!("UPDATE subscriptions SET {changes} WHERE id = {id}")).await;
    if row.format == "ed25519" { key.public_key() } else { secret.to_owned() }
}

#[test]
fn official_libraries_verify_our_requests() {
    let folder = tempfile::tempdir().expect("a folder");
    let dev = Dev::start(&folder);
    let direct = Direct::sqlite(&folder.path().join(Path::new("posthaste-data/posthaste.db")));
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    for row in &ROWS {
        let receiver = runtime.block_on(Receiver::start(Answer::to_challenge));
        let event_type = format!("format.{}", row.format);
        let created = dev.json(&["subscription", "create", &event_type, &receiver.url("/hook")]);
        let (id, secret) = (created["id"].to_string(), created["secret"].as_str().expect("a secret"));
        let key = runtime.block_on(set_format(&direct, row, &id, secret));
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
