//! Tests the sources of database passwords on a server that requires SCRAM: a file that is replaced while a store is in
//! use, and a command, for pools, LISTEN, migrations and temporary databases.

use posthaste_core::ports::{ListenStore as _, StoreError, StoreResult, Stores as _};
use posthaste_store::grants::DbRole;
use posthaste_store::postgres::{
    ConnectFailure, ConnectionMonitor, MigrateOptions, MigrateReport, PasswordSource, PostgresListener,
    PostgresOptions, PostgresStore, create_database, drop_database, migrate, vacuum_database,
};
use posthaste_testkit::postgres::{client, shared_roles, url_with};
use posthaste_testkit::private_server::PrivateServer;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use tokio_postgres::Client;

struct Locked {
    server: PrivateServer,
    admin: Client,
    /// The URL of a login without its password.
    url: String,
    folder: TempDir,
}

impl Locked {
    /// Starts a server and creates a login with the password `one`.
    async fn start(name: &str) -> Self {
        let server = PrivateServer::start(name);
        let admin = client(&server.admin_url("postgres")).await;
        admin.batch_execute("CREATE ROLE guarded LOGIN SUPERUSER PASSWORD 'one'").await.unwrap();
        server.require_passwords();
        let url = url_with(&server.url("postgres"), Some("guarded"), None);
        Self { server, admin, url, folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a file, as a secret manager does: completely, then under its name.
    fn write(&self, name: &str, text: &str) -> PathBuf {
        let (path, new) = (self.path(name), self.path("new"));
        std::fs::write(&new, text).unwrap();
        std::fs::set_permissions(&new, PermissionsExt::from_mode(0o600)).unwrap();
        std::fs::rename(&new, &path).unwrap();
        path
    }

    /// Changes the password of the login and closes its connections.
    async fn change_password(&self, password: &str) {
        let sql = format!(
            "ALTER ROLE guarded PASSWORD '{password}';
             SELECT pg_terminate_backend(pid, 30000) FROM pg_stat_activity WHERE usename = 'guarded'"
        );
        self.admin.batch_execute(&sql).await.unwrap();
    }

    fn options(&self, password: &PasswordSource) -> PostgresOptions {
        PostgresOptions { password: password.clone(), ..PostgresOptions::new(&self.url) }
    }
}

async fn migrate_with_password(url: &str, password: &PasswordSource) -> StoreResult<MigrateReport> {
    migrate(url, &MigrateOptions { password: password.clone(), ..shared_roles() }).await
}

/// Returns the error and its causes as one text.
fn text_of(error: &StoreError) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

#[tokio::test(flavor = "multi_thread")]
async fn a_password_file_is_read_again_for_each_connection() {
    let locked = Locked::start("file").await;
    let source = PasswordSource::File(locked.write("password", "one\n"));
    migrate_with_password(&locked.url, &source).await.unwrap();
    let store = PostgresStore::connect(&locked.options(&source)).await.unwrap();
    let mut listener =
        PostgresListener::with_password(&locked.url, &source, &ConnectionMonitor::default()).unwrap();
    assert!(!listener.next_announcements().await.unwrap().is_empty());
    // The server has the new password, the file still the old one.
    locked.change_password("two").await;
    let refused = store.now().await.expect_err("the old password");
    assert!(text_of(&refused).contains("password authentication failed"), "{refused:?}");
    locked.write("password", "two\n");
    store.now().await.unwrap();
    while listener.next_announcements().await.is_err() {}
    // A file that is briefly missing is a failure to connect, not the end of the store.
    locked.change_password("three").await;
    std::fs::remove_file(locked.path("password")).unwrap();
    let missing = store.now().await.expect_err("no file");
    assert!(matches!(missing, StoreError::Unavailable { .. }), "{missing:?}");
    let expected = format!(
        "POSTHASTE_DATABASE_PASSWORD_FILE={}: the file cannot be read: No such file or directory",
        locked.path("password").display()
    );
    assert!(text_of(&missing).contains(&expected), "{}", text_of(&missing));
    locked.write("password", "three\r\n");
    store.now().await.unwrap();
}

fn lines(path: &Path) -> usize {
    std::fs::read_to_string(path).unwrap_or_default().lines().count()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_password_command_runs_once_for_each_connection() {
    let locked = Locked::start("command").await;
    let runs = locked.path("runs");
    let command = format!("echo $PGUSER $PGDATABASE >> {}; echo one", runs.display());
    let source = PasswordSource::Command(command);
    migrate_with_password(&locked.url, &source).await.unwrap();
    assert!(lines(&runs) > 0);
    let roles = vec![DbRole::Viewer];
    let options = PostgresOptions { roles, ..locked.options(&source) };
    let store = PostgresStore::connect(&options).await.unwrap();
    let before = lines(&runs);
    for _ in 0..5 {
        store.now().await.unwrap();
    }
    assert_eq!(lines(&runs), before, "the store kept its connection");
    // Many connections at once.
    let calls = (0..4).map(|_| store.sample_clock());
    for sample in futures_util::future::join_all(calls).await {
        sample.unwrap();
    }
    assert!((before..=before + 3).contains(&lines(&runs)), "{before}, {}", lines(&runs));
    let text = std::fs::read_to_string(&runs).unwrap();
    assert!(text.lines().all(|line| line == "guarded postgres"), "{text}");
    // Temporary databases of a benchmark.
    create_database(&locked.url, &source, "scratch").await.unwrap();
    let scratch = url_with(&locked.server.url("scratch"), Some("guarded"), None);
    vacuum_database(&scratch, &source).await.unwrap();
    drop_database(&locked.url, &source, "scratch").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failing_password_command_is_a_failure_to_connect() {
    let locked = Locked::start("failing").await;
    migrate_with_password(&locked.server.admin_url("postgres"), &PasswordSource::Url).await.unwrap();
    let hanging = "sleep 1000";
    for (command, reason) in [
        ("echo hush; exit 7", "failed with exit status: 7"),
        ("echo hush; echo hush", "printed more than one line"),
        ("true", "printed nothing"),
        (hanging, "did not end within 5 s and was killed"),
    ] {
        let source = PasswordSource::Command(command.to_owned());
        let options = locked.options(&source);
        let opened = PostgresStore::connect(&options).await.expect_err(command);
        assert_eq!(options.monitor.failures_of(ConnectFailure::Password), 1, "{command}");
        let migrated = migrate_with_password(&locked.url, &source).await.expect_err(command);
        for error in [opened, migrated] {
            assert!(matches!(error, StoreError::Unavailable { .. }), "{error:?}");
            let text = text_of(&error);
            assert!(text.contains(&format!("POSTHASTE_DATABASE_PASSWORD_COMMAND {reason}")), "{text}");
            assert!(!text.contains("hush") && !format!("{error:?}").contains("hush"), "{text}");
        }
    }
    let idle = "SELECT count(*) FROM pg_stat_activity WHERE usename = 'guarded'";
    assert_eq!(locked.admin.query_one(idle, &[]).await.unwrap().get::<_, i64>(0), 0, "no connection is left");
    // A wrong password is refused by the server.
    let wrong = PasswordSource::Command("echo wrong".to_owned());
    let error = PostgresStore::connect(&locked.options(&wrong)).await.expect_err("a wrong password");
    assert!(text_of(&error).contains("password authentication failed"), "{error:?}");
    // A slow command has its own limit.
    let slow = PasswordSource::Command("sleep 2; echo one".to_owned());
    let url = format!("{}?connect_timeout=2", locked.url);
    let options = PostgresOptions { url: Some(url), ..locked.options(&slow) };
    PostgresStore::connect(&options).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_url_with_a_password_conflicts_with_another_source() {
    let url = "postgres://u:hush@127.0.0.1:1/d";
    let source = PasswordSource::File("/p".into());
    let options = PostgresOptions { password: source.clone(), ..PostgresOptions::new(url) };
    let errors = [
        PostgresStore::connect(&options).await.err(),
        migrate_with_password(url, &source).await.err(),
        PostgresListener::with_password(url, &source, &ConnectionMonitor::default()).err(),
    ];
    for error in errors {
        let text = text_of(&error.unwrap());
        assert!(text.contains("POSTHASTE_DATABASE_PASSWORD_FILE is set: remove one of the two"), "{text}");
        assert!(!text.contains("hush"), "{text}");
    }
}
