//! The evidence from a run: database rows, the broker's records, the responses to submissions, and the injected
//! faults. It is plain data, so that the checker can be tested with constructed evidence.

use crate::broker::accounts::Books;
use crate::direct::{Direct, Row};
use crate::harness::Engine;
use std::collections::BTreeMap;
use std::time::Duration;

/// The final state of an order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrderRow {
    pub key: String,
    pub status: String,
    pub retry_count: i64,
    pub last_error: Option<String>,
    pub maybe_executed: bool,
    pub request_digest: String,
}

/// A state transition of an order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditRow {
    pub key: String,
    pub from: Option<String>,
    pub to: String,
    pub retry_count: i64,
    pub last_error: Option<String>,
    pub at_us: i64,
}

/// The responses to the submissions of one order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Responses {
    /// The number of responses that reported the order as new.
    pub new: usize,
    /// The number of responses that reported the order as already stored.
    pub same: usize,
}

#[derive(Debug, Clone, Default)]
pub struct Evidence {
    /// The responses for every submitted key.
    pub responses: BTreeMap<String, Responses>,
    pub orders: Vec<OrderRow>,
    /// The audit rows in chronological order.
    pub audit: Vec<AuditRow>,
    pub books: Books,
    /// The start and end of each freeze of a sender, in microseconds.
    pub freezes_us: Vec<(i64, i64)>,
    /// The maximum duration of a request.
    pub request_timeout: Duration,
}

impl Evidence {
    /// Reads the rows from the database.
    pub async fn read(&mut self, direct: &Direct, engine: Engine) {
        let orders = "SELECT idempotency_key, status, retry_count, last_error, request_digest,
            CASE WHEN maybe_executed THEN 1 ELSE 0 END FROM outbox_orders";
        self.orders = direct.rows(orders).await.iter().map(OrderRow::of).collect();
        let at = match engine {
            Engine::Sqlite => "created_at",
            Engine::Postgres | Engine::PostgresCut => "(extract(epoch FROM created_at) * 1000000)::bigint",
        };
        let audit = format!(
            "SELECT idempotency_key, status_from, status_to, retry_count, last_error, {at}
            FROM outbox_audit ORDER BY id"
        );
        self.audit = direct.rows(&audit).await.iter().map(AuditRow::of).collect();
    }
}

fn number(row: &Row, column: usize) -> i64 {
    row[column].as_deref().and_then(|text| text.parse().ok()).expect("a number")
}

fn text(row: &Row, column: usize) -> String {
    row[column].clone().expect("text")
}

impl OrderRow {
    fn of(row: &Row) -> Self {
        Self {
            key: text(row, 0),
            status: text(row, 1),
            retry_count: number(row, 2),
            last_error: row[3].clone(),
            request_digest: text(row, 4),
            maybe_executed: number(row, 5) == 1,
        }
    }
}

impl AuditRow {
    fn of(row: &Row) -> Self {
        Self {
            key: text(row, 0),
            from: row[1].clone(),
            to: text(row, 2),
            retry_count: number(row, 3),
            last_error: row[4].clone(),
            at_us: number(row, 5),
        }
    }
}
