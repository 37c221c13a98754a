//! An API server for tests, with a new database and a free port. Runs ingest and order intake, and no other services.

use posthaste_api::server::Server;
use posthaste_api::{
    ApiState, BuildInfo, Limits, Operations, Outgoing, VerificationOptions, key_hash, router,
};
use posthaste_core::Timestamp;
use posthaste_core::attribute_rules::AttributeRules;
use posthaste_core::job::RequestTimeouts;
use posthaste_core::ports::{KeyRole, KeyStore as _, StoreResult, Stores};
use posthaste_core::verification::VerificationMethods;
use posthaste_services::batcher::batcher;
use posthaste_services::clock::Clock;
use posthaste_services::doctor::ConnectionDemand;
use posthaste_services::egress::EgressPolicy;
use posthaste_services::failed_sign_ins::FailedSignInCounter;
use posthaste_services::ingest::Ingest;
use posthaste_services::metrics::Metrics;
use posthaste_services::oauth2::TokenCache;
use posthaste_services::outbox::LaneState;
use posthaste_services::outbox::intake::Intake;
use posthaste_services::runner::{DrainPhase, Runner, Service};
use posthaste_services::seal::{PlainSecrets, SealingKeys, SecretSealer};
use posthaste_services::sender::{KeepAlive, Sender, Trust};
use posthaste_services::step::{Progress, Step};
use posthaste_services::survey::{LastSurvey, SurveyOptions};
use posthaste_services::wake::{WakeUp, WakeUps};
use posthaste_services::webhook_request::InstallationNames;
use posthaste_store::sqlite::MIGRATIONS;
use posthaste_testkit::client::Call;
use posthaste_testkit::fixtures::{T0, actor};
use posthaste_testkit::harness::Harness;
use posthaste_testkit::random::Random;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::net::TcpListener;

pub(crate) const ROOT_KEY: &str = "the-root-key-of-the-tests";
/// The host name by which the server identifies itself to receivers.
pub(crate) const ORIGIN: &str = "events.example.com";
pub(crate) const PAYLOAD_BYTES_MAX: usize = 10_000;
pub(crate) const BATCH_EVENTS_MAX: usize = 20;
/// The timeout of requests to receivers.
pub(crate) const DEADLINE: Duration = Duration::from_millis(1_500);
const LEASE: Duration = Duration::from_secs(60);

pub(crate) struct TestApi<S: Stores> {
    pub(crate) h: Harness<S>,
    pub(crate) clock: Clock,
    pub(crate) metrics: Metrics,
    pub(crate) last_survey: LastSurvey,
    /// The counter of failed sign-ins, shared with the API.
    pub(crate) failed_sign_ins: FailedSignInCounter,
    pub(crate) address: SocketAddr,
    /// The state of the order lane that the API reports.
    pub(crate) lane: LaneState,
    pub(crate) server: std::sync::Mutex<Option<Server>>,
    _runner: Runner,
}

/// The lifetime of idempotency keys in the ledger.
pub(crate) const LEDGER_TTL: Duration = Duration::from_secs(7 * 86_400);

/// The options of a test server.
pub(crate) struct Options {
    pub(crate) waiting_max: usize,
    pub(crate) runs_ingest: bool,
    pub(crate) has_broker: bool,
    /// Whether to run a service that never finishes its first step.
    pub(crate) has_a_late_service: bool,
    pub(crate) policy: EgressPolicy,
    pub(crate) verification: VerificationOptions,
    /// The rules that fill attributes of new events.
    pub(crate) attribute_rules: AttributeRules,
    /// Warnings about the settings, which the API reports.
    pub(crate) warnings: Vec<String>,
    /// The connections that processes may open to the database server.
    pub(crate) connections: Option<ConnectionDemand>,
}

impl Default for Options {
    fn default() -> Self {
        let allow_cidrs = vec!["127.0.0.0/8".parse().expect("a network")];
        let policy = EgressPolicy { allow_http: true, allow_cidrs, ..EgressPolicy::default() };
        Self {
            waiting_max: 1_000,
            runs_ingest: true,
            has_broker: true,
            has_a_late_service: false,
            policy,
            verification: VerificationOptions {
                methods: VerificationMethods::parse("challenge,cloudevents,asserted").expect("methods"),
                origin: Some(ORIGIN.to_owned()),
            },
            attribute_rules: AttributeRules::default(),
            warnings: Vec::new(),
            connections: None,
        }
    }
}

/// The latest schema version of both engines.
pub(crate) const SCHEMA_VERSION: u32 = MIGRATIONS[MIGRATIONS.len() - 1].version;
pub(crate) const SURVEY: SurveyOptions = SurveyOptions {
    lease: Duration::from_secs(60),
    cleaner_interval: Duration::from_secs(1),
    order_stuck_after: Duration::from_secs(600),
};

fn machine_now() -> Timestamp {
    let since_epoch = std::time::SystemTime::now().duration_since(std::time::SystemTime::UNIX_EPOCH);
    Timestamp::from_micros(0).after(since_epoch.expect("a time after 1970"))
}

struct Stuck;

impl Step for Stuck {
    async fn step(&mut self, _now: Timestamp) -> StoreResult<Progress> {
        std::future::pending().await
    }
}

fn fill(bytes: &mut [u8]) {
    static DRAWN: AtomicU64 = AtomicU64::new(1);
    let mut random = Random::new(DRAWN.fetch_add(1, Ordering::Relaxed));
    bytes.iter_mut().for_each(|byte| *byte = random.next().to_be_bytes()[0]);
}

impl<S: Stores> TestApi<S> {
    pub(crate) async fn start(h: Harness<S>) -> Self {
        Self::start_with(h, Options::default()).await
    }

    pub(crate) async fn start_with(h: Harness<S>, options: Options) -> Self {
        let Served { clock, metrics, last_survey, failed_sign_ins, lane, address, server, runner } =
            serve(&h, options).await;
        let server = std::sync::Mutex::new(Some(server));
        Self { h, clock, metrics, last_survey, failed_sign_ins, address, lane, server, _runner: runner }
    }

    /// Starts a second server on the same database.
    pub(crate) async fn another(&self) -> Served {
        self.another_with(Options::default()).await
    }

    pub(crate) async fn another_with(&self, options: Options) -> Served {
        serve(&self.h, options).await
    }

    pub(crate) fn get(&self, path: &str) -> Call {
        Call::new(self.address, "GET", path, ROOT_KEY)
    }

    pub(crate) fn post(&self, path: &str) -> Call {
        Call::new(self.address, "POST", path, ROOT_KEY)
    }

    pub(crate) fn call(&self, method: &'static str, path: &str) -> Call {
        Call::new(self.address, method, path, ROOT_KEY)
    }

    pub(crate) async fn key(&self, role: KeyRole) -> String {
        let key = format!("a-key-of-role-{}", role.as_str());
        let made =
            self.h.store.keys().create_key("test".to_owned(), role, None, key_hash(&key), actor(), T0).await;
        made.expect("a key");
        key
    }

    pub(crate) async fn count(&self, table: &str) -> i64 {
        self.h.direct.number(&format!("SELECT count(*) FROM {table}")).await
    }
}

/// A server with the services behind it.
pub(crate) struct Served {
    clock: Clock,
    metrics: Metrics,
    last_survey: LastSurvey,
    failed_sign_ins: FailedSignInCounter,
    lane: LaneState,
    pub(crate) address: SocketAddr,
    server: Server,
    runner: Runner,
}

async fn serve<S: Stores>(h: &Harness<S>, options: Options) -> Served {
    let (clock, metrics, wake_ups) = (Clock::fixed(T0), Metrics::new(), WakeUps::alone());
    let mut runner = Runner::new(clock.clone(), metrics.clone());
    let poll = Duration::from_millis(50);
    let ingest = Ingest::new(h.store.ingest(), wake_ups.clone(), metrics.clone());
    let (events, batches) = batcher(ingest, options.waiting_max, 100);
    let intake = Intake::new(h.store.outbox_intake(), LEDGER_TTL, wake_ups.clone(), metrics.clone());
    let (orders, order_batches) = batcher(intake, options.waiting_max, 100);
    let (wake_up, order_bell) = (batches.wake_up(), order_batches.wake_up());
    if options.runs_ingest {
        let ingest = Service::new("ingest", batches, wake_up, poll);
        runner.start(Service { phase: DrainPhase::Results, ..ingest });
        let intake = Service::new("intake", order_batches, order_bell, poll);
        runner.start(Service { phase: DrainPhase::Results, ..intake });
    } else {
        // Keeps the queues open, so that calls wait forever.
        std::mem::forget((batches, order_batches));
    }
    if options.has_a_late_service {
        runner.start(Service::new("stuck", Stuck, WakeUp::default(), poll));
    }
    let sender = Sender::new(options.policy, Trust::system(), KeepAlive::default()).expect("a sender");
    let outgoing = Outgoing {
        tokens: TokenCache::new(sender.clone()),
        names: InstallationNames::default(),
        sender,
        sealer: sealer(),
        timeouts: RequestTimeouts { default: DEADLINE, lease: LEASE },
    };
    let limits = Limits { payload_bytes_max: PAYLOAD_BYTES_MAX, batch_events_max: BATCH_EVENTS_MAX };
    let lane = LaneState::new(metrics.clone());
    let (last_survey, failed_sign_ins) = (LastSurvey::default(), FailedSignInCounter::default());
    let operations = Operations {
        build: BuildInfo { version: "0.0.0", revision: "unknown", engine: "sqlite" },
        schema_needed: SCHEMA_VERSION,
        warnings: options.warnings,
        survey: SURVEY,
        last_survey: last_survey.clone(),
        connections: options.connections,
        machine_now,
    };
    let state = ApiState::new(
        &h.store,
        events,
        clock.clone(),
        metrics.clone(),
        wake_ups,
        outgoing,
        limits,
        operations,
        fill,
    )
    .with_verification(options.verification)
    .with_attribute_rules(options.attribute_rules)
    .with_orders(options.has_broker.then_some(orders))
    .with_root_key(Some(key_hash(ROOT_KEY)))
    .with_failed_sign_ins(failed_sign_ins.clone())
    .with_pulses(runner.heartbeats().to_vec(), Duration::from_secs(60), lane.clone());
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let server = Server::start(listener, router(state));
    Served { clock, metrics, last_survey, failed_sign_ins, lane, address, server, runner }
}

/// Returns the cipher that the API of the tests uses for signing secrets.
pub(crate) fn sealer() -> SecretSealer {
    let keys = SealingKeys::parse(&"0a".repeat(32)).expect("a key");
    SecretSealer::new(Some(keys), PlainSecrets::Accepted)
}
