//! PostgreSQL is away for ten seconds; `make chaos` makes it longer.

use posthaste_testkit::faults::outage;
use std::time::Duration;

#[tokio::test(flavor = "multi_thread")]
async fn an_outage_is_survived_quietly() {
    let _alone = crate::alone().await;
    outage::run(Duration::from_secs(10)).await.conclude();
}
