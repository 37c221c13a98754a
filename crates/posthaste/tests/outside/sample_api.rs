//! Serves the API and the dashboard with [`super::sample_data`], in this process and with a fixed clock, so pages show
//! the same content and the same times in every run.

use crate::sample_data::{self, NOW, Samples, VERSION};
use crate::served::ROOT_KEY;
use posthaste_api::server::Server;
use posthaste_api::{ApiState, BuildInfo, Limits, Operations, Outgoing, key_hash, router};
use posthaste_core::Timestamp;
use posthaste_core::job::RequestTimeouts;
use posthaste_core::ports::{InsightStore as _, Stores};
use posthaste_services::batcher::batcher;
use posthaste_services::clock::Clock;
use posthaste_services::egress::EgressPolicy;
use posthaste_services::ingest::Ingest;
use posthaste_services::metrics::Metrics;
use posthaste_services::oauth2::TokenCache;
use posthaste_services::outbox::LaneState;
use posthaste_services::runner::{Runner, Service};
use posthaste_services::seal::{PlainSecrets, SecretSealer};
use posthaste_services::sender::{KeepAlive, Sender, Trust};
use posthaste_services::survey::{LastSurvey, SurveyOptions};
use posthaste_services::wake::WakeUps;
use posthaste_services::webhook_request::InstallationNames;
use posthaste_store::sqlite::{MIGRATIONS, SqliteStore};
use posthaste_testkit::client::Call;
use posthaste_testkit::harness::Harness;
use posthaste_testkit::random::Random;
use serde_json::Value;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};
use tokio::net::TcpListener;

const SURVEY: SurveyOptions = SurveyOptions {
    lease: Duration::from_secs(60),
    cleaner_interval: Duration::from_secs(1),
    order_stuck_after: Duration::from_secs(600),
};

/// A running server with the sample data.
pub(crate) struct SampleApi {
    pub(crate) h: Harness<SqliteStore>,
    pub(crate) samples: Samples,
    pub(crate) address: SocketAddr,
    _server: Server,
    _runner: Runner,
}

impl SampleApi {
    pub(crate) async fn start() -> Self {
        let h = Harness::sqlite("sample").await;
        let samples = sample_data::create(&h).await;
        let (clock, metrics, wake_ups) = (Clock::fixed(NOW), Metrics::new(), WakeUps::alone());
        let mut runner = Runner::new(clock.clone(), metrics.clone());
        let (events, batches) =
            batcher(Ingest::new(h.store.ingest(), wake_ups.clone(), metrics.clone()), 100, 100);
        let wake_up = batches.wake_up();
        runner.start(Service::new("ingest", batches, wake_up, Duration::from_millis(50)));
        let last_survey = LastSurvey::default();
        last_survey.set(h.store.insight().survey(SURVEY.request(NOW)).await.expect("a survey"), NOW);
        let operations = Operations {
            build: BuildInfo { version: VERSION, revision: "unknown", engine: "sqlite" },
            schema_needed: MIGRATIONS[MIGRATIONS.len() - 1].version,
            warnings: Vec::new(),
            survey: SURVEY,
            last_survey,
            connections: None,
            machine_now,
        };
        let lane = LaneState::new(metrics.clone());
        let limits = Limits { payload_bytes_max: 10_000, batch_events_max: 20 };
        let state =
            ApiState::new(&h.store, events, clock, metrics, wake_ups, outgoing(), limits, operations, fill)
                .with_root_key(Some(key_hash(ROOT_KEY)))
                .with_pulses(runner.heartbeats().to_vec(), Duration::from_secs(60), lane);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let server = Server::start(listener, router(state));
        Self { h, samples, address, _server: server, _runner: runner }
    }

    pub(crate) fn call(&self, method: &str, path: &str) -> Call {
        Call::new(self.address, method, path, ROOT_KEY)
    }

    /// Returns a field of the newest item in an API list that has at least `attempts_min` attempts.
    pub(crate) fn find(&self, path: &str, field: &str, attempts_min: i64) -> i64 {
        let page = self.call("GET", path).send_blocking().expect(200).json();
        let items = page["items"].as_array().expect("items");
        let has_attempts = |item: &&Value| item["attempt_count"].as_i64().unwrap_or_default() >= attempts_min;
        let found = items.iter().find(has_attempts).unwrap_or_else(|| panic!("nothing in {path}: {page}"));
        found[field].as_i64().expect("a number")
    }
}

/// Returns the options for outgoing requests. Test events may be sent to this machine without TLS.
fn outgoing() -> Outgoing {
    let allow_cidrs = vec!["127.0.0.0/8".parse().expect("a network")];
    let policy = EgressPolicy { allow_http: true, allow_cidrs, ..EgressPolicy::default() };
    let sender = Sender::new(policy, Trust::nobody(), KeepAlive::default()).expect("a sender");
    Outgoing {
        tokens: TokenCache::new(sender.clone()),
        names: InstallationNames::default(),
        sender,
        sealer: SecretSealer::new(None, PlainSecrets::Accepted),
        timeouts: RequestTimeouts { default: Duration::from_secs(5), lease: Duration::from_secs(60) },
    }
}

/// Returns the actual time, which `doctor` compares with the clock of the database.
fn machine_now() -> Timestamp {
    let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("a time after 1970");
    Timestamp::from_micros(0).after(since_epoch)
}

fn fill(bytes: &mut [u8]) {
    static DRAWN: AtomicU64 = AtomicU64::new(1);
    let mut random = Random::new(DRAWN.fetch_add(1, Ordering::Relaxed));
    bytes.iter_mut().for_each(|byte| *byte = random.next().to_be_bytes()[0]);
}
