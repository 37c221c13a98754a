//! Measures what receivers that never answer cost the others: the real binary drains a backlog to 80
//! healthy subscriptions, first alone, then beside one black hole, then beside twenty, which have as
//! many events again and 100,000 waiting deliveries besides. All three in one run, each engine; what
//! counts is the ratio of the healthy deliveries' throughput to that of the first.
//!
//! `bench-isolation [--events N] [--rounds N]`; needs the server that `scripts/with-postgres --durable`
//! starts, and the release binary beside this one.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod world;

use std::time::Duration;
use world::{Engine, World};

const HEALTHY: usize = 80;
const BACKLOG: usize = 100_000;
const BLACK_HOLES: [usize; 3] = [0, 1, 20];

#[tokio::main]
async fn main() {
    let events = argument("--events").unwrap_or(40_000);
    let rounds = argument("--rounds").unwrap_or(3);
    println!("{events} healthy deliveries to {HEALTHY} subscriptions; medians of {rounds} rounds");
    for engine in [Engine::Postgres, Engine::Sqlite] {
        let mut seconds: [Vec<Duration>; BLACK_HOLES.len()] = Default::default();
        // In turns, so that a machine that slows down slows all of them down.
        for _ in 0..rounds {
            for (times, black_holes) in seconds.iter_mut().zip(BLACK_HOLES) {
                times.push(drain(engine, events, black_holes).await);
            }
        }
        report(engine, events, seconds);
    }
}

async fn drain(engine: Engine, events: usize, black_holes: usize) -> Duration {
    let world = World::new(engine).await;
    world.fill(HEALTHY, events, "healthy").await;
    if black_holes > 0 {
        world.fill_backlog(black_holes, BACKLOG).await;
        world.publish("black", black_holes, events).await;
    }
    let taken = world.deliver(events).await;
    eprintln!("{engine:?}, {black_holes} black holes: {:.1} s", taken.as_secs_f64());
    taken
}

fn report(engine: Engine, events: usize, seconds: [Vec<Duration>; BLACK_HOLES.len()]) {
    let per_second = seconds.map(|mut times| {
        times.sort_unstable();
        let count = u32::try_from(events).expect("few events");
        f64::from(count) / times[times.len() / 2].as_secs_f64()
    });
    for (rate, black_holes) in per_second.iter().zip(BLACK_HOLES) {
        let ratio = rate / per_second[0];
        println!("{engine:?}  {black_holes:>2} black holes  {rate:>7.0}/s healthy  ratio {ratio:.2}");
    }
}

fn argument(name: &str) -> Option<usize> {
    let mut arguments = std::env::args().skip_while(|argument| argument != name);
    arguments.nth(1)?.parse().ok()
}
