//! A PostgreSQL server for a single test. It is used for operations that would disturb other tests: stopping or
//! killing the server, or migrating a cluster without roles. Its data directory is next to that of the common server,
//! so that `scripts/with-postgres` stops it at the end.

use crate::postgres::{ADMIN, OWNER, administrator_sql, client, shared_roles, url_with};
use crate::signals;
use posthaste_store::postgres::{PostgresOptions, PostgresStore, migrate};
use rustix::process::Signal;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

#[derive(Debug)]
pub struct PrivateServer {
    data: PathBuf,
}

/// The `fsync` setting of the server, which is on in production.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flushing {
    Off,
    On,
}

pub(crate) fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set: run this with scripts/with-postgres"))
}

/// Returns the folder for the files of this run, which `scripts/with-postgres` removes at the end.
fn run_folder() -> PathBuf {
    let data = PathBuf::from(variable("POSTHASTE_TEST_POSTGRES_DATA"));
    data.parent().expect("a folder").to_owned()
}

/// Returns a path for a new folder that belongs to one test.
pub(crate) fn new_folder(what: &str) -> PathBuf {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    run_folder().join(format!("{what}_{}_{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed)))
}

/// Returns a command that runs a program as the user of the servers, which is never root, in a folder that this user
/// can access.
pub(crate) fn as_server_user(program: &Path) -> Command {
    let (mut command, user) = (Command::new("setpriv"), variable("POSTHASTE_TEST_POSTGRES_USER"));
    if rustix::process::geteuid().is_root() {
        command.args(["--reuid", &user, "--regid", &user, "--init-groups"]);
    }
    command.arg(program).current_dir(run_folder());
    command
}

impl PrivateServer {
    /// Creates and starts a small new cluster that does not flush to disk.
    pub fn start(what: &str) -> Self {
        Self::start_with(what, Flushing::Off, 16)
    }

    /// Creates and starts a new cluster. Its database `postgres` is prepared for a migration by its owner.
    pub fn start_with(what: &str, flushing: Flushing, shared_buffers_mb: u32) -> Self {
        let server = Self::start_without_roles(what, flushing, shared_buffers_mb);
        server.execute("postgres", &administrator_sql("postgres"));
        server
    }

    /// Creates and starts a new cluster that has neither roles nor logins except the superuser.
    pub fn start_empty(what: &str) -> Self {
        Self::start_without_roles(what, Flushing::Off, 16)
    }

    fn start_without_roles(what: &str, flushing: Flushing, shared_buffers_mb: u32) -> Self {
        let server = Self { data: new_folder(what) };
        let data = server.data_text();
        let user = ["-U", ADMIN, "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync"];
        server.run("initdb", &[&["-D", data][..], &user].concat());
        let flush = if flushing == Flushing::On { "on" } else { "off" };
        // Listen only on a Unix socket in its own folder, so that no port can conflict.
        let settings = format!(
            "listen_addresses = ''\nunix_socket_directories = '{data}'\nmax_connections = 300\n\
             shared_buffers = '{shared_buffers_mb}MB'\nfsync = {flush}\nfull_page_writes = {flush}\n"
        );
        server.write("posthaste.conf", &settings);
        server.write("postgresql.conf", "include 'posthaste.conf'\n");
        server.pg_ctl(&["start"]);
        server
    }

    /// Makes a standby the primary.
    pub fn promote(&self) {
        self.pg_ctl(&["promote"]);
    }

    /// Changes a setting of the running server. Intended for settings that do not require a restart.
    pub fn reload_with(&self, setting: &str) {
        self.write("posthaste.conf", &format!("{setting}\n"));
        self.pg_ctl(&["reload"]);
    }

    /// Restarts the server with an additional setting. Intended for settings that require a restart.
    pub fn restart_with(&self, setting: &str) {
        self.pg_ctl(&["stop", "-m", "fast"]);
        self.write("posthaste.conf", &format!("{setting}\n"));
        self.pg_ctl(&["start"]);
    }

    /// Requires a password (SCRAM-SHA-256) from every login except the superuser.
    pub fn require_passwords(&self) {
        let rules = "local all posthaste_test trust\nlocal all all scram-sha-256\n";
        std::fs::write(self.data.join("pg_hba.conf"), rules).expect("to write the rules");
        self.pg_ctl(&["reload"]);
    }

    /// Creates and starts a standby of this server, which replays its write-ahead log.
    pub fn start_standby(&self, what: &str) -> Self {
        let standby = Self { data: new_folder(what) };
        let (data, socket) = (standby.data_text(), self.data_text());
        let copy = ["--write-recovery-conf", "--wal-method=stream", "--checkpoint=fast", "--no-sync"];
        let source = ["-h", socket, "-U", "posthaste_test", "-D", data];
        self.run("pg_basebackup", &[&source[..], &copy].concat());
        // The lock of the primary's socket, which is in its data folder.
        let _ = std::fs::remove_file(standby.data.join(".s.PGSQL.5432.lock"));
        let own = format!("unix_socket_directories = '{data}'\ncluster_name = '{what}'\n");
        standby.write("posthaste.conf", &own);
        standby.pg_ctl(&["start"]);
        standby
    }

    /// Restarts the server with this id for its next transaction, a multiple of 1,048,576.
    pub fn restart_at_transaction(&self, next: u32) {
        assert!(
            next.is_multiple_of(1 << 20),
            "the file with the states of these transactions does not exist"
        );
        self.pg_ctl(&["stop", "-m", "fast"]);
        self.run("pg_resetwal", &["-D", self.data_text(), "-x", &next.to_string()]);
        self.pg_ctl(&["start"]);
    }

    /// Returns the URL of a database on this server for its owner, an ordinary login.
    pub fn url(&self, database: &str) -> String {
        url_with(&self.admin_url(database), Some(OWNER), None)
    }

    /// Returns the URL of a database on this server for a superuser.
    pub fn admin_url(&self, database: &str) -> String {
        let socket = self.data_text().replace('/', "%2F");
        format!("postgres://{ADMIN}@{socket}/{database}")
    }

    /// Runs SQL as a superuser. Blocks the thread.
    pub fn execute(&self, database: &str, sql: &str) {
        let url = self.admin_url(database);
        let work = || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime").block_on(async {
                let outcome = client(&url).await.batch_execute(sql).await;
                outcome.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
            });
        };
        // A thread of its own, because a runtime cannot be started inside another.
        std::thread::scope(|scope| scope.spawn(work).join()).expect("the statements succeed");
    }

    /// Returns the URL of a database on the one of two servers that accepts writes, for its owner.
    pub fn url_with_standby(&self, standby: &Self, database: &str) -> String {
        let socket = |server: &Self| server.data_text().replace('/', "%2F");
        let hosts = format!("{},{}", socket(self), socket(standby));
        format!("postgres://{OWNER}@{hosts}/{database}?target_session_attrs=read-write")
    }

    /// Migrates the schema and opens a store with all rights.
    pub async fn migrated_store(&self) -> PostgresStore {
        let url = self.url("postgres");
        migrate(&url, &shared_roles()).await.expect("the migration");
        PostgresStore::connect(&PostgresOptions::new(url)).await.expect("the store")
    }

    /// Returns the path of the Unix socket that the server listens on.
    pub fn socket(&self) -> PathBuf {
        self.data.join(".s.PGSQL.5432")
    }

    /// Runs `pg_ctl`, which waits until the server has started or stopped.
    pub fn pg_ctl(&self, arguments: &[&str]) {
        let log = self.data.join("server.log");
        let fixed =
            ["-D", self.data_text(), "-w", "-s", "-t", "60", "-l", log.to_str().expect("a UTF-8 path")];
        self.run("pg_ctl", &[arguments, &fixed].concat());
    }

    /// Kills all processes of the server with SIGKILL and waits until they have ended. Data that was not passed to the
    /// operating system is lost.
    pub fn kill(&self) {
        let file = self.data.join("postmaster.pid");
        signals::kill_with_children(self.postmaster());
        // Until the processes are reaped, these files indicate that the server is still running.
        let _ = std::fs::remove_file(&file);
        let _ = std::fs::remove_file(self.data.join(".s.PGSQL.5432.lock"));
    }

    /// Suspends all processes of the server for `span`. Connections stay open, but no process responds.
    pub fn stall(&self, span: Duration) {
        let postmaster = self.postmaster();
        signals::send(postmaster, Signal::STOP);
        let mut processes = signals::children(postmaster);
        processes.iter().for_each(|process| signals::send(*process, Signal::STOP));
        std::thread::sleep(span);
        processes.push(postmaster);
        processes.iter().for_each(|process| signals::send(*process, Signal::CONT));
    }

    fn postmaster(&self) -> u32 {
        let file = self.data.join("postmaster.pid");
        let text = std::fs::read_to_string(&file).expect("a server that runs");
        text.lines().next().and_then(|line| line.trim().parse().ok()).expect("a process id")
    }

    fn data_text(&self) -> &str {
        self.data.to_str().expect("a UTF-8 path")
    }

    /// Runs a PostgreSQL program as the server's user.
    fn run(&self, program: &str, arguments: &[&str]) {
        let program = Path::new(&variable("POSTHASTE_TEST_POSTGRES_BIN")).join(program);
        let output = as_server_user(&program).args(arguments).output().expect("to run a program");
        assert!(
            output.status.success(),
            "{program:?} {arguments:?}: {}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
    }

    /// Replaces a file in the data folder. It belongs to the server's user, as PostgreSQL requires of a private key.
    pub fn replace(&self, file: &str, text: &str) {
        let path = self.data.join(file);
        std::fs::write(&path, text).expect("to write a file");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).expect("permissions");
        let owner = std::fs::metadata(&self.data).expect("the data folder");
        std::os::unix::fs::chown(&path, Some(owner.uid()), Some(owner.gid())).expect("an owner");
    }

    fn write(&self, file: &str, text: &str) {
        let path = self.data.join(file);
        let before = std::fs::read_to_string(&path).unwrap_or_default();
        std::fs::write(&path, before + text).expect("to write the settings");
    }
}

impl Drop for PrivateServer {
    fn drop(&mut self) {
        if self.data.join("postmaster.pid").exists() {
            self.pg_ctl(&["stop", "-m", "immediate"]);
        }
        let _ = std::fs::remove_dir_all(&self.data);
    }
}
