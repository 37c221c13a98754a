//! Attacks one process with hostile clients while it delivers: connections that do not read their responses, slow
//! uploads, and queries with thousands of parameters, all at the same time. Measures the delivery rate before,
//! during and after the attack, and the memory of the process.

mod attackers;

use crate::processes::Program;
use attackers::Attack;
use posthaste_bench::message;
use posthaste_bench::receiver::{Receiver, TAKES};
use posthaste_bench::scratch::{Engine, Folder};
use posthaste_bench::server::{KEY, Server};
use posthaste_bench::tally::Tally;
use posthaste_bench::wire::call;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The minimum delivery rate during the attack, as a fraction of the mean rate before and after it.
pub const RATIO_MIN: f64 = 0.8;
/// The maximum memory of the process at any time, in MiB.
pub const MEMORY_MAX_MIB: f64 = 256.0;

const KIND: &str = "siege.event";
const SUBSCRIPTIONS: u32 = 8;
/// The number of events per request.
const BATCH: u32 = 500;
/// The target number of accepted but undelivered events, enough to keep the process busy.
const BACKLOG: u64 = 10_000;
/// The number of callers that submit events.
const CALLERS: u64 = 4;
/// The warm-up before the first measurement, and the pause after the attack.
const SETTLE: Duration = Duration::from_secs(3);

#[derive(Debug, Clone, Copy)]
pub struct SiegeOptions {
    /// The number of connections that do not read.
    pub connections: usize,
    /// The number of uploads that send one byte per second.
    pub uploads: usize,
    /// The number of queries per second, with 15,000 parameters each.
    pub queries_per_second: u32,
    /// The duration of each of the three measurements.
    pub measured: Duration,
}

#[derive(Debug, Clone, Copy)]
pub struct SiegeReport {
    // Deliveries per second.
    pub before: f64,
    pub during: f64,
    pub after: f64,
    pub memory_mib: f64,
    // Connections open at the start of the measurement during the attack, and queries that got a response.
    pub connected: usize,
    pub queries: u64,
    /// The number of requests from regular callers that failed during the attack.
    pub failed: u64,
}

impl SiegeReport {
    /// Returns the delivery rate during the attack, divided by the mean of the rates before and after it.
    pub fn ratio(&self) -> f64 {
        self.during / ((self.before + self.after) / 2.0).max(f64::MIN_POSITIVE)
    }

    /// Prints the result and returns whether all limits were met.
    pub fn conclude(&self, engine: &Engine) -> bool {
        let (ratio, memory) = (self.ratio(), self.memory_mib);
        println!(
            "{}: {:.0} per second before, {:.0} during, {:.0} after: ratio {ratio:.2} (at least {RATIO_MIN}); \
             memory {memory:.0} MiB (below {MEMORY_MAX_MIB}); {} connections open, {} queries served, \
             {} regular requests failed",
            engine.name(),
            self.before,
            self.during,
            self.after,
            self.connected,
            self.queries,
            self.failed
        );
        ratio >= RATIO_MIN && memory < MEMORY_MAX_MIB && self.failed == 0
    }
}

/// The counts of the regular callers and the receiver.
#[derive(Debug)]
struct Counts {
    delivered: Arc<Tally>,
    accepted: AtomicU64,
    failed: AtomicU64,
}

/// Starts a process with a new database, attacks it, and returns the measurements.
pub async fn run(engine: &Engine, options: SiegeOptions) -> SiegeReport {
    let (receiver, delivered) = (Receiver::start(None).expect("a receiver"), Arc::new(Tally::new(BATCH)));
    receiver.count_on(&delivered);
    let counts = Arc::new(Counts { delivered, accepted: AtomicU64::new(0), failed: AtomicU64::new(0) });
    let folder = Folder::new(&std::env::temp_dir()).expect("a folder");
    let scratch = engine.scratch(&folder.0, "siege").await.expect("a store");
    let log = [("POSTHASTE_LOG", "error".to_owned())];
    let program = Program::find();
    let server = Server::start(program.path(), &scratch.url, "all", &folder.0, &log).await.expect("a server");
    for number in 0..SUBSCRIPTIONS {
        let url = format!("http://{}{TAKES}/{number}", receiver.address);
        server.subscribe(&format!("{KIND}.{number}"), &url).await.expect("a subscription");
    }
    let address = server.address;
    let callers: Vec<_> = (0..CALLERS).map(|_| tokio::spawn(hand_in(address, Arc::clone(&counts)))).collect();
    tokio::time::sleep(SETTLE).await;
    let before = rate(&counts, options.measured).await;
    let failed_before = counts.failed.load(Ordering::Relaxed);
    let attack = Attack::begin(address, KEY, options).await;
    let connected = attack.connected();
    let during = rate(&counts, options.measured).await;
    let failed = counts.failed.load(Ordering::Relaxed) - failed_before;
    let queries = attack.end();
    tokio::time::sleep(SETTLE).await;
    let after = rate(&counts, options.measured).await;
    callers.iter().for_each(tokio::task::JoinHandle::abort);
    let memory_mib = server.memory_mib().expect("a process that still runs");
    drop(server);
    scratch.remove().await;
    SiegeReport { before, during, after, memory_mib, connected, queries, failed }
}

/// Submits events while the backlog is below [`BACKLOG`].
async fn hand_in(address: SocketAddr, counts: Arc<Counts>) {
    let event = |number| message::event(&format!("{KIND}.{}", number % SUBSCRIPTIONS), number);
    let body = format!("[{}]", (0..BATCH).map(event).collect::<Vec<_>>().join(","));
    loop {
        let delivered = counts.delivered.count();
        if counts.accepted.load(Ordering::Relaxed).saturating_sub(delivered) >= BACKLOG {
            tokio::time::sleep(Duration::from_millis(5)).await;
            continue;
        }
        match call(address, "POST", "/v1/events", KEY, &body).await {
            Ok(_) => counts.accepted.fetch_add(BATCH.into(), Ordering::Relaxed),
            Err(_) => counts.failed.fetch_add(1, Ordering::Relaxed),
        };
    }
}

/// Returns the number of deliveries per second over the duration `measured`.
async fn rate(counts: &Counts, measured: Duration) -> f64 {
    let (began, first) = (Instant::now(), counts.delivered.count());
    tokio::time::sleep(measured).await;
    (counts.delivered.count() - first) as f64 / began.elapsed().as_secs_f64()
}
