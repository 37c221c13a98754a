//! Tests the commands and settings in `docs/operations.md` and `docs/postgresql.md`: a login and a process per role on
//! a private PostgreSQL server, new names for the roles, backups of databases in use, and a new secret key.

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
const POSTGRESQL: &str = "docs/postgresql.md";
/// The server in the URLs of the document.
const THERE: &str = "@db/";

/// The administrator in the URLs of the documents, and that of the test servers.
const ADMIN: (&str, &str) = ("postgres://admin@", "postgres://posthaste_test@");

fn page(name: &str) -> BTreeMap<String, String> {
    blocks(name, &["sh", "sql"])
}

/// Returns the text that replaces [`THERE`] in URLs of a server.
fn address_of(server: &PrivateServer) -> String {
    format!("@{}/", server.url("postgres").split(['@', '/']).nth(3).expect("a socket"))
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
    run_script(
        &format!("psql -v ON_ERROR_STOP=1 -f statements.sql '{}'", server.admin_url("postgres")),
        folder,
    );
}

/// Parses the lines of a block as settings, with the server replaced by `here`.
fn settings(block: &str, here: &str) -> Vec<(String, String)> {
    let lines = block.lines().map(|line| line.replace(THERE, here));
    lines
        .map(|line| line.split_once('=').map(|(name, value)| (name.into(), value.into())).expect("a setting"))
        .collect()
}

/// The setting that every process in the guide has.
const PREFIX: (&str, &str) = ("POSTHASTE_ROLE_PREFIX", "posthaste_");

fn wait_for_items(served: &Served, path: &str, count: usize) {
    served.get_until(path, |answer| answer.json()["items"].as_array().map(Vec::len) == Some(count));
}

#[tokio::test(flavor = "multi_thread")]
async fn every_role_runs_with_its_own_login_and_a_dump_is_restored() {
    let (page, folder) = (page(POSTGRESQL), tempfile::tempdir().expect("a folder"));
    let server = PrivateServer::start_empty("operations");
    let here = address_of(&server);
    sql(&server, &block(&page, "database", &[]), folder.path());
    run_script(&block(&page, "print", &[(THERE, &here)]), folder.path());
    run_script(&block(&page, "prepare", &[(THERE, &here), ADMIN]), folder.path());
    sql(&server, &block(&page, "passwords", &[]), folder.path());
    run_script(&block(&page, "migrate", &[(THERE, &here)]), folder.path());

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
            Program::find().serve(role, role, &fleet::settings(&[PREFIX, (name.as_str(), value.as_str())]))
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

    let dump = block(&self::page(PAGE), "dump", &[(THERE, &here), ADMIN]);
    run_script(&dump, folder.path());
    let restored = server.url("restored");
    let own = [&own[..], &[PREFIX, ("POSTHASTE_DATABASE_URL", restored.as_str())]].concat();
    let restored = Served::over(tempfile::tempdir().expect("a folder"), &restored, &own).await;
    wait_for_items(&restored, "/v1/deliveries?status=Completed", 1);
    // The restored server has the subscriptions and delivers new events.
    restored.post("/v1/events", r#"{"event_type":"taken","payload":1}"#).expect(202);
    wait_for_items(&restored, "/v1/deliveries?status=Completed", 2);
}

/// Moves a database that was migrated without a prefix, while none of its processes runs.
#[tokio::test(flavor = "multi_thread")]
async fn roles_are_renamed() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = PrivateServer::start_empty("renamed");
    let here = address_of(&server);
    server.execute("postgres", "CREATE ROLE owner LOGIN CREATEROLE");
    server.execute("postgres", "CREATE DATABASE old OWNER owner");
    let database = format!("postgres://owner{here}old");
    let url = ("POSTHASTE_DATABASE_URL", database.as_str());
    run(&["migrate"], &[url], "").expect(0);
    let refused = run(&["serve"], &[url, PREFIX], "").expect(1).stderr;
    assert!(refused.contains("the prefix \"\"") && refused.contains("--rename-roles"), "{refused}");
    run_script(&block(&page(POSTGRESQL), "rename", &[(THERE, &here)]), folder.path());
    let own = [url, PREFIX, ("POSTHASTE_LISTEN", "127.0.0.1:0"), ("POSTHASTE_ROOT_KEY", ROOT_KEY)];
    let served = Served::over(folder, &database, &own).await;
    served.post("/v1/events", r#"{"event_type":"taken","payload":1}"#).expect(202);
    let checks = served.get("/v1/doctor").expect(200).json()["checks"].clone();
    let rights = checks.as_array().expect("checks").iter().find(|check| check["name"] == "rights");
    assert_eq!(rights.expect("a check")["status"], "ok");
}

/// Runs everything with one login and no roles. The doctor reports the missing protection.
#[tokio::test(flavor = "multi_thread")]
async fn one_login_does_everything_without_roles() {
    let server = PrivateServer::start_empty("alone");
    server.execute("postgres", "CREATE ROLE alone LOGIN");
    server.execute("postgres", "CREATE DATABASE alone OWNER alone");
    let database = format!("postgres://alone{}alone", address_of(&server));
    let url = ("POSTHASTE_DATABASE_URL", database.as_str());
    let message = run(&["migrate"], &[url], "").expect(1).stderr;
    assert!(message.contains("--print-roles") && message.contains("--roles none"), "{message}");
    let printed = run(&["migrate", "--roles", "none"], &[url], "").expect(0).stdout;
    assert!(printed.contains("the schema is up to date"), "{printed}");
    let own = [url, ("POSTHASTE_LISTEN", "127.0.0.1:0"), ("POSTHASTE_ROOT_KEY", ROOT_KEY)];
    let served = Served::over(tempfile::tempdir().expect("a folder"), &database, &own).await;
    let receiver = Receiver::start(world::answer).await;
    world::deliver_and_dead_letter(&served, &receiver);
    let checks = served.get("/v1/doctor").expect(200).json()["checks"].clone();
    let rights = checks.as_array().expect("checks").iter().find(|check| check["name"] == "rights");
    let rights = rights.expect("a check");
    assert_eq!(rights["status"], "warning");
    assert!(rights["found"].as_str().is_some_and(|text| text.contains("signing secrets")), "{rights}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_of_a_database_in_use_is_restored() {
    let folder = tempfile::tempdir().expect("a folder");
    let copy = folder.path().join("posthaste-backup.db").display().to_string();
    let statement = block(&page(PAGE), "copy", &[("posthaste-backup.db", &copy)]);
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
    let names = |name: &str| page(name).into_keys().collect::<Vec<String>>();
    assert_eq!(names(PAGE), ["copy", "dump"], "every block needs a test");
    let tested = ["api", "database", "migrate", "passwords", "prepare", "print", "rename"];
    let others = "router orchestrator worker cleaner outbox";
    assert_eq!(names(POSTGRESQL), [&tested[..], &[others]].concat(), "every block needs a test");
}
