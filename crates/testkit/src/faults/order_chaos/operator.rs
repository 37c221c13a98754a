//! Simulates an operator of the running system, who polls the API for unfinished orders and resumes the lane when
//! it is not open.

use crate::client::Call;
use serde_json::Value;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// The number of consecutive polls without an unfinished order before the run counts as settled. An order waits longer
/// between two attempts, so it cannot be missed.
const LOOKS: u32 = 3;
/// The maximum time to settle, long enough for several claims to get stuck in sequence on a busy machine.
const SETTLE_MAX: Duration = Duration::from_secs(240);
/// The maximum time for a server to restart.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Debug, Clone)]
pub struct Operator {
    pub addresses: Arc<Vec<SocketAddr>>,
    pub api_key: String,
}

impl Operator {
    /// Calls the servers in turn until one returns 200. Returns its response, or `None` after `PATIENCE`.
    async fn ask(&self, method: &str, path: &str) -> Option<Value> {
        let began = Instant::now();
        while began.elapsed() < PATIENCE {
            for address in self.addresses.iter() {
                let answer = Call::new(*address, method, path, &self.api_key).try_send().await;
                if let Some(answer) = answer.ok().filter(|answer| answer.status == 200) {
                    return Some(answer.json());
                }
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        None
    }

    pub async fn resume(&self) {
        let _ = self.ask("POST", "/v1/outbox/resume").await;
    }

    async fn resume_if_held(&self) {
        let lane = self.ask("GET", "/v1/outbox").await;
        if lane.is_some_and(|lane| lane["state"] != "open") {
            self.resume().await;
        }
    }

    /// Waits until every order has finished or `SETTLE_MAX` has passed; the checker reports unfinished orders.
    /// Returns the elapsed time.
    pub async fn settle(&self) -> Duration {
        let (began, mut looks) = (Instant::now(), 0);
        while looks < LOOKS && began.elapsed() < SETTLE_MAX {
            looks = if self.all_ended().await { looks + 1 } else { 0 };
            self.resume_if_held().await;
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        began.elapsed()
    }

    async fn all_ended(&self) -> bool {
        for status in ["failed", "queued", "sending"] {
            let page = self.ask("GET", &format!("/v1/orders?status={status}&limit=1")).await;
            let none = |page: Value| page["items"].as_array().is_some_and(Vec::is_empty);
            if !page.is_some_and(none) {
                return false;
            }
        }
        true
    }
}
