//! An order as a row, read alike by the intake, the outbox worker and the viewer.

use crate::postgres::error::Fault;
use crate::postgres::value::{Json, count, get, instant};
use posthaste_core::OrderId;
use posthaste_core::digest::Digest;
use posthaste_core::order::{IdempotencyKey, OrderStatus};
use posthaste_core::ports::OrderRecord;
use tokio_postgres::Row;

pub(super) fn order_record(row: &Row) -> Result<OrderRecord, Fault> {
    Ok(OrderRecord {
        id: OrderId::from_store(get(row, "id")?),
        idempotency_key: IdempotencyKey::from_store(get(row, "idempotency_key")?),
        status: order_status(get(row, "status")?)?,
        retry_count: count(row, "retry_count")?,
        next_attempt_at: instant(row, "next_attempt_at")?,
        last_error: get(row, "last_error")?,
        trace_id: get(row, "trace_id")?,
        broker_order_id: get(row, "broker_order_id")?,
        request_digest: Digest::from_store(get(row, "request_digest")?),
        result_digest: get::<Option<String>>(row, "result_digest")?.map(Digest::from_store),
        result_json: get::<Option<Json<'_>>>(row, "result_json")?.map(|json| json.0.to_owned()),
        maybe_executed: get(row, "maybe_executed")?,
        created_at: instant(row, "created_at")?,
        updated_at: instant(row, "updated_at")?,
    })
}

pub(super) fn order_status(text: &str) -> Result<OrderStatus, Fault> {
    OrderStatus::parse(text).ok_or_else(|| Fault::Unreadable(format!("{text:?} is no status of an order")))
}
