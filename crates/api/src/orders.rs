//! Orders come in here, and can be looked at. What arrives is checked and handed to the intake
//! ([`posthaste_services::intake`]); the answer comes after the commit. Nothing here sends one.

use crate::body::{media_type, receive};
use crate::events::raw;
use crate::problem::Problem;
use crate::query::{Listed, PageParameters, Query, json, ok};
use crate::state::{Api, ApiResult, ApiState};
use crate::time::Utc;
use crate::values::parameters;
use axum::extract::{Path, Request, State};
use http::{HeaderMap, StatusCode, Uri};
use posthaste_core::json::{JsonError, JsonText};
use posthaste_core::order::{IdempotencyKey, ORDER_BYTES_MAX, Order, OrderError, OrderStatus};
use posthaste_core::ports::{AuditEntry, EXAMINED_MAX, OrderRecord, ReaderStore as _, Stores, Submission};
use posthaste_services::batcher::BatchError;
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

pub(crate) const LIST: &str = "orders";
const AUDIT: &str = "audit";
const KEY_HEADER: &str = "idempotency-key";
/// What a problem may repeat of a name that the caller chose.
const NAME_CHARS_MAX: usize = 100;

/// Of an order that ended without an answer one could trust.
const ADVICE: &str = "the broker may have executed this order: ask it before you submit a new one";

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Order, example = json!({
    "idempotency_key": "order-5678", "status": "sent", "retry_count": 1, "next_attempt_at": "2026-01-31T12:00:02Z",
    "last_error": "BROKER_5XX", "broker_order_id": "brk-8842",
    "request_digest": "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "result_digest": "sha256:60303ae22b998861bce3b28f33eec1be758a213c86c93c076dbe9f558c11c752",
    "maybe_executed": false, "created_at": "2026-01-31T12:00:00Z", "updated_at": "2026-01-31T12:00:03Z",
    "result": {"idempotency_key": "order-5678", "broker_order_id": "brk-8842", "status": "accepted"}
}))]
pub(crate) struct OrderView {
    pub(crate) idempotency_key: String,
    /// One of queued, sending, sent, failed (waits to be sent again), dead.
    pub(crate) status: &'static str,
    /// Sends that failed.
    pub(crate) retry_count: u32,
    pub(crate) next_attempt_at: Utc,
    /// The last thing that went wrong, also on the way to success.
    pub(crate) last_error: Option<String>,
    pub(crate) broker_order_id: Option<String>,
    pub(crate) request_digest: String,
    pub(crate) result_digest: Option<String>,
    /// Some send ended in a way that does not rule out that the broker executed it. False once it is sent.
    pub(crate) maybe_executed: bool,
    pub(crate) created_at: Utc,
    pub(crate) updated_at: Utc,
    /// What to do about an order that is dead and may have been executed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) advice: Option<&'static str>,
    /// What the broker answered, once it is sent and if that was JSON; not in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>)]
    pub(crate) result: Option<Box<RawValue>>,
}

impl OrderView {
    /// As lists have it.
    fn brief(order: OrderRecord) -> Self {
        let in_doubt = order.status == OrderStatus::Dead && order.maybe_executed;
        Self {
            idempotency_key: order.idempotency_key.as_str().to_owned(),
            status: order.status.as_str(),
            retry_count: order.retry_count,
            next_attempt_at: Utc(order.next_attempt_at),
            last_error: order.last_error,
            broker_order_id: order.broker_order_id,
            request_digest: order.request_digest.to_string(),
            result_digest: order.result_digest.map(|digest| digest.to_string()),
            // Version 0.1 left it set on orders that were sent after a doubtful attempt.
            maybe_executed: order.maybe_executed && order.status != OrderStatus::Sent,
            created_at: Utc(order.created_at),
            updated_at: Utc(order.updated_at),
            advice: in_doubt.then_some(ADVICE),
            result: None,
        }
    }

    fn whole(mut order: OrderRecord) -> Self {
        let result = order.result_json.take().map(|text| raw(JsonText::from_store(text)));
        Self { result, ..Self::brief(order) }
    }

    /// What the caller of a repeated order is told: the first answer again, or the end once there is one.
    /// Where it stands in between is for those who look.
    fn repeated(order: OrderRecord) -> Self {
        if order.status.is_terminal() {
            return Self::whole(order);
        }
        let (status, next_attempt_at) = (OrderStatus::Queued, order.created_at);
        let first = OrderRecord {
            status,
            next_attempt_at,
            retry_count: 0,
            last_error: None,
            maybe_executed: false,
            updated_at: order.created_at,
            ..order
        };
        Self::whole(first)
    }
}

/// An order to the broker. Fields beyond these are kept, and sent along.
#[derive(Debug, ToSchema)]
#[expect(dead_code, reason = "the core reads orders, and knows no schemas")]
#[schema(
    as = NewOrder,
    example = json!({
        "idempotency_key": "order-5678", "symbol": "USDJPY", "intent": "BUY", "qty": 10000, "limit_price": 145.001,
        "trace_id": "desk-7", "meta": {"source": "desk"}
    })
)]
pub(crate) struct NewOrderBody {
    /// Your own name for the order, also in the header: it is executed once, however often it is submitted.
    #[schema(min_length = 1, max_length = 200, pattern = "^[!#-\\[\\]-~]+$")]
    idempotency_key: String,
    #[schema(min_length = 1, max_length = 64, pattern = "^[!-~]+$")]
    symbol: String,
    #[schema(max_length = 32, pattern = "^[A-Z][A-Z_]*$")]
    intent: String,
    #[schema(exclusive_minimum = 0, maximum = 9_007_199_254_740_992_i64)]
    qty: f64,
    /// Left out or null: at the market's price.
    #[schema(exclusive_minimum = 0)]
    limit_price: Option<f64>,
    /// Goes with the order to the broker and into every line of its audit.
    #[schema(max_length = 200)]
    trace_id: Option<String>,
    /// Anything else that belongs to it.
    meta: Option<serde_json::Map<String, serde_json::Value>>,
}

#[utoipa::path(
    post,
    path = "/v1/orders",
    tag = "orders",
    summary = "Accept an order (role orders)",
    params(
        ("Idempotency-Key" = String, Header, description = "The idempotency_key of the body, quoted or bare",
            example = "\"order-5678\""),
    ),
    request_body = NewOrderBody,
    responses(
        (status = 202, description = "New; stored durably, and sent to the broker from here on", body = OrderView),
        (
            status = 200,
            description = "The same order was there: the first answer, or how it ended",
            body = OrderView,
        ),
    ),
)]
pub(crate) async fn create<S: Stores>(State(api): Api<S>, request: Request) -> ApiResult {
    let Some(orders) = &api.orders else {
        let detail = "orders have nowhere to go: set POSTHASTE_BROKER_URL, and start the server again";
        return Err(Problem::new(503, "No broker is set", detail));
    };
    let (head, upload) = receive(&api.uploads, request, ORDER_BYTES_MAX).await?;
    if !["", "application/json"].contains(&media_type(&head.headers).as_str()) {
        return Err(Problem::unsupported("the body must be JSON: send content-type: application/json"));
    }
    let order = Order::parse(upload.text()?.as_bytes()).map_err(unfit)?;
    check_header(&head.headers, &order.key)?;
    // The share of the memory is kept until the order is stored.
    let outcome = orders.call(order).await;
    drop(upload);
    match outcome.map_err(not_stored)? {
        Submission::New(order) => json(StatusCode::ACCEPTED, &OrderView::whole(order)),
        Submission::Same(order) => ok(&OrderView::repeated(order)),
        // Nothing about the other order: it may be another caller's.
        Submission::Different => Err(Problem::invalid(
            "idempotency_key",
            "another order was accepted under this idempotency_key: a new order needs a key of its own",
        )),
    }
}

/// Both name the key, so that neither a proxy that goes by the header nor a reader of the body is misled.
fn check_header(headers: &HeaderMap, key: &IdempotencyKey) -> Result<(), Problem> {
    let wrong = |detail: String| Problem {
        field: Some("Idempotency-Key".to_owned()),
        ..Problem::new(400, "The Idempotency-Key header is wrong", detail)
    };
    let mut values = headers.get_all(KEY_HEADER).iter();
    let (first, second) = (values.next(), values.next());
    let Some(value) = first else {
        return Err(wrong("send the header Idempotency-Key with the idempotency_key of the body".to_owned()));
    };
    if second.is_some() {
        return Err(wrong("the header Idempotency-Key comes twice: send it once".to_owned()));
    }
    let named = IdempotencyKey::from_header(value.as_bytes()).map_err(|error| wrong(error.to_string()))?;
    if named != *key {
        return Err(wrong("the header Idempotency-Key and the body's idempotency_key differ".to_owned()));
    }
    Ok(())
}

fn unfit(error: OrderError) -> Problem {
    let detail = error.to_string();
    match error {
        OrderError::Json(JsonError::NotUtf8 { .. } | JsonError::Invalid { .. }) => {
            Problem::unreadable(detail)
        }
        OrderError::Json(JsonError::TooLong { .. }) => Problem::too_large(detail),
        OrderError::Missing { field } | OrderError::Wrong { field, .. } => Problem::invalid(field, detail),
        OrderError::DuplicateKey { key } => {
            let key: String = key.chars().take(NAME_CHARS_MAX).collect();
            let detail = format!("{key:?} occurs twice in one object: send each field once");
            Problem::invalid(key, detail)
        }
        OrderError::Json(JsonError::TooDeep { .. })
        | OrderError::NotAnObject
        | OrderError::Nul
        | OrderError::LoneSurrogate => Problem::invalid("body", detail),
        OrderError::InexactNumber { number } => {
            let number: String = number.chars().take(NAME_CHARS_MAX).collect();
            Problem::invalid("body", OrderError::InexactNumber { number }.to_string())
        }
    }
}

fn not_stored(error: BatchError) -> Problem {
    match error {
        BatchError::Gone => Problem::try_again(
            "It is not known whether this was stored",
            "the server is stopping; send it again under the same key, it is executed once",
        ),
        error @ (BatchError::Full | BatchError::Failed(_)) => error.into(),
    }
}

#[derive(Debug)]
pub(crate) struct OrderFilter {
    status: Option<OrderStatus>,
}

parameters! {
    struct Parameters(LIST) -> OrderFilter {
        /// One of queued, sending, sent, failed, dead
        status: OrderStatus,
    }
}

#[utoipa::path(
    get,
    path = "/v1/orders",
    tag = "orders",
    summary = "List orders, newest first (role viewer)",
    params(Parameters),
    responses((status = 200, description = "A page", body = Listed<OrderView>)),
)]
pub(crate) async fn list<S: Stores>(State(api): Api<S>, uri: Uri) -> ApiResult {
    ok(&find(&api, &uri, EXAMINED_MAX).await?)
}

/// What the parameters of an address ask for.
pub(crate) async fn find<S: Stores>(
    api: &ApiState<S>,
    uri: &Uri,
    examined_max: u32,
) -> Result<Listed<OrderView>, Problem> {
    let (OrderFilter { status }, page) = Parameters::read(Query::of(uri)?)?;
    let found = api.reader.orders(status, page.looking_at(examined_max)).await?;
    Ok(Listed::of(LIST, found, OrderView::brief))
}

#[utoipa::path(
    get,
    path = "/v1/orders/{idempotency_key}",
    tag = "orders",
    summary = "An order, with the broker's answer once it is sent (role viewer)",
    params(("idempotency_key" = String, Path, example = "order-5678")),
    responses((status = 200, description = "The order", body = OrderView)),
)]
pub(crate) async fn show<S: Stores>(State(api): Api<S>, Path(text): Path<String>) -> ApiResult {
    ok(&find_one(&api, text).await?)
}

pub(crate) async fn find_one<S: Stores>(api: &ApiState<S>, text: String) -> Result<OrderView, Problem> {
    let order = api.reader.order(key(text)?).await?;
    Ok(OrderView::whole(order.ok_or_else(|| Problem::not_found("order"))?))
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = OrderAudit, example = json!({"idempotency_key": "order-5678", "items": [{
    "id": 3, "status_from": "sending", "status_to": "failed", "retry_count": 1, "last_error": "BROKER_5XX",
    "trace_id": "desk-7", "broker_order_id": null, "worker_id": "node1-77-5f3a",
    "note": "the broker answered 503", "created_at": "2026-01-31T12:00:01Z"
}], "next_cursor": null}))]
pub(crate) struct AuditView {
    idempotency_key: String,
    /// Oldest first.
    items: Vec<TransitionView>,
    next_cursor: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = OrderTransition)]
pub(crate) struct TransitionView {
    pub(crate) id: i64,
    /// Null for the first: the order came in.
    pub(crate) status_from: Option<&'static str>,
    pub(crate) status_to: &'static str,
    pub(crate) retry_count: u32,
    pub(crate) last_error: Option<String>,
    pub(crate) trace_id: Option<String>,
    pub(crate) broker_order_id: Option<String>,
    /// The process that did it.
    pub(crate) worker_id: Option<String>,
    /// What the code does not say.
    pub(crate) note: Option<String>,
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
    summary = "Everything that happened to an order (role viewer)",
    params(
        ("idempotency_key" = String, Path, example = "order-5678"),
        PageParameters,
    ),
    responses((status = 200, description = "A page of its transitions, oldest first", body = AuditView)),
)]
pub(crate) async fn audit<S: Stores>(State(api): Api<S>, Path(text): Path<String>, uri: Uri) -> ApiResult {
    let key = key(text)?;
    let mut query = Query::of(&uri)?;
    let page = query.page(AUDIT)?;
    query.finish()?;
    let idempotency_key = key.as_str().to_owned();
    let entries = api.reader.order_audit(key.clone(), page).await?;
    // Coming in is a transition: an order that is there has an audit, though perhaps none behind a strange cursor.
    if entries.items.is_empty() && api.reader.order(key).await?.is_none() {
        return Err(Problem::not_found("order"));
    }
    let Listed { items, next_cursor } = Listed::of(AUDIT, entries, TransitionView::of);
    ok(&AuditView { idempotency_key, items, next_cursor })
}

/// The last transitions, oldest first, and whether there were others before them.
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

fn key(text: String) -> Result<IdempotencyKey, Problem> {
    IdempotencyKey::parse(text).map_err(|error| Problem::invalid("idempotency_key", error.to_string()))
}
