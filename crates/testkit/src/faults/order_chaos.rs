//! Submits orders under load while processes, PostgreSQL, connections and the broker fail at times drawn from a
//! seed. When every order has finished, the [`checker`] compares the database with the broker's records.

pub mod checker;
pub mod evidence;
pub mod operator;
pub mod submitter;
pub mod trouble;

use crate::broker::TestBroker;
use crate::broker::behaviour::Behaviour;
use crate::direct::Direct;
use crate::faults::chaos::injector::{Injector, Made};
use crate::faults::chaos::plan::{self, Fault, Targets};
use crate::fleet::{Fleet, Role, Wiring, free_address, settings};
use crate::harness::{Engine, SqliteFile};
use crate::private_server::{Flushing, PrivateServer};
use crate::processes::{Process, Program};
use crate::random::Random;
use evidence::Evidence;
use operator::Operator;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use submitter::{Submitted, Submitter};
use tokio::task::{JoinHandle, block_in_place};

const API_KEY: &str = "the-root-key-of-the-order-chaos-run";
const REQUEST_TIMEOUT: Duration = Duration::from_secs(1);
/// The duration of a freeze, longer than the stuck threshold of an order claimed just before it.
const FREEZE: Duration = Duration::from_secs(8);
const SETTINGS: [(&str, &str); 5] = [
    ("POSTHASTE_ROOT_KEY", API_KEY),
    ("POSTHASTE_REQUEST_TIMEOUT", "1s"),
    ("OUTBOX_STUCK_THRESHOLD_MIN", "0.1"),
    ("OUTBOX_LEDGER_TTL", "30d"),
    ("POSTHASTE_LOG", "info,posthaste_services=debug"),
];
const ROLES: [(Role, usize); 2] = [(Role::Api, 2), (Role::Outbox, 3)];
const START_WITHIN: Duration = Duration::from_secs(60);
const DOWN_MAX_MS: u64 = 1_000;

#[derive(Debug, Clone, Copy)]
pub struct OrderChaosOptions {
    pub seed: u64,
    pub load: Duration,
    pub faults: u64,
    pub orders_per_second: u64,
}

/// The result of a run.
#[derive(Debug)]
pub struct OrderChaosReport {
    pub seed: u64,
    pub engine: Engine,
    /// Descriptions of the injected faults.
    pub made: Vec<String>,
    pub evidence: Evidence,
    pub repeated: usize,
    /// The time from the end of the load until every order had finished.
    pub settled: Duration,
    pub logs: Vec<String>,
    /// The violations found; empty if the run passed.
    pub complaints: Vec<String>,
}

/// The broker with its faults, and the clients that submit orders.
struct Scene {
    options: OrderChaosOptions,
    broker: Arc<TestBroker>,
    operator: Operator,
    began: Instant,
    began_us: i64,
    submitting: JoinHandle<Submitted>,
    trouble: JoinHandle<()>,
}

fn broker_settings(broker: &TestBroker) -> Vec<(String, String)> {
    let mut all = settings(&SETTINGS);
    all.push(("POSTHASTE_BROKER_URL".to_owned(), broker.url()));
    all
}

impl Scene {
    fn begin(options: OrderChaosOptions, broker: TestBroker, addresses: Vec<SocketAddr>) -> Self {
        let (broker, addresses, api_key) = (Arc::new(broker), Arc::new(addresses), API_KEY.to_owned());
        let operator = Operator { addresses: Arc::clone(&addresses), api_key: api_key.clone() };
        let (began, now) = (Instant::now(), SystemTime::now().duration_since(UNIX_EPOCH));
        let submitter = Submitter { addresses, api_key, seed: options.seed };
        let submitting = tokio::spawn(submitter.run(options.orders_per_second, options.load));
        let windows = trouble::draw(options.seed, options.load);
        let trouble = tokio::spawn(trouble::make(Arc::clone(&broker), operator.clone(), windows, began));
        let began_us = now.expect("a time after 1970").as_micros() as i64;
        Self { options, broker, operator, began, began_us, submitting, trouble }
    }

    /// Waits until every order has finished and returns the report, to which the caller adds the database rows.
    async fn end(self) -> OrderChaosReport {
        let submitted = self.submitting.await.expect("the submitter");
        self.trouble.await.expect("the trouble");
        let settled = self.operator.settle().await;
        let evidence = Evidence {
            responses: submitted.responses,
            books: self.broker.books(),
            request_timeout: REQUEST_TIMEOUT,
            ..Evidence::default()
        };
        OrderChaosReport {
            seed: self.options.seed,
            engine: Engine::Sqlite,
            made: Vec::new(),
            evidence,
            repeated: submitted.repeated,
            settled,
            logs: Vec::new(),
            complaints: submitted.odd,
        }
    }
}

/// Runs the test on PostgreSQL, with two APIs and three senders, all of which may be killed, stopped or disconnected.
pub async fn run(options: OrderChaosOptions) -> OrderChaosReport {
    let server = PrivateServer::start_with("orders", Flushing::On, 64);
    let store = server.migrated_store().await;
    drop(store);
    let broker = TestBroker::start(Behaviour::Rough { seed: options.seed }).await;
    let mut fleet = Fleet::start(&server, Wiring::Tripwires, &ROLES, &broker_settings(&broker)).await;
    let addresses = fleet.members.iter().filter_map(|member| member.address).collect();
    let scene = Scene::begin(options, broker, addresses);
    let (began, began_us) = (scene.began, scene.began_us);
    let places = (0..fleet.members.len()).collect();
    let targets = Targets { places, workers: fleet.places(Role::Outbox), freeze: FREEZE };
    let plan = plan::draw(options.seed, options.faults, options.load, &targets);
    let made = Injector::new(&server, &mut fleet, None, began).run(&plan).await;
    let mut report = scene.end().await;
    report.engine = Engine::Postgres;
    report.evidence.freezes_us = freezes(&made, began_us);
    report.evidence.read(&Direct::postgres(&server.url("postgres")).await, Engine::Postgres).await;
    report.made = made.iter().map(ToString::to_string).collect();
    report.complaints.extend(fleet.ended().into_iter().map(|name| format!("{name} exited")));
    report.logs = fleet.lines();
    report.judge()
}

fn freezes(made: &[Made], began_us: i64) -> Vec<(i64, i64)> {
    let at = |since: Duration| began_us + since.as_micros() as i64;
    let is_freeze = |one: &&Made| matches!(one.fault, Fault::Freeze(_));
    made.iter().filter(is_freeze).map(|one| (at(one.from), at(one.until))).collect()
}

/// Runs the test on the embedded store, with a single process that is killed repeatedly.
pub async fn run_embedded(options: OrderChaosOptions) -> OrderChaosReport {
    let file = SqliteFile::migrated();
    let broker = TestBroker::start(Behaviour::Rough { seed: options.seed }).await;
    let (program, address, mut settings) = (Program::find(), free_address(), broker_settings(&broker));
    settings.push(("POSTHASTE_DATABASE_URL".to_owned(), file.url()));
    settings.push(("POSTHASTE_LISTEN".to_owned(), address.to_string()));
    let start = || program.serve("posthaste", "api,outbox", &settings);
    let mut process = start();
    assert!(process.serves(START_WITHIN).await, "the process does not serve: {:#?}", process.lines());
    let scene = Scene::begin(options, broker, vec![address]);
    let (mut random, mut made, mut logs) = (Random::new(options.seed), Vec::new(), Vec::new());
    let slot_us = options.load.as_micros() as u64 / options.faults.max(1);
    for number in 0..options.faults {
        let at = Duration::from_micros(number * slot_us + random.below(slot_us));
        tokio::time::sleep_until((scene.began + at).into()).await;
        let from = scene.began.elapsed().as_secs_f64();
        block_in_place(|| process.kill());
        tokio::time::sleep(Duration::from_millis(random.below(DOWN_MAX_MS))).await;
        keep(&mut logs, &process);
        process = start();
        made.push(format!("{from:7.2} s to {:7.2} s  killed", scene.began.elapsed().as_secs_f64()));
    }
    let mut report = scene.end().await;
    let ended = process.has_ended();
    block_in_place(|| process.kill());
    keep(&mut logs, &process);
    report.evidence.read(&Direct::sqlite(&file.path()), Engine::Sqlite).await;
    (report.made, report.logs) = (made, logs);
    report.complaints.extend(ended.then(|| "the process exited".to_owned()));
    report.judge()
}

fn keep(logs: &mut Vec<String>, process: &Process) {
    logs.extend(process.lines().into_iter().map(|line| line.text));
}

impl OrderChaosReport {
    fn judge(mut self) -> Self {
        self.complaints.extend(self.logs.iter().filter(|line| line.contains("panicked")).cloned());
        self.complaints.extend(checker::check(&self.evidence).iter().map(ToString::to_string));
        self
    }

    /// Prints the result.
    ///
    /// # Panics
    ///
    /// Panics if there are violations.
    pub fn conclude(&self) {
        println!("{:?}, seed {}: replay with POSTHASTE_SEED={}", self.engine, self.seed, self.seed);
        self.made.iter().for_each(|made| println!("  {made}"));
        let evidence = &self.evidence;
        let ended = |status| evidence.orders.iter().filter(|order| order.status == status).count();
        let doubtful = |order: &&evidence::OrderRow| order.status == "dead" && order.maybe_executed;
        let submissions: usize =
            evidence.responses.values().map(|responses| responses.new + responses.same).sum();
        let rewound = |row: &&evidence::AuditRow| {
            row.from.as_deref() == Some("sending") && row.to == "queued" && row.last_error.is_some()
        };
        println!(
            "  {} orders from {submissions} submissions ({} repeated): {} sent, {} dead ({} maybe executed); {} sends, \
             {} executed, {} rewound; settled after {:.1} s",
            evidence.orders.len(),
            self.repeated,
            ended("sent"),
            ended("dead"),
            evidence.orders.iter().filter(doubtful).count(),
            evidence.books.sent.len(),
            evidence.books.executed.len(),
            evidence.audit.iter().filter(rewound).count(),
            self.settled.as_secs_f64(),
        );
        super::conclude(
            &format!("order-chaos-{:?}-{}", self.engine, self.seed),
            &self.complaints,
            &self.logs,
        );
    }
}
