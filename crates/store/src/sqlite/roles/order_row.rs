//! Reads rows of `outbox_orders` for the intake, the outbox worker and the viewer.

use posthaste_core::digest::Digest;
use posthaste_core::order::{IdempotencyKey, OrderStatus};
use posthaste_core::ports::OrderRecord;
use posthaste_core::{LeaseToken, OrderId};
use rusqlite::Row;

use crate::sqlite::conn::error::Answer;
use crate::sqlite::conn::value::{self, get};

pub(crate) fn read_order(row: &Row<'_>) -> Answer<OrderRecord> {
    Ok(OrderRecord {
        id: OrderId::from_store(get(row, "id")?),
        idempotency_key: IdempotencyKey::from_store(get(row, "idempotency_key")?),
        status: value::word(row, "status", OrderStatus::parse)?,
        retry_count: get(row, "retry_count")?,
        next_attempt_at: value::time(row, "next_attempt_at")?,
        last_error: get(row, "last_error")?,
        trace_id: get(row, "trace_id")?,
        broker_order_id: get(row, "broker_order_id")?,
        request_digest: Digest::from_store(get(row, "request_digest")?),
        result_digest: get::<Option<_>>(row, "result_digest")?.map(Digest::from_store),
        result_json: get(row, "result_json")?,
        maybe_executed: get(row, "maybe_executed")?,
        created_at: value::time(row, "created_at")?,
        updated_at: value::time(row, "updated_at")?,
    })
}

/// Reads an order and the token of its last claim.
pub(crate) fn read_claim(row: &Row<'_>) -> Answer<(OrderRecord, Option<LeaseToken>)> {
    let (order, token) = (read_order(row)?, get::<Option<[u8; 16]>>(row, "lease_token")?);
    Ok((order, token.map(|bytes| LeaseToken::from_random(u128::from_be_bytes(bytes)))))
}
