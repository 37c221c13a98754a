//! Tests the commands and settings in `docs/operations.md`: a login and a process for each role on a private PostgreSQL
//! server, backups of databases in use, and a new secret key.

use crate::pages::{block, blocks};
use crate::served::{Engine, PATIENCE, ROOT_KEY, Served};
use crate::world;
use posthaste_testkit::client::Answer;
use posthaste_testkit::commands::{Ran, run};
use posthaste_testkit::direct::sqlite_connection;
use posthaste_testkit::fleet;
use posthaste_testkit::private_server::PrivateServer;
use posthaste_testkit::processes::{Process, Program};
use posthaste_testkit::receiver::Receiver;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

const PAGE: &str = "docs/operations.md";
/// The server in the URLs of the document.
const THERE: &str = "@db/";

fn page() -> BTreeMap<String, String> {
    blocks(PAGE, &["sh", "sql"])
}

/// Runs a script in a shell whose `PATH` includes PostgreSQL and Posthaste. Panics if the script fails.
fn run_script(script: &str, folder: &Path) {
    let bin = std::env::var("POSTHASTE_TEST_POSTGRES_BIN").expect("scripts/with-postgres");
    let ours = Program::find().path().parent().expect("a folder").display().to_string();
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = Command::new("/bin/sh");
    command.arg("-ec").arg(script).current_dir(folder);
    Ran::of(&command.env_clear().env("PATH", format!("{bin}:{ours}:{path}")).output().expect("a shell"))
        .expect(0);
}

fn sql(server: &PrivateServer, statements: &str, folder: &Path) {
    std::fs::write(folder.join("statements.sql"), statements).expect("a file");
    run_script(&format!("psql -v ON_ERROR_STOP=1 -f statements.sql '{}'", server.url("postgres")), folder);
}

/// Parses the lines of a block as settings, with the server replaced by `here`.
fn settings(block: &str, here: &str) -> Vec<(String, String)> {
    let lines = block.lines().map(|line| line.replace(THERE, here));
    lines
        .map(|line| line.split_once('=').map(|(name, value)| (name.into(), value.into())).expect("a setting"))
        .collect()
}

fn wait_for_items(served: &Served, path: &str, count: usize) {
    served.get_until(path, |answer| answer.json()["items"].as_array().map(Vec::len) == Some(count));
}

#[tokio::test(flavor = "multi_thread")]
async fn every_role_runs_with_its_own_login_and_a_dump_is_restored() {
    let (page, folder) = (page(), tempfile::tempdir().expect("a folder"));
    let server = PrivateServer::start("operations");
    let superuser = server.url("postgres");
    let here = format!("@{}/", superuser.split(['@', '/']).nth(3).expect("a socket"));
    sql(&server, &block(&page, "database", &[]), folder.path());
    run_script(&block(&page, "migrate", &[(THERE, &here)]), folder.path());
    sql(&server, &block(&page, "logins", &[]), folder.path());

    let own = [("POSTHASTE_LISTEN", "127.0.0.1:0"), ("POSTHASTE_ROOT_KEY", ROOT_KEY)];
    let api: Vec<(String, String)> = settings(&block(&page, "api", &[]), &here);
    let api: Vec<(&str, &str)> =
        api.iter().map(|(name, value)| (name.as_str(), value.as_str())).chain(own).collect();
    let api = Served::of_roles("api", tempfile::tempdir().expect("a folder"), "", &api).await;
    let others = "router orchestrator worker cleaner outbox";
    let others: Vec<Process> = others
        .split(' ')
        .zip(settings(&block(&page, others, &[]), &here))
        .map(|(role, (name, value))| {
            assert_eq!(name, format!("POSTHASTE_DATABASE_URL_{}", role.to_uppercase()));
            Program::find().serve(role, role, &fleet::settings(&[(name.as_str(), value.as_str())]))
        })
        .collect();
    for process in &others {
        assert!(process.serves(PATIENCE).await, "{}: {:#?}", process.name, process.lines());
    }
    let receiver = Receiver::start(world::answer).await;
    world::deliver_and_dead_letter(&api, &receiver);
    let letter = api.get("/v1/dead-letters").expect(200).json()["items"][0]["id"].clone();
    api.post(&format!("/v1/dead-letters/{letter}/requeue"), "").expect(201);
    api.post("/v1/keys", &json!({"name": "shop", "role": "ingest"}).to_string()).expect(201);
    wait_for_items(&api, "/v1/deliveries?status=DeadLettered", 2);
    // These logins have the rights that every check needs.
    let diagnosis = api.get("/v1/doctor").expect(200).json();
    let checks = diagnosis["checks"].as_array().expect("checks");
    let could_not = |check: &&Value| check["found"].as_str().is_some_and(|text| text.contains("not checked"));
    assert!(checks.iter().any(|check| check["name"] == "transactions"), "{diagnosis}");
    assert_eq!(checks.iter().find(could_not), None);

    let dump = block(&page, "dump", &[(THERE, &here), ("postgres://admin@", "postgres://posthaste_test@")]);
    run_script(&dump, folder.path());
    let restored = server.url("restored");
    let own = [&own[..], &[("POSTHASTE_DATABASE_URL", restored.as_str())]].concat();
    let restored = Served::over(tempfile::tempdir().expect("a folder"), &restored, &own).await;
    wait_for_items(&restored, "/v1/deliveries?status=Completed", 1);
    // The restored server has the subscriptions and delivers new events.
    restored.post("/v1/events", r#"{"event_type":"taken","payload":1}"#).expect(202);
    wait_for_items(&restored, "/v1/deliveries?status=Completed", 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_of_a_database_in_use_is_restored() {
    let folder = tempfile::tempdir().expect("a folder");
    let copy = folder.path().join("posthaste-backup.db").display().to_string();
    let statement = block(&page(), "copy", &[("posthaste-backup.db", &copy)]);
    let served = Served::start(Engine::Sqlite, &[]).await;
    let receiver = Receiver::start(world::answer).await;
    world::deliver_and_dead_letter(&served, &receiver);
    let file = served.database.strip_prefix("sqlite://").expect("a file");
    sqlite_connection(Path::new(file)).execute_batch(&statement).expect("a copy");
    served.post("/v1/events", r#"{"event_type":"later","payload":1}"#).expect(202);
    drop(served);
    let database = format!("sqlite://{copy}");
    run(&["migrate"], &[("POSTHASTE_DATABASE_URL", &database)], "").expect(0);
    let own = [
        ("POSTHASTE_DATABASE_URL", database.as_str()),
        ("POSTHASTE_LISTEN", "127.0.0.1:0"),
        ("POSTHASTE_ROOT_KEY", ROOT_KEY),
    ];
    let restored = Served::over(folder, &database, &own).await;
    wait_for_items(&restored, "/v1/events", 2);
    wait_for_items(&restored, "/v1/deliveries?status=Completed", 1);
}

/// Follows the steps in the section "Replacing a lost key" of `docs/operations.md`.
#[tokio::test(flavor = "multi_thread")]
async fn deliveries_succeed_after_a_new_secret_key_and_a_rotation() {
    let folder = tempfile::tempdir().expect("a folder");
    let database = format!("sqlite://{}", folder.path().join("posthaste.db").display());
    run(&["migrate"], &[("POSTHASTE_DATABASE_URL", &database)], "").expect(0);
    let start = async |secret_key: &str| {
        let own = [
            ("POSTHASTE_DATABASE_URL", database.as_str()),
            ("POSTHASTE_LISTEN", "127.0.0.1:0"),
            ("POSTHASTE_ROOT_KEY", ROOT_KEY),
            ("POSTHASTE_SECRET_KEY", &secret_key.repeat(32)),
            ("POSTHASTE_RETRY_BASE", "100ms"),
            ("POSTHASTE_RETRY_CAP", "100ms"),
        ];
        Served::over(tempfile::tempdir().expect("a folder"), &database, &own).await
    };
    let receiver = Receiver::start(world::answer).await;
    let before = start("0a").await;
    world::subscribe(&before, "a", &receiver.url("/take"), 100);
    drop(before);
    let after = start("0b").await;
    after.post("/v1/events", r#"{"event_type":"a","payload":1}"#).expect(202);
    let is_unreadable = |answer: &Answer| answer.text().contains("SECRET_UNREADABLE");
    after.get_until("/v1/deliveries?status=PendingRetry", is_unreadable);
    let server = [("POSTHASTE_URL", after.url()), ("POSTHASTE_KEY", ROOT_KEY.to_owned())];
    let server = server.each_ref().map(|(name, value)| (*name, value.as_str()));
    run(&["subscription", "rotate-secret", "1", "--overlap", "0"], &server, "").expect(0);
    wait_for_items(&after, "/v1/deliveries?status=Completed", 1);
    assert_eq!(receiver.received().len(), 2, "the challenge and the event");
}

#[test]
fn every_block_has_a_test() {
    let names: Vec<String> = page().into_keys().collect();
    let tested =
        ["api", "copy", "database", "dump", "logins", "migrate", "router orchestrator worker cleaner outbox"];
    assert_eq!(names, tested, "every block needs a test");
}
