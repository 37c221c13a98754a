//! `posthaste serve`: opens the store, starts the services of the process roles, and drains them in order after a
//! signal.

mod api;
mod roles;

use crate::database::DatabaseUrl;
use crate::settings::{ProcessRole, Settings};
use crate::signals::Signals;
use crate::{network, postgres_login, random};
use anyhow::Context as _;
use posthaste_api::server::{Server, ServerOptions};
use posthaste_api::{BuildInfo, Readiness, TrustedProxies, health_router};
use posthaste_core::order::Order;
use posthaste_core::ports::{IngestRequest, RequestOutcome, Stage, Stores, Submission};
use posthaste_core::{Timestamp, WorkerId};
use posthaste_services::batcher::{BatchHandler, Batcher, batcher};
use posthaste_services::clock::{Clock, ClockSetter};
use posthaste_services::failed_sign_ins::FailedSignInCounter;
use posthaste_services::metrics::Metrics;
use posthaste_services::metrics::database::{DatabaseReading, RoleConnections};
use posthaste_services::oauth2::TokenCache;
use posthaste_services::outbox::LaneState;
use posthaste_services::runner::{DrainPhase, Heartbeat, Runner, Service};
use posthaste_services::sender::Sender;
use posthaste_services::step::Step;
use posthaste_services::survey::LastSurvey;
use posthaste_services::telemetry::{self, Identity, Telemetry};
use posthaste_services::wake::{Announcer, Listener, WakeUp, WakeUps};
use posthaste_store::postgres::{
    ConnectFailure, ConnectionMonitor, PoolMonitor, PoolStatus, PostgresListener, PostgresOptions,
    PostgresStore,
};
use posthaste_store::sqlite::{SqliteOptions, SqliteStore};
use posthaste_store::{LogObserver, Observer};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::time::Instant;

/// The interval between two samples of the store clock.
const CLOCK_POLL: Duration = Duration::from_secs(5);
/// The poll interval of batchers and the announcer. Calls wake them up; the poll only updates their heartbeat.
const BATCHER_POLL: Duration = Duration::from_secs(5);
/// The minimum time without a completed step after which a service counts as late.
const LATE_AFTER: Duration = Duration::from_secs(15);
/// The number of poll intervals without a completed step after which a service counts as late.
const LATE_POLLS: u32 = 3;
/// The services that readiness ignores, because deliveries and orders do not depend on them.
const OPTIONAL_SERVICES: [&str; 4] = ["presence", "surveyor", "failed_sign_ins", "ledger_purge"];
/// The minimum interval between two wake-ups sent to other processes.
const ANNOUNCE_PACE: Duration = Duration::from_millis(3);

/// Runs the services until a signal arrives.
pub(crate) fn run(settings: &Settings) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let (listening, _) = oneshot::channel();
    runtime.context("starting the runtime")?.block_on(serve(settings, listening))
}

/// Opens the store of the configured engine and runs the process. Sends the address of the API to `listening` once it
/// accepts connections.
pub(crate) async fn serve(
    settings: &Settings,
    listening: oneshot::Sender<SocketAddr>,
) -> anyhow::Result<ExitCode> {
    let mut signals = Signals::new()?;
    let metrics = Metrics::new();
    let observer = observer(&metrics);
    match (postgres_login::postgres_options(settings), &settings.database.url) {
        (None, DatabaseUrl::Sqlite(path)) => {
            let log_observer = log_observer(&metrics);
            let options = SqliteOptions { observer, log_observer, ..SqliteOptions::new(path) };
            let store = SqliteStore::open(&options)?;
            let process = Process::new(settings, store, WakeUps::alone(), metrics).await?;
            process.run(&mut signals, listening).await
        }
        (None, DatabaseUrl::Postgres(_)) => anyhow::bail!("no login for the database"),
        (Some(options), _) => {
            let options = PostgresOptions { observer, ..options };
            let Some(store) = signals.or(postgres_login::wait_for(|| PostgresStore::connect(&options))).await
            else {
                return Ok(ExitCode::SUCCESS);
            };
            let store = store?;
            // A URL that bypasses a pooler leads to another server, which must not count as a failover.
            let direct = settings.database.direct.as_ref().map(|_| options.monitor.separate());
            let listen_url = postgres_login::listen_url(settings, &options).unwrap_or_default();
            let listen_monitor = direct.as_ref().unwrap_or(&options.monitor);
            let listener = PostgresListener::with_password(listen_url, &options.password, listen_monitor)?;
            let monitors = std::iter::once(options.monitor.clone()).chain(direct).collect();
            metrics.database.read_from(database_reading(store.pool_monitor(), monitors));
            let wake_ups = WakeUps::among_others(stages(settings));
            let announcer = Announcer::new(store.announcer(), wake_ups.clone());
            let mut process = Process::new(settings, store, wake_ups.clone(), metrics).await?;
            let wake_up = announcer.wake_up();
            let announcer = Service::new("announcer", announcer, wake_up, BATCHER_POLL);
            process.runner.start(Service { pace: ANNOUNCE_PACE, phase: DrainPhase::Results, ..announcer });
            let listener = Listener::new(listener, wake_ups);
            process.runner.start(Service::new("listener", listener, WakeUp::default(), settings.poll));
            process.run(&mut signals, listening).await
        }
    }
}

/// Returns an observer that records the latency of store calls by database role.
fn observer(metrics: &Metrics) -> Observer {
    let metrics = metrics.clone();
    Observer::new(move |role, took| metrics.store_called(role.name(), took))
}

/// Returns a function that reads the connections to PostgreSQL, for the metrics. The counts of all monitors are added.
fn database_reading(
    pools: PoolMonitor,
    monitors: Vec<ConnectionMonitor>,
) -> impl Fn() -> DatabaseReading + Send + Sync {
    move || DatabaseReading {
        connections: pools
            .status()
            .into_iter()
            .map(|(role, PoolStatus { idle, in_use, waiting })| RoleConnections {
                role: role.name(),
                idle,
                in_use,
                waiting,
            })
            .collect(),
        failures: ConnectFailure::ALL
            .map(|reason| (reason.name(), monitors.iter().map(|monitor| monitor.failures_of(reason)).sum()))
            .to_vec(),
        failovers: monitors.iter().map(ConnectionMonitor::failovers).sum(),
    }
}

/// Returns an observer that exports the size of SQLite's write-ahead log as a metric.
fn log_observer(metrics: &Metrics) -> LogObserver {
    let metrics = metrics.clone();
    LogObserver::new(move |bytes, is_blocked| metrics.wal_seen(bytes, is_blocked))
}

/// Returns the current time of the machine's clock. Used only to detect clock skew relative to the store clock.
fn machine_now() -> Timestamp {
    let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_micros(0).after(since_epoch)
}

/// Returns the stages that the process roles work on.
fn stages(settings: &Settings) -> Vec<Stage> {
    let of = |role: &ProcessRole| match role {
        ProcessRole::Router => vec![Stage::Routing],
        ProcessRole::Orchestrator => vec![Stage::Admission, Stage::Results],
        ProcessRole::Worker => vec![Stage::Delivery],
        ProcessRole::Outbox => vec![Stage::Outbox],
        ProcessRole::Api | ProcessRole::Cleaner => vec![],
    };
    settings.roles.iter().flat_map(of).collect()
}

/// A process with its services, sockets and queues.
struct Process<'a, S> {
    settings: &'a Settings,
    store: S,
    wake_ups: WakeUps,
    clock: Clock,
    metrics: Metrics,
    worker_id: WorkerId,
    runner: Runner,
    /// The lane state that this process last read.
    lane: LaneState,
    /// The HTTP client for deliveries, orders, challenges and test events. `None` if no role of this process needs it.
    sender: Option<Sender>,
    /// The access tokens for deliveries, challenges and test events. `None` without a sender.
    tokens: Option<TokenCache>,
    /// The socket of the API. `None` without the role api.
    listener: Option<TcpListener>,
    /// The socket for health probes and metrics. `None` if it is not configured.
    metrics_listener: Option<TcpListener>,
    /// The last survey of the backlog. Updated only with the role api.
    last_survey: LastSurvey,
    failed_sign_ins: FailedSignInCounter,
    /// The queue for new events. `None` without the role api.
    ingest: Option<Batcher<IngestRequest, RequestOutcome>>,
    /// The queue for new orders. `None` without the role api or without a broker.
    intake: Option<Batcher<Order, Submission>>,
}

impl<'a, S: Stores> Process<'a, S> {
    /// Opens the sockets and starts the services of all roles.
    async fn new(
        settings: &'a Settings,
        store: S,
        wake_ups: WakeUps,
        metrics: Metrics,
    ) -> anyhow::Result<Self> {
        let clock = Clock::sampled(&store.sample_clock().await?);
        let runner = Runner::new(clock.clone(), metrics.clone());
        let worker_id = WorkerId::parse(random::process_name()?)?;
        let sends = [ProcessRole::Worker, ProcessRole::Api, ProcessRole::Outbox]
            .iter()
            .any(|role| settings.roles.contains(role));
        metrics.outbox.lag_sla.set(settings.outbox.lag_sla.as_secs_f64());
        let sender = sends.then(|| network::sender(settings)).transpose()?;
        // Opens the sockets before any service claims work, because an address in use aborts the start.
        let listener = match settings.roles.contains(&ProcessRole::Api) {
            true => Some(network::listen(settings)?),
            false => None,
        };
        let metrics_listener = network::listen_for_metrics(settings)?;
        let mut process = Self {
            settings,
            store,
            wake_ups,
            clock,
            lane: LaneState::new(metrics.clone()),
            metrics,
            worker_id,
            runner,
            tokens: sender.clone().map(TokenCache::new),
            sender,
            listener,
            metrics_listener,
            last_survey: LastSurvey::default(),
            failed_sign_ins: FailedSignInCounter::default(),
            ingest: None,
            intake: None,
        };
        process.start()?;
        Ok(process)
    }

    /// Starts the services of every role, then the presence service.
    fn start(&mut self) -> anyhow::Result<()> {
        let clock = ClockSetter::new(self.store.clone(), self.clock.clone(), self.metrics.clone());
        self.start_polling("clock", clock, CLOCK_POLL);
        for role in &self.settings.roles {
            match role {
                ProcessRole::Router => self.start_router(),
                ProcessRole::Orchestrator => self.start_orchestrator(),
                ProcessRole::Worker => self.start_worker()?,
                ProcessRole::Cleaner => self.start_cleaner(),
                ProcessRole::Api => self.start_api_role(),
                ProcessRole::Outbox => self.start_outbox()?,
            }
        }
        self.start_telemetry();
        Ok(())
    }

    /// Starts a service that has no wake-ups and only polls.
    fn start_polling<T: Step + 'static>(&mut self, name: &'static str, step: T, every: Duration) {
        self.runner.start(Service::new(name, step, WakeUp::default(), every));
    }

    /// Starts a batcher and returns the handle for calls to it.
    fn start_batcher<W: BatchHandler + 'static>(
        &mut self,
        name: &'static str,
        work: W,
        waiting_max: usize,
        batch_max: usize,
    ) -> Batcher<W::Input, W::Output> {
        let (calls, batches) = batcher(work, waiting_max, batch_max);
        let wake_up = batches.wake_up();
        let service = Service::new(name, batches, wake_up, BATCHER_POLL);
        self.runner.start(Service { phase: DrainPhase::Results, ..service });
        calls
    }

    /// Returns the roles that have work to do. Without a broker, the role outbox has none.
    fn active_roles(&self) -> impl Iterator<Item = ProcessRole> {
        let has_broker = self.settings.broker.url.is_some();
        self.settings.roles.iter().copied().filter(move |role| has_broker || *role != ProcessRole::Outbox)
    }

    fn start_telemetry(&mut self) {
        let identity = Identity {
            process_id: self.worker_id.clone(),
            version: env!("CARGO_PKG_VERSION"),
            started_at: self.clock.now(),
            roles: self.active_roles().map(ProcessRole::as_str).collect(),
        };
        let telemetry = Telemetry::new(self.store.presence(), identity, self.metrics.clone());
        let service = Service::new("presence", telemetry, WakeUp::default(), telemetry::EVERY);
        self.runner.start(Service { phase: DrainPhase::Telemetry, ..service });
    }

    /// Returns the heartbeats of the services that readiness depends on.
    fn heartbeats(&self) -> Vec<Arc<Heartbeat>> {
        self.runner
            .heartbeats()
            .iter()
            .filter(|heartbeat| !OPTIONAL_SERVICES.contains(&heartbeat.name))
            .cloned()
            .collect()
    }

    /// Returns the time without a completed step after which a service counts as late.
    fn late_after(&self) -> Duration {
        let settings = self.settings;
        let intervals =
            [settings.poll, settings.lease.cleaner_interval, settings.outbox.idle_sleep, CLOCK_POLL];
        let poll_max = intervals.into_iter().max().unwrap_or(CLOCK_POLL);
        LATE_AFTER.max(poll_max.saturating_mul(LATE_POLLS))
    }

    /// Starts the server for health probes and metrics, independently of the roles. Returns `None` if it is not
    /// configured.
    fn start_metrics(&mut self) -> anyhow::Result<Option<Server>> {
        let Some(listener) = self.metrics_listener.take() else { return Ok(None) };
        let store = self.store.clone();
        let ping = move || {
            let store = store.clone();
            async move { store.now().await.map(drop) }
        };
        let (heartbeats, lane) = (self.heartbeats(), Some(self.lane.clone()));
        let (metrics, build) = (self.metrics.clone(), self.build_info());
        let health = Readiness::new(ping, metrics, build, heartbeats, self.late_after(), lane);
        let address = listener.local_addr().context("reading the local address")?;
        tracing::info!(url = format!("http://{address}/metrics"), "metrics listening");
        let router = health_router(Arc::new(health), random::fill);
        Ok(Some(Server::start_with(listener, router, self.server_options())))
    }

    /// Returns the labels of `posthaste_build_info`.
    fn build_info(&self) -> BuildInfo {
        let has_postgres = postgres_login::postgres_options(self.settings).is_some();
        BuildInfo::of_engine(if has_postgres { "postgresql" } else { "sqlite" })
    }

    fn server_options(&self) -> ServerOptions {
        ServerOptions {
            trusted_proxies: TrustedProxies(self.settings.trusted_proxies.clone()),
            connections_refused: self.metrics.connections_refused.clone(),
            ..ServerOptions::default()
        }
    }

    /// Serves until a signal arrives, then drains the API first, then the services, and the probes last.
    async fn run(
        mut self,
        signals: &mut Signals,
        listening: oneshot::Sender<SocketAddr>,
    ) -> anyhow::Result<ExitCode> {
        let roles: Vec<&str> = self.settings.roles.iter().copied().map(ProcessRole::as_str).collect();
        let api = self.start_api(listening)?;
        let probes = self.start_metrics()?;
        let (roles, worker_id) = (roles.join(","), self.worker_id.as_str());
        tracing::info!(roles, worker_id, database = postgres_login::describe(self.settings), "serving");
        let signal = signals.next().await;
        tracing::info!(signal, "shutting down, draining");
        let grace = self.settings.shutdown_grace;
        let until = Instant::now() + grace;
        let stopped = async {
            // Open requests need the ingest service, which is stopped with the runner below.
            let is_drained = match api {
                Some(api) => api.stop(grace / 4).await,
                None => true,
            };
            if !is_drained {
                tracing::warn!("requests still open after a quarter of the grace period, aborted");
            }
            let stopped = self.runner.stop(until.saturating_duration_since(Instant::now())).await;
            // The probes respond until everything else has stopped.
            if let Some(probes) = probes {
                probes.stop(Duration::ZERO).await;
            }
            stopped
        };
        let Some(clean) = signals.or(stopped).await else {
            tracing::warn!("second signal, exiting immediately");
            std::process::exit(1);
        };
        if clean {
            tracing::info!("stopped");
            return Ok(ExitCode::SUCCESS);
        }
        let grace_s = self.settings.shutdown_grace.as_secs();
        tracing::error!(
            grace_s,
            "grace period exceeded, exiting with work in flight; its leases will expire"
        );
        Ok(ExitCode::FAILURE)
    }
}
