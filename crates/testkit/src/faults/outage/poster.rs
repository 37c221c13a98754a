//! Posts events to an API, one at a time. Each event has an external id and is retried until it is acknowledged.

use crate::client::Call;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;

const PACE: Duration = Duration::from_millis(50);
/// The time without an acknowledgement after which the run fails.
const PATIENCE: Duration = Duration::from_secs(120);

/// The acknowledged events.
#[derive(Debug, Default)]
pub(super) struct Posted {
    /// The id and type of each event.
    pub(super) events: Vec<(i64, String)>,
    /// The number of posts that failed or got a 503, and were retried.
    pub(super) repeated: usize,
}

#[derive(Debug)]
pub(super) struct Poster {
    stop: Arc<AtomicBool>,
    task: JoinHandle<Posted>,
}

impl Poster {
    /// Starts posting events of type `kind`, until [`end`](Self::end) is called.
    pub(super) fn start(address: SocketAddr, key: &'static str, kind: &'static str) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let task = tokio::spawn(async move {
            let mut posted = Posted::default();
            while !stopped.load(Ordering::Relaxed) {
                post(address, key, kind, &mut posted).await;
                tokio::time::sleep(PACE).await;
            }
            posted
        });
        Self { stop, task }
    }

    /// Stops after the current event is acknowledged. Returns the acknowledged events.
    pub(super) async fn end(self) -> Posted {
        self.stop.store(true, Ordering::Relaxed);
        self.task.await.expect("the poster")
    }
}

async fn post(address: SocketAddr, key: &str, kind: &str, posted: &mut Posted) {
    let number = posted.events.len();
    let body =
        format!(r#"{{"event_type":"{kind}","payload":{number},"external_event_id":"posted-{number}"}}"#);
    let began = Instant::now();
    loop {
        match Call::new(address, "POST", "/v1/events", key).json(body.as_str()).try_send().await {
            Ok(answer) if matches!(answer.status, 200 | 202) => {
                posted.events.push((answer.json()["id"].as_i64().expect("an id"), kind.to_owned()));
                return;
            }
            Ok(answer) if answer.status != 503 => panic!("unexpected response: {answer:?}"),
            Ok(_) | Err(_) => posted.repeated += 1,
        }
        assert!(began.elapsed() < PATIENCE, "the API does not accept events");
        tokio::time::sleep(PACE).await;
    }
}
