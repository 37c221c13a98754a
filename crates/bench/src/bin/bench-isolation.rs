//! Measures how much receivers that never respond ("black holes") slow down deliveries to healthy receivers.
//! On each engine, the real binary drains a backlog for 80 healthy subscriptions with 0, 1 and 20 black holes. The
//! black holes have as many events in total as the healthy subscriptions, and 100,000 pending deliveries in
//! addition. Prints the throughput of healthy deliveries and its ratio to the throughput without black holes.
//!
//! Usage: `bench-isolation [--events N] [--rounds N]`. Requires the server started by
//! `scripts/with-postgres --durable`, and the release binary in the same folder or named by `POSTHASTE_BIN`.

use anyhow::Context as _;
use posthaste_bench::ceiling::Bare;
use posthaste_bench::receiver::{HANGS, Receiver, TAKES};
use posthaste_bench::scratch::{Engine, Folder};
use posthaste_bench::server::Server;
use posthaste_bench::tally::Tally;
use posthaste_bench::{argument, median_rate};
use posthaste_store::postgres::PasswordSource;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

const HEALTHY: u32 = 80;
const BACKLOG: u32 = 100_000;
const BLACK_HOLES: [u32; 3] = [0, 1, 20];
const SERVER_VARIABLE: &str = "POSTHASTE_TEST_POSTGRES_URL";
/// The time without a delivery after which a run is aborted.
const STALLED: Duration = Duration::from_secs(60);

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let (events, rounds) = (argument("--events").unwrap_or(40_000), argument("--rounds").unwrap_or(3));
    let server = std::env::var(SERVER_VARIABLE).context("run it with scripts/with-postgres --durable")?;
    let bench = Bench {
        program: match std::env::var_os("POSTHASTE_BIN") {
            Some(path) => path.into(),
            None => std::env::current_exe()?.with_file_name("posthaste"),
        },
        folder: Folder::new(&std::env::temp_dir())?,
        events,
    };
    println!("{events} healthy deliveries to {HEALTHY} subscriptions; medians of {rounds} rounds");
    for engine in [Engine::Postgres { server, password: PasswordSource::Url }, Engine::Sqlite] {
        let mut times: [Vec<Duration>; BLACK_HOLES.len()] = Default::default();
        // The variants alternate, so that a slowdown of the machine affects them equally.
        for _ in 0..rounds {
            for (times, black_holes) in times.iter_mut().zip(BLACK_HOLES) {
                let scratch = engine.scratch(&bench.folder.0, "isolation").await?;
                let taken = bench.drain(&scratch.url, black_holes).await;
                scratch.remove().await;
                let taken = taken?;
                eprintln!("{}, {black_holes} black holes: {:.1} s", engine.name(), taken.as_secs_f64());
                times.push(taken);
            }
        }
        let per_second = times.map(|times| median_rate(events, times));
        for (rate, black_holes) in per_second.iter().zip(BLACK_HOLES) {
            let (name, ratio) = (engine.name(), rate / per_second[0]);
            println!(
                "{name}  {black_holes:>2} black holes  {rate:>7.0} healthy per second  ratio {ratio:.2}"
            );
        }
    }
    Ok(())
}

struct Bench {
    program: PathBuf,
    folder: Folder,
    events: u32,
}

impl Bench {
    /// Returns the time from the start of the process until all healthy deliveries have arrived.
    async fn drain(&self, url: &str, black_holes: u32) -> anyhow::Result<Duration> {
        let receiver = Receiver::start(None)?;
        self.fill(url, black_holes, &receiver).await?;
        let tally = Arc::new(Tally::new(self.events));
        receiver.count_on(&tally);
        let began = Instant::now();
        let _server = self.start(url, "all").await?;
        tally.wait_for(self.events.into(), STALLED).await?;
        Ok(began.elapsed())
    }

    /// Creates the subscriptions and stores the events. Only the events of the black holes' backlog are routed.
    async fn fill(&self, url: &str, black_holes: u32, receiver: &Receiver) -> anyhow::Result<()> {
        let server = self.start(url, "api").await?;
        for (name, path, count) in [("healthy", TAKES, HEALTHY), ("black", HANGS, black_holes)] {
            let callback_url = format!("http://{}{path}", receiver.address);
            for number in 0..count {
                server.subscribe(&format!("{name}.{number}"), &callback_url).await?;
            }
        }
        drop(server);
        let store = Bare::open(url, &PasswordSource::Url).await?;
        let black = |number| format!("black.{}", number % black_holes);
        if black_holes > 0 {
            store.publish(0..BACKLOG, &black).await?;
            store.route().await?;
        }
        store.publish(0..self.events, &|number| format!("healthy.{}", number % HEALTHY)).await?;
        if black_holes > 0 {
            store.publish(0..self.events, &black).await?;
        }
        store.settle(url, &PasswordSource::Url).await
    }

    async fn start(&self, url: &str, roles: &str) -> anyhow::Result<Server> {
        let folder: &Path = &self.folder.0;
        Server::start(&self.program, url, roles, folder, &[("POSTHASTE_LOG", "warn".to_owned())]).await
    }
}
