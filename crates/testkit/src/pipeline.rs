//! Runs the whole pipeline on one store with real sockets, driven by the test: each step runs only when the test
//! calls it, and the clock changes only when the test sets it.

mod arranged;

use crate::fixtures::{LEASE, POLICY, T0, at, token, worker_id};
use crate::harness::Harness;
use crate::random::Random;
use futures_util::future::join_all;
use posthaste_core::Timestamp;
use posthaste_core::ports::{Stage, Stores};
use posthaste_core::retry::RetryPolicy;
use posthaste_services::batcher::batcher;
use posthaste_services::cleaner::Cleaner;
use posthaste_services::clock::Clock;
use posthaste_services::egress::EgressPolicy;
use posthaste_services::ingest::Ingest;
use posthaste_services::metrics::Metrics;
use posthaste_services::oauth2::TokenCache;
use posthaste_services::orchestrator::{Admission, InFlight, Results};
use posthaste_services::router::Router;
use posthaste_services::runner::{Runner, Service};
use posthaste_services::seal::{PlainSecrets, SealingKeys, SecretSealer};
use posthaste_services::sender::{KeepAlive, Sender, Trust};
use posthaste_services::step::{Progress, Step};
use posthaste_services::wait_check::WaitCheck;
use posthaste_services::wake::WakeUps;
use posthaste_services::webhook_request::InstallationNames;
use posthaste_services::worker::{REPORTS, Reports, Worker, WorkerKit, WorkerOptions};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The maximum number of turns before the pipeline must be idle; more indicate an endless loop.
const TURNS_MAX: u32 = 300;
const LEASE_RESETS_MAX: u32 = 3;
const IN_FLIGHT_MAX: u32 = 2048;
/// The poll interval. Reports run on wake-ups; a short interval would hide a missing wake-up.
const POLL: Duration = Duration::from_secs(3600);

/// The configuration of the workers in a rig.
#[derive(Debug, Clone)]
pub struct Setup {
    pub slots: u32,
    /// The timeout of one request, in real time. A receiver that responds never reaches it.
    pub deadline: Duration,
    pub policy: EgressPolicy,
    /// The sender of all workers, or `None` for one that trusts no authority.
    pub sender: Option<Sender>,
    pub names: InstallationNames,
}

impl Default for Setup {
    fn default() -> Self {
        let allow_cidrs = vec!["127.0.0.0/8".parse().expect("a network")];
        let policy = EgressPolicy { allow_http: true, allow_cidrs, ..EgressPolicy::default() };
        let (deadline, names) = (Duration::from_secs(30), InstallationNames::default());
        Self { slots: 256, deadline, policy, sender: None, names }
    }
}

/// A pipeline with one instance of each component; more workers and orchestrators can be added.
pub struct Rig<S: Stores> {
    pub h: Harness<S>,
    pub clock: Clock,
    pub metrics: Metrics,
    pub sealer: Arc<SecretSealer>,
    pub processes: Vec<WorkerProcess<S>>,
    setup: Setup,
    wake_ups: WakeUps,
    random: Random,
    workers_added: u64,
    ingest: Ingest<S::Ingest>,
    router: Router<S::Router>,
    admissions: Vec<Admission<S::Orchestrator>>,
    results: Vec<Results<S::Orchestrator>>,
    waits: WaitCheck<(S::Orchestrator, RetryPolicy)>,
    cleaner: Cleaner<S::Cleaner>,
}

/// A worker and the runner for its reports. Dropping it is equivalent to killing its process.
pub struct WorkerProcess<S: Stores> {
    pub worker: Worker<S::Worker>,
    _reporting: Runner,
}

impl<S: Stores> fmt::Debug for Rig<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rig").field("setup", &self.setup).finish_non_exhaustive()
    }
}

impl<S: Stores> fmt::Debug for WorkerProcess<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkerProcess").finish_non_exhaustive()
    }
}

impl<S: Stores> Rig<S> {
    pub fn new(h: Harness<S>) -> Self {
        Self::with(h, Setup::default())
    }

    pub fn with(h: Harness<S>, setup: Setup) -> Self {
        let (clock, wake_ups, metrics) = (Clock::fixed(T0), WakeUps::alone(), Metrics::new());
        let keys = SealingKeys::parse(&"07".repeat(32)).expect("a key");
        let mut rig = Self {
            clock: clock.clone(),
            sealer: Arc::new(SecretSealer::new(Some(keys), PlainSecrets::Refused)),
            processes: Vec::new(),
            random: Random::new(7),
            workers_added: 0,
            ingest: Ingest::new(h.store.ingest(), wake_ups.clone(), metrics.clone()),
            router: Router::new(h.store.router(), clock.clone(), wake_ups.clone(), metrics.clone()),
            waits: WaitCheck::new((h.store.orchestrator(), POLICY), clock.clone()),
            cleaner: Cleaner::new(
                h.store.cleaner(),
                LEASE,
                LEASE_RESETS_MAX,
                clock,
                wake_ups.clone(),
                metrics.clone(),
            ),
            admissions: Vec::new(),
            results: Vec::new(),
            h,
            metrics,
            setup,
            wake_ups,
        };
        rig.add_orchestrator();
        rig.add_worker();
        rig
    }

    pub fn add_orchestrator(&mut self) {
        let in_flight = InFlight::new(IN_FLIGHT_MAX);
        let store = || self.h.store.orchestrator();
        let (clock, wake_ups, metrics) = (self.clock.clone(), self.wake_ups.clone(), self.metrics.clone());
        let shared = in_flight.clone();
        let results = Results::new(store(), POLICY, shared, clock.clone(), wake_ups.clone(), metrics.clone());
        self.results.push(results);
        self.admissions.push(Admission::new(store(), POLICY, in_flight, clock, wake_ups, metrics));
    }

    /// Adds a worker process.
    pub fn add_worker(&mut self) {
        self.workers_added += 1;
        let (store, metrics) = (self.h.store.worker(), self.metrics.clone());
        let work = Reports::new(store.clone(), self.wake_ups.clone(), metrics.clone());
        let (reports, batches) = batcher(work, self.setup.slots as usize, 500);
        let mut reporting = Runner::new(self.clock.clone(), metrics.clone());
        let wake_up = batches.wake_up();
        reporting.start(Service::new(REPORTS, batches, wake_up, POLL));
        let own = || Sender::new(self.setup.policy.clone(), Trust::nobody(), KeepAlive::default());
        let sender = self.setup.sender.clone().unwrap_or_else(|| own().expect("a sender"));
        let kit = WorkerKit {
            tokens: TokenCache::new(sender.clone()),
            names: self.setup.names.clone(),
            sender,
            sealer: Arc::clone(&self.sealer),
            reports,
            clock: self.clock.clone(),
            metrics,
            wake_up: self.wake_ups.wake_up(Stage::Delivery),
        };
        let options = WorkerOptions {
            worker_id: worker_id(self.workers_added),
            lease: LEASE,
            deadline: self.setup.deadline,
            slots: self.setup.slots,
        };
        let worker = Worker::new(store, options, kit, Box::new(token));
        self.processes.push(WorkerProcess { worker, _reporting: reporting });
    }

    /// Kills all workers immediately.
    pub fn kill_workers(&mut self) {
        self.processes.clear();
    }

    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Sets the clock to `seconds` after [`T0`].
    pub fn move_to(&self, seconds: u64) {
        self.clock.set(at(seconds));
    }

    pub fn move_by(&self, span: Duration) {
        self.clock.set(self.now().after(span));
    }
}

impl<S: Stores> Rig<S> {
    pub async fn route(&mut self) {
        while self.router.step(self.clock.now()).await.expect("routing") == Progress::More {}
    }

    pub async fn admit(&mut self) {
        let now = self.now();
        while self.waits.step(now).await.expect("a check of the waits") == Progress::More {}
        for step in join_all(self.admissions.iter_mut().map(|admission| admission.step(now))).await {
            step.expect("admission");
        }
    }

    /// Runs one step of every worker, which claims jobs for its free slots and starts sending them.
    pub async fn send(&mut self) {
        let now = self.now();
        for step in join_all(self.processes.iter_mut().map(|process| process.worker.step(now))).await {
            step.expect("sending");
        }
    }

    /// Waits until all requests in flight have been answered and reported.
    pub async fn settle(&mut self) {
        join_all(self.processes.iter_mut().map(|process| process.worker.settle())).await;
    }

    pub async fn apply(&mut self) {
        let now = self.now();
        for step in join_all(self.results.iter_mut().map(|results| results.step(now))).await {
            step.expect("results");
        }
    }

    pub async fn clean(&mut self) {
        self.cleaner.step(self.clock.now()).await.expect("cleaning");
    }

    /// Runs each component once, in the order of the pipeline.
    pub async fn turn(&mut self) {
        self.route().await;
        self.admit().await;
        self.send().await;
        self.settle().await;
        self.apply().await;
    }

    /// Runs turns until the state no longer changes. The clock does not advance, so with several components of a kind,
    /// or results that finish out of order, rows may remain for a later full scan.
    pub async fn until_quiet(&mut self) {
        let mut before = self.state().await;
        for _ in 0..TURNS_MAX {
            self.turn().await;
            let after = self.state().await;
            if after == before {
                return;
            }
            before = after;
        }
        panic!("still moving after {TURNS_MAX} turns: {before:?}");
    }

    /// Advances the clock through all retries of the default schedule.
    pub async fn until_dead_lettered(&mut self) {
        for seconds in [0, 30, 90, 210, 450] {
            self.move_to(seconds);
            self.until_quiet().await;
        }
    }

    async fn state(&self) -> Vec<Vec<Option<String>>> {
        let sql = "SELECT 'sagas', CAST(status AS TEXT) AS what, count(*), sum(attempt_count) FROM webhook_delivery_sagas GROUP BY status
            UNION ALL SELECT 'jobs', CAST(status AS TEXT), count(*), sum(lease_resets)
            FROM webhook_delivery_jobs GROUP BY status
            UNION ALL SELECT 'queue', '', count(*), 0 FROM routing_queue
            UNION ALL SELECT 'inbox', '', count(*), 0 FROM finished_jobs ORDER BY 1, 2";
        self.h.direct.rows(sql).await
    }
}
