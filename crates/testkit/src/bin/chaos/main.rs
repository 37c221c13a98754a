//! `make chaos`: one outage of `OUTAGE_SECONDS`, then `CHAOS_ROUNDS` rounds of chaos for deliveries and for
//! orders, with `CHAOS_SECONDS` of load each. Every round has its own server and its own seed;
//! `POSTHASTE_SEED` sets the first seed. `CHAOS_ONLY=orders` skips the deliveries.

use posthaste_bench::variable;
use posthaste_testkit::faults::chaos::{ChaosOptions, run};
use posthaste_testkit::faults::order_chaos::{self, OrderChaosOptions};
use posthaste_testkit::faults::outage;
use posthaste_testkit::random::seed;
use std::time::Duration;

/// The average interval between injected faults, in seconds.
const SECONDS_PER_FAULT: u64 = 4;
const EVENTS_PER_SECOND: usize = 100;
const ORDERS_PER_SECOND: u64 = 20;

#[tokio::main]
async fn main() {
    let (first, rounds, seconds) = (seed(), variable("CHAOS_ROUNDS", 4), variable("CHAOS_SECONDS", 60));
    let away = Duration::from_secs(variable("OUTAGE_SECONDS", 60));
    let only_orders = std::env::var("CHAOS_ONLY").is_ok_and(|only| only == "orders");
    if !away.is_zero() && !only_orders {
        outage::run(away).await.conclude();
    }
    for round in 0..rounds {
        println!("round {} of {rounds}, {seconds} s of load", round + 1);
        let (seed, load) = (first.wrapping_add(round), Duration::from_secs(seconds));
        let faults = (seconds / SECONDS_PER_FAULT).max(6);
        if !only_orders {
            run(ChaosOptions { seed, load, faults, events_per_second: EVENTS_PER_SECOND }).await.conclude();
        }
        let orders = OrderChaosOptions { seed, load, faults, orders_per_second: ORDERS_PER_SECOND };
        order_chaos::run(orders).await.conclude();
        order_chaos::run_embedded(orders).await.conclude();
    }
}
