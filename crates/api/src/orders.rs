//! Accepts orders and returns stored ones. New orders are validated and passed to the intake
//! ([`posthaste_services::outbox::intake`]); the response is sent after the commit. The outbox worker sends the orders
//! to the broker.

pub(crate) mod audit;

use crate::body::{media_type, receive};
use crate::events::raw;
use crate::problem::{Problem, ProblemKind, RequestError};
use crate::query::{Listed, Query, json, ok};
use crate::state::{Api, ApiResult, ApiState};
use crate::time::Utc;
use crate::values::parameters;
use axum::extract::{Path, Request, State};
use http::{HeaderMap, StatusCode, Uri};
use posthaste_core::json::{JsonError, JsonText};
use posthaste_core::order::{IdempotencyKey, ORDER_BYTES_MAX, Order, OrderError, OrderStatus};
use posthaste_core::ports::{EXAMINED_MAX, OrderRecord, ReaderStore as _, Stores, Submission};
use posthaste_services::batcher::BatchError;
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

pub(crate) use audit::{TransitionView, find_newest_audit};

pub(crate) const LIST: &str = "orders";
const KEY_HEADER: &str = "idempotency-key";
/// The maximum number of characters of the client's text that an error message repeats.
const NAME_CHARS_MAX: usize = 100;

/// The advice for an order that may have been executed.
const ADVICE: &str = "the broker may have executed this order: ask it before you submit a new one";

/// An order.
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
    /// The caller's idempotency key.
    pub(crate) idempotency_key: String,
    /// The status of the order. A `failed` order is retried when it is due; `sent` and `dead` are final.
    pub(crate) status: &'static str,
    /// The number of failed attempts.
    pub(crate) retry_count: u32,
    /// The time at which the next attempt is due. For a final order, the time at which the last attempt was due.
    pub(crate) next_attempt_at: Utc,
    /// The error code of the last failed attempt. A later success does not clear it.
    pub(crate) last_error: Option<String>,
    /// The id that the broker assigned to the order.
    pub(crate) broker_order_id: Option<String>,
    /// The SHA-256 digest of the order in canonical JSON (RFC 8785).
    pub(crate) request_digest: String,
    /// The SHA-256 digest of the broker's response.
    pub(crate) result_digest: Option<String>,
    /// Whether the broker may have executed the order although no attempt succeeded, for example after a timeout.
    pub(crate) maybe_executed: bool,
    /// The time at which the order was accepted.
    pub(crate) created_at: Utc,
    /// The time of the last change to the order.
    pub(crate) updated_at: Utc,
    /// The recommended action for a `dead` order that may have been executed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) advice: Option<&'static str>,
    /// The broker's response to a `sent` order, if it is JSON. Not included in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>)]
    pub(crate) result: Option<Box<RawValue>>,
}

impl OrderView {
    /// Creates the view for lists, without the broker's response.
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
            // Version 0.1 did not clear the flag after a later success.
            maybe_executed: order.maybe_executed && order.status != OrderStatus::Sent,
            created_at: Utc(order.created_at),
            updated_at: Utc(order.updated_at),
            advice: in_doubt.then_some(ADVICE),
            result: None,
        }
    }

    /// Creates the full view, with the broker's response.
    fn whole(mut order: OrderRecord) -> Self {
        let result = order.result_json.take().map(|text| raw(JsonText::from_store(text)));
        Self { result, ..Self::brief(order) }
    }

    /// Creates the view for a repeated submission: the final result, or the response to the first submission if there
    /// is none yet. Intermediate states are available to the role viewer only.
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

/// A new order. Additional fields are accepted and sent to the broker.
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
    /// The caller's idempotency key, the same as in the header. Orders with the same key are executed once.
    #[schema(min_length = 1, max_length = 200, pattern = "^[!#-\\[\\]-~]+$")]
    idempotency_key: String,
    /// The symbol to trade.
    #[schema(min_length = 1, max_length = 64, pattern = "^[!-~]+$")]
    symbol: String,
    /// The action to execute, such as `BUY` or `SELL`.
    #[schema(max_length = 32, pattern = "^[A-Z][A-Z_]*$")]
    intent: String,
    /// The quantity to trade.
    #[schema(exclusive_minimum = 0, maximum = 9_007_199_254_740_992_i64)]
    qty: f64,
    /// The limit price; null or absent for a market order.
    #[schema(exclusive_minimum = 0)]
    limit_price: Option<f64>,
    /// An id that is sent to the broker and recorded in the audit of the order.
    #[schema(max_length = 200)]
    trace_id: Option<String>,
    /// Additional data for the broker.
    meta: Option<serde_json::Map<String, serde_json::Value>>,
}

#[utoipa::path(
    post,
    path = "/v1/orders",
    tag = "orders",
    operation_id = "create_order",
    summary = "Submit an order",
    description = "Accepts an order, which is executed once per idempotency key. A repeated submission returns the \
                   first response, or the final result once there is one. Another order under the same key is refused \
                   with 422.",
    security(("api_key" = ["orders"])),
    params(
        ("Idempotency-Key" = String, Header, description = "The `idempotency_key` of the body, with or without quotes.",
            example = "\"order-5678\""),
    ),
    request_body = NewOrderBody,
    responses(
        (status = 202, description = "Stored durably; it will be sent to the broker", body = OrderView),
        (
            status = 200,
            description = "The same order was submitted before: the first response, or the final result",
            body = OrderView,
        ),
    ),
)]
pub(crate) async fn create<S: Stores>(State(api): Api<S>, request: Request) -> ApiResult {
    let Some(orders) = &api.orders else {
        let detail = "orders are not accepted: set POSTHASTE_BROKER_URL and restart the server";
        return Err(Problem::of(ProblemKind::BrokerNotConfigured, detail));
    };
    let (head, upload) = receive(&api.uploads, request, ORDER_BYTES_MAX).await?;
    if !["", "application/json"].contains(&media_type(&head.headers).as_str()) {
        return Err(Problem::unsupported("the content type is not accepted: send application/json"));
    }
    let order = Order::parse(upload.text()?.as_bytes()).map_err(invalid_order)?;
    check_header(&head.headers, &order.key)?;
    // The upload counts against the memory limit until the order is stored.
    let outcome = orders.call(order).await;
    drop(upload);
    match outcome.map_err(not_stored)? {
        Submission::New(order) => json(StatusCode::ACCEPTED, &OrderView::whole(order)),
        Submission::Same(order) => ok(&OrderView::repeated(order)),
        // Omits details of the other order, which may belong to another client.
        Submission::Different => Err(Problem::invalid(
            "idempotency_key",
            "idempotency_key was used for another order: use a new key for a new order",
        )),
    }
}

/// Checks that the header and the body contain the same key, because a proxy may rely on the header.
fn check_header(headers: &HeaderMap, key: &IdempotencyKey) -> Result<(), Problem> {
    let wrong = |detail: String| {
        let error = RequestError::in_header("Idempotency-Key", detail.clone());
        Problem::malformed(detail).at("Idempotency-Key", error)
    };
    let mut values = headers.get_all(KEY_HEADER).iter();
    let (first, second) = (values.next(), values.next());
    let Some(value) = first else {
        let detail =
            "the header Idempotency-Key is required: send the header with the body's idempotency_key";
        return Err(wrong(detail.to_owned()));
    };
    if second.is_some() {
        return Err(wrong("the header Idempotency-Key occurs twice: send it once".to_owned()));
    }
    let named = IdempotencyKey::from_header(value.as_bytes()).map_err(|error| wrong(error.to_string()))?;
    if named != *key {
        return Err(wrong("the header Idempotency-Key must equal the body's idempotency_key".to_owned()));
    }
    Ok(())
}

/// Returns the problem for an invalid order.
fn invalid_order(error: OrderError) -> Problem {
    let detail = error.to_string();
    match error {
        OrderError::Json(JsonError::NotUtf8 { .. } | JsonError::Invalid { .. }) => Problem::malformed(detail),
        OrderError::Json(JsonError::TooLong { .. }) => Problem::too_large(detail),
        OrderError::Missing { field } | OrderError::Wrong { field, .. } => Problem::invalid(field, detail),
        OrderError::DuplicateKey { key } => {
            let key: String = key.chars().take(NAME_CHARS_MAX).collect();
            let detail = format!("{key:?} occurs twice in one object: send each field once");
            // The object may be nested, so the error points to the whole body.
            Problem { field: Some(key), ..Problem::invalid_body(detail) }
        }
        OrderError::Json(JsonError::TooDeep { .. })
        | OrderError::NotAnObject
        | OrderError::Nul
        | OrderError::LoneSurrogate => Problem::invalid_body(detail),
        OrderError::InexactNumber { number } => {
            let number: String = number.chars().take(NAME_CHARS_MAX).collect();
            Problem::invalid_body(OrderError::InexactNumber { number }.to_string())
        }
    }
}

fn not_stored(error: BatchError) -> Problem {
    match error {
        BatchError::Gone => Problem::try_again(
            ProblemKind::OutcomeUnknown,
            "the server is shutting down: send the order again under the same key, it is executed once",
        ),
        error @ (BatchError::Full | BatchError::Failed(_)) => error.into(),
    }
}

#[derive(Debug, Default)]
pub(crate) struct OrderFilter {
    status: Option<OrderStatus>,
}

parameters! {
    struct Parameters(LIST) -> OrderFilter {
        /// Returns only orders with this status.
        status: OrderStatus,
    }
}

#[utoipa::path(
    get,
    path = "/v1/orders",
    tag = "orders",
    operation_id = "list_orders",
    summary = "List orders",
    description = "Returns orders without the broker's responses, newest first.",
    security(("api_key" = ["viewer"])),
    params(Parameters),
    responses((status = 200, description = "A page of orders", body = Listed<OrderView>)),
)]
pub(crate) async fn list<S: Stores>(State(api): Api<S>, uri: Uri) -> ApiResult {
    ok(&find(&api, &uri, EXAMINED_MAX).await?)
}

/// Returns the page selected by the query parameters of `uri`.
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
    operation_id = "get_order",
    summary = "Get an order",
    description = "Returns an order, with the broker's response if it is sent.",
    security(("api_key" = ["viewer"])),
    params(("idempotency_key" = String, Path, description = "The key of the order.", example = "order-5678")),
    responses((status = 200, description = "The order", body = OrderView)),
)]
pub(crate) async fn show<S: Stores>(State(api): Api<S>, Path(text): Path<String>) -> ApiResult {
    ok(&find_one(&api, text).await?)
}

/// Returns an order with the broker's response.
pub(crate) async fn find_one<S: Stores>(api: &ApiState<S>, text: String) -> Result<OrderView, Problem> {
    let order = api.reader.order(key(text)?).await?;
    Ok(OrderView::whole(order.ok_or_else(|| Problem::not_found("order"))?))
}

fn key(text: String) -> Result<IdempotencyKey, Problem> {
    IdempotencyKey::parse(text)
        .map_err(|error| Problem::invalid_parameter("idempotency_key", error.to_string()))
}
