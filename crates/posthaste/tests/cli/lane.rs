//! Tests the readiness and the metrics of the broker lane in a process without a broker.

use crate::folder;
use posthaste_testkit::client::Call;
use posthaste_testkit::commands::Dev;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);

/// Sends a GET request without a key and returns the body of the response.
fn get(url: &str, path: &str) -> String {
    let address = url.strip_prefix("http://").and_then(|address| address.parse().ok()).expect("a URL");
    Call::get(address, path).send_blocking().text()
}

#[test]
fn readiness_and_metrics_show_the_lane() {
    let folder = folder();
    let dev = Dev::start(&folder);
    let until = Instant::now() + PATIENCE;
    loop {
        let ready = get(&dev.url, "/readyz");
        if ready.contains(r#""outbox":{"lane":"open","paused":false"#) {
            break;
        }
        assert!(Instant::now() < until, "{ready}");
    }
    let metrics = get(&dev.url, "/metrics");
    for line in ["outbox_lag_sla_seconds 60.0", "outbox_rate 1000.0", "outbox_paused 0", "outbox_inflight 0"]
    {
        assert!(metrics.lines().any(|found| found == line), "{line} in {metrics}");
    }
}
