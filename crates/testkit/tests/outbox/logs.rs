//! What the log says of the lane: each change once, with what to do, and never a credential or an order.

use crate::broker::accepted;
use posthaste_core::order::OrderStatus;
use posthaste_testkit::harness::Harness;
use posthaste_testkit::order_lane::OrderRig;
use posthaste_testkit::receiver::{Answer, Receiver};
use std::io::Write;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::util::SubscriberInitExt as _;

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("the log").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Log {
    fn count(&self, words: &str) -> usize {
        String::from_utf8_lossy(&self.0.lock().expect("the log")).matches(words).count()
    }
}

/// On one thread, which the log is of.
#[tokio::test]
async fn each_change_of_the_lane_is_told_once() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt().with_max_level(LevelFilter::TRACE).with_ansi(false);
    let _told_here = subscriber.with_writer(move || writer.clone()).finish().set_default();

    let mut rig = OrderRig::new(Harness::sqlite("logs").await);
    let status = Arc::new(AtomicU16::new(200));
    let inner = Arc::clone(&status);
    let broker = Receiver::start(move |request| match inner.load(Ordering::SeqCst) {
        200 => accepted(request),
        status => Answer::Status(status),
    })
    .await;
    rig.hire(&broker.url("/orders?token=hush"));
    let rows = [
        (401, "the lane to the broker is paused"),
        (200, "the lane to the broker is open again"),
        (500, "one order at a time goes out until it does"),
        (200, "the lane to the broker is open again"),
        (429, "the lane slows down"),
    ];
    for (number, (answer, words)) in rows.into_iter().enumerate() {
        status.store(answer, Ordering::SeqCst);
        let before = log.count(words);
        // No more than it takes: the last of them changes the lane, and nothing is left to claim.
        rig.submit(&format!("row-{number}"), 5).await;
        // Again and again: what has been told is not told again.
        for _ in 0..3 {
            rig.until_quiet().await;
            rig.move_by(Duration::from_secs(61));
        }
        assert_eq!(log.count(words) - before, 1, "{words:?} after {answer}");
    }
    assert!(log.count("POSTHASTE_BROKER_HEADERS") == 1 && log.count("/v1/outbox/resume") == 1);
    assert_eq!(log.count("order given up"), rig.count(OrderStatus::Dead).await, "each death is told");
    for secret in ["hush", "USDJPY", "145.001"] {
        assert_eq!(log.count(secret), 0, "{secret} was logged");
    }
    rig.check_audit().await;
}
