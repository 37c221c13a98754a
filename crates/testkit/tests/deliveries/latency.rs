//! Tests that the latency of a delivery is measured from the acceptance of its event.

use posthaste_core::latency::{bucket, counter};
use posthaste_core::ports::Stores;
use posthaste_testkit::harness::Harness;
use posthaste_testkit::pipeline::Rig;
use posthaste_testkit::receiver::{Answer, Receiver};
use std::time::Duration;

pub(crate) async fn latency_includes_a_router_outage<S: Stores>(h: Harness<S>) {
    const DOWN_S: u64 = 100;
    let mut rig = Rig::new(h);
    let well = Receiver::start(|_| Answer::Status(200)).await;
    let ill = Receiver::start(|_| Answer::Status(500)).await;
    rig.subscribe("a", &well.url("/")).await;
    rig.subscribe_with("a", &ill.url("/"), Some(1)).await;
    rig.publish("a").await;
    rig.move_to(DOWN_S);
    rig.until_quiet().await;
    let charted = rig.metrics.charted();
    let latencies: Vec<_> =
        charted.into_iter().filter(|(name, count)| name.starts_with("latency_") && *count > 0).collect();
    let expected = counter(bucket(Duration::from_secs(DOWN_S)));
    assert_eq!(latencies, [(expected, 1)], "one was delivered; a dead-lettered one has no latency");
}
