//! An order as a row, read alike by the intake, the outbox worker and the viewer.

use crate::postgres::error::Fault;
use crate::postgres::value::{Json, count, get, instant};
use posthaste_core::OrderId;
use posthaste_core::digest::Digest;
use posthaste_core::order::{IdempotencyKey, OrderStatus};
use posthaste_core::ports::OrderRecord;
use tokio_postgres::Row;

/// From the fourteen columns that every statement answering orders begins with.
pub(super) fn order_record(row: &Row) -> Result<OrderRecord, Fault> {
    Ok(OrderRecord {
        id: OrderId::from_store(get(row, 0)?),
        idempotency_key: IdempotencyKey::from_store(get(row, 1)?),
        status: order_status(get(row, 2)?)?,
        retry_count: count(row, 3)?,
        next_attempt_at: instant(row, 4)?,
        last_error: get(row, 5)?,
        trace_id: get(row, 6)?,
        broker_order_id: get(row, 7)?,
        request_digest: Digest::from_store(get(row, 8)?),
        result_digest: get::<Option<String>>(row, 9)?.map(Digest::from_store),
        result_json: get::<Option<Json<'_>>>(row, 10)?.map(|json| json.0.to_owned()),
        maybe_executed: get(row, 11)?,
        created_at: instant(row, 12)?,
        updated_at: instant(row, 13)?,
    })
}

pub(super) fn order_status(text: &str) -> Result<OrderStatus, Fault> {
    OrderStatus::parse(text).ok_or_else(|| Fault::Unreadable(format!("{text:?} is no status of an order")))
}
