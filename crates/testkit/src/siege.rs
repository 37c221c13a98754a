//! Hostile clients against one real process while it delivers: connections that do not read their responses, uploads
//! that hardly move, and queries with thousands of parameters, all at once. Measures how many deliveries a second are
//! left of those before and after the attack, and the memory of the process.

mod attackers;

use crate::client::Call;
use crate::fleet::{free_address, settings};
use crate::postgres;
use crate::processes::{Process, Program};
use crate::random::Random;
use crate::receiver::{Answer, Receiver};
use crate::signals;
use crate::subscribers::subscribe;
use attackers::Attack;
use posthaste_core::ports::Stores;
use posthaste_store::postgres::{PostgresOptions, PostgresStore};
use posthaste_store::sqlite::{self, SqliteOptions, SqliteStore};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The least share of the deliveries per second that must be left during the attack.
pub const RATIO_MIN: f64 = 0.8;
/// The most memory that the process may use at any time, in MiB.
pub const MEMORY_MAX_MIB: u64 = 256;

const KIND: &str = "siege.event";
const SUBSCRIPTIONS: u64 = 8;
/// Events of one request.
const BATCH: u64 = 500;
/// Events that were accepted and are not delivered yet: enough to keep the process busy.
const BACKLOG: u64 = 10_000;
/// Callers that hand in events.
const CALLERS: u64 = 4;
/// How long the process runs before anything is measured, and after the attack ends.
const SETTLE: Duration = Duration::from_secs(3);
const START_WITHIN: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    Sqlite,
    Postgres,
}

#[derive(Debug, Clone, Copy)]
pub struct SiegeOptions {
    /// Connections that do not read.
    pub connections: usize,
    /// Uploads that send a byte a second.
    pub uploads: usize,
    /// Queries a second with 15,000 parameters each.
    pub queries_per_second: u32,
    /// The length of each of the three measurements: before, during and after the attack.
    pub measured: Duration,
}

#[derive(Debug, Clone, Copy)]
pub struct SiegeReport {
    /// Deliveries per second.
    pub before: f64,
    pub during: f64,
    pub after: f64,
    pub memory_mib: u64,
    /// Connections that were open when the measurement during the attack began, and queries that got a response.
    pub connected: usize,
    pub queries: u64,
    /// Requests of the honest callers that failed during the attack.
    pub failed: u64,
}

impl SiegeReport {
    /// What was left of the deliveries per second, compared with the mean of before and after.
    pub fn ratio(&self) -> f64 {
        self.during / ((self.before + self.after) / 2.0).max(f64::MIN_POSITIVE)
    }

    /// Prints the figures; returns whether all bounds were kept.
    pub fn conclude(&self, engine: Engine) -> bool {
        let (ratio, memory) = (self.ratio(), self.memory_mib);
        println!(
            "{engine:?}: {:.0}/s before, {:.0}/s during, {:.0}/s after: ratio {ratio:.2} (at least {RATIO_MIN}); \
             memory {memory} MiB (below {MEMORY_MAX_MIB}); {} connections open, {} queries answered, \
             {} honest requests failed",
            self.before, self.during, self.after, self.connected, self.queries, self.failed
        );
        ratio >= RATIO_MIN && memory < MEMORY_MAX_MIB && self.failed == 0
    }
}

/// What the honest callers and the receiver count.
#[derive(Debug, Default)]
struct Counts {
    accepted: AtomicU64,
    delivered: AtomicU64,
    failed: AtomicU64,
}

/// Attacks a process of its own on a fresh database.
pub async fn run(engine: Engine, options: SiegeOptions) -> SiegeReport {
    let counts = Arc::new(Counts::default());
    let counting = Arc::clone(&counts);
    let receiver = Receiver::start_unlogged(move |_| {
        counting.delivered.fetch_add(1, Ordering::Relaxed);
        Answer::Status(200)
    })
    .await;
    let folder = tempfile::tempdir().expect("a folder");
    let url = prepare(engine, &folder, &receiver).await;
    let (address, key) = (free_address(), random_key());
    let settings = settings(&[
        ("POSTHASTE_DATABASE_URL", &url),
        ("POSTHASTE_LISTEN", &address.to_string()),
        ("POSTHASTE_ROOT_KEY", &key),
        ("POSTHASTE_LOG", "error"),
    ]);
    let process = Program::find().serve("all", "all", &settings);
    wait_until_ready(&process, address).await;
    let callers: Vec<_> =
        (0..CALLERS).map(|_| tokio::spawn(hand_in(address, key.clone(), Arc::clone(&counts)))).collect();
    tokio::time::sleep(SETTLE).await;
    let before = rate(&counts, options.measured).await;
    let failed_before = counts.failed.load(Ordering::Relaxed);
    let attack = Attack::begin(address, &key, options).await;
    let connected = attack.connected();
    let during = rate(&counts, options.measured).await;
    let failed = counts.failed.load(Ordering::Relaxed) - failed_before;
    let queries = attack.end();
    tokio::time::sleep(SETTLE).await;
    let after = rate(&counts, options.measured).await;
    callers.iter().for_each(tokio::task::JoinHandle::abort);
    let memory_mib = signals::peak_memory_mib(process.id());
    assert!(!process.has_ended(), "the process ended: {:#?}", process.lines());
    SiegeReport { before, during, after, memory_mib, connected, queries, failed }
}

/// Creates the database and the subscriptions; returns the URL of the database.
async fn prepare(engine: Engine, folder: &TempDir, receiver: &Receiver) -> String {
    match engine {
        Engine::Sqlite => {
            let path = folder.path().join("posthaste.db");
            sqlite::migrate(&path).expect("the migration");
            let store = SqliteStore::open(&SqliteOptions::new(&path)).expect("the store");
            subscribe_all(&store, receiver).await;
            format!("sqlite://{}", path.display())
        }
        Engine::Postgres => {
            let url = postgres::migrated_database("siege").await;
            let store = PostgresStore::connect(&PostgresOptions::new(&url)).await.expect("the store");
            subscribe_all(&store, receiver).await;
            url
        }
    }
}

async fn subscribe_all(store: &impl Stores, receiver: &Receiver) {
    for number in 0..SUBSCRIPTIONS {
        subscribe(store, &format!("{KIND}.{number}"), &receiver.url(&format!("/{number}")), None).await;
    }
}

fn random_key() -> String {
    let mut random = Random::new(std::process::id().into());
    (0..4).map(|_| format!("{:016x}", random.next())).collect()
}

async fn wait_until_ready(process: &Process, address: SocketAddr) {
    let until = Instant::now() + START_WITHIN;
    loop {
        let answer = Call::get(address, "/readyz").try_send().await;
        if answer.is_ok_and(|answer| answer.status == 200) {
            return;
        }
        assert!(Instant::now() < until && !process.has_ended(), "it does not serve: {:#?}", process.lines());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Hands in events whenever the backlog is short.
async fn hand_in(address: SocketAddr, key: String, counts: Arc<Counts>) {
    let events: Vec<String> = (0..BATCH)
        .map(|number| format!(r#"{{"event_type":"{KIND}.{}","payload":{number}}}"#, number % SUBSCRIPTIONS))
        .collect();
    let body = format!("[{}]", events.join(","));
    loop {
        let delivered = counts.delivered.load(Ordering::Relaxed);
        if counts.accepted.load(Ordering::Relaxed).saturating_sub(delivered) >= BACKLOG {
            tokio::time::sleep(Duration::from_millis(5)).await;
            continue;
        }
        match Call::new(address, "POST", "/v1/events", &key).json(body.as_str()).try_send().await {
            Ok(answer) if answer.status == 202 => counts.accepted.fetch_add(BATCH, Ordering::Relaxed),
            Ok(_) | Err(_) => counts.failed.fetch_add(1, Ordering::Relaxed),
        };
    }
}

/// Deliveries per second over a time.
async fn rate(counts: &Counts, measured: Duration) -> f64 {
    let (began, first) = (Instant::now(), counts.delivered.load(Ordering::Relaxed));
    tokio::time::sleep(measured).await;
    let delivered = counts.delivered.load(Ordering::Relaxed) - first;
    delivered as f64 / began.elapsed().as_secs_f64()
}
