//! `make siege`: attacks one process on each store with `SIEGE_CONNECTIONS` connections that do not read (1,000),
//! `SIEGE_UPLOADS` slow uploads (1,000) and `SIEGE_QUERIES` queries per second with 15,000 parameters each (50),
//! all at the same time. Measures for `SIEGE_SECONDS` (20) each before, during and after the attack, and fails if
//! a limit is exceeded.

use posthaste_bench::scratch::Engine;
use posthaste_bench::variable;
use posthaste_store::postgres::PasswordSource;
use posthaste_testkit::postgres::admin_url;
use posthaste_testkit::siege::{self, SiegeOptions};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::process::ExitCode;
use std::time::Duration;

/// Raises the limit of open files. Each connection needs a file descriptor in this process and in the attacked
/// one, which inherits the limit.
fn allow_many_files() {
    let limit = getrlimit(Resource::Nofile);
    let most = Rlimit { current: limit.maximum, maximum: limit.maximum };
    if setrlimit(Resource::Nofile, most).is_err() {
        eprintln!("cannot raise the limit of open files, it stays at {:?}", limit.current);
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    allow_many_files();
    let options = SiegeOptions {
        connections: variable("SIEGE_CONNECTIONS", 1_000),
        uploads: variable("SIEGE_UPLOADS", 1_000),
        queries_per_second: variable("SIEGE_QUERIES", 50),
        measured: Duration::from_secs(variable("SIEGE_SECONDS", 20)),
    };
    let mut is_kept = true;
    for engine in [Engine::Sqlite, Engine::Postgres { server: admin_url(), password: PasswordSource::Url }] {
        is_kept &= siege::run(&engine, options).await.conclude(&engine);
    }
    if is_kept { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
