//! The evidence from a run: database rows, the requests that the receiver read, and the injected faults. It is plain
//! data, so that the checker can be tested with constructed evidence.

use crate::direct::{Direct, Row};
use std::collections::BTreeSet;
use std::time::Duration;

/// The ids of an event and a subscription, as encoded in a `webhook-id`.
pub type Pair = (i64, i64);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SagaRow {
    pub id: i64,
    pub pair: Pair,
    pub status: String,
    pub attempt_count: i64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobRow {
    pub id: i64,
    pub saga_id: i64,
    pub status: String,
    pub lease_resets: i64,
}

/// A request that the receiver read completely.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    pub pair: Pair,
    /// The time since the start of the run.
    pub at: Duration,
    /// The status of the response, or `None` if there was no response.
    pub answer: Option<u16>,
}

/// A fault during which a worker may lose its leases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Disturbance {
    pub from: Duration,
    pub until: Duration,
    /// Whether PostgreSQL itself was killed. It may then lose leases that were not flushed, for which no reset is
    /// counted.
    pub server: bool,
}

#[derive(Debug, Clone, Default)]
pub struct Evidence {
    /// The pairs of acknowledged events and matching subscriptions.
    pub expected: BTreeSet<Pair>,
    pub sagas: Vec<SagaRow>,
    pub jobs: Vec<JobRow>,
    /// The saga id of each dead letter.
    pub dead_letters: Vec<i64>,
    // Row counts of `routing_queue` and `finished_jobs`.
    pub unrouted: i64,
    pub unapplied: i64,
    pub requests: Vec<Request>,
    pub disturbances: Vec<Disturbance>,
    pub lease: Duration,
}

impl Evidence {
    /// Reads the rows from the database.
    pub async fn read(&mut self, direct: &Direct) {
        let sagas = "SELECT id, event_id, subscription_id, attempt_count, status::text
            FROM webhook_delivery_sagas WHERE requeued_from IS NULL";
        let jobs = "SELECT id, saga_id, lease_resets, status::text FROM webhook_delivery_jobs";
        self.sagas = direct.rows(sagas).await.iter().map(SagaRow::of).collect();
        self.jobs = direct.rows(jobs).await.iter().map(JobRow::of).collect();
        let letters = direct.rows("SELECT saga_id FROM dead_letters").await;
        self.dead_letters = letters.iter().map(|row| number(row, 0)).collect();
        self.unrouted = direct.number("SELECT count(*) FROM routing_queue").await;
        self.unapplied = direct.number("SELECT count(*) FROM finished_jobs").await;
    }
}

fn number(row: &Row, column: usize) -> i64 {
    row[column].as_deref().and_then(|text| text.parse().ok()).expect("a number")
}

fn text(row: &Row, column: usize) -> String {
    row[column].clone().expect("text")
}

impl SagaRow {
    fn of(row: &Row) -> Self {
        let pair = (number(row, 1), number(row, 2));
        Self { id: number(row, 0), pair, attempt_count: number(row, 3), status: text(row, 4) }
    }
}

impl JobRow {
    fn of(row: &Row) -> Self {
        let (id, saga_id, lease_resets) = (number(row, 0), number(row, 1), number(row, 2));
        Self { id, saga_id, lease_resets, status: text(row, 3) }
    }
}
