//! Runs `posthaste serve` with all or some roles on either engine and a free port, and calls its API.

use posthaste_testkit::client::{Answer, Call};
use posthaste_testkit::commands::{MIGRATE, run};
use posthaste_testkit::fleet;
use posthaste_testkit::postgres::empty_database;
use posthaste_testkit::processes::{LogLine, Process, Program};
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tempfile::TempDir;

pub(crate) const ROOT_KEY: &str = "the-root-key-of-the-tests-from-outside";
/// The time limit for every wait, much longer than any operation takes, even on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Engine {
    Sqlite,
    Postgres,
}

pub(crate) struct Served {
    pub(crate) process: Process,
    pub(crate) address: SocketAddr,
    /// The URL of the database.
    pub(crate) database: String,
    /// The folder of the database file, if the engine is SQLite.
    _folder: TempDir,
}

impl Served {
    pub(crate) async fn start(engine: Engine, settings: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let database = match engine {
            Engine::Sqlite => format!("sqlite://{}", folder.path().join("posthaste.db").display()),
            Engine::Postgres => empty_database("served").await,
        };
        run(MIGRATE, &[("POSTHASTE_DATABASE_URL", &database)], "").expect(0);
        let own = [
            ("POSTHASTE_DATABASE_URL", database.as_str()),
            ("POSTHASTE_LISTEN", "127.0.0.1:0"),
            ("POSTHASTE_ROOT_KEY", ROOT_KEY),
        ];
        Self::over(folder, &database, &[&own, settings].concat()).await
    }

    /// Starts all roles with `settings` in addition to the defaults of the tests. If a name occurs more than once, the
    /// last value applies.
    pub(crate) async fn over(folder: TempDir, database: &str, settings: &[(&str, &str)]) -> Self {
        Self::of_roles("all", folder, database, settings).await
    }

    pub(crate) async fn of_roles(
        roles: &str,
        folder: TempDir,
        database: &str,
        settings: &[(&str, &str)],
    ) -> Self {
        let process = Program::find().serve("served", roles, &fleet::settings(settings));
        let listens = |line: &LogLine| line.text.contains("API listening");
        assert!(process.logs(listens, PATIENCE).await, "{:#?}", process.lines());
        let line = process.lines().into_iter().find(listens).expect("a line").text;
        let (_, address) = line.split_once("http://").expect("a URL");
        let address = address.split('"').next().and_then(|text| text.parse().ok()).expect("an address");
        Self { process, address, database: database.to_owned(), _folder: folder }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Creates a call with the root key.
    pub(crate) fn call(&self, method: &str, path: &str) -> Call {
        Call::new(self.address, method, path, ROOT_KEY)
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.call("GET", path).send_blocking()
    }

    pub(crate) fn post(&self, path: &str, json: &str) -> Answer {
        self.call("POST", path).json(json).send_blocking()
    }

    /// Repeats a GET request until `is_expected` returns `true`. Panics after [`PATIENCE`].
    pub(crate) fn get_until(&self, path: &str, is_expected: impl Fn(&Answer) -> bool) -> Answer {
        self.get_as(ROOT_KEY, path, is_expected)
    }

    /// Repeats a GET request with the given key until `is_expected` returns `true`. Panics after [`PATIENCE`].
    pub(crate) fn get_as(&self, key: &str, path: &str, is_expected: impl Fn(&Answer) -> bool) -> Answer {
        let until = Instant::now() + PATIENCE;
        loop {
            let answer = self.call("GET", path).key(key).send_blocking();
            if is_expected(&answer) {
                return answer;
            }
            assert!(Instant::now() < until, "{path}: {}", answer.whole());
        }
    }
}
