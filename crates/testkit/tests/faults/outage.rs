//! Tests a PostgreSQL outage of ten seconds. `make chaos` tests a longer one.

use posthaste_testkit::faults::outage;
use std::time::Duration;

#[tokio::test(flavor = "multi_thread")]
async fn an_outage_is_survived_with_few_log_lines() {
    let _alone = crate::alone().await;
    outage::run(Duration::from_secs(10)).await.conclude();
}
