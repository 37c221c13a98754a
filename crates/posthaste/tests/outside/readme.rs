//! Checks that the shell commands in README.md work as printed. Only values that a reader has to insert, such as keys
//! and URLs, are replaced. `make dev` builds with the profile `quick`; these tests run the program of the test build.

use crate::served::ROOT_KEY;
use crate::{pages, tools};
use posthaste_testkit::broker::TestBroker;
use posthaste_testkit::broker::behaviour::Behaviour;
use posthaste_testkit::commands::{Dev, Running};
use posthaste_testkit::fleet::free_address;
use posthaste_testkit::private_server::PrivateServer;
use posthaste_testkit::processes::Program;
use serde_json::Value;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

pub(crate) const ENDED: &str = "THE BLOCK ENDED";
const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// A shell script that runs `serve` and `listen` in the background, because they do not exit. A reader runs each of
/// them in a separate terminal.
const BEFORE: &str = r#"
set -e
exec 2>&1
posthaste() { case $1 in serve | listen) command posthaste "$@" & ;; *) command posthaste "$@" ;; esac; }
"#;

/// A shell and the processes that it started. All of them are killed on drop.
pub(crate) struct Typed(Running);

impl std::ops::Deref for Typed {
    type Target = Running;

    fn deref(&self) -> &Running {
        &self.0
    }
}

impl Drop for Typed {
    fn drop(&mut self) {
        let group = format!("-{}", self.0.child.id());
        let _ = Command::new("kill").args(["-KILL", "--", &group]).status();
    }
}

/// Returns the block called `name`, with each example value replaced by the value that a reader would insert.
fn block(name: &str, replacements: &[(&str, &str)]) -> String {
    pages::block(&pages::blocks("README.md", &["sh"]), name, replacements)
}

pub(crate) fn typed(block: &str, folder: &Path, environment: &[(&str, &str)]) -> Typed {
    let programs = Program::find().path().parent().expect("a folder").display().to_string();
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = Command::new("/bin/sh");
    command.arg("-c").arg(format!("{BEFORE}{block}\necho '{ENDED}'\nread -r _")).current_dir(folder);
    command.env_clear().env("PATH", format!("{programs}:{path}")).envs(environment.iter().copied());
    Typed(Running::of(command.stdin(Stdio::piped()).process_group(0)))
}

#[test]
fn every_block_has_a_test() {
    let names: Vec<String> = pages::blocks("README.md", &["sh"]).into_keys().collect();
    assert_eq!(names, ["api", "dev", "make", "orders", "serve", "wrong"], "every block needs a test");
    // This block runs the tests themselves, so only the existence of its targets is checked.
    let makefile = std::fs::read_to_string(tools::repository("Makefile")).expect("a Makefile");
    for line in block("make", &[]).lines() {
        let target = line.split_whitespace().nth(1).expect("a target");
        assert!(makefile.lines().any(|rule| rule.starts_with(&format!("{target}:"))), "{line}");
    }
}

#[tokio::test]
async fn the_roles_run_on_postgres() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = PrivateServer::start("readme");
    let database = server.url("postgres");
    let block = block("serve", &[("postgres://user@host/db", &database)]);
    let running = typed(&block, folder.path(), &[("POSTHASTE_LISTEN", "127.0.0.1:0")]);
    let mut expected = vec!["api,router,orchestrator", "\"router,orchestrator\"", ENDED];
    let mut seen = Vec::new();
    // The processes may start in any order.
    while !expected.is_empty() {
        let line = running.line(&[""]);
        let is_found = |part: &str| line.contains(part) && (line.contains("serving") || part == ENDED);
        expected.retain(|part| !is_found(part));
        seen.push(line);
    }
    let is_shown =
        |line: &String| line.starts_with("POSTHASTE_DATABASE_URL ") && line.contains("environment");
    assert!(seen.iter().any(is_shown), "{seen:#?}");
}

#[test]
fn dev_and_the_commands_that_it_prints_work() {
    let folder = tempfile::tempdir().expect("a folder");
    let dev = Dev::start(&folder);
    let server = [("POSTHASTE_URL", dev.url.as_str()), ("POSTHASTE_KEY", &dev.key)];
    let printed = typed(&dev.commands.join("\n"), folder.path(), &[]);
    printed.lines_until(&["event 1 is accepted"]);
    printed.lines_until(&[ENDED]);
    dev.running.line(&["msg_", "demo.hello", " verified ", "-> 200"]);
    let readme = typed(&block("dev", &[("whsec_…", SECRET)]), folder.path(), &server);
    readme.line(&["event 2 is accepted"]);
    readme.line(&["complete -F"]);
    dev.running.line(&["msg_", "demo.hello", " verified ", "-> 200"]);
    for event in ["1", "2"] {
        let list = dev.json_until(&["delivery", "list", "--event", event], is_completed);
        let shown = dev.run(&["delivery", "show", &list["items"][0]["saga_id"].to_string()]).expect(0).stdout;
        assert!(shown.contains("Completed") && shown.contains("200"), "{shown}");
    }
}

#[test]
fn the_api_commands_work() {
    let folder = tempfile::tempdir().expect("a folder");
    let listener = Running::start(folder.path(), &["listen", "--port", "0"], &[]);
    let line = listener.line(&["listening on http://"]);
    let hook = line.split(' ').find(|word| word.starts_with("http://")).expect("a URL");
    let address = format!("127.0.0.1:{}", free_address().port());
    let here = address.replace("127.0.0.1", "localhost");
    let replacements = [
        ("$(openssl rand -hex 32)", ROOT_KEY),
        ("https://example.com/hook", hook),
        ("localhost:8080", &here),
    ];
    let block = block("api", &replacements);
    let environment = [
        ("POSTHASTE_LISTEN", address.as_str()),
        ("POSTHASTE_LOG", "error"),
        // The settings that README.md shows for receivers on the same machine.
        ("POSTHASTE_ALLOW_HTTP", "true"),
        ("POSTHASTE_ALLOW_CIDRS", "127.0.0.0/8"),
    ];
    let text = std::fs::read_to_string(tools::repository("README.md")).expect("README.md");
    assert!(text.contains("POSTHASTE_ALLOW_HTTP=true\nPOSTHASTE_ALLOW_CIDRS=127.0.0.0/8"));
    let running = typed(&block, folder.path(), &environment);
    let answer = || -> Value {
        let line = running.line(&["{"]);
        serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line}"))
    };
    assert!(answer()["secret"].as_str().is_some_and(|secret| secret.starts_with("whsec_")));
    assert_eq!(answer()["verified"], true);
    assert_eq!(answer()["duplicate"], false);
    assert!(answer()["items"].is_array());
    listener.line(&["msg_", "order.paid", "-> 200"]);
    let server = [("POSTHASTE_URL", format!("http://{address}")), ("POSTHASTE_KEY", ROOT_KEY.to_owned())];
    let server = server.each_ref().map(|(name, value)| (*name, value.as_str()));
    loop {
        let shown =
            posthaste_testkit::commands::run(&["delivery", "list", "--json"], &server, "").expect(0).stdout;
        if is_completed(&serde_json::from_str(&shown).expect("JSON")) {
            break;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_commands_for_orders_and_diagnosis_work() {
    let folder = tempfile::tempdir().expect("a folder");
    let broker = TestBroker::start(Behaviour::Well).await;
    let url = broker.url();
    let dev = Dev::start_with(&folder, &[("POSTHASTE_BROKER_URL", &url)]);
    let server = [("POSTHASTE_URL", dev.url.as_str()), ("POSTHASTE_KEY", &dev.key)];
    let order = r#"{"symbol":"USDJPY","intent":"SELL","qty":5}"#;
    std::fs::write(folder.path().join("order.json"), order).expect("a file");
    let block_of_orders = block("orders", &[("https://broker.example/orders", &url)]);
    let readme = typed(&block_of_orders, folder.path(), &server);
    readme.line(&["desk-7"]);
    readme.lines_until(&[ENDED]);
    let shown = dev.json_until(&["order", "show", "desk-7"], |order| order["status"] == "sent");
    assert!(shown["broker_order_id"].is_string(), "{shown}");
    dev.json_until(&["order", "list", "--status", "sent"], |list| {
        list["items"].as_array().is_some_and(|items| items.len() == 2)
    });
    assert_eq!(broker.executions(), 2);

    dev.run(&["event", "send", "demo.hello", "--payload", "{}"]).expect(0);
    let readme = typed(&block("wrong", &[("explain 42", "explain 1")]), folder.path(), &server);
    readme.line(&["demo.hello"]);
    let lines = readme.lines_until(&[ENDED]);
    assert!(lines.iter().any(|line| line.contains("conservation")), "{lines:#?}");
}

fn is_completed(list: &Value) -> bool {
    list["items"].as_array().is_some_and(|items| items.iter().any(|item| item["status"] == "Completed"))
}
