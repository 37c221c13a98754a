//! Two routers, two orchestrators, three workers and two cleaners, each a process with only its own rights,
//! deliver everything once and share the work. `make soak` runs longer.

use posthaste_testkit::private_server::Flushing;
use posthaste_testkit::soak;

/// Each is delivered to ten subscriptions.
const EVENTS: usize = 10_000;

#[tokio::test(flavor = "multi_thread")]
async fn nine_processes_deliver_everything_once() {
    let _alone = crate::alone().await;
    soak::run(EVENTS, Flushing::Off).await.conclude();
}
