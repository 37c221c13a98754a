//! PostgreSQL is away for ten seconds; `make chaos` makes it longer.

use posthaste_testkit::outage;
use std::time::Duration;

#[tokio::test(flavor = "multi_thread")]
async fn an_outage_is_survived_quietly() {
    outage::run(Duration::from_secs(10)).await.conclude();
}
