//! Checks that the commands in the guides under `docs/` work as printed. Only values that a reader has to insert, such
//! as keys, secrets and ports, are replaced. `samples` runs the code in `docs/receivers.md`.

use crate::pages::{block, guide};
use crate::readme::{ENDED, Typed, typed};
use crate::served::{PATIENCE, ROOT_KEY};
use crate::tools;
use posthaste_core::signature::{SigningSecret, sign_standard};
use posthaste_testkit::broker::TestBroker;
use posthaste_testkit::broker::behaviour::Behaviour;
use posthaste_testkit::client::{Answer, Call};
use posthaste_testkit::commands::{Dev, run};
use posthaste_testkit::direct::Direct;
use posthaste_testkit::fleet::free_address;
use posthaste_testkit::postgres::migrated_database;
use posthaste_testkit::private_server::PrivateServer;
use serde_json::Value;
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::{Instant, SystemTime};
use tempfile::TempDir;

const SECRET_EXAMPLE: &str = "whsec_…";
/// The port of the receivers in the guides.
const PORT_EXAMPLE: &str = "8081";

/// A guide, and the `posthaste dev` server against which its code blocks are run.
struct Guide {
    blocks: BTreeMap<String, String>,
    dev: Dev,
    port: u16,
    folder: TempDir,
}

impl Guide {
    fn open(page: &str, settings: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let dev = Dev::start_with(&folder, settings);
        Self { blocks: guide(page), dev, port: free_address().port(), folder }
    }

    /// Starts commands without waiting for them to finish.
    fn start(&self, commands: &str) -> Typed {
        let server = [("POSTHASTE_URL", self.dev.url.as_str()), ("POSTHASTE_KEY", &self.dev.key)];
        typed(commands, self.folder.path(), &server)
    }

    /// Runs commands to completion and returns their output.
    fn run(&self, commands: &str) -> String {
        let printed = self.start(commands).lines_until(&[ENDED]).join("\n");
        printed.replace(ENDED, "")
    }

    fn run_block(&self, name: &str) -> String {
        self.run(&block(&self.blocks, name, &[]))
    }

    /// Runs commands to completion and parses their output as JSON.
    fn json(&self, commands: &str) -> Value {
        let printed = self.run(commands);
        serde_json::from_str(&printed).unwrap_or_else(|_| panic!("{commands}: {printed}"))
    }

    fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    fn callback_url(&self) -> String {
        format!("http://{}/", self.address())
    }

    /// Starts the receiver in the block `name` with this secret, and waits until it accepts connections.
    fn receiver(&self, name: &str, put_in: &[(&str, &str)], secret: &str) -> Typed {
        wait(|| TcpListener::bind(self.address()).is_ok());
        let port = self.port.to_string();
        let put_in = [put_in, &[(SECRET_EXAMPLE, secret), (PORT_EXAMPLE, &port)]].concat();
        let receiver = self.start(&block(&self.blocks, name, &put_in));
        wait(|| TcpStream::connect(self.address()).is_ok());
        receiver
    }

    /// Creates a subscription with the callback URL of this guide, and returns its id and secret.
    fn subscribe(&self, event_type: &str, flags: &[&str]) -> (String, String) {
        let url = self.callback_url();
        let created = self.dev.json(&[&["subscription", "create", event_type, &url][..], flags].concat());
        (created["id"].to_string(), created["secret"].as_str().expect("a secret").to_owned())
    }

    fn wait_for_delivery(&self, id: &str, is_met: impl Fn(&Value) -> bool) -> Value {
        // Routing may not have created the delivery yet.
        wait(|| self.dev.run(&["delivery", "show", id]).code == Some(0));
        self.dev.json_until(&["delivery", "show", id], is_met)
    }
}

fn wait(is_met: impl Fn() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !is_met() {
        assert!(Instant::now() < until, "it did not happen in time");
    }
}

fn is_completed(delivery: &Value) -> bool {
    delivery["status"] == "Completed"
}

/// Returns the first signing secret in a text.
fn secret_in(text: &str) -> String {
    let start = text.find("whsec_").unwrap_or_else(|| panic!("no secret in {text}"));
    text[start..].split(|char: char| char.is_whitespace() || char == '"').next().expect("a word").to_owned()
}

#[test]
fn every_block_of_a_guide_is_run() {
    for (page, run) in [
        ("docs/api.md", vec!["batch", "cli", "keys", "page", "problem", "publish", "sql"]),
        ("docs/concepts.md", vec![]),
        ("docs/configuration.md", vec!["contexts", "production", "settings-file"]),
        ("docs/migrating.md", vec![]),
        ("docs/orders.md", vec!["audit", "call", "lane", "send"]),
        ("docs/poolers.md", vec![]),
        (
            "docs/quickstart.md",
            vec!["again", "connect", "fail", "first", "listen", "retry", "start", "subscribe", "verify"],
        ),
        ("docs/receivers.md", vec!["listen", "receiver", "try"]),
        ("docs/requests.md", vec![]),
        ("docs/retries.md", vec!["limit", "requeue"]),
        ("docs/scaling.md", vec!["processes"]),
    ] {
        let names: Vec<String> = guide(page).into_keys().filter(|name| !name.contains('/')).collect();
        assert_eq!(names, run, "{page} has a block without a test");
    }
}

#[test]
fn configuration_guide_shows_working_settings_and_contexts() {
    let guide = Guide::open("docs/configuration.md", &[]);
    let file = block(&guide.blocks, "settings-file", &[]);
    std::fs::write(guide.folder.path().join("posthaste.toml"), &file).expect("a settings file");
    let shown = guide.json("POSTHASTE_CONFIG=posthaste.toml posthaste config --json");
    assert!(shown.to_string().contains("0.0.0.0:8080"), "{shown}");

    let keys = ["root_key", "secret_key"].map(|name| {
        let path = guide.folder.path().join(name);
        std::fs::write(&path, "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08")
            .expect("a key");
        path.display().to_string()
    });
    let examples = [("/run/secrets/root_key", keys[0].as_str()), ("/run/secrets/secret_key", &keys[1])];
    let file = block(&guide.blocks, "production", &examples);
    std::fs::write(guide.folder.path().join("production.toml"), &file).expect("a settings file");
    let shown = guide.json("posthaste config --json --config production.toml");
    assert!(shown.to_string().contains(r#""value":"443,8443""#), "{shown}");

    // The messages of the guide are those of the program.
    let wrong = "listen = \"0.0.0.0:8080\"\nroles = [\"api\"]\nretry_bas = \"1m\"\n";
    std::fs::write(guide.folder.path().join("posthaste.toml"), wrong).expect("a settings file");
    let printed = guide.run(
        "POSTHASTE_CONFIG=posthaste.toml POSTHASTE_WORKER_CONCURRENCY=0 posthaste serve 2>&1 | head -n 3",
    );
    let page = std::fs::read_to_string(tools::repository("docs/configuration.md")).expect("the guide");
    assert!(printed.lines().count() >= 3, "{printed}");
    for line in printed.lines().filter(|line| !line.is_empty()) {
        assert!(page.contains(line), "the guide does not show: {line}");
    }

    std::fs::write(guide.folder.path().join("key.txt"), format!("{}\n", guide.dev.key)).expect("a key");
    let url = guide.dev.url.clone();
    let commands = block(
        &guide.blocks,
        "contexts",
        &[("https://posthaste.example", &url), ("http://127.0.0.1:8080", &url)],
    );
    // Without the server of the environment, so that the contexts select it.
    let key = &guide.dev.key;
    let setup = "export XDG_CONFIG_HOME=\"$PWD/profile\"; unset POSTHASTE_URL POSTHASTE_KEY";
    let commands = commands.replace("login test", &format!("login test --key {key}"));
    let printed = guide.run(&format!("set -e\n{setup}\n{commands}"));
    assert!(
        printed.contains("prod") && printed.contains("test") && !printed.contains(key.as_str()),
        "{printed}"
    );
}

#[test]
fn quickstart_leads_to_a_verified_delivery_and_a_retry() {
    let guide = Guide::open("docs/quickstart.md", &[]);
    let (port, dev) = (guide.port.to_string(), &guide.dev);
    let makefile = std::fs::read_to_string(tools::repository("Makefile")).expect("a Makefile");
    assert_eq!(block(&guide.blocks, "start", &[]), "make dev");
    assert!(makefile.contains("\ndev:") && makefile.contains("/quick/posthaste dev"));
    let connect = [("http://127.0.0.1:8080", dev.url.as_str()), ("phk_…", &dev.key)];
    let connect = block(&guide.blocks, "connect", &connect);

    guide.run(&format!("{connect}\n{}", block(&guide.blocks, "first", &[])));
    dev.running.line(&["msg_", "demo.hello", "verified", "200"]);
    guide.wait_for_delivery("1", is_completed);

    let secret = secret_in(&guide.run(&block(&guide.blocks, "subscribe", &[(PORT_EXAMPLE, &port)])));
    let receiver = guide.receiver("listen", &[], &secret);
    guide.run_block("verify");
    receiver.line(&["msg_", "order.paid", "verified", "200"]);
    guide.run_block("again");
    assert_eq!(dev.json(&["event", "list"])["items"].as_array().map(Vec::len), Some(2));
    guide.wait_for_delivery("2", is_completed);
    drop(receiver);

    let receiver = guide.receiver("fail", &[], &secret);
    let retry = block(&guide.blocks, "retry", &[]);
    let (send, look) = retry.split_once('\n').expect("several commands");
    guide.run(send);
    receiver.line(&["order.paid", "500"]);
    receiver.line(&["order.paid", "200"]);
    let delivery = guide.wait_for_delivery("3", is_completed);
    assert_eq!(delivery["attempts"].as_array().map(Vec::len), Some(2), "{delivery:#}");
    assert!(guide.run(look).contains("HTTP_500"));
}

#[test]
fn posthaste_listen_is_a_receiver_for_tests() {
    let guide = Guide::open("docs/receivers.md", &[]);
    let (id, secret) = guide.subscribe("order.paid", &[]);
    assert_eq!(id, "2", "as the guide says");
    let receiver = guide.receiver("listen", &[], &secret);
    guide.run_block("try");
    receiver.line(&["order.paid", "verified", "200"]);
}

#[test]
fn the_complete_receiver_processes_each_event_once() {
    let guide = Guide::open("docs/receivers.md", &[]);
    for sample in ["verify.py", "receiver.py"] {
        let path = tools::repository("docs/samples/python").join(sample);
        std::fs::copy(path, guide.folder.path().join(sample)).expect("a sample");
    }
    let (id, secret) = guide.subscribe("order.paid", &[]);
    let python = tools::python().get_program().to_str().expect("a path").to_owned();
    let receiver = guide.receiver("receiver", &[("python3", &python)], &secret);
    guide.dev.run(&["subscription", "verify", &id]).expect(0);
    guide.dev.run(&["event", "send", "order.paid", "--payload", r#"{"order": 7}"#]).expect(0);
    receiver.line(&[r#"order.paid {"order": 7}"#]);

    let secret = SigningSecret::parse(&secret).expect("a secret");
    let now_s = SystemTime::UNIX_EPOCH.elapsed().expect("a time").as_secs();
    let send = |webhook_id: &str, body: &str, signed: &str| -> Answer {
        let signature = sign_standard(
            std::slice::from_ref(&secret),
            webhook_id,
            now_s.try_into().expect("a time"),
            signed.as_bytes(),
        );
        let headers =
            [("webhook-id", webhook_id), ("webhook-signature", &signature), ("posthaste-event-type", "a")];
        let call =
            Call::get(guide.address(), "/").method("POST").header("webhook-timestamp", &now_s.to_string());
        headers.iter().fold(call, |call, (name, value)| call.header(name, value)).json(body).send_blocking()
    };
    assert_eq!(send("msg_8_2", "[1]", "[1]").status, 200);
    assert_eq!(send("msg_8_2", "[1]", "[1]").status, 200);
    assert_eq!(send("msg_9_2", "[2]", "[1]").status, 401);
    assert_eq!(send("msg_9_2", "[3]", "[3]").status, 200);
    let printed = receiver.lines_until(&["a [3]"]);
    assert_eq!(printed.iter().filter(|line| line.starts_with("a ")).count(), 2, "{printed:#?}");
}

#[test]
fn retries_guide_sets_limits_and_requeues() {
    let guide = Guide::open("docs/retries.md", &[]);
    guide.run_block("limit");
    assert_eq!(guide.dev.json(&["subscription", "show", "2"])["max_retry_limit"], 20);
    let (id, secret) = guide.subscribe("order.paid", &["--max-retry-limit", "1"]);
    let listen = format!("posthaste listen --port {} --secret {secret} --fail 500", guide.port);
    let _receiver = guide.start(&listen);
    wait(|| TcpStream::connect(guide.address()).is_ok());
    guide.dev.run(&["subscription", "verify", &id]).expect(0);
    guide.dev.run(&["event", "send", "order.paid", "--payload", "1"]).expect(0);
    let letters = |count: usize| move |list: &Value| list["items"].as_array().map(Vec::len) >= Some(count);
    guide.dev.json_until(&["dead-letter", "list"], letters(1));
    guide.run_block("requeue");
    guide.dev.json_until(&["dead-letter", "list"], letters(2));
}

#[test]
fn api_guide_publishes_pages_and_refuses() {
    let guide = Guide::open("docs/api.md", &[]);
    let keys = guide.run_block("keys");
    assert_eq!(keys.matches("phk_").count(), 2, "{keys}");
    let listed = guide.dev.json(&["key", "list"]);
    let revoked = listed["items"].as_array().expect("keys").iter().filter(|key| !key["revoked_at"].is_null());
    assert_eq!(revoked.count(), 1);
    assert_eq!(guide.json(&block(&guide.blocks, "publish", &[]))["duplicate"], false);
    assert_eq!(guide.json(&block(&guide.blocks, "publish", &[]))["duplicate"], true);
    assert_eq!(guide.json(&block(&guide.blocks, "batch", &[])).as_array().map(Vec::len), Some(2));

    let pages = block(&guide.blocks, "page", &[]);
    let (first, next) = pages.split_once('\n').expect("two pages");
    let first = guide.json(first);
    let next = guide.json(
        &next.replace("cursor=…", &format!("cursor={}", first["next_cursor"].as_str().expect("a cursor"))),
    );
    let count = |page: &Value| page["items"].as_array().map(Vec::len);
    assert_eq!((count(&first), count(&next), next["next_cursor"].is_null()), (Some(2), Some(1), true));
    assert!(guide.run_block("cli").contains("next_cursor"));

    let problem = guide.run_block("problem");
    assert!(problem.contains(" 422 ") && problem.contains("application/problem+json"), "{problem}");
}

#[tokio::test(flavor = "multi_thread")]
async fn api_guide_publishes_in_a_transaction() {
    let database = Direct::postgres(&migrated_database("guide").await).await;
    let statement = block(&guide("docs/api.md"), "sql", &[]);
    database.run(&format!("BEGIN; {statement} ROLLBACK")).await;
    assert_eq!(database.number("SELECT count(*) FROM events").await, 0);
    database.run(&statement).await;
    assert_eq!(database.number("SELECT count(*) FROM events").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn orders_guide_sends_each_order_once() {
    let broker = TestBroker::start(Behaviour::Well).await;
    let guide = Guide::open("docs/orders.md", &[("POSTHASTE_BROKER_URL", &broker.url())]);
    for name in ["send", "send", "call", "call"] {
        assert!(guide.run_block(name).contains("desk-"));
    }
    for key in ["desk-7", "desk-8"] {
        guide.dev.json_until(&["order", "show", key], |order| order["status"] == "sent");
    }
    assert_eq!(broker.executions(), 2);
    assert!(guide.run_block("audit").contains("desk-8"));
    assert!(guide.run_block("lane").contains("open"));
}

#[tokio::test(flavor = "multi_thread")]
async fn scaling_guide_runs_roles_in_several_processes() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = PrivateServer::start("scaling");
    let (database, address) = (server.url("postgres"), free_address().to_string());
    let processes = block(&guide("docs/scaling.md"), "processes", &[("postgres://user@host/db", &database)]);
    let settings = [
        ("POSTHASTE_LISTEN", address.as_str()),
        ("POSTHASTE_ROOT_KEY", ROOT_KEY),
        ("POSTHASTE_LOG", "error"),
    ];
    let _running = typed(&processes, folder.path(), &settings);
    let (url, mut roles) = (format!("http://{address}"), Vec::new());
    let until = Instant::now() + PATIENCE;
    while roles != ["api", "cleaner", "orchestrator", "router", "worker", "worker"] {
        assert!(Instant::now() < until, "{roles:?}");
        let shown = run(&["system", "--json"], &[("POSTHASTE_URL", &url), ("POSTHASTE_KEY", ROOT_KEY)], "");
        let system: Value = serde_json::from_str(&shown.stdout).unwrap_or_default();
        let processes = system["processes"].as_array().cloned().unwrap_or_default();
        roles = processes.iter().filter_map(|process| process["role"].as_str().map(str::to_owned)).collect();
        roles.sort_unstable();
    }
}
