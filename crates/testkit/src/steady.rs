//! Runs a steady load for a long time, then the same load while another transaction stays open. Shows whether vacuum
//! keeps up, and whether the number of pages that a statement accesses stays constant.

use crate::direct::Direct;
use crate::fixtures::event;
use crate::fleet::{Fleet, Role, Wiring, settings};
use crate::private_server::{Flushing, PrivateServer};
use crate::receiver::{Answer, Receiver};
use crate::subscribers::subscribe;
use posthaste_core::ports::{IngestStore as _, Stores as _};
use posthaste_store::postgres::PostgresStore;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::time::{MissedTickBehavior, interval};

const KIND: &str = "steady.event";
const SUBSCRIPTIONS: u64 = 4;
/// The interval between inserts.
const TICK: Duration = Duration::from_millis(20);
/// The maximum growth factor of the pages that a statement accesses while another transaction is open. The scan for
/// expired leases is exempt: it reads all leases since the previous scan, and the open transaction keeps their dead
/// rows.
pub const GROWTH_MAX: f64 = 3.0;
/// The maximum ratio of dead rows in the last third of the steady load to those in the third before.
pub const LEFT_BEHIND_MAX: f64 = 1.5;

/// The statements that read queue tables, each with a fragment of its SQL that no other statement contains. The
/// fragments contain no comments, which may change, and no constants, which `pg_stat_statements` replaces.
const STATEMENTS: [(&str, &str); 6] = [
    ("route", "DELETE FROM posthaste.routing_queue q WHERE q.ctid"),
    ("find due", "AS first_at"),
    ("fetch due", "AS quota (subscription_id, jobs_max, due_from)"),
    ("claim", "FROM leased) AS leased"),
    ("results", "AS saga_created_at"),
    (EXPIRED, "AS expired (status, low, high)"),
];
const EXPIRED: &str = "expired";

#[derive(Debug, Clone, Copy)]
pub struct SteadyOptions {
    pub events_per_second: u64,
    pub steady: Duration,
    pub open: Duration,
    pub sample_every: Duration,
}

/// The measurements since the previous sample.
#[derive(Debug, Clone)]
pub struct Sample {
    pub at: Duration,
    pub delivered_per_second: f64,
    /// The number of dead rows in all tables.
    pub dead_rows: i64,
    pub bytes: i64,
    pub rows: i64,
    /// The number of pages accessed per call of each statement.
    pub touched: BTreeMap<&'static str, f64>,
    /// The number of pages accessed by all statements per delivery, including rare scans.
    pub touched_in_all: f64,
}

#[derive(Debug)]
pub struct SteadyReport {
    pub steady: Vec<Sample>,
    pub open: Vec<Sample>,
}

struct Watch {
    direct: Direct,
    delivered: Arc<AtomicU64>,
    began: Instant,
    last: (Instant, u64),
}

impl Watch {
    async fn sample(&mut self) -> Sample {
        let (now, delivered) = (Instant::now(), self.delivered.load(Ordering::Relaxed));
        let (before, delivered_before) = std::mem::replace(&mut self.last, (now, delivered));
        let tables = "SELECT coalesce(sum(n_dead_tup), 0), coalesce(sum(n_live_tup), 0),
                coalesce(sum(pg_total_relation_size(relid)), 0)
            FROM pg_stat_user_tables WHERE schemaname = 'posthaste'";
        let row = self.direct.rows(tables).await.remove(0);
        let number = |at: usize| row[at].as_deref().and_then(|text| text.parse().ok()).unwrap_or_default();
        let mut touched = BTreeMap::new();
        for (name, text) in STATEMENTS {
            let sql = format!(
                "SELECT coalesce(round(sum(shared_blks_hit + shared_blks_read) / greatest(sum(calls), 1) * 10), 0)::bigint
                 FROM public.pg_stat_statements WHERE query LIKE '%{text}%' AND query NOT LIKE '%pg_stat_statements%'"
            );
            touched.insert(name, self.direct.number(&sql).await as f64 / 10.0);
        }
        let all = "SELECT coalesce(sum(shared_blks_hit + shared_blks_read), 0)::bigint FROM public.pg_stat_statements";
        let all = self.direct.number(all).await as f64;
        self.direct.run("SELECT public.pg_stat_statements_reset()").await;
        Sample {
            touched_in_all: all / (delivered - delivered_before).max(1) as f64,
            at: self.began.elapsed(),
            delivered_per_second: (delivered - delivered_before) as f64 / (now - before).as_secs_f64(),
            dead_rows: number(0),
            rows: number(1),
            bytes: number(2),
            touched,
        }
    }

    async fn samples(&mut self, during: Duration, every: Duration) -> Vec<Sample> {
        let until = Instant::now() + during;
        let mut samples = Vec::new();
        while Instant::now() < until {
            tokio::time::sleep(every).await;
            let sample = self.sample().await;
            println!("{}", sample.line());
            samples.push(sample);
        }
        samples
    }
}

/// Runs the load, first without and then with another open transaction.
pub async fn run(options: SteadyOptions) -> SteadyReport {
    let server = PrivateServer::start_with("steady", Flushing::On, 256);
    server.restart_with("shared_preload_libraries = 'pg_stat_statements'");
    let store = server.migrated_store().await;
    let delivered = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&delivered);
    let receiver = Receiver::start_unlogged(move |_| {
        counter.fetch_add(1, Ordering::Relaxed);
        Answer::Status(200)
    })
    .await;
    for number in 0..SUBSCRIPTIONS {
        subscribe(&store, &format!("{KIND}.{number}"), &receiver.url(&format!("/{number}")), None).await;
    }
    let roles = [(Role::Router, 1), (Role::Orchestrator, 1), (Role::Worker, 1), (Role::Cleaner, 1)];
    let _fleet = Fleet::start(&server, Wiring::Direct, &roles, &settings(&[])).await;
    let direct = Direct::postgres(&server.admin_url("postgres")).await;
    direct.run("CREATE EXTENSION pg_stat_statements SCHEMA public").await;
    let began = Instant::now();
    let mut watch = Watch { direct, delivered, began, last: (began, 0) };
    let load = tokio::spawn(load(store, options.events_per_second));
    println!("{}", heading());
    let steady = watch.samples(options.steady, options.sample_every).await;
    println!("next to an open transaction:");
    let holder = Direct::postgres(&server.admin_url("postgres")).await;
    holder.run("BEGIN ISOLATION LEVEL REPEATABLE READ").await;
    holder.run("SELECT count(*) FROM subscriptions").await;
    let open = watch.samples(options.open, options.sample_every).await;
    holder.run("COMMIT").await;
    load.abort();
    SteadyReport { steady, open }
}

/// Inserts events at a steady rate, in small batches.
async fn load(store: PostgresStore, events_per_second: u64) {
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (began, mut sent) = (Instant::now(), 0);
    loop {
        ticks.tick().await;
        let wanted = (began.elapsed().as_secs_f64() * events_per_second as f64) as u64;
        let requests =
            (sent..wanted).map(|number| vec![event(&format!("{KIND}.{}", number % SUBSCRIPTIONS))]);
        let requests: Vec<_> = requests.take(1_000).collect();
        sent += requests.len() as u64;
        if !requests.is_empty() {
            let now = store.now().await.expect("the time");
            store.ingest().insert_events(requests, now).await.expect("events");
        }
    }
}

fn heading() -> String {
    let names: Vec<String> = STATEMENTS.iter().map(|(name, _)| format!("{name:>12}")).collect();
    let names = names.join(" ");
    format!(
        "{:>6} {:>8} {:>9} {:>9} {:>7} {names} {:>12}",
        "s", "per s", "rows", "dead", "B/row", "per delivery"
    )
}

impl Sample {
    fn line(&self) -> String {
        let touched: Vec<String> =
            STATEMENTS.iter().map(|(name, _)| format!("{:>12.1}", self.touched[name])).collect();
        format!(
            "{:>6} {:>8.0} {:>9} {:>9} {:>7.0} {} {:>12.1}",
            self.at.as_secs(),
            self.delivered_per_second,
            self.rows,
            self.dead_rows,
            self.bytes as f64 / self.rows.max(1) as f64,
            touched.join(" "),
            self.touched_in_all,
        )
    }
}

impl SteadyReport {
    /// Returns the growth factor of the pages accessed with an open transaction, for each statement and for all
    /// statements per delivery. Compares the last thirds of both phases.
    pub fn growth(&self) -> BTreeMap<&'static str, f64> {
        let tail = |samples: &[Sample], figure: &dyn Fn(&Sample) -> f64| {
            let last = &samples[samples.len() - samples.len().div_ceil(3)..];
            last.iter().map(figure).sum::<f64>() / last.len() as f64
        };
        let growth =
            |figure: &dyn Fn(&Sample) -> f64| tail(&self.open, figure) / tail(&self.steady, figure).max(1.0);
        let by_statement = STATEMENTS.iter().map(|(name, _)| (*name, growth(&|sample| sample.touched[name])));
        by_statement.chain([("all, per delivery", growth(&|sample| sample.touched_in_all))]).collect()
    }

    /// Returns the maximum number of dead rows in the last third of the steady load, divided by that of the third
    /// before.
    pub fn left_behind(&self) -> f64 {
        let third = self.steady.len() / 3;
        let most =
            |samples: &[Sample]| samples.iter().map(|sample| sample.dead_rows).max().unwrap_or(0) as f64;
        let (early, late) = self.steady.split_at(2 * third);
        most(late) / most(&early[third..]).max(1.0)
    }

    /// Prints the result.
    ///
    /// # Panics
    ///
    /// Panics if dead rows or accessed pages grew beyond their limits.
    pub fn conclude(&self) {
        let (left_behind, growth) = (self.left_behind(), self.growth());
        println!("dead rows, last third compared with the third before: {left_behind:.2}");
        growth.iter().for_each(|(name, growth)| {
            println!("{name}: {growth:.2} times the pages next to an open transaction");
        });
        assert!(left_behind <= LEFT_BEHIND_MAX, "vacuum does not keep up");
        let is_too_much = |(name, growth): &(&&str, &f64)| **name != EXPIRED && **growth > GROWTH_MAX;
        let grown: Vec<_> = growth.iter().filter(is_too_much).collect();
        assert!(grown.is_empty(), "more than {GROWTH_MAX} times: {grown:?}");
    }
}

#[cfg(test)]
mod tests {
    use super::STATEMENTS;
    use std::path::{Path, PathBuf};

    /// Returns the number of files in a folder and its subfolders that contain `text`.
    fn files_with(folder: &Path, text: &str) -> usize {
        let paths = std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
        let count = |path: PathBuf| {
            if path.is_dir() {
                return files_with(&path, text);
            }
            usize::from(std::fs::read_to_string(&path).expect("a file").contains(text))
        };
        paths.map(count).sum()
    }

    #[test]
    fn each_fragment_identifies_one_statement() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../store/src/postgres/sql");
        for (name, text) in STATEMENTS {
            assert_eq!(files_with(&folder, text), 1, "{name}: {text}");
        }
    }
}
