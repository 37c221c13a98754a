//! `make steady`: `STEADY_RATE` events per second (1,000) on PostgreSQL for `STEADY_MINUTES` (30), then for
//! `OPEN_MINUTES` (10) while another transaction stays open.

use posthaste_bench::variable;
use posthaste_testkit::steady::{self, SteadyOptions};
use std::time::Duration;

#[tokio::main]
async fn main() {
    let minutes = |name, otherwise: u64| Duration::from_secs(60 * variable(name, otherwise));
    let options = SteadyOptions {
        events_per_second: variable("STEADY_RATE", 1_000),
        steady: minutes("STEADY_MINUTES", 30),
        open: minutes("OPEN_MINUTES", 10),
        sample_every: Duration::from_secs(variable("STEADY_SAMPLE_S", 30)),
    };
    steady::run(options).await.conclude();
}
