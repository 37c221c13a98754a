//! Posts events to an API, one at a time. Each event has an external id and is retried until it is acknowledged.

use crate::client::Call;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;

const PACE: Duration = Duration::from_millis(50);
/// The time without an acknowledgement after which the run fails.
const PATIENCE: Duration = Duration::from_secs(120);

/// The acknowledged events.
#[derive(Debug, Clone, Default)]
pub(super) struct Posted {
    /// The id and type of each event.
    pub(super) events: Vec<(i64, String)>,
    /// The time of each acknowledgement, in the order of `events`.
    times: Vec<Instant>,
    /// The number of posts that failed or got a 503, and were retried.
    pub(super) repeated: usize,
}

#[derive(Debug)]
pub(super) struct Poster {
    stop: Arc<AtomicBool>,
    posted: Arc<Mutex<Posted>>,
    task: JoinHandle<()>,
}

impl Poster {
    /// Starts posting events of type `kind`, until [`end`](Self::end) is called.
    pub(super) fn start(address: SocketAddr, key: &'static str, kind: &'static str) -> Self {
        let (stop, posted) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::default()));
        let (stopped, shared) = (Arc::clone(&stop), Arc::clone(&posted));
        let task = tokio::spawn(async move {
            while !stopped.load(Ordering::Relaxed) {
                post(address, key, kind, &shared).await;
                tokio::time::sleep(PACE).await;
            }
        });
        Self { stop, posted, task }
    }

    /// Returns the events acknowledged after `time`.
    pub(super) fn acknowledged_after(&self, time: Instant) -> Vec<i64> {
        let posted = self.posted.lock().expect("the posted events");
        let first = posted.times.partition_point(|at| *at <= time);
        posted.events[first..].iter().map(|(event, _)| *event).collect()
    }

    /// Stops after the current event is acknowledged. Returns the acknowledged events.
    pub(super) async fn end(self) -> Posted {
        self.stop.store(true, Ordering::Relaxed);
        self.task.await.expect("the poster");
        self.posted.lock().expect("the posted events").clone()
    }
}

async fn post(address: SocketAddr, key: &str, kind: &str, shared: &Mutex<Posted>) {
    let posted = || shared.lock().expect("the posted events");
    let number = posted().events.len();
    let body =
        format!(r#"{{"event_type":"{kind}","payload":{number},"external_event_id":"posted-{number}"}}"#);
    let began = Instant::now();
    loop {
        match Call::new(address, "POST", "/v1/events", key).json(body.as_str()).try_send().await {
            Ok(answer) if matches!(answer.status, 200 | 202) => {
                let mut posted = posted();
                posted.events.push((answer.json()["id"].as_i64().expect("an id"), kind.to_owned()));
                posted.times.push(Instant::now());
                return;
            }
            Ok(answer) if answer.status != 503 => panic!("unexpected response: {answer:?}"),
            Ok(_) | Err(_) => posted().repeated += 1,
        }
        assert!(began.elapsed() < PATIENCE, "the API does not accept events");
        tokio::time::sleep(PACE).await;
    }
}
