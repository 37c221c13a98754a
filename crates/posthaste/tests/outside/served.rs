//! `posthaste serve` with every role, on either engine, on a free port.

use crate::program::run;
use posthaste_testkit::fleet;
use posthaste_testkit::postgres::empty_database;
use posthaste_testkit::processes::{LogLine, Process, Program};
use serde_json::Value;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};
use tempfile::TempDir;

pub(crate) const ROOT_KEY: &str = "the-root-key-of-the-tests-from-outside";
/// Far more than anything here takes, also on a machine that does other work.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Engine {
    Sqlite,
    Postgres,
}

pub(crate) struct Served {
    pub(crate) process: Process,
    pub(crate) address: SocketAddr,
    /// The URL of its database.
    pub(crate) database: String,
    /// Where it keeps its file, if it does.
    _folder: TempDir,
}

impl Served {
    pub(crate) async fn start(engine: Engine, settings: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let database = match engine {
            Engine::Sqlite => format!("sqlite://{}", folder.path().join("posthaste.db").display()),
            Engine::Postgres => empty_database("served").await,
        };
        run(&["migrate"], &[("POSTHASTE_DATABASE_URL", &database)], "").expect(0);
        let own = [
            ("POSTHASTE_DATABASE_URL", database.as_str()),
            ("POSTHASTE_LISTEN", "127.0.0.1:0"),
            ("POSTHASTE_ROOT_KEY", ROOT_KEY),
        ];
        Self::over(folder, &database, &[&own, settings].concat()).await
    }

    /// With these settings beside those of every test; a later one of a name counts.
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
        let listens = |line: &LogLine| line.text.contains("the API listens");
        assert!(process.logs(listens, PATIENCE).await, "{:#?}", process.lines());
        let line = process.lines().into_iter().find(listens).expect("a line").text;
        let (_, address) = line.split_once("http://").expect("a URL");
        let address = address.split('"').next().and_then(|text| text.parse().ok()).expect("an address");
        Self { process, address, database: database.to_owned(), _folder: folder }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, "", b"")
    }

    pub(crate) fn post(&self, path: &str, json: &str) -> Answer {
        self.ask("POST", path, "content-type: application/json\r\n", json.as_bytes())
    }

    /// One request as root; further headers are whole lines.
    pub(crate) fn ask(&self, method: &str, path: &str, headers: &str, body: &[u8]) -> Answer {
        let headers = format!("authorization: Bearer {ROOT_KEY}\r\n{headers}");
        ask(self.address, method, path, &headers, body)
    }

    /// Asks again until the answer is as hoped for.
    pub(crate) fn get_until(&self, path: &str, hoped: impl Fn(&Answer) -> bool) -> Answer {
        self.get_as(ROOT_KEY, path, hoped)
    }

    pub(crate) fn get_as(&self, key: &str, path: &str, hoped: impl Fn(&Answer) -> bool) -> Answer {
        let until = Instant::now() + PATIENCE;
        loop {
            let answer = ask(self.address, "GET", path, &format!("authorization: Bearer {key}\r\n"), b"");
            if hoped(&answer) {
                return answer;
            }
            assert!(Instant::now() < until, "{path}: {}", answer.text);
        }
    }
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// Head and body.
    pub(crate) text: String,
}

impl Answer {
    #[track_caller]
    pub(crate) fn expect(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{}", self.text);
        self
    }

    pub(crate) fn body(&self) -> &str {
        self.text.split_once("\r\n\r\n").map_or("", |(_, body)| body)
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(self.body()).unwrap_or_else(|_| panic!("no JSON: {}", self.text))
    }
}

pub(crate) fn ask(address: SocketAddr, method: &str, path: &str, headers: &str, body: &[u8]) -> Answer {
    let mut stream = TcpStream::connect(address).expect("a connection");
    let length = body.len();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-length: {length}\r\n{headers}\r\n"
    );
    // It may answer before it has read everything.
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
    read(&mut stream)
}

/// An answer after which the connection ends.
pub(crate) fn read(stream: &mut TcpStream) -> Answer {
    stream.set_read_timeout(Some(PATIENCE)).expect("a bound");
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let status = text.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or_default();
    Answer { status, text }
}
