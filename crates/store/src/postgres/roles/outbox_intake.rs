//! Stores orders from the API, one per idempotency key, each with a row in the ledger. The outbox worker sends them.

use crate::grants::DbRole;
use crate::postgres::PostgresStore;
use crate::postgres::conn::pool::RolePool;
use crate::postgres::conn::session::Session;
use crate::postgres::conn::value::Instant;
use crate::postgres::roles::order_row::order_record;
use crate::remote::{Call, Fault};
use posthaste_core::Timestamp;
use posthaste_core::order::{IdempotencyKey, Order};
use posthaste_core::ports::{OrderRecord, OutboxIntakeStore, StoreResult, Submission};
use std::collections::{HashMap, HashSet};
use std::time::Duration;
use tokio_postgres::Row;

/// The PostgreSQL implementation of [`OutboxIntakeStore`], with the rights of the role `outbox_writer`.
#[derive(Debug, Clone)]
pub struct PostgresOutboxIntake {
    pool: RolePool,
}

impl PostgresOutboxIntake {
    pub(crate) fn new(store: &PostgresStore) -> Self {
        Self { pool: store.pool(DbRole::OutboxWriter) }
    }
}

impl OutboxIntakeStore for PostgresOutboxIntake {
    async fn submit_orders(
        &self,
        orders: Vec<Order>,
        ledger_ttl: Duration,
        now: Timestamp,
    ) -> StoreResult<Vec<Submission>> {
        let expires_at = now.after(ledger_ttl);
        let call = Call::repeatable("storing orders");
        self.pool.call(call, |session| submit(session, &orders, expires_at, now)).await
    }
}

async fn submit(
    mut session: Session,
    orders: &[Order],
    expires_at: Timestamp,
    now: Timestamp,
) -> Result<Vec<Submission>, Fault> {
    // Sorted and distinct by key: the first order with a key is stored, and the others are compared with it.
    let mut first: Vec<&Order> = orders.iter().collect();
    first.sort_by_key(|order| &order.key);
    first.dedup_by_key(|order| &order.key);
    let keys: Vec<&str> = first.iter().map(|order| order.key.as_str()).collect();
    let bodies: Vec<&str> = first.iter().map(|order| order.canonical.as_str()).collect();
    let digests: Vec<&str> = first.iter().map(|order| order.digest.as_str()).collect();
    let traces: Vec<Option<&str>> = first.iter().map(|order| order.trace_id.as_deref()).collect();
    let sql = include_str!("../sql/outbox_intake/submit_orders.sql");
    let rows =
        session.run(sql, &[&keys, &bodies, &digests, &traces, &Instant(now), &Instant(expires_at)]).await?;
    let mut stored = by_key(&rows)?;
    let mut new: HashSet<IdempotencyKey> = stored.keys().cloned().collect();
    if stored.len() < first.len() {
        let missing: Vec<&str> =
            first.iter().filter(|order| !new.contains(&order.key)).map(|order| order.key.as_str()).collect();
        let rows = session.read(include_str!("../sql/outbox_intake/find_orders.sql"), &[&missing]).await?;
        stored.extend(by_key(&rows)?);
    }
    orders.iter().map(|order| answer(order, &stored, &mut new)).collect()
}

fn by_key(rows: &[Row]) -> Result<HashMap<IdempotencyKey, OrderRecord>, Fault> {
    let records = rows.iter().map(order_record);
    records.map(|record| record.map(|record| (record.idempotency_key.clone(), record))).collect()
}

/// Returns `New` for the first order with a key that this call inserted. Compares any other order with the stored one.
fn answer(
    order: &Order,
    stored: &HashMap<IdempotencyKey, OrderRecord>,
    new: &mut HashSet<IdempotencyKey>,
) -> Result<Submission, Fault> {
    let Some(record) = stored.get(&order.key) else {
        return Err(Fault::Unreadable(format!("the order {} was neither stored nor found", order.key)));
    };
    Ok(if new.remove(&order.key) {
        Submission::New(record.clone())
    } else if record.request_digest == order.digest {
        Submission::Same(record.clone())
    } else {
        Submission::Different
    })
}
