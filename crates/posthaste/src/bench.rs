//! `posthaste bench`: measures this program under load, over real sockets and with temporary stores. Each result is
//! compared with two ceilings measured in the same run, because absolute figures vary between machines and over time.

use crate::database::ServerUrl;
use crate::progress::Progress;
use crate::signals::Signals;
use crate::stdout;
use anyhow::Context as _;
use clap::Args;
use posthaste_bench::ceiling::{self, Bare};
use posthaste_bench::receiver::{EXECUTES, Receiver};
use posthaste_bench::report::{self, Row};
use posthaste_bench::scenario::{self, Kind, Scenario, Stage};
use posthaste_bench::scratch::{Engine, Folder};
use posthaste_bench::tls;
use posthaste_store::postgres::PasswordSource;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The number of requests used to measure the ceiling for plain HTTP.
const STRAIGHT_POSTS: u32 = 40_000;
/// The number of deliveries used to measure the ceiling for the store alone.
const STORE_DELIVERIES: u32 = 40_000;

#[derive(Debug, Args)]
pub(crate) struct BenchFlags {
    /// Scenarios to run, as listed by --list [default: all]
    #[arg(value_name = "SCENARIO", value_parser = find)]
    scenarios: Vec<Scenario>,
    /// Also measure this PostgreSQL server; the benchmark creates databases there and drops them
    #[arg(long, env = "POSTHASTE_BENCH_DATABASE_URL", value_name = "postgres://…", hide_env_values = true)]
    #[arg(value_parser = server_url)]
    database_url: Option<ServerUrl>,
    /// Shell command that prints the password for --database-url, run for each new connection
    #[arg(long, env = "POSTHASTE_DATABASE_PASSWORD_COMMAND", value_name = "COMMAND", hide_env_values = true)]
    database_password_command: Option<String>,
    /// File with the password for --database-url, read for each new connection
    #[arg(long, env = "POSTHASTE_DATABASE_PASSWORD_FILE", value_name = "FILE")]
    #[arg(conflicts_with = "database_password_command")]
    database_password_file: Option<PathBuf>,
    /// Skip the embedded store
    #[arg(long, requires = "database_url")]
    no_sqlite: bool,
    /// Events per scenario [default: depends on the scenario]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    events: Option<u32>,
    /// Connections that send events
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=1_024))]
    connections: u32,
    /// Folder for the embedded store; choose the disk that production would use
    #[arg(long, default_value = ".", value_name = "FOLDER")]
    folder: PathBuf,
    /// List the scenarios and exit
    #[arg(long)]
    list: bool,
}

impl BenchFlags {
    fn password(&self) -> PasswordSource {
        let command = self.database_password_command.clone().filter(|command| !command.is_empty());
        let file = self.database_password_file.clone().filter(|file| !file.as_os_str().is_empty());
        command.map(PasswordSource::Command).or(file.map(PasswordSource::File)).unwrap_or_default()
    }
}

fn find(name: &str) -> Result<Scenario, String> {
    let found = scenario::ALL.into_iter().find(|scenario| scenario.name == name);
    let names = || scenario::ALL.map(|scenario| scenario.name).join(", ");
    found.ok_or_else(|| format!("unknown scenario, expected one of {}", names()))
}

fn server_url(text: &str) -> Result<ServerUrl, &'static str> {
    text.parse().map_err(|_| "expected postgres://…; the embedded store is placed with --folder")
}

/// Runs the scenarios and prints one row for each. Returns exit code 1 if a delivery was repeated although there was no
/// fault.
pub(crate) fn run(flags: &BenchFlags, json: bool) -> anyhow::Result<ExitCode> {
    if flags.list {
        let line = |scenario: &Scenario| format!("  {:<14} {}\n", scenario.name, scenario.about);
        stdout::print(&scenario::ALL.iter().map(line).collect::<String>()).context("writing to stdout")?;
        return Ok(ExitCode::SUCCESS);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let rows = runtime.context("starting the runtime")?.block_on(async {
        let mut signals = Signals::new()?;
        measure(flags, &mut signals).await
    })?;
    let text = match json {
        true => json!({ "rows": rows.iter().map(Row::json).collect::<Vec<_>>() }).to_string() + "\n",
        false => report::table(&rows),
    };
    stdout::print(&text).context("writing to stdout")?;
    let repeated = rows.iter().any(|row| row.outcome.repeated > 0);
    if repeated {
        eprintln!("posthaste: some deliveries arrived more than once although nothing failed");
    }
    Ok(if repeated { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Runs a measurement, and returns an error if a signal interrupts it. Setup and cleanup must run outside of this
/// function, so that no database or file is left behind.
async fn interruptible<T>(
    signals: &mut Signals,
    work: impl Future<Output = anyhow::Result<T>>,
) -> anyhow::Result<T> {
    signals.or(work).await.unwrap_or_else(|| Err(anyhow::anyhow!("interrupted by a signal")))
}

async fn measure(flags: &BenchFlags, signals: &mut Signals) -> anyhow::Result<Vec<Row>> {
    let mut engines = Vec::new();
    if !flags.no_sqlite {
        engines.push(Engine::Sqlite);
    }
    if let Some(url) = &flags.database_url {
        engines.push(Engine::Postgres { server: url.expose().to_owned(), password: flags.password() });
    }
    let folder = Folder::new(&flags.folder)?;
    let scenarios = if flags.scenarios.is_empty() { &scenario::ALL[..] } else { &flags.scenarios };
    let mut rows = Vec::new();
    for engine in &engines {
        let store = store_alone(engine, &folder.0, signals).await?;
        for scenario in scenarios {
            rows.push(measure_one(flags, engine, scenario, store, &folder.0, signals).await?);
        }
    }
    Ok(rows)
}

async fn measure_one(
    flags: &BenchFlags,
    engine: &Engine,
    scenario: &Scenario,
    store: f64,
    folder: &Path,
    signals: &mut Signals,
) -> anyhow::Result<Row> {
    let what = format!("{} {}", engine.name(), scenario.name);
    let progress = begin(&what);
    let (receiver, mut settings) = if scenario.https {
        let (acceptor, ca_file) = tls::make(folder)?;
        (Receiver::start(Some(acceptor))?, vec![("POSTHASTE_CA_FILE", ca_file)])
    } else {
        (Receiver::start(None)?, Vec::new())
    };
    if scenario.kind == Kind::Orders {
        settings.push(("POSTHASTE_BROKER_URL", format!("http://{}{EXECUTES}", receiver.address)));
    }
    match (engine, flags.password()) {
        (Engine::Postgres { .. }, PasswordSource::Command(command)) => {
            settings.push(("POSTHASTE_DATABASE_PASSWORD_COMMAND", command));
        }
        (Engine::Postgres { .. }, PasswordSource::File(file)) => {
            settings.push(("POSTHASTE_DATABASE_PASSWORD_FILE", file.to_string_lossy().into_owned()));
        }
        (Engine::Postgres { .. } | Engine::Sqlite, _) => {}
    }
    // The ceiling for HTTP is measured without TLS in every scenario, so that the results are comparable.
    let plain = if scenario.https { Some(Receiver::start(None)?) } else { None };
    let plain = plain.as_ref().unwrap_or(&receiver);
    let straight = if scenario.kind == Kind::Claim {
        None
    } else {
        let straight = ceiling::straight(plain, flags.connections, STRAIGHT_POSTS);
        Some(interruptible(signals, straight).await?)
    };
    let program = std::env::current_exe().context("reading the path of this program")?;
    let scratch = engine.scratch(folder, scenario.name).await?;
    let stage = Stage {
        program: &program,
        receiver: &receiver,
        url: &scratch.url,
        password: &scratch.password,
        folder,
        settings: &settings,
        connections: flags.connections,
        progress: &|done, of| {
            if progress.is_bar() {
                progress.at(done, Some(of), &what);
            }
        },
    };
    let run = scenario.run(&stage, flags.events.unwrap_or(scenario.events));
    let outcome = interruptible(signals, run).await;
    scratch.remove().await;
    progress.end();
    let outcome = outcome.with_context(|| format!("measuring {what}"))?;
    let store = matches!(scenario.kind, Kind::Flow | Kind::Drain).then_some(store);
    let (scenario, about) = (scenario.name, scenario.about);
    Ok(Row { engine: engine.name(), scenario, about, outcome, straight, store })
}

/// Starts a progress display.
fn begin(what: &str) -> Progress {
    let progress = Progress::new(false);
    progress.at(0, None, what);
    progress
}

/// Measures the number of deliveries per second that the store alone can process.
async fn store_alone(engine: &Engine, folder: &Path, signals: &mut Signals) -> anyhow::Result<f64> {
    let progress = begin(&format!("{} store ceiling", engine.name()));
    let scratch = engine.scratch(folder, "store").await?;
    let measured =
        async { Bare::open(&scratch.url, &scratch.password).await?.deliver(STORE_DELIVERIES).await };
    let measured = interruptible(signals, measured).await;
    scratch.remove().await;
    progress.end();
    measured.context("measuring the ceiling of the store")
}
