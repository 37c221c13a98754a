//! Reads orders for the intake, the outbox worker and the viewer, and writes the changes made by the outbox worker.

use crate::postgres::conn::session::Session;
use crate::postgres::conn::value::{Instant, Json, count, get, instant, int};
use crate::remote::Fault;
use posthaste_core::digest::Digest;
use posthaste_core::order::batch::{HeldOrders, OrderChange};
use posthaste_core::order::{IdempotencyKey, OrderStatus};
use posthaste_core::outcome::ErrorCode;
use posthaste_core::ports::OrderRecord;
use posthaste_core::{LeaseToken, OrderId, Timestamp};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

pub(crate) fn order_record(row: &Row) -> Result<OrderRecord, Fault> {
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

pub(crate) fn order_status(text: &str) -> Result<OrderStatus, Fault> {
    OrderStatus::parse(text).ok_or_else(|| Fault::Unreadable(format!("{text:?} is not a status of an order")))
}

pub(crate) fn records(rows: &[Row]) -> Result<Vec<OrderRecord>, Fault> {
    rows.iter().map(order_record).collect()
}

/// Reads orders together with the tokens of their claims.
pub(crate) fn held_orders(rows: &[Row]) -> Result<HeldOrders, Fault> {
    let held = |row: &Row| {
        let (record, holder) = (order_record(row)?, get::<Option<Uuid>>(row, "lease_token")?);
        Ok((record.id, (record, holder.map(|bits| LeaseToken::from_random(bits.as_u128())))))
    };
    rows.iter().map(held).collect()
}

/// Writes changes to orders. Removes their claims if `frees` is set, and commits the transaction if `commits` is set.
pub(crate) async fn write(
    session: &mut Session,
    changes: &[OrderChange],
    frees: bool,
    commits: bool,
    now: Timestamp,
) -> Result<Vec<OrderRecord>, Fault> {
    let updates = || changes.iter().map(|(_, update)| update);
    let receipts = || updates().map(|update| update.receipt.as_ref());
    let ids: Vec<i64> = changes.iter().map(|(record, _)| record.id.get()).collect();
    let from: Vec<&str> = changes.iter().map(|(record, _)| record.status.as_str()).collect();
    let statuses: Vec<&str> = updates().map(|update| update.status.as_str()).collect();
    let counts: Vec<i32> = updates().map(|update| int(update.retry_count)).collect();
    let times: Vec<Instant> = updates().map(|update| Instant(update.next_attempt_at)).collect();
    let errors: Vec<Option<&str>> =
        updates().map(|update| update.last_error.as_ref().map(ErrorCode::as_str)).collect();
    let maybe: Vec<bool> = updates().map(|update| update.maybe_executed).collect();
    let notes: Vec<Option<&str>> = updates().map(|update| update.note.as_deref()).collect();
    let broker_ids: Vec<Option<&str>> =
        receipts().map(|receipt| receipt.and_then(|given| given.broker_order_id.as_deref())).collect();
    let digests: Vec<Option<&str>> =
        receipts().map(|receipt| receipt.map(|given| given.result_digest.as_str())).collect();
    let results: Vec<Option<Json<'_>>> = receipts()
        .map(|receipt| receipt.and_then(|given| given.result_json.as_ref()).map(|json| Json(json.as_str())))
        .collect();
    let (sql, now) = (include_str!("../sql/outbox_worker/move_orders.sql"), Instant(now));
    let params: [&(dyn ToSql + Sync); 13] = [
        &ids,
        &from,
        &statuses,
        &counts,
        &times,
        &errors,
        &maybe,
        &notes,
        &broker_ids,
        &digests,
        &results,
        &frees,
        &now,
    ];
    let answer =
        if commits { session.commit_with(sql, &params).await? } else { session.go_on(sql, &params).await? };
    records(&answer)
}
