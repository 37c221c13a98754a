//! Submits each order several times, concurrently and to different processes, retries until it is acknowledged,
//! and records the responses.

use super::evidence::Responses;
use crate::client::Call;
use crate::random::Random;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// The interval between orders that are marked unfit, which the broker refuses.
const UNFIT_EVERY: u64 = 20;
/// The maximum number of concurrent submissions of one order.
const AT_ONCE_MAX: u64 = 4;
const AGAIN_AFTER: Duration = Duration::from_millis(100);
/// The time without an acknowledgement after which a submission fails.
const PATIENCE: Duration = Duration::from_secs(300);

#[derive(Debug, Clone)]
pub struct Submitter {
    pub addresses: Arc<Vec<SocketAddr>>,
    pub api_key: String,
    pub seed: u64,
}

/// The responses to all submissions.
#[derive(Debug, Default)]
pub struct Submitted {
    pub responses: BTreeMap<String, Responses>,
    /// The number of submissions that failed and were retried.
    pub repeated: usize,
    /// Unexpected responses.
    pub odd: Vec<String>,
}

pub fn key(number: u64) -> String {
    format!("order-{number}")
}

/// Returns an order as JSON. It contains its number, which identifies it under any key.
pub fn order_text(number: u64) -> String {
    let (key, qty, unfit) = (key(number), number + 1, number % UNFIT_EVERY == UNFIT_EVERY - 1);
    format!(
        r#"{{"idempotency_key":"{key}","symbol":"USDJPY","intent":"BUY","qty":{qty}.0,"trace_id":"t-{number}","meta":{{"order":{number},"unfit":{unfit}}}}}"#
    )
}

impl Submitter {
    /// Submits orders at a steady rate for `lasts`, then waits for all acknowledgements.
    pub async fn run(self, per_second: u64, lasts: Duration) -> Submitted {
        let began = Instant::now();
        self.run_while(per_second, move || began.elapsed() < lasts).await
    }

    /// Submits orders at a steady rate while `goes_on` returns `true`, then waits for all acknowledgements.
    pub async fn run_while(self, per_second: u64, goes_on: impl Fn() -> bool) -> Submitted {
        let mut tasks = JoinSet::new();
        let mut pace = tokio::time::interval(Duration::from_secs(1) / per_second.max(1) as u32);
        for number in 0.. {
            pace.tick().await;
            if !goes_on() {
                break;
            }
            let submitter = self.clone();
            tasks.spawn(async move { (number, submitter.submit(number).await) });
        }
        let mut submitted = Submitted::default();
        for (number, (responses, repeated, odd)) in tasks.join_all().await {
            submitted.responses.insert(key(number), responses);
            submitted.repeated += repeated;
            submitted.odd.extend(odd);
        }
        submitted
    }

    /// Submits one order from several callers concurrently. Returns the responses, the number of retries and the
    /// unexpected responses.
    async fn submit(&self, number: u64) -> (Responses, usize, Vec<String>) {
        let mut random = Random::new(self.seed ^ number.wrapping_mul(0x9e37_79b9));
        let callers = 1 + random.below(AT_ONCE_MAX);
        let calls = (0..callers).map(|_| self.insist(number, Random::new(random.next())));
        let (mut responses, mut repeated, mut odd) = (Responses::default(), 0, Vec::new());
        for (status, failures) in futures_util::future::join_all(calls).await {
            repeated += failures;
            match status {
                Some(202) => responses.new += 1,
                Some(200) => responses.same += 1,
                Some(status) => odd.push(format!("order {number} got status {status}")),
                None => odd.push(format!("order {number} got no response")),
            }
        }
        (responses, repeated, odd)
    }

    /// Retries a submission until the response is not 503. Returns its status and the number of failures.
    async fn insist(&self, number: u64, mut random: Random) -> (Option<u16>, usize) {
        let (began, text) = (Instant::now(), order_text(number));
        let key = format!("\"{}\"", key(number));
        let mut failures = 0;
        while began.elapsed() < PATIENCE {
            let address = self.addresses[random.below(self.addresses.len() as u64) as usize];
            let call = Call::new(address, "POST", "/v1/orders", &self.api_key).json(text.as_str());
            match call.header("idempotency-key", &key).try_send().await {
                Ok(answer) if answer.status != 503 => return (Some(answer.status), failures),
                Ok(_) | Err(_) => failures += 1,
            }
            tokio::time::sleep(AGAIN_AFTER).await;
        }
        (None, failures)
    }
}
