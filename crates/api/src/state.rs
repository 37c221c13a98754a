//! The state shared by all handlers, created at startup. Each handler uses the port of its database role.

use crate::attempts::Attempts;
use crate::auth::{KeyCache, UNKNOWN_KEYS_BURST, UNKNOWN_KEYS_REFILL, UnknownKeys};
use crate::health::Readiness;
use crate::problem::Problem;
use crate::process_metrics::BuildInfo;
use crate::responses::ResponseBudget;
use axum::extract::State;
use axum::response::Response;
use posthaste_core::EventId;
use posthaste_core::attribute_rules::AttributeRules;
use posthaste_core::job::RequestTimeouts;
use posthaste_core::order::Order;
use posthaste_core::ports::{IngestRequest, KeyHash, ReaderStore as _, RequestOutcome, Stores, Submission};
use posthaste_core::subscription::VerificationMethod;
use posthaste_core::verification::VerificationMethods;
use posthaste_services::batcher::Batcher;
use posthaste_services::clock::Clock;
use posthaste_services::doctor::ConnectionDemand;
use posthaste_services::failed_sign_ins::FailedSignInCounter;
use posthaste_services::metrics::Metrics;
use posthaste_services::oauth2::TokenCache;
use posthaste_services::outbox::LaneState;
use posthaste_services::runner::Heartbeat;
use posthaste_services::seal::SecretSealer;
use posthaste_services::sender::Sender;
use posthaste_services::survey::{LastSurvey, SurveyOptions};
use posthaste_services::wake::WakeUps;
use posthaste_services::webhook_request::InstallationNames;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;

/// The extractor for the shared state.
pub(crate) type Api<S> = State<Arc<ApiState<S>>>;

/// The return type of handlers.
pub(crate) type ApiResult = Result<Response, Problem>;

/// The memory limit for all request bodies being received or stored, in KiB.
const UPLOADS_KIB_MAX: usize = 256 * 1024;
/// The memory limit for all responses, in KiB. Allows eight pages with payloads, the largest responses.
const RESPONSES_KIB_MAX: usize = 64 * 1024;
/// The maximum number of challenges and test events in flight.
const OUTGOING_MAX: usize = 64;
/// The maximum number of concurrent `/v1/doctor` requests. Each occupies a store connection for some time.
const EXAMINATIONS_MAX: usize = 1;

/// The number of expired or unknown sessions that a client address may present in a burst. Open pages of an expired
/// session refresh every few seconds.
const UNKNOWN_SESSIONS_BURST: u32 = 100;
/// The time after which a client address may present one more unknown session.
const UNKNOWN_SESSIONS_REFILL: Duration = Duration::from_millis(100);

/// The limits on ingest requests.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    pub payload_bytes_max: usize,
    pub batch_events_max: usize,
}

impl Limits {
    /// Returns the maximum size of an ingest request, in bytes: 8 MiB, or one event of the maximum size if that is
    /// more. A batch of events that all have the maximum size may exceed it.
    pub(crate) const fn ingest_body_bytes_max(self) -> usize {
        const BATCH_BYTES: usize = 8 * 1024 * 1024;
        const ENVELOPE_BYTES: usize = 64 * 1024;
        let one = self.payload_bytes_max + ENVELOPE_BYTES;
        if one > BATCH_BYTES { one } else { BATCH_BYTES }
    }
}

/// The components that send challenges and test events.
#[derive(Debug)]
pub struct Outgoing {
    pub sender: Sender,
    pub sealer: SecretSealer,
    /// The access tokens of OAuth 2, shared by the process.
    pub tokens: TokenCache,
    pub names: InstallationNames,
    pub timeouts: RequestTimeouts,
}

/// How callback URLs may be verified.
#[derive(Debug, Clone, Default)]
pub struct VerificationOptions {
    pub methods: VerificationMethods,
    /// The host name that identifies this sender in the handshake of CloudEvents. `None` if there is none, which makes
    /// the handshake impossible.
    pub origin: Option<String>,
}

impl VerificationOptions {
    /// Returns the allowed methods that can be used, in their order.
    pub(crate) fn usable(&self) -> impl Iterator<Item = VerificationMethod> {
        let methods = self.methods.as_slice().iter().copied();
        methods.filter(|method| *method != VerificationMethod::Cloudevents || self.origin.is_some())
    }
}

/// Information about this process for `/v1/system` and `/v1/doctor` that is not in the store.
#[derive(Debug, Clone)]
pub struct Operations {
    pub build: BuildInfo,
    /// The schema version that this program requires.
    pub schema_needed: u32,
    /// Warnings about the settings of this process.
    pub warnings: Vec<String>,
    pub survey: SurveyOptions,
    /// The last survey of the backlog.
    pub last_survey: LastSurvey,
    /// The connections that processes may open to the database server, or `None` if the engine is embedded or they use
    /// a connection pooler.
    pub connections: Option<ConnectionDemand>,
    /// Returns the current time of the machine's clock.
    pub machine_now: fn() -> posthaste_core::Timestamp,
}

/// The ports, services and limits used by the handlers.
pub struct ApiState<S: Stores> {
    pub(crate) subscriptions: S::Subscriptions,
    pub(crate) dead_letters: S::DeadLetters,
    pub(crate) keys: S::Keys,
    pub(crate) reader: S::Reader,
    pub(crate) insight: S::Insight,
    pub(crate) ingest: Batcher<IngestRequest, RequestOutcome>,
    /// The queue for new orders. `None` if no broker is configured.
    pub(crate) orders: Option<Batcher<Order, Submission>>,
    pub(crate) clock: Clock,
    pub(crate) metrics: Metrics,
    pub(crate) wake_ups: WakeUps,
    pub(crate) outgoing: Outgoing,
    pub(crate) outgoing_slots: Semaphore,
    pub(crate) verification: VerificationOptions,
    pub(crate) examinations: Semaphore,
    pub(crate) limits: Limits,
    /// The rules that fill the attributes of new events.
    pub(crate) attribute_rules: AttributeRules,
    pub(crate) uploads: Arc<Semaphore>,
    pub(crate) responses: ResponseBudget,
    pub(crate) root_key: Option<KeyHash>,
    pub(crate) known_keys: KeyCache,
    pub(crate) unknown_keys: UnknownKeys,
    pub(crate) unknown_attempts: Attempts,
    pub(crate) session_attempts: Attempts,
    pub(crate) health: Arc<Readiness>,
    /// Whether `/metrics` and `/readyz` are served only at another address.
    pub(crate) metrics_elsewhere: bool,
    pub(crate) operations: Operations,
    pub(crate) random: fn(&mut [u8]),
    pub(crate) failed_sign_ins: FailedSignInCounter,
}

impl<S: Stores> fmt::Debug for ApiState<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApiState").field("limits", &self.limits).finish_non_exhaustive()
    }
}

impl<S: Stores> ApiState<S> {
    /// Creates the state. `random` fills a buffer with cryptographically secure random bytes for keys, secrets and
    /// nonces.
    #[expect(clippy::too_many_arguments, reason = "each is one part of the process, named by its type")]
    pub fn new(
        store: &S,
        ingest: Batcher<IngestRequest, RequestOutcome>,
        clock: Clock,
        metrics: Metrics,
        wake_ups: WakeUps,
        outgoing: Outgoing,
        limits: Limits,
        operations: Operations,
        random: fn(&mut [u8]),
    ) -> Self {
        let build = operations.build;
        let health =
            health_of::<S>(store.reader(), metrics.clone(), build, Vec::new(), Duration::from_secs(15), None);
        Self {
            subscriptions: store.subscriptions(),
            dead_letters: store.dead_letters(),
            keys: store.keys(),
            reader: store.reader(),
            insight: store.insight(),
            ingest,
            orders: None,
            clock,
            metrics,
            wake_ups,
            outgoing,
            outgoing_slots: Semaphore::new(OUTGOING_MAX),
            verification: VerificationOptions::default(),
            examinations: Semaphore::new(EXAMINATIONS_MAX),
            limits,
            attribute_rules: AttributeRules::default(),
            uploads: Arc::new(Semaphore::new(UPLOADS_KIB_MAX)),
            responses: ResponseBudget::new(RESPONSES_KIB_MAX),
            root_key: None,
            known_keys: KeyCache::default(),
            unknown_keys: UnknownKeys::default(),
            unknown_attempts: Attempts::new(UNKNOWN_KEYS_BURST, UNKNOWN_KEYS_REFILL),
            session_attempts: Attempts::new(UNKNOWN_SESSIONS_BURST, UNKNOWN_SESSIONS_REFILL),
            health: Arc::new(health),
            metrics_elsewhere: false,
            operations,
            random,
            failed_sign_ins: FailedSignInCounter::default(),
        }
    }

    /// Sets the root key, which has every role and is not stored in the database.
    #[must_use]
    pub fn with_root_key(mut self, hash: Option<KeyHash>) -> Self {
        self.root_key = hash;
        self
    }

    /// Sets the rules that fill the attributes of new events from their payloads.
    #[must_use]
    pub fn with_attribute_rules(mut self, rules: AttributeRules) -> Self {
        self.attribute_rules = rules;
        self
    }

    /// Sets how callback URLs may be verified.
    #[must_use]
    pub fn with_verification(mut self, options: VerificationOptions) -> Self {
        self.verification = options;
        self
    }

    /// Sets the counter of failed sign-ins, shared with the service that writes them to the audit.
    #[must_use]
    pub fn with_failed_sign_ins(mut self, counter: FailedSignInCounter) -> Self {
        self.failed_sign_ins = counter;
        self
    }

    /// Sets the queue for new orders. Without one, orders are rejected.
    #[must_use]
    pub fn with_orders(mut self, orders: Option<Batcher<Order, Submission>>) -> Self {
        self.orders = orders;
        self
    }

    /// Sets the services and the lane that `/readyz` reports. Every service must have completed a step within
    /// `late_after`.
    #[must_use]
    pub fn with_pulses(
        mut self,
        heartbeats: Vec<Arc<Heartbeat>>,
        late_after: Duration,
        lane: LaneState,
    ) -> Self {
        let (reader, metrics) = (self.reader.clone(), self.metrics.clone());
        let build = self.operations.build;
        self.health = Arc::new(health_of::<S>(reader, metrics, build, heartbeats, late_after, Some(lane)));
        self
    }

    /// Sets whether to omit `/metrics` and `/readyz`, which reveal details of this process, because another address
    /// serves them.
    #[must_use]
    pub fn with_metrics_elsewhere(mut self, elsewhere: bool) -> Self {
        self.metrics_elsewhere = elsewhere;
        self
    }

    /// Returns random bytes.
    pub(crate) fn draw<const N: usize>(&self) -> [u8; N] {
        let mut bytes = [0; N];
        (self.random)(&mut bytes);
        bytes
    }
}

/// Creates a readiness check that queries one event, which need not exist.
fn health_of<S: Stores>(
    reader: S::Reader,
    metrics: Metrics,
    build: BuildInfo,
    heartbeats: Vec<Arc<Heartbeat>>,
    late_after: Duration,
    lane: Option<LaneState>,
) -> Readiness {
    let check_store = move || {
        let reader = reader.clone();
        async move { reader.event(EventId::from_store(1)).await.map(drop) }
    };
    Readiness::new(check_store, metrics, build, heartbeats, late_after, lane)
}
