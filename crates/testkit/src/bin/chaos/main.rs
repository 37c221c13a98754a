//! `make chaos`: an outage of `OUTAGE_SECONDS`, then `CHAOS_ROUNDS` rounds of chaos with `CHAOS_SECONDS` of load
//! each, every one on a server of its own with a seed of its own. `POSTHASTE_SEED` is the first round's.

use posthaste_testkit::chaos::{ChaosOptions, run};
use posthaste_testkit::outage;
use posthaste_testkit::random::seed;
use std::time::Duration;

/// One fault in so many seconds.
const SECONDS_PER_FAULT: u64 = 4;
const EVENTS_PER_SECOND: usize = 100;

fn number(variable: &str, otherwise: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

#[tokio::main]
async fn main() {
    let (first, rounds, seconds) = (seed(), number("CHAOS_ROUNDS", 4), number("CHAOS_SECONDS", 60));
    let away = Duration::from_secs(number("OUTAGE_SECONDS", 60));
    if !away.is_zero() {
        outage::run(away).await.conclude();
    }
    for round in 0..rounds {
        println!("round {} of {rounds}, {seconds} s of load", round + 1);
        let options = ChaosOptions {
            seed: first.wrapping_add(round),
            load: Duration::from_secs(seconds),
            faults: (seconds / SECONDS_PER_FAULT).max(6),
            events_per_second: EVENTS_PER_SECOND,
        };
        run(options).await.conclude();
    }
}
