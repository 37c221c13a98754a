//! Checks that the cost of a page does not depend on the length of the history: it differs by less than a factor of two
//! between 1,000 and 100,000 finished deliveries. On PostgreSQL, the test counts rows and buffers of tables and
//! indexes, including planning. On SQLite, it counts virtual machine steps, each of which reads at most one row. A
//! million deliveries are used by `make count-pages`.

use crate::dashboard::Visitor;
use crate::server::{ROOT_KEY, TestApi};
use posthaste_core::health::{Attempts, interval_start};
use posthaste_core::ports::{HealthSum, PresenceStore as _, Stores};
use posthaste_core::{SubscriptionId, Timestamp};
use posthaste_store::postgres::PostgresStore;
use posthaste_store::sqlite::SqliteStore;
use posthaste_testkit::fixtures::T0;
use posthaste_testkit::harness::Harness;
use posthaste_testkit::postgres;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio_postgres::Client;

const FEW: i64 = 1_000;

/// Returns the number of deliveries in the long history. `POSTHASTE_COUNTED_DELIVERIES` overrides the default.
fn many() -> i64 {
    let asked = std::env::var("POSTHASTE_COUNTED_DELIVERIES").ok();
    asked.map_or(100_000, |text| text.parse().expect("POSTHASTE_COUNTED_DELIVERIES must be a number"))
}

/// Returns a script that inserts a history of finished deliveries. Every second delivery was dead-lettered, and every
/// dead letter was requeued successfully.
fn finished_history(script: &str, deliveries: i64) -> String {
    script.replace("{deliveries}", &deliveries.to_string())
}

/// All pages that read from the database, with filters that match many rows and filters that match none. `{delivery}`
/// is the newest delivery, and `{letter}` the dead letter from which it was requeued.
const PAGES: [&str; 41] = [
    "/",
    "/?window=24h",
    "/events",
    "/events?event_type=kind.3",
    "/events?event_type=kind.none",
    "/events?external_event_id=external-500",
    "/events?since=2026-01-01T00:00:10Z",
    "/events?event_type=kind.none&since=2026-01-01T00:00:10Z",
    "/events/500",
    "/events/{delivery}",
    "/subscriptions",
    "/subscriptions?state=paused",
    "/subscriptions?event_type=kind.3",
    "/subscriptions/3",
    "/deliveries",
    "/deliveries?status=Completed",
    "/deliveries?status=Pending",
    "/deliveries?subscription_id=3",
    "/deliveries?subscription_id=99",
    "/deliveries?event_type=kind.3",
    "/deliveries?event_type=kind.none",
    "/deliveries?error_code=TIMEOUT",
    "/deliveries?until=2026-01-01T00:05:00Z",
    "/deliveries?event_id=500",
    "/deliveries/500",
    "/deliveries/501",
    "/deliveries/{delivery}",
    "/dead-letters",
    "/dead-letters?subscription_id=3",
    "/dead-letters?subscription_id=2",
    "/dead-letters?event_type=kind.3",
    "/dead-letters?event_type=kind.none",
    "/dead-letters?since=2030-01-01T00:00:00Z",
    "/dead-letters/250",
    "/dead-letters/requeue",
    "/dead-letters/requeue?event_type=kind.none",
    "/dead-letters/requeued?first=1&last={letter}&started=2026-01-01T00:00:00Z",
    "/orders",
    "/orders?status=queued",
    "/orders/key-500",
    "/system",
];

/// The cost of one page request, as named counts.
type Cost = Vec<(&'static str, i64)>;

trait World {
    async fn cost(&self, path: &str) -> Cost;
}

/// Reports one day of attempts for each subscription, no more than the short history can contain.
async fn report_health<S: Stores>(store: &S, now: Timestamp) {
    let mut attempts = Attempts::default();
    attempts.succeed(Duration::from_millis(7));
    let sums = (0..145).flat_map(|interval| {
        let interval_start = interval_start(now).before(Duration::from_secs(600 * interval));
        let attempts = &attempts;
        (1..=10).map(move |id| HealthSum {
            subscription_id: SubscriptionId::from_store(id),
            interval_start,
            attempts: attempts.clone(),
        })
    });
    store.presence().report_health(sums.collect(), now).await.expect("a report");
}

struct Server {
    api: TestApi<PostgresStore>,
    client: Client,
}

impl Server {
    async fn with(deliveries: i64) -> Self {
        let h = Harness::postgres("cost").await;
        let client = postgres::client(&postgres::as_admin(h.url())).await;
        let script = finished_history(include_str!("dashboard_cost_postgres.sql"), deliveries);
        client.batch_execute(&script).await.unwrap_or_else(|error| panic!("{error:?}"));
        report_health(&h.store, T0).await;
        // Until the WAL of asynchronous commits is flushed, VACUUM cannot mark their rows as all-visible, and
        // index-only scans would fetch every row.
        client.batch_execute("CHECKPOINT").await.expect("a checkpoint");
        client.batch_execute("VACUUM ANALYZE").await.expect("statistics");
        Self { api: TestApi::start(h).await, client }
    }

    /// Closes all other connections, because a connection reports its statistics when it is closed.
    async fn end_connections(&self) {
        let sql = "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity
            WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()";
        self.client.query(sql, &[]).await.expect("the end of the connections");
    }

    /// Returns the numbers of rows and buffers read so far.
    async fn figures(&self) -> (i64, i64) {
        let sql = "SELECT
            (SELECT sum(seq_tup_read + coalesce(idx_tup_fetch, 0))::bigint
                FROM pg_stat_user_tables WHERE schemaname = 'posthaste'),
            (SELECT sum(heap_blks_hit + heap_blks_read + coalesce(idx_blks_hit + idx_blks_read, 0)
                + coalesce(toast_blks_hit + toast_blks_read, 0))::bigint
                FROM pg_statio_user_tables WHERE schemaname = 'posthaste')";
        self.client.batch_execute("SELECT pg_stat_force_next_flush()").await.expect("the figures");
        let row = self.client.query_one(sql, &[]).await.expect("the figures");
        (row.get(0), row.get(1))
    }
}

impl World for Server {
    async fn cost(&self, path: &str) -> Cost {
        let visitor = Visitor::sign_in(&self.api, ROOT_KEY).await;
        self.end_connections().await;
        let before = self.figures().await;
        // The first requests detect the closed connections of the pool.
        let mut attempts = 0;
        loop {
            let answer = visitor.call("GET", path).send().await;
            if answer.status == 200 {
                break;
            }
            attempts += 1;
            assert!(answer.status == 503 && attempts < 20, "{path}: {}", answer.text());
        }
        self.end_connections().await;
        let after = self.figures().await;
        vec![("rows", after.0 - before.0), ("buffers", after.1 - before.1)]
    }
}

struct File {
    api: TestApi<SqliteStore>,
    steps: Arc<AtomicU64>,
}

impl File {
    async fn with(deliveries: i64) -> Self {
        let steps = Arc::new(AtomicU64::new(0));
        let h = Harness::sqlite_with(|options| options.steps = Some(Arc::clone(&steps)));
        h.direct.force(&finished_history(include_str!("dashboard_cost_sqlite.sql"), deliveries)).await;
        report_health(&h.store, T0).await;
        Self { api: TestApi::start(h).await, steps }
    }
}

impl World for File {
    async fn cost(&self, path: &str) -> Cost {
        let visitor = Visitor::sign_in(&self.api, ROOT_KEY).await;
        let mut least = u64::MAX;
        // The first use of each of the two reader connections loads the schema, which also takes steps.
        for _ in 0..3 {
            let before = self.steps.load(Ordering::Relaxed);
            let answer = visitor.call("GET", path).send().await;
            assert_eq!(answer.status, 200, "{path}: {}", answer.text());
            least = least.min(self.steps.load(Ordering::Relaxed) - before);
        }
        vec![("steps", i64::try_from(least).unwrap_or(i64::MAX))]
    }
}

async fn compare(few: &impl World, many: &impl World, count: i64) {
    let mut growing = Vec::new();
    for page in PAGES {
        let path = |deliveries: i64| {
            page.replace("{delivery}", &(deliveries - 1).to_string())
                .replace("{letter}", &((deliveries - 1) / 2).to_string())
        };
        let (short, long) = (few.cost(&path(FEW)).await, many.cost(&path(count)).await);
        let text = |cost: &Cost| {
            let parts: Vec<String> = cost.iter().map(|(name, number)| format!("{number} {name}")).collect();
            parts.join(" and ")
        };
        let found = format!("{page}: {} for {FEW} deliveries, {} for {count}", text(&short), text(&long));
        println!("{found}");
        assert!(short.last().is_some_and(|(_, number)| *number > 0), "{page} was not counted");
        let grows = |(few, many): (&(&str, i64), &(&str, i64))| many.1 > 2 * few.1;
        if short.iter().zip(&long).any(grows) {
            growing.push(found);
        }
    }
    assert!(
        growing.is_empty(),
        "the cost of {} pages grows with the history:\n{}",
        growing.len(),
        growing.join("\n")
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_costs_the_same_for_any_history_on_postgres() {
    compare(&Server::with(FEW).await, &Server::with(many()).await, many()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_costs_the_same_for_any_history_on_sqlite() {
    compare(&File::with(FEW).await, &File::with(many()).await, many()).await;
}
