//! Delivers many events with many processes and without faults. Checks that no event is lost or sent twice, that no
//! process logs a warning, and that the work is shared between workers.

use crate::direct::Direct;
use crate::fixtures::event;
use crate::fleet::{Fleet, Role, Wiring, settings};
use crate::private_server::{Flushing, PrivateServer};
use crate::receiver::{Answer, Received, Receiver};
use crate::subscribers::{SignedMessage, Subscriber, parse_webhook_id, send_plain_ids, subscribe};
use posthaste_core::ports::{IngestStore as _, RequestOutcome, Stores as _};
use posthaste_store::postgres::PostgresStore;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const KIND: &str = "soak.event";
const SUBSCRIPTIONS: usize = 10;
const WORKERS: usize = 3;
/// Settings that limit the number of connections. All subscriptions share one receiver on the same machine; connections
/// in excess of its accept queue would time out and be retried, which is correct but not the subject of this run.
const SETTINGS: [(&str, &str); 1] = [("POSTHASTE_WORKER_CONCURRENCY", "128")];
/// The number of events per insert.
const BATCH: usize = 500;
/// The sampling interval in requests. The signatures of sampled requests are verified.
const SAMPLE_EVERY: usize = 997;
/// The time without a delivery after which the run ends.
const STANDSTILL_MAX: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(200);
const REPORT_INTERVAL: Duration = Duration::from_secs(5);

/// The result of a run.
#[derive(Debug)]
pub struct SoakReport {
    pub events: usize,
    pub requests: usize,
    pub took: Duration,
    pub signatures_verified: usize,
    /// The number of jobs executed by each worker.
    pub shares: Vec<i64>,
    /// The violations found; empty if the run passed.
    pub complaints: Vec<String>,
}

/// The receiver's records: the number of requests for each pair of event and subscription, and sampled requests.
#[derive(Debug, Default)]
struct Tally {
    requests: usize,
    by_pair: HashMap<(i64, i64), u32>,
    sample: Vec<SignedMessage>,
}

impl Tally {
    fn count(&mut self, received: &Received) {
        let pair = parse_webhook_id(received.webhook_id()).unwrap_or_default();
        *self.by_pair.entry(pair).or_default() += 1;
        self.requests += 1;
        if self.requests % SAMPLE_EVERY == 1 {
            self.sample.push(SignedMessage {
                webhook_id: received.webhook_id().to_owned(),
                timestamp_s: received.header("webhook-timestamp").parse().unwrap_or_default(),
                signature: received.header("webhook-signature").to_owned(),
                body: received.body.to_vec(),
            });
        }
    }
}

struct Soak {
    tally: Arc<Mutex<Tally>>,
    subscribers: Vec<Subscriber>,
    direct: Direct,
    fleet: Fleet,
    _receiver: Receiver,
}

/// Delivers each of `events` events to ten subscriptions.
pub async fn run(events: usize, flushing: Flushing) -> SoakReport {
    let server = PrivateServer::start_with("soak", flushing, 256);
    let store = server.migrated_store().await;
    send_plain_ids(&Direct::postgres(&server.url("postgres")).await).await;
    let tally = Arc::new(Mutex::new(Tally::default()));
    let counter = Arc::clone(&tally);
    let receiver = Receiver::start_unlogged(move |received| {
        counter.lock().expect("the tally").count(received);
        Answer::Status(200)
    })
    .await;
    let mut subscribers = Vec::new();
    for number in 0..SUBSCRIPTIONS {
        subscribers.push(subscribe(&store, KIND, &receiver.url(&format!("/{number}")), None).await);
    }
    let roles = [(Role::Router, 2), (Role::Orchestrator, 2), (Role::Worker, WORKERS), (Role::Cleaner, 2)];
    let fleet = Fleet::start(&server, Wiring::Direct, &roles, &settings(&SETTINGS)).await;
    let direct = Direct::postgres(&server.url("postgres")).await;
    let soak = Soak { tally, subscribers, direct, fleet, _receiver: receiver };
    let began = Instant::now();
    let accepting = accept(&store, events);
    let (ids, ()) = tokio::join!(accepting, soak.wait_for(events * SUBSCRIPTIONS));
    let took = began.elapsed();
    soak.settle().await;
    soak.report(&ids, took).await
}

async fn accept(store: &PostgresStore, events: usize) -> Vec<i64> {
    let mut ids = Vec::with_capacity(events);
    while ids.len() < events {
        let request = vec![event(KIND); BATCH.min(events - ids.len())];
        let now = store.now().await.expect("the time");
        let outcomes = store.ingest().insert_events(vec![request], now).await.expect("events");
        let [RequestOutcome::Stored(stored)] = &outcomes[..] else { panic!("not stored: {outcomes:?}") };
        ids.extend(stored.iter().map(|ingested| crate::fixtures::id_of(*ingested).get()));
    }
    ids
}

impl Soak {
    fn requests(&self) -> usize {
        self.tally.lock().expect("the tally").requests
    }

    /// Waits until `expected` requests have arrived, or none has arrived for [`STANDSTILL_MAX`].
    async fn wait_for(&self, expected: usize) {
        let began = Instant::now();
        let (mut seen, mut moved, mut reported_at, mut reported_seen) = (0, began, began, 0);
        while seen < expected && moved.elapsed() < STANDSTILL_MAX {
            tokio::time::sleep(POLL_INTERVAL).await;
            let requests = self.requests();
            if requests > seen {
                (seen, moved) = (requests, Instant::now());
            }
            if reported_at.elapsed() >= REPORT_INTERVAL {
                let rate = (seen - reported_seen) as f64 / reported_at.elapsed().as_secs_f64();
                println!(
                    "{:4} s: {seen} of {expected} delivered, {rate:.0} per second",
                    began.elapsed().as_secs()
                );
                (reported_at, reported_seen) = (Instant::now(), seen);
            }
        }
    }

    /// Waits until every result is applied or [`STANDSTILL_MAX`] has passed. The report contains unfinished work.
    async fn settle(&self) {
        let began = Instant::now();
        while began.elapsed() < STANDSTILL_MAX && self.unfinished().await > 0 {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    async fn unfinished(&self) -> i64 {
        self.direct
            .number(
                "SELECT (SELECT count(*) FROM webhook_delivery_sagas WHERE status NOT IN ('Completed', 'DeadLettered'))
                    + (SELECT count(*) FROM routing_queue)",
            )
            .await
    }

    async fn report(&self, events: &[i64], took: Duration) -> SoakReport {
        let mut complaints = self.failed_attempts().await;
        complaints.extend(self.fleet.complaints());
        complaints.extend(self.fleet.ended().iter().map(|name| format!("{name} exited")));
        complaints.extend(self.unfit_pairs(events));
        complaints.extend(self.unfit_sagas(events.len()).await);
        let shares = self.shares().await;
        let jobs: i64 = shares.iter().sum();
        if shares.len() != WORKERS || shares.iter().any(|share| share * 10 < jobs) {
            complaints.push(format!("the workers did not share the work: {shares:?}"));
        }
        let tally = self.tally.lock().expect("the tally");
        let verified = tally.sample.iter().filter(|message| self.is_signed(message)).count();
        if verified < tally.sample.len() {
            complaints.push(format!("only {verified} of {} signatures are valid", tally.sample.len()));
        }
        let (events, requests) = (events.len(), tally.requests);
        SoakReport { events, requests, took, signatures_verified: verified, shares, complaints }
    }

    /// Describes the pairs of event and subscription that were not delivered exactly once.
    fn unfit_pairs(&self, events: &[i64]) -> Vec<String> {
        let mut by_pair = self.tally.lock().expect("the tally").by_pair.clone();
        let mut unfit = Vec::new();
        for event in events {
            for subscriber in &self.subscribers {
                let pair = (*event, subscriber.id.get());
                let times = by_pair.remove(&pair).unwrap_or_default();
                if times != 1 {
                    unfit.push(format!("event and subscription {pair:?}: sent {times} times"));
                }
            }
        }
        unfit.extend(by_pair.keys().map(|pair| format!("event and subscription {pair:?}: not expected")));
        unfit
    }

    async fn unfit_sagas(&self, events: usize) -> Vec<String> {
        let sql = "SELECT status::text, count(*) FROM webhook_delivery_sagas GROUP BY status";
        let rows = self.direct.rows(sql).await;
        let all = Some((events * SUBSCRIPTIONS).to_string());
        let expected = vec![vec![Some("Completed".to_owned()), all]];
        if rows == expected { Vec::new() } else { vec![format!("sagas by status: {rows:?}")] }
    }

    /// Describes the failed attempts. There should be none, because the receiver accepts every request.
    async fn failed_attempts(&self) -> Vec<String> {
        let sql = "SELECT error_code, count(*), min(duration_ms), max(duration_ms)
            FROM webhook_delivery_jobs WHERE status = 'Failed' GROUP BY 1";
        let rows = self.direct.rows(sql).await;
        rows.iter().map(|row| format!("failed attempts (code, count, min and max ms): {row:?}")).collect()
    }

    async fn shares(&self) -> Vec<i64> {
        let sql = "SELECT count(*) FROM webhook_delivery_jobs GROUP BY worker_id ORDER BY 1";
        self.direct.texts(sql).await.iter().map(|text| text.parse().expect("a number")).collect()
    }

    fn is_signed(&self, message: &SignedMessage) -> bool {
        let Some((_, subscription)) = parse_webhook_id(&message.webhook_id) else { return false };
        let subscriber = self.subscribers.iter().find(|subscriber| subscriber.id.get() == subscription);
        subscriber.is_some_and(|subscriber| subscriber.recognizes(message))
    }
}

impl SoakReport {
    /// Prints the result.
    ///
    /// # Panics
    ///
    /// Panics if there are violations.
    pub fn conclude(&self) {
        let rate = self.requests as f64 / self.took.as_secs_f64();
        println!(
            "{} events to {SUBSCRIPTIONS} subscriptions: {} requests in {:.1} s, {rate:.0} per second; jobs by worker {:?}; \
             {} sampled signatures are valid",
            self.events,
            self.requests,
            self.took.as_secs_f64(),
            self.shares,
            self.signatures_verified
        );
        let first: Vec<_> = self.complaints.iter().take(20).collect();
        assert!(first.is_empty(), "{} violations, the first: {first:#?}", self.complaints.len());
    }
}
