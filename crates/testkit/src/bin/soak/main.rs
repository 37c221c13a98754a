//! `make soak`: nine processes deliver `SOAK_EVENTS` events (default 100,000) to ten subscriptions.

use posthaste_bench::variable;
use posthaste_testkit::private_server::Flushing;
use posthaste_testkit::soak;

const EVENTS: usize = 100_000;

#[tokio::main]
async fn main() {
    soak::run(variable("SOAK_EVENTS", EVENTS), Flushing::On).await.conclude();
}
