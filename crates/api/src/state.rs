//! What the handlers share. The wiring fills it in; every handler is given all of it and uses the port
//! of its own role.

use crate::attempts::Attempts;
use crate::auth::{KeyCache, UNKNOWN_KEYS_BURST, UNKNOWN_KEYS_REFILL, UnknownKeys};
use crate::health::Readiness;
use crate::problem::Problem;
use crate::responses::ResponseBudget;
use axum::extract::State;
use axum::response::Response;
use posthaste_core::EventId;
use posthaste_core::job::RequestTimeouts;
use posthaste_core::order::Order;
use posthaste_core::ports::{IngestRequest, KeyHash, ReaderStore as _, RequestOutcome, Stores, Submission};
use posthaste_services::batcher::Batcher;
use posthaste_services::clock::Clock;
use posthaste_services::failed_sign_ins::FailedSignInCounter;
use posthaste_services::metrics::Metrics;
use posthaste_services::outbox::LaneState;
use posthaste_services::runner::Heartbeat;
use posthaste_services::seal::SecretSealer;
use posthaste_services::sender::Sender;
use posthaste_services::survey::{LastSurvey, SurveyOptions};
use posthaste_services::wake::WakeUps;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;

/// What a handler is given.
pub(crate) type Api<S> = State<Arc<ApiState<S>>>;

/// What a handler of the API returns.
pub(crate) type ApiResult = Result<Response, Problem>;

/// The bytes of all bodies that are being received or wait to be stored, in KiB.
const UPLOADS_KIB_MAX: usize = 256 * 1024;
/// The bytes of all responses that are being read from the store or written, in KiB: eight pages of lists with
/// payloads, and much more of everything else.
const RESPONSES_KIB_MAX: usize = 64 * 1024;
/// Challenges and tests that are out at the same time.
const OUTGOING_MAX: usize = 64;
/// Pages of history that are examined at the same time: each takes a reader of the store for a while.
const EXAMINATIONS_MAX: usize = 1;

/// Sessions that are over or unknown which one client address may present at once, and the time after which it may
/// present one more. Open pages of an ended session ask again every few seconds.
const UNKNOWN_SESSIONS_BURST: u32 = 100;
const UNKNOWN_SESSIONS_REFILL: Duration = Duration::from_millis(100);

/// Bounds of what callers may send.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    pub payload_bytes_max: usize,
    pub batch_events_max: usize,
}

impl Limits {
    /// The largest body of an ingest request: a batch need not have room for its every event at full size.
    pub(crate) const fn ingest_body_bytes_max(self) -> usize {
        const BATCH_BYTES: usize = 8 * 1024 * 1024;
        const ENVELOPE_BYTES: usize = 64 * 1024;
        let one = self.payload_bytes_max + ENVELOPE_BYTES;
        if one > BATCH_BYTES { one } else { BATCH_BYTES }
    }
}

/// What challenges and test events need.
#[derive(Debug)]
pub struct Outgoing {
    pub sender: Sender,
    pub sealer: SecretSealer,
    pub timeouts: RequestTimeouts,
}

/// What operators are told about this process beside what the store knows.
#[derive(Debug, Clone)]
pub struct Operations {
    pub version: &'static str,
    /// The schema that this program was made for.
    pub schema_needed: u32,
    /// What the settings leave open.
    pub warnings: Vec<String>,
    pub survey: SurveyOptions,
    /// What waits, as last counted.
    pub last_survey: LastSurvey,
    /// What this machine's own clock says.
    pub machine_now: fn() -> posthaste_core::Timestamp,
}

pub struct ApiState<S: Stores> {
    pub(crate) subscriptions: S::Subscriptions,
    pub(crate) dead_letters: S::DeadLetters,
    pub(crate) keys: S::Keys,
    pub(crate) reader: S::Reader,
    pub(crate) insight: S::Insight,
    pub(crate) ingest: Batcher<IngestRequest, RequestOutcome>,
    /// Nothing where no broker is set.
    pub(crate) orders: Option<Batcher<Order, Submission>>,
    pub(crate) clock: Clock,
    pub(crate) metrics: Metrics,
    pub(crate) wake_ups: WakeUps,
    pub(crate) outgoing: Outgoing,
    pub(crate) outgoing_slots: Semaphore,
    pub(crate) examinations: Semaphore,
    pub(crate) limits: Limits,
    pub(crate) uploads: Arc<Semaphore>,
    pub(crate) responses: ResponseBudget,
    pub(crate) root_key: Option<KeyHash>,
    pub(crate) known_keys: KeyCache,
    pub(crate) unknown_keys: UnknownKeys,
    pub(crate) unknown_attempts: Attempts,
    pub(crate) session_attempts: Attempts,
    pub(crate) health: Arc<Readiness>,
    /// `/metrics` and `/readyz` are served at another address only.
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
    /// `random` fills a buffer with bytes that nobody can guess: keys, secrets and nonces come from it.
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
        let health =
            health_of::<S>(store.reader(), metrics.clone(), Vec::new(), Duration::from_secs(15), None);
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
            examinations: Semaphore::new(EXAMINATIONS_MAX),
            limits,
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

    /// A key with every role that no table holds.
    #[must_use]
    pub fn with_root_key(mut self, hash: Option<KeyHash>) -> Self {
        self.root_key = hash;
        self
    }

    /// Where failed sign-ins are counted; the service that writes them to the audit shares it.
    #[must_use]
    pub fn with_failed_sign_ins(mut self, counter: FailedSignInCounter) -> Self {
        self.failed_sign_ins = counter;
        self
    }

    /// Where orders go in; without it they are refused.
    #[must_use]
    pub fn with_orders(mut self, orders: Option<Batcher<Order, Submission>>) -> Self {
        self.orders = orders;
        self
    }

    /// The services whose steps prove that this process works; one is late after `late_after`. What this
    /// process knows of the lane to the broker is for readiness to tell.
    #[must_use]
    pub fn with_pulses(
        mut self,
        heartbeats: Vec<Arc<Heartbeat>>,
        late_after: Duration,
        lane: LaneState,
    ) -> Self {
        let (reader, metrics) = (self.reader.clone(), self.metrics.clone());
        self.health = Arc::new(health_of::<S>(reader, metrics, heartbeats, late_after, Some(lane)));
        self
    }

    /// Leaves out `/metrics` and `/readyz`, which tell strangers about this process: another address serves them.
    #[must_use]
    pub fn with_metrics_elsewhere(mut self, elsewhere: bool) -> Self {
        self.metrics_elsewhere = elsewhere;
        self
    }

    pub(crate) fn draw<const N: usize>(&self) -> [u8; N] {
        let mut bytes = [0; N];
        (self.random)(&mut bytes);
        bytes
    }
}

/// Ready is who can read: any event will do, also one that is not there.
fn health_of<S: Stores>(
    reader: S::Reader,
    metrics: Metrics,
    heartbeats: Vec<Arc<Heartbeat>>,
    late_after: Duration,
    lane: Option<LaneState>,
) -> Readiness {
    let answers = move || {
        let reader = reader.clone();
        async move { reader.event(EventId::from_store(1)).await.map(drop) }
    };
    Readiness::new(answers, metrics, heartbeats, late_after, lane)
}
