//! Runs the order lane on one store with real sockets, driven by the test: a worker runs a step only when the test
//! calls it, and the clock changes only when the test sets it.

use crate::fixtures::{T0, order, token, worker_id};
use crate::harness::Harness;
use futures_util::future::join_all;
use posthaste_core::Timestamp;
use posthaste_core::lane::Lane;
use posthaste_core::order::{IdempotencyKey, OrderStatus};
use posthaste_core::ports::{
    AuditEntry, OrderRecord, OutboxIntakeStore as _, OutboxWorkerStore, PageRequest, ReaderStore as _,
    StoreResult, Stores,
};
use posthaste_core::retry::OrderRetryPolicy;
use posthaste_services::batcher::batcher;
use posthaste_services::clock::Clock;
use posthaste_services::egress::EgressPolicy;
use posthaste_services::metrics::Metrics;
use posthaste_services::outbox::{
    Broker, HttpBroker, HttpBrokerOptions, LaneObserver, LaneState, LaneWatch, LedgerPurge, OrderJanitor,
    OrderRequeue, OrderSender, OutboxKit, OutboxOptions, SETTLEMENTS, Settlements,
};
use posthaste_services::runner::{Runner, Service};
use posthaste_services::sender::{KeepAlive, Sender, Trust};
use posthaste_services::step::{Progress, Step};
use posthaste_services::wait_check::WaitCheck;
use posthaste_services::wake::WakeUp;
use std::fmt;
use std::time::Duration;

pub const POLICY: OrderRetryPolicy = OrderRetryPolicy::ORDER;
pub const STUCK_THRESHOLD: Duration = Duration::from_secs(600);
pub const MARKER: &str = "already processed";

const LEDGER_TTL: Duration = Duration::from_secs(7 * 86_400);
/// The maximum number of turns before the lane must be idle.
const TURNS_MAX: u32 = 3_000;
/// The poll interval. Settlements run on wake-ups; a short interval would hide a missing wake-up.
const POLL: Duration = Duration::from_secs(3600);

/// The configuration of the workers in a rig.
#[derive(Debug, Clone)]
pub struct OrderSetup {
    pub batch_size: u32,
    pub parallelism: u32,
    /// The timeout of one request, in real time. A broker that responds never reaches it.
    pub deadline: Duration,
}

impl Default for OrderSetup {
    fn default() -> Self {
        Self { batch_size: 32, parallelism: 4, deadline: Duration::from_secs(30) }
    }
}

/// Several workers on one lane, each equivalent to a separate process, and a watch that reads the lane's state.
pub struct OrderRig<S: Stores> {
    pub h: Harness<S>,
    pub clock: Clock,
    pub metrics: Metrics,
    pub lane: LaneState,
    pub processes: Vec<WorkerProcess<S::OutboxWorker, HttpBroker>>,
    setup: OrderSetup,
    watch: LaneWatch<S::Reader>,
    workers_added: u64,
}

/// A worker and the runner for its settlements. Dropping it is equivalent to killing its process.
pub struct WorkerProcess<W, B> {
    pub worker: OutboxSteps<W, B>,
    /// The wake-up that is notified when the worker has work to do.
    pub wake_up: WakeUp,
    _settling: Runner,
}

/// All steps of the outbox process role.
#[derive(Debug)]
pub struct OutboxSteps<W, B> {
    pub sender: OrderSender<W, B>,
    waits: WaitCheck<(W, OrderRetryPolicy)>,
    requeue: OrderRequeue<W>,
    janitor: OrderJanitor<W>,
    purge: LedgerPurge<W>,
    observer: LaneObserver<W>,
}

impl<W: OutboxWorkerStore + Clone, B: Broker> OutboxSteps<W, B> {
    pub async fn settle(&mut self) {
        self.sender.settle().await;
    }
}

impl<W: OutboxWorkerStore + Clone, B: Broker> Step for OutboxSteps<W, B> {
    /// Runs each step once, even if an earlier one fails. Returns the first error, or the earliest time at which
    /// a further step is due.
    async fn step(&mut self, now: Timestamp) -> StoreResult<Progress> {
        let steps = [
            self.waits.step(now).await,
            self.requeue.step(now).await,
            self.sender.step(now).await,
            self.janitor.step(now).await,
            self.purge.step(now).await,
            self.observer.step(now).await,
        ];
        steps.into_iter().try_fold(Progress::Idle, |soonest, step| Ok(earliest(soonest, step?)))
    }

    async fn drain(&mut self, clock: &Clock, patience: Duration) {
        self.sender.drain(clock, patience).await;
    }
}

fn earliest(one: Progress, other: Progress) -> Progress {
    match (one, other) {
        (Progress::More, _) | (_, Progress::More) => Progress::More,
        (Progress::Idle | Progress::Unasked, other) | (other, Progress::Idle | Progress::Unasked) => other,
        (Progress::IdleUntil(one), Progress::IdleUntil(other)) => Progress::IdleUntil(one.min(other)),
    }
}

impl<S: Stores> fmt::Debug for OrderRig<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OrderRig").field("setup", &self.setup).finish_non_exhaustive()
    }
}

impl<W, B> fmt::Debug for WorkerProcess<W, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkerProcess").finish_non_exhaustive()
    }
}

/// Returns a sender that may use plain HTTP to loopback addresses.
pub fn loopback_sender() -> Sender {
    let allow_cidrs = vec!["127.0.0.0/8".parse().expect("a network")];
    let policy = EgressPolicy { allow_http: true, allow_cidrs, ..EgressPolicy::default() };
    Sender::new(policy, Trust::nobody(), KeepAlive::default()).expect("a sender")
}

pub fn http_broker(sender: Sender, url: &str, deadline: Duration) -> HttpBroker {
    let headers = vec![(http::header::AUTHORIZATION, http::HeaderValue::from_static("Bearer hush"))];
    let options =
        HttpBrokerOptions { url: url.to_owned(), headers, processed_marker: MARKER.to_owned(), deadline };
    HttpBroker::new(sender, options)
}

impl<S: Stores> OrderRig<S> {
    /// Creates a rig without workers.
    pub fn new(h: Harness<S>) -> Self {
        Self::with(h, OrderSetup::default())
    }

    pub fn with(h: Harness<S>, setup: OrderSetup) -> Self {
        let metrics = Metrics::new();
        let lane = LaneState::new(metrics.clone());
        let watch = LaneWatch::new(h.store.reader(), lane.clone());
        Self {
            h,
            clock: Clock::fixed(T0),
            metrics,
            lane,
            processes: Vec::new(),
            setup,
            watch,
            workers_added: 0,
        }
    }

    /// Adds a worker that sends orders to `url`.
    pub fn add_worker(&mut self, url: &str) {
        let broker = http_broker(loopback_sender(), url, self.setup.deadline);
        let process = self.process(broker);
        self.processes.push(process);
    }

    /// Creates a worker that [`Self::turn`] does not run.
    pub fn process<B: Broker>(&mut self, broker: B) -> WorkerProcess<S::OutboxWorker, B> {
        let store = self.h.store.outbox_worker();
        self.process_over(store, broker)
    }

    /// Creates a worker on the given store that [`Self::turn`] does not run.
    pub fn process_over<W: OutboxWorkerStore + Clone, B: Broker>(
        &mut self,
        store: W,
        broker: B,
    ) -> WorkerProcess<W, B> {
        self.workers_added += 1;
        let metrics = self.metrics.clone();
        let work = Settlements::new(store.clone(), POLICY, metrics.clone());
        let slots = self.setup.parallelism as usize;
        let (settlements, batches) = batcher(work, slots, slots);
        let mut settling = Runner::new(self.clock.clone(), metrics.clone());
        let wake_up = batches.wake_up();
        settling.start(Service::new(SETTLEMENTS, batches, wake_up, POLL));
        let options = OutboxOptions {
            worker_id: worker_id(self.workers_added),
            batch_size: self.setup.batch_size,
            parallelism: self.setup.parallelism,
            policy: POLICY,
            stuck_threshold: STUCK_THRESHOLD,
        };
        let wake_up = WakeUp::default();
        let (clock, policy) = (self.clock.clone(), POLICY);
        let kit = OutboxKit {
            settlements,
            clock: clock.clone(),
            metrics: metrics.clone(),
            wake_up: wake_up.clone(),
        };
        let worker = OutboxSteps {
            sender: OrderSender::new(store.clone(), broker, options, kit, Box::new(token)),
            waits: WaitCheck::new((store.clone(), policy), clock),
            requeue: OrderRequeue {
                store: store.clone(),
                policy,
                metrics: metrics.clone(),
                sender: wake_up.clone(),
            },
            janitor: OrderJanitor::new(store.clone(), STUCK_THRESHOLD, policy, metrics, wake_up.clone()),
            purge: LedgerPurge(store.clone()),
            observer: LaneObserver::new(store, self.lane.clone()),
        };
        WorkerProcess { worker, wake_up, _settling: settling }
    }

    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub fn move_by(&self, span: Duration) {
        self.clock.set(self.now().after(span));
    }

    /// Submits the orders `prefix-0`, `prefix-1` and so on at the current time, and returns their keys.
    pub async fn submit(&self, prefix: &str, count: usize) -> Vec<IdempotencyKey> {
        let orders: Vec<_> = (0..count).map(|number| order(&format!("{prefix}-{number}"), 1)).collect();
        let keys = orders.iter().map(|order| order.key.clone()).collect();
        self.h.calm.outbox_intake().submit_orders(orders, LEDGER_TTL, self.now()).await.expect("a result");
        keys
    }
}

impl<S: Stores> OrderRig<S> {
    /// Runs one step of every worker and settles the orders sent. Returns when the next step is due.
    pub async fn turn(&mut self) -> Progress {
        let now = self.now();
        let steps = join_all(self.processes.iter_mut().map(|process| process.worker.step(now))).await;
        join_all(self.processes.iter_mut().map(|process| process.worker.settle())).await;
        steps.into_iter().map(|step| step.expect("a step")).fold(Progress::Idle, earliest)
    }

    /// Runs turns until the lane is idle at the current time. Returns the time at which it next has work, or `None`
    /// if it has none.
    pub async fn until_quiet(&mut self) -> Option<Timestamp> {
        let mut before = self.transitions().await;
        for _ in 0..TURNS_MAX {
            let progress = self.turn().await;
            let after = self.transitions().await;
            match progress {
                Progress::Idle | Progress::Unasked if after == before => return None,
                Progress::IdleUntil(at) if after == before => return Some(at),
                Progress::Idle | Progress::Unasked | Progress::IdleUntil(_) | Progress::More => {
                    before = after;
                }
            }
        }
        panic!("still moving after {TURNS_MAX} turns");
    }

    /// Advances the clock by `span`, running the workers at each time that they request.
    pub async fn pass(&mut self, span: Duration) {
        let end = self.now().after(span);
        while let Some(at) = self.until_quiet().await.filter(|at| *at <= end) {
            self.clock.set(at);
        }
        self.clock.set(end);
        self.until_quiet().await;
    }

    /// Runs the lane watch, as the process that serves the API does.
    pub async fn watch(&mut self) {
        let now = self.now();
        self.watch.step(now).await.expect("the state of the lane");
    }

    async fn transitions(&self) -> i64 {
        self.h.direct.number("SELECT count(*) FROM outbox_audit").await
    }
}

impl<S: Stores> OrderRig<S> {
    pub async fn order(&self, key: &IdempotencyKey) -> OrderRecord {
        self.h.calm.reader().order(key.clone()).await.expect("a result").expect("an order")
    }

    pub async fn audit(&self, key: &IdempotencyKey) -> Vec<AuditEntry> {
        let mut entries = Vec::new();
        let mut page = PageRequest::first(1_000);
        loop {
            let found = self.h.calm.reader().order_audit(key.clone(), page).await.expect("a result");
            entries.extend(found.items);
            page.after = found.next;
            if page.after.is_none() {
                return entries;
            }
        }
    }

    pub async fn stored_lane(&self) -> Lane {
        self.h.calm.outbox_worker().load_lane().await.expect("a result")
    }

    pub async fn orders(&self) -> Vec<OrderRecord> {
        let mut orders = Vec::new();
        let mut page = PageRequest::first(1_000);
        loop {
            let found = self.h.calm.reader().orders(None, page).await.expect("a result");
            orders.extend(found.items);
            page.after = found.next;
            if page.after.is_none() {
                return orders;
            }
        }
    }

    pub async fn count(&self, status: OrderStatus) -> usize {
        self.orders().await.iter().filter(|order| order.status == status).count()
    }

    /// Replays the audit of every order. Checks that each entry continues from the previous one and that the last one
    /// matches the order.
    pub async fn check_audit(&self) {
        for order in self.orders().await {
            let audit = self.audit(&order.idempotency_key).await;
            let (mut status, mut count, mut error) = (None, 0, None);
            for entry in audit {
                assert_eq!(entry.status_from, status, "{entry:?}");
                assert!(status.is_none_or(|from: OrderStatus| from.may_become(entry.status_to)), "{entry:?}");
                assert_eq!(entry.trace_id, order.trace_id);
                (status, count, error) = (Some(entry.status_to), entry.retry_count, entry.last_error);
            }
            assert_eq!((status, count, error), (Some(order.status), order.retry_count, order.last_error));
        }
    }

    /// Returns the value of a metric, or `None` if there is no such metric. `line` is the exported line up to the
    /// value.
    pub fn metric(&self, line: &str) -> Option<f64> {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.metrics.registry).expect("text");
        text.lines().find_map(|found| {
            let (name, value) = found.rsplit_once(' ')?;
            (name == line).then(|| value.parse().expect("a number"))
        })
    }
}
