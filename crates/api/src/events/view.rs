//! Events as the API returns them: created from stored events, and serialized by the handlers of events.

use crate::deliveries::{self, DeliveryView};
use crate::query::write_cursor;
use crate::time::Utc;
use posthaste_core::attributes::Attributes;
use posthaste_core::event::{CorrelationId, ExternalEventId, TraceParent, TraceState};
use posthaste_core::json::JsonText;
use posthaste_core::ports::{Delivery, EventHead, Page, StoredEvent};
use posthaste_core::tenant::Tenant;
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

/// An event.
#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({
    "id": 7, "external_event_id": "shop-7", "tenant": "acme", "event_type": "order.paid",
    "attributes": {"region": "eu"}, "correlation_id": null, "traceparent": null, "tracestate": null,
    "created_at": "2026-01-31T12:00:00.000000Z"
}))]
pub(crate) struct EventView {
    /// The id of the event.
    pub(crate) id: i64,
    /// The caller's id of the event.
    pub(crate) external_event_id: Option<String>,
    /// The tenant to which the event belongs; null if it has none.
    pub(crate) tenant: Option<String>,
    /// The event type.
    pub(crate) event_type: String,
    /// The attributes, which the filters of subscriptions compare.
    #[schema(value_type = Object)]
    pub(crate) attributes: Box<RawValue>,
    /// The id for log messages.
    pub(crate) correlation_id: Option<String>,
    /// The W3C trace context of the request that published the event.
    pub(crate) traceparent: Option<String>,
    /// The vendor-specific part of the W3C trace context.
    pub(crate) tracestate: Option<String>,
    /// The time at which the event was accepted.
    pub(crate) created_at: Utc,
    /// The payload. Included in lists only with `payload=true`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>)]
    pub(crate) payload: Option<Box<RawValue>>,
}

impl EventView {
    pub(super) fn of(event: StoredEvent) -> Self {
        let payload = Some(raw(event.payload));
        Self {
            payload,
            ..Self::of_head(EventHead {
                id: event.id,
                external_event_id: event.external_event_id,
                event_type: event.event_type,
                correlation_id: event.correlation_id,
                traceparent: event.traceparent,
                tracestate: event.tracestate,
                tenant: event.tenant,
                attributes: event.attributes,
                created_at: event.created_at,
            })
        }
    }

    pub(super) fn of_head(head: EventHead) -> Self {
        Self {
            id: head.id.get(),
            external_event_id: head.external_event_id.map(ExternalEventId::into_string),
            tenant: head.tenant.map(Tenant::into_string),
            event_type: head.event_type.into_string(),
            attributes: attributes(&head.attributes),
            correlation_id: head.correlation_id.map(CorrelationId::into_string),
            traceparent: head.traceparent.map(TraceParent::into_string),
            tracestate: head.tracestate.map(TraceState::into_string),
            created_at: Utc(head.created_at),
            payload: None,
        }
    }
}

/// Returns stored JSON as a part of a response, or null if the row is not valid JSON, for example because another
/// program wrote it.
pub(crate) fn raw(text: JsonText) -> Box<RawValue> {
    RawValue::from_string(text.into_string()).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

/// Returns the attributes as a JSON object with sorted names.
fn attributes(attributes: &Attributes) -> Box<RawValue> {
    raw(JsonText::from_store(attributes.canonical()))
}

/// An event with its deliveries.
#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({
    "id": 7, "external_event_id": "shop-7", "tenant": "acme", "event_type": "order.paid",
    "attributes": {"region": "eu"}, "correlation_id": null, "traceparent": null, "tracestate": null,
    "created_at": "2026-01-31T12:00:00.000000Z", "payload": {"order": 7}, "deliveries": [{
        "id": 9, "saga_id": 9, "event_id": 7, "subscription_id": 3, "tenant": "acme", "event_type": "order.paid",
        "status": "Completed", "attempt_count": 1, "next_attempt_at": "2026-01-31T12:00:00.004000Z",
        "final_error_code": null, "requeued_from": null, "created_at": "2026-01-31T12:00:00.004000Z",
        "updated_at": "2026-01-31T12:00:00.020000Z"
    }],
    "deliveries_next_cursor": null
}))]
pub(crate) struct Shown {
    /// The id of the event.
    id: i64,
    /// The caller's id of the event.
    external_event_id: Option<String>,
    /// The tenant to which the event belongs; null if it has none.
    tenant: Option<String>,
    /// The event type.
    event_type: String,
    /// The attributes, which the filters of subscriptions compare.
    #[schema(value_type = Object)]
    attributes: Box<RawValue>,
    /// The id for log messages.
    correlation_id: Option<String>,
    /// The W3C trace context of the request that published the event.
    traceparent: Option<String>,
    /// The vendor-specific part of the W3C trace context.
    tracestate: Option<String>,
    /// The time at which the event was accepted.
    created_at: Utc,
    /// The payload.
    #[schema(value_type = serde_json::Value)]
    payload: Box<RawValue>,
    /// The deliveries of the event, newest first; at most 200.
    deliveries: Vec<DeliveryView>,
    /// The `cursor` for the remaining deliveries in `/v1/deliveries?event_id=…`; null if there are none.
    deliveries_next_cursor: Option<String>,
}

impl Shown {
    pub(super) fn of(event: EventView, deliveries: &Page<Delivery>) -> Self {
        Self {
            id: event.id,
            external_event_id: event.external_event_id,
            tenant: event.tenant,
            event_type: event.event_type,
            attributes: event.attributes,
            correlation_id: event.correlation_id,
            traceparent: event.traceparent,
            tracestate: event.tracestate,
            created_at: event.created_at,
            payload: event.payload.unwrap_or_else(|| RawValue::NULL.to_owned()),
            deliveries_next_cursor: write_cursor(deliveries::LIST, deliveries.next),
            deliveries: deliveries.items.iter().map(DeliveryView::of).collect(),
        }
    }
}
