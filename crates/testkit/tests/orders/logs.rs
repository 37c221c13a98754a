//! Tests the log messages about the lane: each change is logged once, with instructions for the operator, and
//! without credentials or order contents.

use crate::broker::accepted;
use posthaste_core::order::OrderStatus;
use posthaste_testkit::captured_log::{CapturedLog, Lines};
use posthaste_testkit::harness::Harness;
use posthaste_testkit::order_lane::OrderRig;
use posthaste_testkit::receiver::{Answer, Receiver};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;
use tracing_subscriber::filter::LevelFilter;

/// Uses a single-threaded runtime, because the log is captured per thread.
#[tokio::test]
async fn each_change_of_the_lane_is_logged_once() {
    let (log, _capturing) = CapturedLog::of_this_thread(Lines::Text, LevelFilter::TRACE);

    let mut rig = OrderRig::new(Harness::sqlite("logs").await);
    let status = Arc::new(AtomicU16::new(200));
    let inner = Arc::clone(&status);
    let broker = Receiver::start(move |request| match inner.load(Ordering::SeqCst) {
        200 => accepted(request),
        status => Answer::Status(status),
    })
    .await;
    rig.add_worker(&broker.url("/orders?token=hush"));
    let rows = [
        (401, "broker lane paused"),
        (200, "broker lane open again"),
        (500, "sending one order at a time"),
        (200, "broker lane open again"),
        (429, "throttling the lane"),
    ];
    for (number, (answer, words)) in rows.into_iter().enumerate() {
        status.store(answer, Ordering::SeqCst);
        let before = log.text().matches(words).count();
        // Exactly as many orders as needed: the last one changes the lane, and none is left to claim.
        rig.submit(&format!("row-{number}"), 5).await;
        // Later turns must not log the same change again.
        for _ in 0..3 {
            rig.until_quiet().await;
            rig.move_by(Duration::from_secs(61));
        }
        assert_eq!(log.text().matches(words).count() - before, 1, "{words:?} after {answer}");
    }
    assert!(
        log.text().matches("POSTHASTE_BROKER_HEADERS").count() == 1
            && log.text().matches("/v1/outbox/resume").count() == 1
    );
    assert_eq!(
        log.text().matches("order dead").count(),
        rig.count(OrderStatus::Dead).await,
        "each dead order is logged"
    );
    for secret in ["hush", "USDJPY", "145.001"] {
        assert_eq!(log.text().matches(secret).count(), 0, "{secret} was logged");
    }
    rig.check_audit().await;
}
