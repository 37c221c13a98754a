//! Runs seven processes under load while processes, PostgreSQL and connections fail at times drawn from a seed.
//! When all deliveries have finished, the [`checker`] verifies the database and the receiver's journal.

pub mod behaviour;
pub mod checker;
pub mod evidence;
pub mod injector;
pub mod plan;

use crate::direct::Direct;
use crate::faults::acceptor::{Accepted, Acceptor};
use crate::fleet::{Fleet, Role, Wiring, settings};
use crate::postgres::url_with;
use crate::private_server::{Flushing, PrivateServer};
use crate::proxy::{Mode, Proxy};
use crate::receiver::Receiver;
use crate::subscribers::{Subscriber, send_plain_ids, subscribe};
use behaviour::{Behaviour, Journal};
use evidence::Evidence;
use injector::{Injector, Made, disturbances};
use plan::Targets;
use posthaste_store::postgres::{PostgresOptions, PostgresStore};
use std::sync::Arc;
use std::time::{Duration, Instant};

const LEASE: Duration = Duration::from_secs(8);
/// The duration of a freeze, longer than the lease of a job claimed just before it.
const FREEZE: Duration = Duration::from_secs(10);
const SETTINGS: [(&str, &str); 5] = [
    ("POSTHASTE_LEASE", "8s"),
    ("POSTHASTE_REQUEST_TIMEOUT", "2s"),
    ("POSTHASTE_CLEANER_INTERVAL", "200ms"),
    ("POSTHASTE_RETRY_BASE", "200ms"),
    ("POSTHASTE_RETRY_CAP", "2s"),
];
const ROLES: [(Role, usize); 4] =
    [(Role::Router, 1), (Role::Orchestrator, 2), (Role::Worker, 3), (Role::Cleaner, 1)];
/// The event type, behaviour and retry limit of each subscription. The last event type has no subscription.
const SUBSCRIBERS: [(&str, Behaviour, Option<u32>); 6] = [
    ("chaos.a", Behaviour::Well, None),
    ("chaos.a", Behaviour::Slow, None),
    ("chaos.a", Behaviour::Flaky, Some(4)),
    ("chaos.b", Behaviour::Well, None),
    ("chaos.b", Behaviour::Dead, Some(2)),
    ("chaos.c", Behaviour::Slow, Some(3)),
];
const KINDS: [&str; 4] = ["chaos.a", "chaos.b", "chaos.c", "chaos.nobody"];

/// The maximum time to settle, long enough for several leases to expire in sequence on a busy machine.
const SETTLE_MAX: Duration = Duration::from_secs(180);
const POLL_INTERVAL: Duration = Duration::from_millis(200);

#[derive(Debug, Clone, Copy)]
pub struct ChaosOptions {
    pub seed: u64,
    pub load: Duration,
    pub faults: u64,
    pub events_per_second: usize,
}

/// The result of a run.
#[derive(Debug)]
pub struct ChaosReport {
    pub seed: u64,
    pub made: Vec<Made>,
    pub accepted: Accepted,
    pub evidence: Evidence,
    /// The time from the end of the load until every delivery had finished.
    pub settled: Duration,
    pub warnings: usize,
    /// The log lines of all processes.
    pub logs: Vec<String>,
    /// The violations found; empty if the run passed.
    pub complaints: Vec<String>,
}

pub async fn run(options: ChaosOptions) -> ChaosReport {
    let server = PrivateServer::start_with("chaos", Flushing::On, 64);
    let store = server.migrated_store().await;
    send_plain_ids(&Direct::postgres(&server.url("postgres")).await).await;
    let mut fleet = Fleet::start(&server, Wiring::Tripwires, &ROLES, &settings(&SETTINGS)).await;
    let began = Instant::now();
    let journal = Arc::new(Journal::new(options.seed, began));
    let answers = Arc::clone(&journal);
    let receiver = Receiver::start_unlogged(move |received| answers.attend(received)).await;
    let subscribers = subscribe_all(&store, &receiver).await;

    let places = (0..fleet.members.len()).collect();
    let targets = Targets { places, workers: fleet.places(Role::Worker), freeze: FREEZE };
    let plan = plan::draw(options.seed, options.faults, options.load, &targets);
    let wire = Proxy::start(server.socket(), Mode::Trip).await;
    let through = url_with(&server.url("postgres"), None, Some(wire.address));
    let accepting = PostgresStore::connect(&PostgresOptions::new(&through)).await.expect("the store");
    let acceptor = Acceptor::start(accepting, &KINDS, options.seed, options.events_per_second);
    let made = Injector::new(&server, &mut fleet, Some(&wire), began).run(&plan).await;
    tokio::time::sleep_until((began + options.load).into()).await;
    let accepted = acceptor.end().await;

    let direct = Direct::postgres(&server.url("postgres")).await;
    let settled = settle(&direct).await;
    let mut evidence = Evidence {
        expected: expected(&accepted, &subscribers),
        requests: journal.requests(),
        disturbances: disturbances(&made, &fleet, began),
        lease: LEASE,
        ..Evidence::default()
    };
    evidence.read(&direct).await;
    let mut complaints = faults_of_processes(&fleet);
    complaints.extend(checker::check(&evidence).iter().map(ToString::to_string));
    let (warnings, logs) = (fleet.complaints().len(), fleet.lines());
    ChaosReport { seed: options.seed, made, accepted, evidence, settled, warnings, logs, complaints }
}

async fn subscribe_all(store: &PostgresStore, receiver: &Receiver) -> Vec<Subscriber> {
    let mut subscribers = Vec::new();
    for (number, (kind, behaviour, limit)) in SUBSCRIBERS.iter().enumerate() {
        let url = receiver.url(&format!("/{}/{number}", behaviour.name()));
        subscribers.push(subscribe(store, kind, &url, *limit).await);
    }
    subscribers
}

fn expected(accepted: &Accepted, subscribers: &[Subscriber]) -> std::collections::BTreeSet<evidence::Pair> {
    let mut pairs = std::collections::BTreeSet::new();
    for (event, kind) in &accepted.events {
        let matching = subscribers.iter().filter(|subscriber| subscriber.event_type == *kind);
        pairs.extend(matching.map(|subscriber| (*event, subscriber.id.get())));
    }
    pairs
}

/// Waits until no work is left or [`SETTLE_MAX`] has passed; the checker reports remaining work. Returns the
/// elapsed time.
async fn settle(direct: &Direct) -> Duration {
    let began = Instant::now();
    let sql = "SELECT (SELECT count(*) FROM webhook_delivery_sagas WHERE status NOT IN ('Completed', 'DeadLettered'))
        + (SELECT count(*) FROM routing_queue) + (SELECT count(*) FROM finished_jobs)";
    while began.elapsed() < SETTLE_MAX && direct.number(sql).await > 0 {
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    began.elapsed()
}

/// Returns the processes that ended on their own and the log lines that report a panic.
fn faults_of_processes(fleet: &Fleet) -> Vec<String> {
    let ended = fleet.ended().into_iter().map(|name| format!("{name} has ended"));
    let panicked = fleet.complaints().into_iter().filter(|line| line.contains("panicked"));
    ended.chain(panicked).collect()
}

impl ChaosReport {
    /// Prints the result.
    ///
    /// # Panics
    ///
    /// Panics if there are violations.
    pub fn conclude(&self) {
        println!("seed {}: replay with POSTHASTE_SEED={}", self.seed, self.seed);
        for made in &self.made {
            println!("  {made}");
        }
        let (accepted, evidence) = (&self.accepted, &self.evidence);
        let ended = |status| evidence.sagas.iter().filter(|saga| saga.status == status).count();
        let resets: i64 = evidence.jobs.iter().map(|job| job.lease_resets).sum();
        println!(
            "  {} events acknowledged ({} submissions repeated, {} events stored by a submission of unknown outcome); \
             {} sagas: {} Completed, {} DeadLettered; {} jobs, {resets} lease resets; {} requests, {} of them extra; \
             settled after {:.1} s; {} warnings in the logs",
            accepted.events.len(),
            accepted.repeated,
            accepted.were_stored,
            evidence.sagas.len(),
            ended("Completed"),
            ended("DeadLettered"),
            evidence.jobs.len(),
            evidence.requests.len(),
            checker::extra_requests(evidence),
            self.settled.as_secs_f64(),
            self.warnings,
        );
        super::conclude(&format!("chaos-{}", self.seed), &self.complaints, &self.logs);
    }
}
