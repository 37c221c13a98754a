//! `make soak`: nine processes deliver `SOAK_EVENTS` (100,000 unless told otherwise) to ten subscriptions.

use posthaste_testkit::private_server::Flushing;
use posthaste_testkit::soak;

const EVENTS: usize = 100_000;

#[tokio::main]
async fn main() {
    let told = std::env::var("SOAK_EVENTS").ok().and_then(|text| text.parse().ok());
    soak::run(told.unwrap_or(EVENTS), Flushing::On).await.conclude();
}
