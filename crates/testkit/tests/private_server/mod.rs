//! A PostgreSQL of a test's own, for what would disturb the others: being stopped, or having no roles
//! yet. It lies beside the common one, so that whatever runs there at the end is stopped with it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Debug)]
pub(crate) struct PrivateServer {
    data: PathBuf,
}

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set: run the tests with `make test`"))
}

impl PrivateServer {
    /// A fresh cluster, started.
    pub(crate) fn start(what: &str) -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let name = format!("{what}_{}_{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let folder = PathBuf::from(variable("POSTHASTE_TEST_POSTGRES_DATA"));
        let data = folder.parent().expect("a folder").join(name);
        let server = Self { data };
        let data = server.data.to_str().expect("a path of text");
        let user = ["-U", "posthaste_test", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync"];
        server.run("initdb", &[&["-D", data][..], &user].concat());
        // Only a socket in a folder of its own: no port that somebody else could take.
        let settings = format!(
            "listen_addresses = ''\nunix_socket_directories = '{data}'\nshared_buffers = '16MB'\nmax_connections = 100\n\
             fsync = off\nfull_page_writes = off\n"
        );
        server.write("posthaste.conf", &settings);
        server.write("postgresql.conf", "include 'posthaste.conf'\n");
        server.pg_ctl(&["start"]);
        server
    }

    /// The URL of one of its databases, as a superuser.
    pub(crate) fn url(&self, database: &str) -> String {
        let socket = self.data.to_str().expect("a path of text").replace('/', "%2F");
        format!("postgres://posthaste_test@{socket}/{database}")
    }

    /// Tells the server to start or to stop, and waits until it has.
    pub(crate) fn pg_ctl(&self, arguments: &[&str]) {
        let data = self.data.to_str().expect("a path of text");
        let log = self.data.join("server.log");
        let fixed = ["-D", data, "-w", "-s", "-t", "60", "-l", log.to_str().expect("a path of text")];
        self.run("pg_ctl", &[arguments, &fixed].concat());
    }

    /// Runs one of PostgreSQL's programs as the user it runs as: never root.
    fn run(&self, program: &str, arguments: &[&str]) {
        let program = Path::new(&variable("POSTHASTE_TEST_POSTGRES_BIN")).join(program);
        let (mut command, user) = (Command::new("setpriv"), variable("POSTHASTE_TEST_POSTGRES_USER"));
        if is_root() {
            command.args(["--reuid", &user, "--regid", &user, "--init-groups"]);
        }
        command.arg(&program).args(arguments).current_dir(self.data.parent().expect("a folder"));
        let output = command.output().expect("to run a program");
        assert!(
            output.status.success(),
            "{program:?} {arguments:?}: {}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
    }

    fn write(&self, file: &str, text: &str) {
        let path = self.data.join(file);
        let before = std::fs::read_to_string(&path).unwrap_or_default();
        std::fs::write(&path, before + text).expect("to write the settings");
    }
}

fn is_root() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").expect("the status of this process");
    let user = status.lines().find_map(|line| line.strip_prefix("Uid:")).expect("a user");
    user.split_whitespace().nth(1) == Some("0")
}

impl Drop for PrivateServer {
    fn drop(&mut self) {
        if self.data.join("postmaster.pid").exists() {
            self.pg_ctl(&["stop", "-m", "immediate"]);
        }
        let _ = std::fs::remove_dir_all(&self.data);
    }
}
