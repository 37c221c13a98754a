//! `posthaste serve`: opens the store, starts the services of the roles that this process runs, and
//! ends them in order when it is told to.

use crate::database::DatabaseUrl;
use crate::settings::{Role, Settings};
use crate::signals::Signals;
use crate::{login, network, random};
use anyhow::Context as _;
use posthaste_api::server::{Server, ServerOptions};
use posthaste_api::{
    ApiState, Health, Limits, Operations, Outgoing, TrustedProxies, health_router, key_hash, router,
};
use posthaste_core::order::Order;
use posthaste_core::ports::{IngestRequest, RequestOutcome, Stage, Stores, Submission};
use posthaste_core::{Timestamp, WorkerId};
use posthaste_services::batcher::{Batcher, batcher};
use posthaste_services::cleaner::Cleaner;
use posthaste_services::clock::{Clock, ClockSetter};
use posthaste_services::failed_sign_ins::{self, FailedSignInCounter, FailedSignInWriter};
use posthaste_services::ingest::{self, Ingest};
use posthaste_services::intake::{self, Intake};
use posthaste_services::metrics::Metrics;
use posthaste_services::orchestrator::{Admission, InFlight, Results};
use posthaste_services::outbox::{
    HttpBroker, HttpBrokerOptions, LaneState, LaneWatch, OutboxKit, OutboxOptions, OutboxWorker, SETTLEMENTS,
    Settlements,
};
use posthaste_services::router::Router;
use posthaste_services::runner::{Phase, Pulse, Runner, Service};
use posthaste_services::seal::SecretSealer;
use posthaste_services::sender::Sender;
use posthaste_services::survey::{self, LastSurvey, SurveyOptions, Surveyor};
use posthaste_services::telemetry::{self, Identity, Telemetry};
use posthaste_services::wake::{Announcer, Bell, Listener, Wakes};
use posthaste_services::worker::{REPORTS, Reports, Worker, WorkerKit, WorkerOptions};
use posthaste_store::postgres::{PostgresListener, PostgresOptions, PostgresStore};
use posthaste_store::sqlite::{MIGRATIONS, SqliteOptions, SqliteStore};
use posthaste_store::{LogObserver, Observer};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::time::Instant;

/// The most reports of one batch.
const REPORTS_MAX: usize = 500;
/// How often the clock is set by the store's.
const CLOCK_POLL: Duration = Duration::from_secs(5);
/// How often a batcher, which is rung for every call, shows that it is alive.
const BATCHER_POLL: Duration = Duration::from_secs(5);
/// How often a process that answers questions looks at the lane to the broker.
const LANE_POLL: Duration = Duration::from_secs(1);
/// The shortest time between two announcements to other processes.
const ANNOUNCE_PACE: Duration = Duration::from_millis(3);
/// A service that has not stepped for so long, or for several of its polls, is not ready.
const LATE_AFTER: Duration = Duration::from_secs(15);
const LATE_POLLS: u32 = 3;
/// Services that tell of the others: when they are late, a process does its work all the same.
const NOT_NEEDED: [&str; 3] = ["presence", "surveyor", "failed_sign_ins"];

pub(crate) fn run(settings: &Settings) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let (listening, _) = oneshot::channel();
    runtime.context("starting the runtime")?.block_on(serve(settings, listening))
}

/// The one place that chooses an engine. Whoever waits for it is told where the API listens.
pub(crate) async fn serve(
    settings: &Settings,
    listening: oneshot::Sender<SocketAddr>,
) -> anyhow::Result<ExitCode> {
    let mut signals = Signals::new()?;
    let metrics = Metrics::new();
    let observer = observer(&metrics);
    match (login::postgres_options(settings), &settings.database.url) {
        (None, DatabaseUrl::Sqlite(path)) => {
            let log_observer = log_observer(&metrics);
            let options = SqliteOptions { observer, log_observer, ..SqliteOptions::new(path) };
            let store = SqliteStore::open(&options)?;
            let process = Process::new(settings, store, Wakes::alone(), metrics).await?;
            process.run(&mut signals, listening).await
        }
        (None, DatabaseUrl::Postgres(_)) => anyhow::bail!("no login to the database"),
        (Some(options), _) => {
            let options = PostgresOptions { observer, ..options };
            let Some(store) = signals.or(login::wait_for(|| PostgresStore::connect(&options))).await else {
                return Ok(ExitCode::SUCCESS);
            };
            let store = store?;
            let listener = PostgresListener::new(login::listen_url(settings, &options).unwrap_or_default())?;
            let wakes = Wakes::among_others(stages(settings));
            let announcer = Announcer::new(store.announcer(), wakes.clone());
            let mut process = Process::new(settings, store, wakes.clone(), metrics).await?;
            let bell = announcer.bell();
            let announcer = Service::new("announcer", announcer, bell, BATCHER_POLL);
            process.runner.start(Service { pace: ANNOUNCE_PACE, phase: Phase::Flushes, ..announcer });
            let listener = Listener::new(listener, wakes);
            process.runner.start(Service::new("listener", listener, Bell::default(), settings.poll));
            process.run(&mut signals, listening).await
        }
    }
}

/// Meters how long the store takes for each role.
fn observer(metrics: &Metrics) -> Observer {
    let metrics = metrics.clone();
    Observer::new(move |role, took| metrics.store_called(role.name(), took))
}

/// Shows the write-ahead log of SQLite in the metrics.
fn log_observer(metrics: &Metrics) -> LogObserver {
    let metrics = metrics.clone();
    LogObserver::new(move |bytes, is_blocked| metrics.wal_seen(bytes, is_blocked))
}

/// What the clock of this machine says. Nothing goes by it; people are told when it is wrong.
fn machine_now() -> Timestamp {
    let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_micros(0).after(since_epoch)
}

/// The stages that the roles of this process see to.
fn stages(settings: &Settings) -> Vec<Stage> {
    let of = |role: &Role| match role {
        Role::Router => vec![Stage::Routing],
        Role::Orchestrator => vec![Stage::Admission, Stage::Results],
        Role::Worker => vec![Stage::Delivery],
        Role::Outbox => vec![Stage::Outbox],
        Role::Api | Role::Cleaner => vec![],
    };
    settings.roles.iter().flat_map(of).collect()
}

/// The services of one process.
struct Process<'a, S> {
    settings: &'a Settings,
    store: S,
    wakes: Wakes,
    clock: Clock,
    metrics: Metrics,
    worker_id: WorkerId,
    runner: Runner,
    /// The lane to the broker, as this process last saw it.
    lane: LaneState,
    /// What deliveries, orders, challenges and tests leave through; nothing without a role that sends.
    sender: Option<Sender>,
    /// Where the API listens, and where it puts events; nothing without that role.
    listener: Option<TcpListener>,
    /// Where probes and scrapers are answered, if that was asked for.
    metrics_listener: Option<TcpListener>,
    /// What waits, as last counted; only with the API.
    last_survey: LastSurvey,
    failed_sign_ins: FailedSignInCounter,
    ingest: Option<Batcher<IngestRequest, RequestOutcome>>,
    /// Where the API puts orders; nothing without a broker to send them to.
    intake: Option<Batcher<Order, Submission>>,
}

impl<'a, S: Stores> Process<'a, S> {
    async fn new(settings: &'a Settings, store: S, wakes: Wakes, metrics: Metrics) -> anyhow::Result<Self> {
        let clock = Clock::sampled(&store.sample_clock().await?);
        let runner = Runner::new(clock.clone(), metrics.clone());
        let worker_id = WorkerId::parse(random::process_name()?)?;
        let sends = [Role::Worker, Role::Api, Role::Outbox].iter().any(|role| settings.roles.contains(role));
        metrics.outbox.lag_sla.set(settings.outbox.lag_sla.as_secs_f64());
        let sender = sends.then(|| network::sender(settings)).transpose()?;
        // Before any service takes work on: an address that is taken stops the start.
        let listener = match settings.roles.contains(&Role::Api) {
            true => Some(network::listen(settings)?),
            false => None,
        };
        let metrics_listener = network::listen_for_metrics(settings)?;
        let mut process = Self {
            settings,
            store,
            wakes,
            clock,
            lane: LaneState::new(metrics.clone()),
            metrics,
            worker_id,
            runner,
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

    fn start(&mut self) -> anyhow::Result<()> {
        let clock = ClockSetter::new(self.store.clone(), self.clock.clone(), self.metrics.clone());
        self.runner.start(Service::new("clock", clock, Bell::default(), CLOCK_POLL));
        for role in &self.settings.roles {
            match role {
                Role::Router => self.start_router(),
                Role::Orchestrator => self.start_orchestrator(),
                Role::Worker => self.start_worker()?,
                Role::Cleaner => self.start_cleaner(),
                Role::Api => {
                    self.start_ingest();
                    self.start_intake();
                    self.start_surveyor();
                    let lane = LaneWatch::new(self.store.reader(), self.lane.clone());
                    self.runner.start(Service::new("lane", lane, Bell::default(), LANE_POLL));
                    self.start_failed_sign_ins();
                }
                Role::Outbox => self.start_outbox()?,
            }
        }
        self.start_telemetry();
        Ok(())
    }

    /// Its roles, but for those that have nothing to do: without a broker nobody sends orders.
    fn roles_run(&self) -> impl Iterator<Item = Role> {
        let has_broker = self.settings.broker.url.is_some();
        self.settings.roles.iter().copied().filter(move |role| has_broker || *role != Role::Outbox)
    }

    fn start_telemetry(&mut self) {
        let identity = Identity {
            process_id: self.worker_id.clone(),
            version: env!("CARGO_PKG_VERSION"),
            started_at: self.clock.now(),
            roles: self.roles_run().map(Role::as_str).collect(),
        };
        let telemetry = Telemetry::new(self.store.presence(), identity, self.metrics.clone());
        let service = Service::new("presence", telemetry, Bell::default(), telemetry::EVERY);
        self.runner.start(Service { phase: Phase::Tells, ..service });
    }

    fn survey_options(&self) -> SurveyOptions {
        SurveyOptions {
            lease: self.settings.lease.length,
            cleaner_interval: self.settings.lease.cleaner_interval,
            order_stuck_after: self.settings.outbox.stuck_threshold,
        }
    }

    fn start_surveyor(&mut self) {
        let surveyor = Surveyor::new(
            self.store.insight(),
            self.survey_options(),
            self.clock.clone(),
            self.metrics.clone(),
        );
        self.last_survey = surveyor.last();
        self.runner.start(Service::new("surveyor", surveyor, Bell::default(), survey::EVERY));
    }

    fn start_failed_sign_ins(&mut self) {
        let writer = FailedSignInWriter::new(self.store.keys(), self.failed_sign_ins.clone());
        let service = Service::new("failed_sign_ins", writer, Bell::default(), failed_sign_ins::EVERY);
        self.runner.start(Service { phase: Phase::Tells, ..service });
    }

    fn operations(&self) -> Operations {
        let mut warnings = self.settings.warnings();
        if self.settings.root_key.is_some() {
            warnings.push(
                "POSTHASTE_ROOT_KEY is set: once posthaste key create has made keys, take it out".to_owned(),
            );
        }
        Operations {
            version: env!("CARGO_PKG_VERSION"),
            schema_needed: MIGRATIONS.last().map_or(0, |migration| migration.version),
            warnings,
            survey: self.survey_options(),
            last_survey: self.last_survey.clone(),
            machine_now,
        }
    }

    /// What readiness looks at.
    fn pulses(&self) -> Vec<Arc<Pulse>> {
        self.runner.pulses().iter().filter(|pulse| !NOT_NEEDED.contains(&pulse.name)).cloned().collect()
    }

    fn late_after(&self) -> Duration {
        let settings = self.settings;
        let (polls, cleans, idles) =
            (settings.poll, settings.lease.cleaner_interval, settings.outbox.idle_sleep);
        let poll_max = polls.max(cleans).max(idles).max(CLOCK_POLL);
        LATE_AFTER.max(poll_max.saturating_mul(LATE_POLLS))
    }

    /// Answers probes and scrapers, whatever roles this process has.
    fn start_metrics(&mut self) -> anyhow::Result<Option<Server>> {
        let Some(listener) = self.metrics_listener.take() else { return Ok(None) };
        let store = self.store.clone();
        let answers = move || {
            let store = store.clone();
            async move { store.now().await.map(drop) }
        };
        let (pulses, lane) = (self.pulses(), Some(self.lane.clone()));
        let health = Health::new(answers, self.metrics.clone(), pulses, self.late_after(), lane);
        let address = listener.local_addr().context("asking for the address")?;
        tracing::info!(url = format!("http://{address}/metrics"), "answers probes and scrapers");
        let router = health_router(Arc::new(health), random::fill);
        Ok(Some(Server::start_with(listener, router, self.server_options())))
    }

    fn server_options(&self) -> ServerOptions {
        ServerOptions {
            trusted_proxies: TrustedProxies(self.settings.trusted_proxies.clone()),
            connections_refused: self.metrics.connections_refused.clone(),
            ..ServerOptions::default()
        }
    }

    fn start_ingest(&mut self) {
        let ingest = Ingest::new(self.store.ingest(), self.wakes.clone(), self.metrics.clone());
        let (calls, batches) = batcher(ingest, ingest::WAITING_MAX, ingest::BATCH_MAX);
        let bell = batches.bell();
        let service = Service::new(ingest::SERVICE, batches, bell, BATCHER_POLL);
        self.runner.start(Service { phase: Phase::Flushes, ..service });
        self.ingest = Some(calls);
    }

    fn start_intake(&mut self) {
        if self.settings.broker.url.is_none() {
            return;
        }
        let ttl = self.settings.outbox.ledger_ttl;
        let intake = Intake::new(self.store.outbox_intake(), ttl, self.wakes.clone(), self.metrics.clone());
        let (calls, batches) = batcher(intake, intake::WAITING_MAX, intake::BATCH_MAX);
        let bell = batches.bell();
        let service = Service::new(intake::SERVICE, batches, bell, BATCHER_POLL);
        self.runner.start(Service { phase: Phase::Flushes, ..service });
        self.intake = Some(calls);
    }

    /// Answers once every service has been started, so that readiness knows them all.
    fn start_api(&mut self, listening: oneshot::Sender<SocketAddr>) -> anyhow::Result<Option<Server>> {
        let (Some(listener), Some(ingest)) = (self.listener.take(), self.ingest.clone()) else {
            return Ok(None);
        };
        let settings = self.settings;
        let outgoing = Outgoing {
            sender: self.sender.clone().context("a sender")?,
            sealer: SecretSealer::new(settings.secret_key.clone()),
            deadline: settings.request_timeout,
        };
        let limits = Limits {
            payload_bytes_max: settings.limits.payload_bytes_max,
            batch_events_max: settings.limits.batch_events_max as usize,
        };
        let (late_after, operations) = (self.late_after(), self.operations());
        let (clock, metrics, wakes) = (self.clock.clone(), self.metrics.clone(), self.wakes.clone());
        let store = &self.store;
        let state =
            ApiState::new(store, ingest, clock, metrics, wakes, outgoing, limits, operations, random::fill)
                .with_orders(self.intake.clone())
                .with_failed_sign_ins(self.failed_sign_ins.clone())
                .with_root_key(settings.root_key.as_ref().map(|key| key_hash(key.expose())))
                .with_pulses(self.pulses(), late_after, self.lane.clone())
                .with_metrics_elsewhere(settings.metrics_listen.is_some());
        let address = listener.local_addr().context("asking for the address")?;
        tracing::info!(url = format!("http://{address}"), "the API listens");
        let server = Server::start_with(listener, router(state), self.server_options());
        // Most of the time nobody waits for it.
        let _ = listening.send(address);
        Ok(Some(server))
    }

    fn start_router(&mut self) {
        let router =
            Router::new(self.store.router(), self.clock.clone(), self.wakes.clone(), self.metrics.clone());
        let bell = self.wakes.bell(Stage::Routing);
        self.runner.start(Service::new("router", router, bell, self.settings.poll));
    }

    fn start_orchestrator(&mut self) {
        let (store, policy, poll) = (self.store.orchestrator(), self.settings.retry, self.settings.poll);
        let in_flight = InFlight::new(self.settings.worker.subscription_in_flight);
        let (clock, wakes, metrics) = (self.clock.clone(), self.wakes.clone(), self.metrics.clone());
        let (again, shared) = (store.clone(), in_flight.clone());
        let admission = Admission::new(again, policy, shared, clock.clone(), wakes.clone(), metrics.clone());
        let results = Results::new(store, policy, in_flight, clock, wakes.clone(), metrics);
        self.runner.start(Service::new("admission", admission, wakes.bell(Stage::Admission), poll));
        self.runner.start(Service::new("results", results, wakes.bell(Stage::Results), poll));
    }

    fn start_worker(&mut self) -> anyhow::Result<()> {
        let slots = self.settings.worker.concurrency;
        let (store, poll) = (self.store.worker(), self.settings.poll);
        let reports = Reports::new(store.clone(), self.wakes.clone(), self.metrics.clone());
        let (reports, batches) = batcher(reports, slots as usize, REPORTS_MAX);
        let bell = batches.bell();
        let flusher = Service::new(REPORTS, batches, bell, BATCHER_POLL);
        self.runner.start(Service { phase: Phase::Flushes, ..flusher });
        let options = WorkerOptions {
            worker_id: self.worker_id.clone(),
            lease: self.settings.lease.length,
            deadline: self.settings.request_timeout,
            slots,
        };
        let bell = self.wakes.bell(Stage::Delivery);
        let kit = WorkerKit {
            sender: self.sender.clone().context("a sender")?,
            sealer: Arc::new(SecretSealer::new(self.settings.secret_key.clone())),
            reports,
            clock: self.clock.clone(),
            metrics: self.metrics.clone(),
            bell: bell.clone(),
        };
        let worker = Worker::new(store, options, kit, Box::new(random::lease_token));
        self.runner.start(Service::new("worker", worker, bell, poll));
        Ok(())
    }

    fn start_cleaner(&mut self) {
        let lease = self.settings.lease;
        let (store, wakes) = (self.store.cleaner(), self.wakes.clone());
        let clock = self.clock.clone();
        let cleaner = Cleaner::new(store, lease.length, lease.resets_max, clock, wakes, self.metrics.clone());
        self.runner.start(Service::new("cleaner", cleaner, Bell::default(), lease.cleaner_interval));
    }

    fn start_outbox(&mut self) -> anyhow::Result<()> {
        let (broker, outbox) = (&self.settings.broker, self.settings.outbox);
        let Some(url) = broker.url.clone() else {
            tracing::info!("no broker to send orders to: set POSTHASTE_BROKER_URL if there is one");
            return Ok(());
        };
        let (store, poll) = (self.store.outbox_worker(), outbox.idle_sleep);
        let settlements = Settlements::new(store.clone(), outbox.retry, self.metrics.clone());
        let slots = outbox.parallelism as usize;
        let (settlements, batches) = batcher(settlements, slots, slots);
        let bell = batches.bell();
        let flusher = Service::new(SETTLEMENTS, batches, bell, poll);
        self.runner.start(Service { phase: Phase::Flushes, ..flusher });
        let broker = HttpBrokerOptions {
            url,
            headers: broker.headers.clone(),
            processed_marker: broker.processed_marker.clone(),
            deadline: self.settings.request_timeout,
        };
        let broker = HttpBroker::new(self.sender.clone().context("a sender")?, broker);
        let options = OutboxOptions {
            worker_id: self.worker_id.clone(),
            batch_size: outbox.batch_size,
            parallelism: outbox.parallelism,
            policy: outbox.retry,
            stuck_threshold: outbox.stuck_threshold,
        };
        let bell = self.wakes.bell(Stage::Outbox);
        let kit = OutboxKit {
            settlements,
            clock: self.clock.clone(),
            metrics: self.metrics.clone(),
            lane: self.lane.clone(),
            bell: bell.clone(),
        };
        let worker = OutboxWorker::new(store, broker, options, kit, Box::new(random::lease_token));
        self.runner.start(Service::new("outbox", worker, bell, poll));
        Ok(())
    }

    async fn run(
        mut self,
        signals: &mut Signals,
        listening: oneshot::Sender<SocketAddr>,
    ) -> anyhow::Result<ExitCode> {
        let roles: Vec<&str> = self.settings.roles.iter().copied().map(Role::as_str).collect();
        let api = self.start_api(listening)?;
        let probes = self.start_metrics()?;
        let (roles, worker_id) = (roles.join(","), self.worker_id.as_str());
        tracing::info!(roles, worker_id, database = login::shown(self.settings), "serving");
        let by = signals.next().await;
        tracing::info!(by, "stops: takes no more work, and finishes what was begun");
        let grace = self.settings.shutdown_grace;
        let until = Instant::now() + grace;
        let stopped = async {
            // Requests that were begun need the ingest service, which ends with the others below.
            let answered = match api {
                Some(api) => api.stop(grace / 4).await,
                None => true,
            };
            if !answered {
                tracing::warn!("some requests took too long and are broken off");
            }
            let stopped = self.runner.stop(until.saturating_duration_since(Instant::now())).await;
            // Whoever probes sees the process to its end.
            if let Some(probes) = probes {
                probes.stop(Duration::ZERO).await;
            }
            stopped
        };
        let Some(clean) = signals.or(stopped).await else {
            tracing::warn!("a second signal: stops at once");
            std::process::exit(1);
        };
        if clean {
            tracing::info!("stopped");
            return Ok(ExitCode::SUCCESS);
        }
        let grace_s = self.settings.shutdown_grace.as_secs();
        tracing::error!(grace_s, "the grace period ended before the work did: leases will run out");
        Ok(ExitCode::FAILURE)
    }
}
