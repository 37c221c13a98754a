//! Runs a short chaos test with every kind of fault at least once. `make chaos` runs longer ones.

use posthaste_testkit::faults::chaos::{ChaosOptions, run};
use posthaste_testkit::random::seed;
use std::time::Duration;

#[tokio::test(flavor = "multi_thread")]
async fn nothing_acknowledged_is_lost_and_nothing_is_sent_twice_without_a_fault() {
    let _alone = crate::alone().await;
    let options =
        ChaosOptions { seed: seed(), load: Duration::from_secs(20), faults: 6, events_per_second: 60 };
    run(options).await.conclude();
}
