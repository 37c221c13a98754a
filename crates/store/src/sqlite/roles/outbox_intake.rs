//! Stores orders from the API, one per idempotency key, each with a row in the ledger. The outbox worker sends them.

use std::time::Duration;

use posthaste_core::Timestamp;
use posthaste_core::order::{IdempotencyKey, Order};
use posthaste_core::ports::{OrderRecord, OutboxIntakeStore, StoreResult, Submission};
use rusqlite::params;

use crate::grants::DbRole;
use crate::sqlite::SqliteStore;
use crate::sqlite::conn::error::{Answer, Fault};
use crate::sqlite::conn::session::Session;
use crate::sqlite::roles::order_row::read_order;

const INSERT_ORDER: &str = include_str!("../sql/outbox_intake/insert_order.sql");
const INSERT_LEDGER: &str = include_str!("../sql/outbox_intake/insert_ledger.sql");
const FIND_ORDERS: &str = include_str!("../sql/outbox_intake/find_orders.sql");

/// The SQLite implementation of [`OutboxIntakeStore`], with the rights of the role `outbox_writer`.
#[derive(Debug, Clone)]
pub struct SqliteOutboxIntake(pub(crate) SqliteStore);

impl OutboxIntakeStore for SqliteOutboxIntake {
    async fn submit_orders(
        &self,
        orders: Vec<Order>,
        ledger_ttl: Duration,
        now: Timestamp,
    ) -> StoreResult<Vec<Submission>> {
        let expires_at = now.after(ledger_ttl);
        self.0
            .write(DbRole::OutboxWriter, "submitting orders", move |session| {
                orders.iter().map(|order| submit(session, order, expires_at, now)).collect()
            })
            .await
    }
}

fn submit(session: &Session<'_>, order: &Order, expires_at: Timestamp, now: Timestamp) -> Answer<Submission> {
    let (key, digest) = (order.key.as_str(), order.digest.as_str());
    let inserted =
        session.run(INSERT_ORDER, params![key, order.canonical, digest, order.trace_id, now.micros()])?;
    if inserted > 0 {
        session.run(INSERT_LEDGER, params![key, digest, expires_at.micros()])?;
        return Ok(Submission::New(find(session, &order.key)?));
    }
    let stored = find(session, &order.key)?;
    if stored.request_digest == order.digest {
        Ok(Submission::Same(stored))
    } else {
        Ok(Submission::Different)
    }
}

fn find(session: &Session<'_>, key: &IdempotencyKey) -> Answer<OrderRecord> {
    let mut find = session.statement(FIND_ORDERS)?;
    let mut rows = find.query([key.as_str()])?;
    match rows.next()? {
        Some(row) => read_order(row),
        None => Err(Fault::Unreadable("an order was neither stored nor found".to_owned())),
    }
}
