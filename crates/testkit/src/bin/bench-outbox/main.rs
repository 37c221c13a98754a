//! Measures the throughput of the order lane. The real worker, adapter and store drain a queue of orders to a
//! local broker that accepts every order. For comparison, the same bodies are posted by the same sender without
//! the lane, with the same concurrency. Compare the two as a ratio, within one run.
//!
//! Usage: `bench-outbox [--orders N] [--rounds N]`. Requires the server that `scripts/with-postgres --durable`
//! starts.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use bytes::Bytes;
use futures_util::stream::{self, StreamExt as _};
use posthaste_bench::{argument, median_rate};
use posthaste_core::ports::Stores;
use posthaste_services::runner::{Runner, Service};
use posthaste_services::sender::{OutgoingRequest, ReadUpTo, Sender};
use posthaste_testkit::fixtures::{T0, order};
use posthaste_testkit::harness::Harness;
use posthaste_testkit::order_lane::{OrderRig, OrderSetup, loopback_sender};
use posthaste_testkit::receiver::{Answer, Received, Receiver};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;

/// The numbers of concurrent senders to measure.
const SENDERS: [u32; 2] = [4, 32];
const SUBMIT: usize = 500;
const DEADLINE: Duration = Duration::from_secs(30);

/// A broker that accepts and counts all orders.
struct Accepting {
    receiver: Receiver,
    had: Arc<Semaphore>,
}

impl Accepting {
    async fn start() -> Self {
        let had = Arc::new(Semaphore::new(0));
        let counted = Arc::clone(&had);
        let receiver = Receiver::start_unlogged(move |request: &Received| {
            counted.add_permits(1);
            let key = request.header("idempotency-key");
            let body = format!(r#"{{"broker_order_id":"b-{key}","idempotency_key":"{key}"}}"#);
            Answer::With { status: 200, headers: Vec::new(), body: body.into_bytes() }
        })
        .await;
        Self { receiver, had }
    }

    async fn wait_for(&self, orders: usize) {
        let orders = u32::try_from(orders).expect("few orders");
        self.had.acquire_many(orders).await.expect("a broker").forget();
    }
}

#[tokio::main]
async fn main() {
    let orders = argument("--orders").unwrap_or(5_000) as usize / SUBMIT * SUBMIT;
    let rounds = argument("--rounds").unwrap_or(3);
    println!("{orders} orders; medians of {rounds} rounds");
    for senders in SENDERS {
        let mut times: [Vec<Duration>; 3] = Default::default();
        // Alternate the variants, so that a slowdown of the machine affects all of them.
        for _ in 0..rounds {
            times[0].push(post_all(orders, senders).await);
            times[1].push(drain(Harness::postgres("bench").await, orders, senders).await);
            times[2].push(drain(Harness::sqlite("bench").await, orders, senders).await);
        }
        report(orders, senders, times);
    }
}

/// Posts the bodies without the lane and returns the elapsed time.
async fn post_all(orders: usize, at_once: u32) -> Duration {
    let broker = Accepting::start().await;
    let (sender, url) = (loopback_sender(), broker.receiver.url("/orders"));
    let bodies: Vec<_> = (0..orders).map(|number| order(&format!("post-{number}"), 1).canonical).collect();
    let began = Instant::now();
    stream::iter(bodies).for_each_concurrent(at_once as usize, |body| post(&sender, &url, body)).await;
    began.elapsed()
}

async fn post(sender: &Sender, url: &str, body: String) {
    let answer = ReadUpTo::Body { bytes_max: 65_536 };
    let (headers, body) = (http::HeaderMap::new(), Bytes::from(body));
    let request = OutgoingRequest::post(headers, body, answer, DEADLINE);
    let exchange = sender.send_to_url(url, request, T0).await;
    assert_eq!(exchange.status(), Some(200));
}

/// Sends the orders through the lane and returns the time until the last one is settled.
async fn drain<S: Stores>(h: Harness<S>, orders: usize, senders: u32) -> Duration {
    let engine = h.engine;
    let broker = Accepting::start().await;
    let setup = OrderSetup { parallelism: senders, ..OrderSetup::default() };
    let mut rig = OrderRig::with(h, setup);
    rig.add_worker(&broker.receiver.url("/orders"));
    for part in 0..orders / SUBMIT {
        rig.submit(&format!("part-{part}"), SUBMIT).await;
    }
    let process = rig.processes.remove(0);
    let (wake_up, poll) = (process.wake_up.clone(), Duration::from_millis(200));
    let mut runner = Runner::new(rig.clock.clone(), rig.metrics.clone());
    let began = Instant::now();
    runner.start(Service::new("outbox", process.worker.sender, wake_up, poll));
    broker.wait_for(orders).await;
    assert!(runner.stop(DEADLINE).await, "every order is settled");
    let taken = began.elapsed();
    let sent = rig.metric(r#"outbox_send_total{outcome="success"}"#);
    assert_eq!(sent, Some(f64::from(u32::try_from(orders).expect("few orders"))), "{engine:?}");
    taken
}

fn report(orders: usize, senders: u32, times: [Vec<Duration>; 3]) {
    let count = u32::try_from(orders).expect("few orders");
    let rates = times.map(|times| median_rate(count, times));
    let names = ["posts alone", "Postgres", "Sqlite"];
    for (rate, name) in rates.iter().zip(names) {
        println!("{senders:>3} senders  {name:<12} {rate:>7.0}/s  ratio {:.2}", rate / rates[0]);
    }
}
