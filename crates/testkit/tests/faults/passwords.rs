//! Tests the password command of the built program: a process waits while the command fails, never logs its output,
//! and starts once the command works. Its running connections survive a failure of the command.

use posthaste_testkit::commands::run;
use posthaste_testkit::fleet::settings;
use posthaste_testkit::postgres::{client, url_with};
use posthaste_testkit::private_server::PrivateServer;
use posthaste_testkit::processes::{LogLine, Program};
use std::path::Path;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);

/// Replaces the script that the command runs.
fn write_script(path: &Path, text: &str) {
    let new = path.with_extension("new");
    std::fs::write(&new, text).expect("a script");
    std::fs::rename(&new, path).expect("to replace it");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_waits_until_the_password_command_works() {
    let _in_pairs = crate::in_pairs().await;
    let server = PrivateServer::start("passwords");
    let store = server.migrated_store().await;
    let admin = client(&server.admin_url("postgres")).await;
    admin
        .batch_execute("CREATE ROLE router LOGIN PASSWORD 'one' IN ROLE router_worker")
        .await
        .expect("a login");
    server.require_passwords();
    let folder = tempfile::tempdir().expect("a folder");
    let script = folder.path().join("password");
    write_script(&script, "echo MARKER-OUTPUT; echo MARKER-ERROR >&2; exit 9");
    let url = url_with(&server.url("postgres"), Some("router"), None);
    let command = format!(". {}", script.display());
    let settings = settings(&[
        ("POSTHASTE_DATABASE_URL_ROUTER", &url),
        ("POSTHASTE_DATABASE_PASSWORD_COMMAND", &command),
        ("POSTHASTE_LOG", "trace"),
        ("PATH", "/usr/bin:/bin"),
    ]);
    let mut process = Program::find().serve("router", "router", &settings);
    let is_waiting = |line: &LogLine| {
        line.message == "database unavailable, retrying every second"
            && line.text.contains("POSTHASTE_DATABASE_PASSWORD_COMMAND failed with exit status: 9")
    };
    assert!(process.logs(is_waiting, PATIENCE).await, "{:#?}", process.lines());
    write_script(&script, "echo one");
    assert!(process.serves(PATIENCE).await, "{:#?}", process.lines());
    // The command prints two lines, and the connections are closed.
    write_script(&script, "echo MARKER-OUTPUT; echo MARKER-OUTPUT");
    let close = "SELECT pg_terminate_backend(pid, 30000) FROM pg_stat_activity WHERE usename = 'router'";
    admin.batch_execute(close).await.expect("to close connections");
    let is_reported =
        |line: &LogLine| line.is_complaint() && line.text.contains("printed more than one line");
    assert!(process.logs(is_reported, PATIENCE).await, "{:#?}", process.lines());
    write_script(&script, "echo one");
    let recovers = |line: &LogLine| line.message == "recovered, resuming" && line.service.is_some();
    assert!(process.logs(recovers, PATIENCE).await, "{:#?}", process.lines());
    process.terminate();
    assert!(process.end(PATIENCE).await.is_some_and(|status| status.success()), "{:#?}", process.lines());
    for line in process.lines() {
        assert!(!line.text.contains("MARKER"), "{}", line.text);
    }
    drop(store);
}

#[tokio::test(flavor = "multi_thread")]
async fn migrate_uses_the_password_command_and_file() {
    let _in_pairs = crate::in_pairs().await;
    let server = PrivateServer::start("migrate");
    let admin = client(&server.admin_url("postgres")).await;
    admin.batch_execute("CREATE ROLE owner LOGIN SUPERUSER PASSWORD 'one'").await.expect("a login");
    server.require_passwords();
    let url = url_with(&server.url("postgres"), Some("owner"), None);
    let database = ("POSTHASTE_DATABASE_URL", url.as_str());
    let path = ("PATH", "/usr/bin:/bin");
    let failed =
        run(&["migrate", "--database-password-command", "echo MARKER; false"], &[database, path], "");
    let failed = failed.expect(1);
    assert!(
        failed.stderr.contains("POSTHASTE_DATABASE_PASSWORD_COMMAND failed with exit status: 1"),
        "{failed:?}"
    );
    assert!(!failed.stderr.contains("MARKER"), "{failed:?}");
    let missing =
        run(&["migrate"], &[database, ("POSTHASTE_DATABASE_PASSWORD_FILE", "/missing")], "").expect(1);
    assert!(missing.stderr.contains("POSTHASTE_DATABASE_PASSWORD_FILE=/missing: "), "{missing:?}");
    let command = ("POSTHASTE_DATABASE_PASSWORD_COMMAND", "echo one");
    run(&["migrate"], &[database, path, command], "").expect(0);
}
