//! Tests that two routers, two orchestrators, three workers and two cleaners, each a process with the database
//! rights of its role, deliver every event once and share the work. `make soak` runs longer.

use posthaste_testkit::private_server::Flushing;
use posthaste_testkit::soak;

/// The number of events. Each is delivered to ten subscriptions.
const EVENTS: usize = 10_000;

#[tokio::test(flavor = "multi_thread")]
async fn nine_processes_deliver_everything_once() {
    let _alone = crate::alone().await;
    soak::run(EVENTS, Flushing::Off).await.conclude();
}
