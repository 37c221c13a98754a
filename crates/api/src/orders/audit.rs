//! Lists the audit of an order. Database triggers write a record for every status change.

use super::key;
use crate::problem::Problem;
use crate::query::{Listed, PageParameters, Query, ok};
use crate::state::{Api, ApiResult, ApiState};
use crate::time::Utc;
use axum::extract::{Path, State};
use http::Uri;
use posthaste_core::order::OrderStatus;
use posthaste_core::ports::{AuditEntry, ReaderStore as _, Stores};
use serde::Serialize;
use utoipa::ToSchema;

/// The list name in the cursors of an order audit.
const AUDIT: &str = "audit";

/// A page of the audit of an order.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = OrderAudit, example = json!({"idempotency_key": "order-5678", "items": [{
    "id": 3, "status_from": "sending", "status_to": "failed", "retry_count": 1, "last_error": "BROKER_5XX",
    "trace_id": "desk-7", "broker_order_id": null, "worker_id": "node1-77-5f3a",
    "note": "the broker returned 503", "created_at": "2026-01-31T12:00:01Z"
}], "next_cursor": null}))]
pub(crate) struct AuditView {
    /// The idempotency key of the order.
    idempotency_key: String,
    /// The transitions, oldest first.
    items: Vec<TransitionView>,
    /// The `cursor` of the next page; null on the last page.
    next_cursor: Option<String>,
}

/// One status change of an order.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = OrderTransition)]
pub(crate) struct TransitionView {
    /// The id of the transition.
    pub(crate) id: i64,
    /// The previous status; null for the submission.
    pub(crate) status_from: Option<&'static str>,
    /// The new status.
    pub(crate) status_to: &'static str,
    /// The number of failed attempts.
    pub(crate) retry_count: u32,
    /// The error code of the last failed attempt.
    pub(crate) last_error: Option<String>,
    /// The `trace_id` of the order.
    pub(crate) trace_id: Option<String>,
    /// The id that the broker assigned to the order.
    pub(crate) broker_order_id: Option<String>,
    /// The id of the process that changed the status.
    pub(crate) worker_id: Option<String>,
    /// Details beyond the error code.
    pub(crate) note: Option<String>,
    /// The time of the transition.
    pub(crate) created_at: Utc,
}

impl TransitionView {
    fn of(entry: AuditEntry) -> Self {
        Self {
            id: entry.id.get(),
            status_from: entry.status_from.map(OrderStatus::as_str),
            status_to: entry.status_to.as_str(),
            retry_count: entry.retry_count,
            last_error: entry.last_error,
            trace_id: entry.trace_id,
            broker_order_id: entry.broker_order_id,
            worker_id: entry.worker_id,
            note: entry.note,
            created_at: Utc(entry.created_at),
        }
    }
}

#[utoipa::path(
    get,
    path = "/v1/orders/{idempotency_key}/audit",
    tag = "orders",
    operation_id = "list_order_audit",
    summary = "List the audit of an order",
    description = "Returns every change of an order's status, oldest first.",
    security(("api_key" = ["viewer"])),
    params(
        ("idempotency_key" = String, Path, description = "The key of the order.", example = "order-5678"),
        PageParameters,
    ),
    responses((status = 200, description = "A page of transitions", body = AuditView)),
)]
pub(crate) async fn list<S: Stores>(State(api): Api<S>, Path(text): Path<String>, uri: Uri) -> ApiResult {
    let key = key(text)?;
    let mut query = Query::of(&uri)?;
    let page = query.page(AUDIT);
    query.finish()?;
    let idempotency_key = key.as_str().to_owned();
    let entries = api.reader.order_audit(key.clone(), page).await?;
    // Every order has at least one transition, but the page after the last one is empty.
    if entries.items.is_empty() && api.reader.order(key).await?.is_none() {
        return Err(Problem::not_found("order"));
    }
    let Listed { items, next_cursor } = Listed::of(AUDIT, entries, TransitionView::of);
    ok(&AuditView { idempotency_key, items, next_cursor })
}

/// Returns the newest transitions of an order, sorted from oldest to newest, and whether older transitions exist.
pub(crate) async fn find_newest_audit<S: Stores>(
    api: &ApiState<S>,
    text: String,
    entries_max: u32,
) -> Result<(Vec<TransitionView>, bool), Problem> {
    let mut entries = api.reader.newest_order_audit(key(text)?, entries_max.saturating_add(1)).await?;
    let more = entries.len() > entries_max as usize;
    entries.truncate(entries_max as usize);
    Ok((entries.into_iter().rev().map(TransitionView::of).collect(), more))
}
