//! How a row of `outbox_orders` becomes an order of the core, for everybody who reads one.

use posthaste_core::digest::Digest;
use posthaste_core::order::{IdempotencyKey, OrderState, OrderStatus};
use posthaste_core::ports::OrderRecord;
use posthaste_core::{LeaseToken, OrderId};
use rusqlite::Row;

use super::error::Answer;
use super::rows;

/// How many columns [`read_order`] reads.
const ORDER_COLUMNS: usize = 14;

/// An order from the first columns of a row: id, idempotency_key, status, retry_count,
/// next_attempt_at, last_error, trace_id, broker_order_id, request_digest, result_digest, result_json,
/// maybe_executed, created_at, updated_at.
pub(super) fn read_order(row: &Row<'_>) -> Answer<OrderRecord> {
    Ok(OrderRecord {
        id: OrderId::from_store(row.get(0)?),
        idempotency_key: IdempotencyKey::from_store(row.get(1)?),
        status: rows::word(row, 2, OrderStatus::parse)?,
        retry_count: row.get(3)?,
        next_attempt_at: rows::time(row, 4)?,
        last_error: row.get(5)?,
        trace_id: row.get(6)?,
        broker_order_id: row.get(7)?,
        request_digest: Digest::from_store(row.get(8)?),
        result_digest: row.get::<_, Option<_>>(9)?.map(Digest::from_store),
        result_json: row.get(10)?,
        maybe_executed: row.get(11)?,
        created_at: rows::time(row, 12)?,
        updated_at: rows::time(row, 13)?,
    })
}

/// An order and the token of its last claim, in the column behind it.
pub(super) fn read_claim(row: &Row<'_>) -> Answer<(OrderRecord, Option<LeaseToken>)> {
    let token: Option<[u8; 16]> = row.get(ORDER_COLUMNS)?;
    Ok((read_order(row)?, token.map(|bytes| LeaseToken::from_random(u128::from_be_bytes(bytes)))))
}

/// What the state machine looks at.
pub(super) fn state_of(order: &OrderRecord) -> OrderState {
    OrderState {
        status: order.status,
        retry_count: order.retry_count,
        next_attempt_at: order.next_attempt_at,
        maybe_executed: order.maybe_executed,
        idempotency_key: order.idempotency_key.clone(),
    }
}
