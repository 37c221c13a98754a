//! Kills the primary server of a PostgreSQL cluster under load and lets a standby take over. Checks that no
//! acknowledged event or order is lost or counted twice, and that the processes continue without intervention.

pub mod patroni;
pub mod standby;

use crate::broker::TestBroker;
use crate::broker::behaviour::Behaviour as BrokerBehaviour;
use crate::client::Call;
use crate::direct::Direct;
use crate::faults::chaos::behaviour::{Behaviour, Journal};
use crate::faults::chaos::checker as delivery_checker;
use crate::faults::chaos::evidence::{Disturbance, Evidence, Pair};
use crate::faults::order_chaos::checker as order_checker;
use crate::faults::order_chaos::evidence::Evidence as OrderEvidence;
use crate::faults::order_chaos::submitter::{Submitted, Submitter};
use crate::faults::poster::{Posted, Poster};
use crate::fleet::{Fleet, Role, settings};
use crate::harness::Engine;
use crate::postgres::{administrator_sql, client, shared_roles};
use crate::receiver::Receiver;
use crate::subscribers::{Subscriber, send_plain_ids, subscribe};
use posthaste_store::postgres::{PostgresOptions, PostgresStore, migrate};
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;

const API_KEY: &str = "the-root-key-of-the-failover-run";
const LEASE: Duration = Duration::from_secs(8);
const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);
const SETTINGS: [(&str, &str); 8] = [
    ("POSTHASTE_ROOT_KEY", API_KEY),
    ("POSTHASTE_LEASE", "8s"),
    ("POSTHASTE_REQUEST_TIMEOUT", "2s"),
    ("POSTHASTE_CLEANER_INTERVAL", "200ms"),
    ("POSTHASTE_RETRY_BASE", "200ms"),
    ("POSTHASTE_RETRY_CAP", "2s"),
    ("OUTBOX_STUCK_THRESHOLD_MIN", "0.15"),
    ("OUTBOX_LEDGER_TTL", "30d"),
];
const ROLES: [(Role, usize); 6] = [
    (Role::Router, 1),
    (Role::Orchestrator, 1),
    (Role::Worker, 2),
    (Role::Cleaner, 1),
    (Role::Outbox, 2),
    (Role::Api, 2),
];
const METRIC: &str = "posthaste_database_failovers_total";
const KIND: &str = "failover.event";
/// The behaviour and retry limit of each subscription.
const SUBSCRIBERS: [(Behaviour, Option<u32>); 4] = [
    (Behaviour::Well, None),
    (Behaviour::Slow, None),
    (Behaviour::Flaky, Some(4)),
    (Behaviour::Dead, Some(2)),
];
const ORDERS_PER_SECOND: u64 = 10;
/// The number of deliveries before each failover.
const SOME: usize = 200;
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// The maximum time until a delivery succeeds after a failover, and until all work has finished at the end.
const PATIENCE: Duration = Duration::from_secs(180);

/// A PostgreSQL cluster with synchronous standbys.
pub trait Cluster {
    /// Returns the URL of the database with all hosts, for its owner.
    fn url(&self) -> String;

    /// Returns the URL of the database on the current primary, for a superuser.
    fn primary_url(&self) -> impl Future<Output = String>;

    /// Kills the primary. Another server becomes the primary. Returns what was killed, and when it had ended.
    fn kill_primary(&mut self, round: usize) -> impl Future<Output = (String, Instant)>;

    /// Restores the cluster after a failover: starts what was killed, and waits until a standby is synchronous.
    fn repair(&mut self) -> impl Future<Output = ()>;
}

/// One failover.
#[derive(Debug)]
pub struct Failover {
    /// What was killed.
    pub killed: String,
    /// The time before the kill, since the start of the run.
    pub from: Duration,
    /// The time from the kill to the first acknowledged event.
    pub first_acknowledgement: Duration,
    /// The time from the kill to the first delivery of an event that was acknowledged afterwards.
    pub first_delivery: Duration,
}

/// The result of a run.
#[derive(Debug)]
pub struct FailoverReport {
    pub failovers: Vec<Failover>,
    /// The number of failovers that each process with an API counted.
    pub counted: Vec<Option<u64>>,
    pub events: usize,
    pub orders: usize,
    /// The number of calls that failed and were repeated, for events and orders.
    pub repeated: (usize, usize),
    /// The number of requests in excess of the attempts that are stored.
    pub extra_requests: usize,
    pub logs: Vec<String>,
    /// The violations found; empty if the run passed.
    pub complaints: Vec<String>,
}

struct Run<'a, C> {
    cluster: &'a mut C,
    began: Instant,
    journal: Arc<Journal>,
    broker: TestBroker,
    fleet: Fleet,
    subscribers: Vec<Subscriber>,
    poster: Poster,
    stop: Arc<AtomicBool>,
    submitting: JoinHandle<Submitted>,
    failovers: Vec<Failover>,
    _receiver: Receiver,
}

/// Fails over `rounds` times under load.
pub async fn run(cluster: &mut impl Cluster, rounds: usize) -> FailoverReport {
    let mut run = Run::start(cluster).await;
    for round in 0..rounds {
        run.deliver_some().await;
        run.fail_over(round).await;
        run.cluster.repair().await;
    }
    run.deliver_some().await;
    run.conclude().await
}

impl<'a, C: Cluster> Run<'a, C> {
    async fn start(cluster: &'a mut C) -> Self {
        let url = cluster.url();
        let admin = client(&cluster.primary_url().await).await;
        admin.batch_execute(&administrator_sql("postgres")).await.expect("the roles");
        migrate(&url, &shared_roles()).await.expect("the migration");
        send_plain_ids(&Direct::postgres(&cluster.primary_url().await).await).await;
        let store = PostgresStore::connect(&PostgresOptions::new(&url)).await.expect("the store");
        let (began, broker) = (Instant::now(), TestBroker::start(BrokerBehaviour::Well).await);
        let mut settings = settings(&SETTINGS);
        settings.push(("POSTHASTE_BROKER_URL".to_owned(), broker.url()));
        let fleet = Fleet::start_on(&admin, &url, None, &ROLES, &settings).await;
        let journal = Arc::new(Journal::new(1, began));
        let answers = Arc::clone(&journal);
        let receiver = Receiver::start_unlogged(move |received| answers.attend(received)).await;
        let mut subscribers = Vec::new();
        for (number, (behaviour, limit)) in SUBSCRIBERS.iter().enumerate() {
            let url = receiver.url(&format!("/{}/{number}", behaviour.name()));
            subscribers.push(subscribe(&store, KIND, &url, *limit).await);
        }
        let addresses: Vec<_> = fleet.members.iter().filter_map(|member| member.address).collect();
        let poster = Poster::start(addresses[0], API_KEY, KIND);
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let submitter = Submitter { addresses: Arc::new(addresses), api_key: API_KEY.to_owned(), seed: 1 };
        let goes_on = move || !stopped.load(Ordering::Relaxed);
        let submitting = tokio::spawn(submitter.run_while(ORDERS_PER_SECOND, goes_on));
        Self {
            cluster,
            began,
            journal,
            broker,
            fleet,
            subscribers,
            poster,
            stop,
            submitting,
            failovers: Vec::new(),
            _receiver: receiver,
        }
    }

    /// Polls until `find` returns a value.
    async fn until<T>(&self, what: &str, find: impl Fn() -> Option<T>) -> T {
        let began = Instant::now();
        loop {
            if let Some(found) = find() {
                return found;
            }
            let logs = || self.fleet.complaints().into_iter().rev().take(20).collect::<Vec<_>>();
            assert!(
                began.elapsed() < PATIENCE,
                "no {what} within {PATIENCE:?}; last warnings: {:#?}",
                logs()
            );
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    async fn deliver_some(&self) {
        let (count, executed) = (self.journal.requests().len() + SOME, self.broker.executions());
        let is_done = || self.journal.requests().len() >= count && self.broker.executions() > executed;
        self.until("deliveries", || is_done().then_some(())).await;
    }

    async fn fail_over(&mut self, round: usize) {
        let from = self.began.elapsed();
        let (killed, ended) = self.cluster.kill_primary(round).await;
        let acknowledged = || self.poster.acknowledged_after(ended);
        let is_acknowledged = || (!acknowledged().is_empty()).then(|| ended.elapsed());
        let first_acknowledgement = self.until("acknowledgement", is_acknowledged).await;
        let first_request = || {
            let (events, requests) = (acknowledged(), self.journal.requests());
            requests.iter().find(|request| events.contains(&request.pair.0)).map(|request| request.at)
        };
        let first_delivery = self.until("delivery", first_request).await;
        let first_delivery = (self.began + first_delivery).duration_since(ended);
        let failover = Failover { killed, from, first_acknowledgement, first_delivery };
        println!("  {failover}");
        self.failovers.push(failover);
    }

    async fn conclude(self) -> FailoverReport {
        self.stop.store(true, Ordering::Relaxed);
        let (posted, submitted) = (self.poster.end().await, self.submitting.await.expect("the submitter"));
        let direct = Direct::postgres(&self.cluster.primary_url().await).await;
        settle(&direct).await;
        let mut complaints = submitted.odd.clone();
        complaints.extend(self.fleet.ended().into_iter().map(|name| format!("{name} exited")));
        let panicked = self.fleet.complaints().into_iter().filter(|line| line.contains("panicked"));
        complaints.extend(panicked);
        let disturbances = self.failovers.iter().map(|one| Disturbance {
            from: one.from,
            until: one.from + one.first_delivery,
            server: true,
        });
        let mut evidence = Evidence {
            expected: expected(&posted, &self.subscribers),
            requests: self.journal.requests(),
            disturbances: disturbances.collect(),
            lease: LEASE,
            ..Evidence::default()
        };
        evidence.read(&direct).await;
        complaints.extend(delivery_checker::check(&evidence).iter().map(ToString::to_string));
        let mut orders = OrderEvidence {
            responses: submitted.responses,
            books: self.broker.books(),
            request_timeout: REQUEST_TIMEOUT,
            ..OrderEvidence::default()
        };
        orders.read(&direct, Engine::Postgres).await;
        complaints.extend(order_checker::check(&orders).iter().map(ToString::to_string));
        let counted = counted(&self.fleet).await;
        let is_too_small =
            |count: &Option<u64>| count.is_none_or(|count| (count as usize) < self.failovers.len());
        if counted.iter().any(is_too_small) {
            complaints.push(format!("{METRIC} is too small: {counted:?}"));
        }
        FailoverReport {
            failovers: self.failovers,
            counted,
            events: posted.events.len(),
            orders: orders.responses.len(),
            repeated: (posted.repeated, submitted.repeated),
            extra_requests: delivery_checker::extra_requests(&evidence),
            logs: self.fleet.lines(),
            complaints,
        }
    }
}

fn expected(posted: &Posted, subscribers: &[Subscriber]) -> BTreeSet<Pair> {
    let of_event = |event: i64| subscribers.iter().map(move |subscriber| (event, subscriber.id.get()));
    posted.events.iter().flat_map(|(event, _)| of_event(*event)).collect()
}

/// Waits until no work is left or [`PATIENCE`] has passed; the checkers report remaining work. Nobody resumes the lane
/// of orders.
async fn settle(direct: &Direct) {
    let began = Instant::now();
    let sql = "SELECT (SELECT count(*) FROM webhook_delivery_sagas WHERE status NOT IN ('Completed', 'DeadLettered'))
        + (SELECT count(*) FROM routing_queue) + (SELECT count(*) FROM finished_jobs)
        + (SELECT count(*) FROM outbox_orders WHERE status NOT IN ('sent', 'dead'))";
    while began.elapsed() < PATIENCE && direct.number(sql).await > 0 {
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// Returns the number of failovers that each process with an API counted, or `None` if it has no such metric.
async fn counted(fleet: &Fleet) -> Vec<Option<u64>> {
    let mut counted = Vec::new();
    for address in fleet.members.iter().filter_map(|member| member.address) {
        let answer = Call::new(address, "GET", "/metrics", API_KEY).try_send().await.expect("the metrics");
        let text = answer.whole();
        let count = text.lines().find_map(|line| line.strip_prefix(METRIC)?.trim().parse().ok());
        counted.push(count);
    }
    counted
}

impl fmt::Display for Failover {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:6.1} s  {} killed: first event acknowledged after {:.2} s, first delivery after {:.2} s",
            self.from.as_secs_f64(),
            self.killed,
            self.first_acknowledgement.as_secs_f64(),
            self.first_delivery.as_secs_f64()
        )
    }
}

impl FailoverReport {
    /// Prints the result.
    ///
    /// # Panics
    ///
    /// Panics if there are violations.
    pub fn conclude(&self) {
        let mut times: Vec<f64> = self.failovers.iter().map(|one| one.first_delivery.as_secs_f64()).collect();
        times.sort_by(f64::total_cmp);
        let at = |place: usize| times.get(place).copied().unwrap_or_default();
        println!(
            "{} failovers: first delivery after {:.2} s (min), {:.2} s (median), {:.2} s (max); counted by the APIs: \
             {:?}; {} events ({} calls repeated) and {} orders ({} calls repeated) acknowledged; {} extra requests",
            self.failovers.len(),
            at(0),
            at(times.len() / 2),
            at(times.len().saturating_sub(1)),
            self.counted,
            self.events,
            self.repeated.0,
            self.orders,
            self.repeated.1,
            self.extra_requests,
        );
        super::conclude("failover", &self.complaints, &self.logs);
    }
}
