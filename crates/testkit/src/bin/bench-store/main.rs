//! Measures the stores alone: what one delivery costs a database, stage by stage, with no HTTP, no
//! services and no second caller. Both engines and all batch sizes take turns in one run, so that a
//! machine that slows down slows all of them down; compare figures of one run, as ratios.
//!
//! One delivery is one event of about 300 bytes with one subscription, through every stage: it is
//! inserted, routed, admitted, claimed, loaded (event and target), reported as delivered and applied.
//! A batch of 32 moves 32 deliveries with each call of a port. For each stage, and for all of them:
//!
//! - wall: microseconds a row from the call to its answer, flushes to disk included;
//! - CPU: microseconds a row of the database. PostgreSQL: the backends of that database; what the
//!   log's writer, the checkpointer and their like use is told apart. SQLite: its writer thread and its
//!   reader threads, which do what a server would do.
//!
//! A ratio compares the whole delivery with inserting one event in batches of the same size. Every
//! figure is the median over the rounds. Tables are vacuumed before every round and never meanwhile; one
//! checkpoint comes before the first round. Statements, round trips and flushes are counted afterwards,
//! over a few batches that are not timed.
//!
//! `bench-store [--engine postgres|sqlite]… [--batch N]… [--rounds N] [--json]`; needs the server that
//! `scripts/with-postgres --durable` starts.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod engines;
mod meter;
mod report;

use engines::Bench;
use report::Figures;
use std::io::{IsTerminal as _, Write as _};

const ROUNDS: u32 = 9;
const BATCHES: [u32; 3] = [1, 32, 500];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Engine {
    Postgres,
    Sqlite,
}

impl Engine {
    const ALL: [Self; 2] = [Self::Postgres, Self::Sqlite];

    const fn name(self) -> &'static str {
        match self {
            Self::Postgres => "postgres",
            Self::Sqlite => "sqlite",
        }
    }
}

#[derive(Debug)]
struct Options {
    engines: Vec<Engine>,
    batches: Vec<u32>,
    rounds: u32,
    json: bool,
}

fn main() {
    let options = match parse(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(wrong) => {
            eprintln!("bench-store: {wrong}");
            eprintln!("usage: bench-store [--engine postgres|sqlite]… [--batch N]… [--rounds N] [--json]");
            std::process::exit(2);
        }
    };
    // One thread for all of the benchmark: it is not what is measured, and leaves the rest to the database.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let figures = runtime.block_on(measure(&options));
    if options.json {
        println!("{}", report::json(&figures));
    } else {
        print!("{}", report::table(&figures));
    }
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Options, String> {
    let mut options = Options { engines: Vec::new(), batches: Vec::new(), rounds: ROUNDS, json: false };
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("{argument} needs a value"));
        match argument.as_str() {
            "--engine" => {
                let name = value()?;
                let engine = Engine::ALL.into_iter().find(|engine| engine.name() == name);
                options.engines.push(engine.ok_or(format!("there is no engine {name}"))?);
            }
            "--batch" => options.batches.push(positive(&value()?)?),
            "--rounds" => options.rounds = positive(&value()?)?,
            "--json" => options.json = true,
            _ => return Err(format!("{argument} is no option")),
        }
    }
    if options.engines.is_empty() {
        options.engines = Engine::ALL.to_vec();
    }
    if options.batches.is_empty() {
        options.batches = BATCHES.to_vec();
    }
    Ok(options)
}

fn positive(text: &str) -> Result<u32, String> {
    text.parse().ok().filter(|number| *number > 0).ok_or(format!("{text} is not a number above zero"))
}

async fn measure(options: &Options) -> Vec<Figures> {
    let mut benches = Vec::new();
    for engine in &options.engines {
        for batch in &options.batches {
            progress(&format!("warming up {} in batches of {batch}", engine.name()));
            benches.push(match engine {
                Engine::Postgres => Bench::postgres(*batch).await,
                Engine::Sqlite => Bench::sqlite(*batch).await,
            });
        }
    }
    if options.engines.contains(&Engine::Postgres) {
        engines::checkpoint().await;
    }
    for round in 1..=options.rounds {
        for bench in &mut benches {
            progress(&format!(
                "round {round} of {}: {} in batches of {}",
                options.rounds,
                bench.engine.name(),
                bench.batch
            ));
            bench.round().await;
        }
    }
    let mut figures = Vec::new();
    for bench in benches {
        progress(&format!("counting: {} in batches of {}", bench.engine.name(), bench.batch));
        figures.push(bench.finish().await);
    }
    progress("");
    figures
}

/// One line that the next one overwrites; for somebody who looks.
fn progress(text: &str) {
    let mut terminal = std::io::stderr();
    if terminal.is_terminal() {
        // Whoever closed it does not want to know.
        let _ = write!(terminal, "\r\x1b[K{text}").and_then(|()| terminal.flush());
    }
}
