//! Measures the database cost of one delivery, stage by stage, without HTTP, services or concurrent callers.
//! Engines and batch sizes alternate within a run, so that a slowdown of the machine affects all of them. Compare
//! only figures from the same run, as ratios.
//!
//! One delivery is an event of about 300 bytes for one subscription. It passes through every stage: it is inserted,
//! routed, admitted, claimed, loaded (event and target), reported as delivered and applied. With a batch size of
//! 32, each port call processes 32 deliveries. The report shows, per stage and in total:
//!
//! - wall: microseconds per row from the call to its return, including flushes;
//! - CPU: microseconds of database CPU time per row. For PostgreSQL, this is the CPU time of the backends of the
//!   database; the WAL writer, the checkpointer and other background processes are shown separately. For SQLite,
//!   it is the CPU time of the writer thread and the reader threads.
//!
//! The ratio is the cost of a whole delivery divided by that of inserting one event, at the same batch size.
//! Every figure is the median over all rounds. Tables are vacuumed before every round and never during one. The
//! only checkpoint precedes the first round. Statements, round trips and flushes are counted afterwards, over a
//! few batches that are not timed.
//!
//! Usage: `bench-store [--engine postgres|sqlite]… [--batch N]… [--rounds N] [--json]`. Requires the server that
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
    // A single thread for the benchmark itself leaves the other processors to the database.
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
                options
                    .engines
                    .push(engine.ok_or(format!("unknown engine {name}, expected postgres or sqlite"))?);
            }
            "--batch" => options.batches.push(positive(&value()?)?),
            "--rounds" => options.rounds = positive(&value()?)?,
            "--json" => options.json = true,
            _ => return Err(format!("unknown option {argument}")),
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
    text.parse().ok().filter(|number| *number > 0).ok_or(format!("expected a number above zero, got {text}"))
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

/// Prints a progress line that overwrites the previous one, if standard error is a terminal.
fn progress(text: &str) {
    let mut terminal = std::io::stderr();
    if terminal.is_terminal() {
        // Ignore write errors: progress is optional.
        let _ = write!(terminal, "\r\x1b[K{text}").and_then(|()| terminal.flush());
    }
}
