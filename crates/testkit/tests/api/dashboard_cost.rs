//! No page reads history: what it touches beside 1,000 finished deliveries and beside 100,000 is the same within a
//! factor of two, in rows and in pages of PostgreSQL's tables and indexes, planning included. Pages that look
//! for something are bounded instead; they are compared where both databases hold more than the bound.
//! `make count-pages` does it with a million.

use crate::dashboard::Visitor;
use crate::server::{ROOT_KEY, TestApi};
use posthaste_store::postgres::PostgresStore;
use posthaste_testkit::harness::Harness;
use posthaste_testkit::postgres;
use tokio_postgres::Client;

const FEW: i64 = 1_000;
/// More dead letters than a search looks at.
const SOME: i64 = 40_000;

/// Beside the few, or beside `POSTHASTE_COUNTED_DELIVERIES` of them.
fn many() -> i64 {
    let asked = std::env::var("POSTHASTE_COUNTED_DELIVERIES").ok();
    asked.map_or(100_000, |text| text.parse().expect("POSTHASTE_COUNTED_DELIVERIES must be a number"))
}

/// Everything has ended. Every second delivery was given up, and every letter was requeued with success.
const ENDED: &str = include_str!("dashboard_cost.sql");

struct World {
    api: TestApi<PostgresStore>,
    client: Client,
}

#[derive(Debug, Clone, Copy)]
struct Touched {
    rows: i64,
    buffers: i64,
}

impl World {
    async fn with(deliveries: i64) -> Self {
        let h = Harness::postgres("cost").await;
        let client = postgres::client(h.url()).await;
        let script = ENDED.replace("{deliveries}", &deliveries.to_string());
        client.batch_execute(&script).await.unwrap_or_else(|error| panic!("{error:?}"));
        client.batch_execute("VACUUM ANALYZE").await.expect("statistics");
        Self { api: TestApi::start(h).await, client }
    }

    /// What one look at a page touches.
    async fn touched(&self, path: &str) -> Touched {
        let visitor = Visitor::sign_in(&self.api, ROOT_KEY).await;
        self.settle().await;
        let before = self.figures().await;
        // The connections were ended: the first try may find that out.
        let mut tries = 0;
        loop {
            let answer = visitor.call("GET", path).send().await;
            if answer.status == 200 {
                break;
            }
            tries += 1;
            assert!(answer.status == 503 && tries < 20, "{path}: {}", answer.text());
        }
        self.settle().await;
        let after = self.figures().await;
        Touched { rows: after.rows - before.rows, buffers: after.buffers - before.buffers }
    }

    /// A connection tells its figures when it ends.
    async fn settle(&self) {
        let end = "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity
            WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()";
        self.client.query(end, &[]).await.expect("the end");
    }

    async fn figures(&self) -> Touched {
        let sql = "SELECT
            (SELECT sum(heap_blks_hit + heap_blks_read + coalesce(idx_blks_hit + idx_blks_read, 0)
                + coalesce(toast_blks_hit + toast_blks_read, 0))::bigint
                FROM pg_statio_user_tables WHERE schemaname = 'posthaste'),
            (SELECT sum(seq_tup_read + coalesce(idx_tup_fetch, 0))::bigint
                FROM pg_stat_user_tables WHERE schemaname = 'posthaste')";
        self.client.batch_execute("SELECT pg_stat_force_next_flush()").await.expect("the figures");
        let row = self.client.query_one(sql, &[]).await.expect("the figures");
        Touched { buffers: row.get(0), rows: row.get(1) }
    }
}

/// The pages of the dashboard; `{delivery}` is the newest one, `{letter}` the letter that it was made from.
const SAME: [&str; 20] = [
    "/",
    "/?window=24h",
    "/deliveries",
    "/deliveries?status=Completed",
    "/deliveries?subscription_id=3",
    "/deliveries?event_type=kind.3",
    "/deliveries?event_id=500",
    "/deliveries/500",
    "/deliveries/501",
    "/deliveries/{delivery}",
    "/dead-letters",
    "/dead-letters?subscription_id=3",
    "/dead-letters?event_type=kind.3",
    "/dead-letters/250",
    "/dead-letters/requeued?first={letter_before}&last={letter}&begun=2026-01-01T00:00:00Z",
    "/orders",
    "/orders?status=dead",
    "/orders/key-500",
    "/orders?idempotency_key=key-500",
    "/system",
];

/// Pages that look for what is not there, or count what is, up to 10,000.
const BOUNDED: [&str; 8] = [
    "/deliveries?status=Pending",
    "/deliveries?subscription_id=99",
    "/deliveries?event_type=kind.none",
    "/dead-letters?event_type=kind.none",
    "/dead-letters?since=2030-01-01T00:00:00Z",
    "/dead-letters/requeue",
    "/dead-letters/requeued?first=1&last={letter}&begun=2026-01-01T00:00:00Z",
    "/orders?status=queued",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_costs_the_same_however_long_history_is() {
    let many = many();
    let (beside_few, beside_some, beside_many) =
        (World::with(FEW).await, World::with(SOME).await, World::with(many).await);
    let mut wrong = Vec::new();
    for (pages, fewer, count) in [(&SAME[..], &beside_few, FEW), (&BOUNDED[..], &beside_some, SOME)] {
        for page in pages {
            let path = |deliveries: i64| {
                let letter = (deliveries - 1) / 2;
                page.replace("{delivery}", &(deliveries - 1).to_string())
                    .replace("{letter}", &letter.to_string())
                    .replace("{letter_before}", &(letter - 50).to_string())
            };
            let few = fewer.touched(&path(count)).await;
            let more = beside_many.touched(&path(many)).await;
            let found = format!(
                "{page}: {} rows and {} buffers beside {count}, {} and {} beside {many}",
                few.rows, few.buffers, more.rows, more.buffers
            );
            println!("{found}");
            assert!(few.buffers > 0, "{page} was not counted");
            if more.rows > 2 * few.rows || more.buffers > 2 * few.buffers {
                wrong.push(found);
            }
        }
    }
    assert!(wrong.is_empty(), "{} pages read history:\n{}", wrong.len(), wrong.join("\n"));
}
