//! Runs short chaos tests with orders, on both engines. `make chaos` runs longer ones.

use posthaste_testkit::faults::order_chaos::{OrderChaosOptions, run, run_embedded};
use posthaste_testkit::random::seed;
use std::time::Duration;

#[tokio::test(flavor = "multi_thread")]
async fn no_order_is_lost_or_executed_twice_on_postgres() {
    let _in_pairs = crate::in_pairs().await;
    let options =
        OrderChaosOptions { seed: seed(), load: Duration::from_secs(15), faults: 6, orders_per_second: 20 };
    run(options).await.conclude();
}

#[tokio::test(flavor = "multi_thread")]
async fn no_order_is_lost_or_executed_twice_on_sqlite() {
    let _in_pairs = crate::in_pairs().await;
    let options =
        OrderChaosOptions { seed: seed(), load: Duration::from_secs(12), faults: 4, orders_per_second: 20 };
    run_embedded(options).await.conclude();
}
