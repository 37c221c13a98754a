//! The bodies that callers send, as the API's description shows them. The handlers read them field by
//! field; a test sends the examples.
#![expect(dead_code, reason = "described, never built")]

use serde_json::Value;
use utoipa::ToSchema;

#[derive(Debug, ToSchema)]
#[schema(
    as = NewEvent,
    example = json!({"event_type": "order.paid", "payload": {"order": 7}, "external_event_id": "shop-7"})
)]
pub(crate) struct NewEventBody {
    /// What subscriptions ask for.
    #[schema(max_length = 200, pattern = "^[A-Za-z0-9][A-Za-z0-9_.:/-]*$")]
    event_type: String,
    /// Any JSON. It is kept and delivered byte for byte.
    payload: Value,
    /// Your own name for the event. A second event of that name with the same event_type and payload is the same event;
    /// with another one it is refused.
    #[schema(min_length = 1, max_length = 200)]
    external_event_id: Option<String>,
    /// Goes through every log line; also as header x-correlation-id.
    #[schema(min_length = 1, max_length = 200)]
    correlation_id: Option<String>,
}

/// CloudEvents 1.0; the binary mode is taken too.
#[derive(Debug, ToSchema)]
#[schema(example = json!({
    "specversion": "1.0", "type": "order.paid", "source": "/shop", "id": "7", "data": {"order": 7}
}))]
pub(crate) struct CloudEvent {
    #[schema(pattern = "^1\\.0$")]
    specversion: String,
    r#type: String,
    source: String,
    id: String,
    data: Option<Value>,
    data_base64: Option<String>,
}

/// One event, or an array of them that is stored as a whole or not at all.
#[derive(Debug, ToSchema)]
#[serde(untagged)]
pub(crate) enum EventOrEvents {
    One(NewEventBody),
    Many(Vec<NewEventBody>),
}

#[derive(Debug, ToSchema)]
#[schema(
    as = NewSubscription,
    example = json!({"event_type": "order.paid", "callback_url": "https://example.com/hook"})
)]
pub(crate) struct NewSubscriptionBody {
    event_type: String,
    /// https; its address must be public.
    #[schema(max_length = 2000)]
    callback_url: String,
    /// How many attempts are made in all.
    #[schema(minimum = 1, maximum = 100)]
    max_retry_limit: Option<u32>,
    #[schema(max_length = 1000)]
    description: Option<String>,
}

/// What is left out stays as it is.
#[derive(Debug, ToSchema)]
#[schema(example = json!({"active": false}))]
pub(crate) struct SubscriptionChange {
    event_type: Option<String>,
    /// A changed URL must be verified again.
    callback_url: Option<String>,
    /// False holds what was routed, and routes no more.
    active: Option<bool>,
    #[schema(minimum = 1, maximum = 100)]
    max_retry_limit: Option<u32>,
    #[schema(max_length = 1000)]
    description: Option<String>,
}

#[derive(Debug, ToSchema)]
#[schema(example = json!({"overlap_s": 3600}))]
pub(crate) struct Rotation {
    /// How long the secret before goes on signing; a day unless said otherwise.
    #[schema(minimum = 0, maximum = 2_592_000)]
    overlap_s: Option<u64>,
}

/// Every field narrows.
#[derive(Debug, ToSchema)]
#[schema(example = json!({"event_type": "order.paid", "since": "2026-01-31T12:00:00Z", "dry_run": true}))]
pub(crate) struct RequeueFilter {
    #[schema(minimum = 1)]
    subscription_id: Option<i64>,
    event_type: Option<String>,
    /// Failed at or after.
    #[schema(format = DateTime)]
    since: Option<String>,
    /// Failed before.
    #[schema(format = DateTime)]
    until: Option<String>,
    /// Only say what would be done.
    dry_run: Option<bool>,
    /// The next_cursor of the answer before, to go on.
    cursor: Option<String>,
}

/// An order to the broker. Fields beyond these are kept, and sent along.
#[derive(Debug, ToSchema)]
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
    meta: Option<serde_json::Map<String, Value>>,
}

#[derive(Debug, ToSchema)]
#[schema(as = NewKey, example = json!({"name": "shop", "role": "ingest"}))]
pub(crate) struct NewKeyBody {
    #[schema(min_length = 1, max_length = 200)]
    name: String,
    /// What the key may do.
    role: String,
}
