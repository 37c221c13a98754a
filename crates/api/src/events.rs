//! Events come in here, and can be looked at. What arrives is checked and handed to ingest
//! ([`posthaste_services::ingest`]); the answer comes after the commit.

mod cloud;

pub(crate) use cloud::CloudEvent;

use crate::body::{media_type, receive};
use crate::deliveries::DeliveryView;
use crate::fields::{Fields, elements};
use crate::problem::Problem;
use crate::query::{Listed, Query, id, json, ok, write_cursor};
use crate::state::{Api, ApiResult, ApiState, Limits};
use crate::time::Utc;
use crate::values::{body, parameters};
use axum::extract::{Path, Request, State};
use http::{HeaderMap, StatusCode, Uri};
use posthaste_core::event::{CorrelationId, EventType, ExternalEventId, NewEvent, TraceParent};
use posthaste_core::json::{JsonError, JsonText};
use posthaste_core::ports::{
    Conflict, DeliveryFilter, EventFilter, EventHead, Ingested, PAGE_BYTES_MAX, PageRequest,
    ReaderStore as _, RequestOutcome, StoredEvent, Stores,
};
use posthaste_core::{EventId, Timestamp};
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

pub(crate) const LIST: &str = "events";
/// The memory that a page with payloads takes: as the store returns it, and as text.
pub(crate) const PAYLOAD_PAGE_BYTES: usize = 2 * PAGE_BYTES_MAX;
/// The deliveries that are shown with their event; the rest is a list of its own.
const DELIVERIES_SHOWN_MAX: u32 = 200;

body! {
    #[schema(
        as = NewEvent,
        example = json!({"event_type": "order.paid", "payload": {"order": 7}, "external_event_id": "shop-7"})
    )]
    struct NewEventBody<'a> {
        /// What subscriptions ask for.
        #[schema(value_type = String, max_length = 200, pattern = "^[A-Za-z0-9][A-Za-z0-9_.:/-]*$")]
        event_type: EventType,
        /// Your own name for the event. A second event of that name with the same event_type and payload is the same
        /// event; with another one it is refused.
        #[schema(value_type = Option<String>, min_length = 1, max_length = 200)]
        external_event_id: Option<ExternalEventId>,
        /// Goes through every log line; also as header x-correlation-id.
        #[schema(value_type = Option<String>, min_length = 1, max_length = 200)]
        correlation_id: Option<CorrelationId>,
        /// Any JSON. It is kept and delivered byte for byte.
        #[schema(value_type = serde_json::Value)]
        payload: &'a RawValue,
    }
}

/// One event, or an array of them that is stored as a whole or not at all.
#[derive(Debug, ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "the elements of an array are read one by one")]
pub(crate) enum EventOrEvents<'a> {
    One(NewEventBody<'a>),
    Many(Vec<NewEventBody<'a>>),
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({"id": 7, "duplicate": false}))]
pub(crate) struct Accepted {
    id: i64,
    duplicate: bool,
}

#[utoipa::path(
    post,
    path = "/v1/events",
    tag = "events",
    summary = "Accept events (role ingest)",
    description = "With the headers ce-… the body is the data of one CloudEvent (its binary mode); ce-specversion \
                   makes it one, and then ce-type, ce-source and ce-id are required. An external_event_id identifies \
                   one content: with the same event_type and payload it is a duplicate, with another one the whole \
                   request is refused with 422, which names the first event.",
    params(
        ("ce-specversion" = Option<String>, Header, description = "1.0: the body is the data of a CloudEvent"),
        ("ce-type" = Option<String>, Header, description = "Its event_type, such as order.paid"),
        ("ce-source" = Option<String>, Header, description = "Who tells of it, such as /shop"),
        ("ce-id" = Option<String>, Header, description = "Its name, unique within its source"),
    ),
    request_body(
        content(
            (EventOrEvents<'static> = "application/json"),
            (CloudEvent<'static> = "application/cloudevents+json"),
            (Vec<CloudEvent<'static>> = "application/cloudevents-batch+json"),
        ),
    ),
    responses(
        (status = 202, description = "Stored durably; at least one is new", body = AcceptedOrMany),
        (status = 200, description = "All were known", body = AcceptedOrMany),
    ),
)]
pub(crate) async fn create<S: Stores>(State(api): Api<S>, request: Request) -> ApiResult {
    let (head, upload) = receive(&api.uploads, request, api.limits.ingest_body_bytes_max()).await?;
    let (events, is_list) = read_events(&head.headers, upload.text()?, api.limits)?;
    // The share of the memory is kept until the events are stored.
    let outcome = api.ingest.call(events).await;
    drop(upload);
    let stored = match outcome? {
        RequestOutcome::Stored(stored) => stored,
        RequestOutcome::Blocked => {
            let detail =
                "another transaction holds an external_event_id of this request: try again in a moment";
            return Err(Problem::try_again("The store is busy", detail));
        }
        RequestOutcome::Refused(reason) => {
            let detail = "the database refuses this event: check its fields";
            return Err(Problem { cause: Some(reason), ..Problem::invalid("body", detail) });
        }
        RequestOutcome::Conflict(conflict) => return Err(conflicting(conflict, is_list)),
    };
    let any_new = stored.iter().any(|ingested| matches!(ingested, Ingested::New(_)));
    let status = if any_new { StatusCode::ACCEPTED } else { StatusCode::OK };
    let mut accepted: Vec<Accepted> = stored.into_iter().map(Accepted::of).collect();
    let answer = match accepted.pop() {
        Some(only) if !is_list => AcceptedOrMany::One(only),
        last => {
            accepted.extend(last);
            AcceptedOrMany::Many(accepted)
        }
    };
    json(status, &answer)
}

/// The caller may have mixed up two events, or another caller has used the id: either way nothing was stored.
fn conflicting(Conflict { place, first }: Conflict, is_list: bool) -> Problem {
    let field = if is_list { format!("[{place}].external_event_id") } else { "external_event_id".to_owned() };
    let owner = match first {
        Some(id) => format!("event {id}"),
        None => "an earlier event of this array".to_owned(),
    };
    let detail = format!(
        "{field} belongs to {owner}, which has another event_type or payload: send the same content again, or use a \
         new external_event_id"
    );
    Problem::invalid(field, detail)
}

impl Accepted {
    const fn of(ingested: Ingested) -> Self {
        match ingested {
            Ingested::New(id) => Self { id: id.get(), duplicate: false },
            Ingested::Duplicate(id) => Self { id: id.get(), duplicate: true },
        }
    }
}

/// One for each event: alone as the event came, or as a list.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub(crate) enum AcceptedOrMany {
    One(Accepted),
    Many(Vec<Accepted>),
}

/// What the headers say about all events of a request.
#[derive(Debug, Clone)]
struct Context {
    correlation_id: Option<CorrelationId>,
    traceparent: Option<TraceParent>,
}

impl Context {
    /// A trace that cannot be read is begun anew, as its standard asks for; a correlation id is a promise.
    fn of(headers: &HeaderMap) -> Result<Self, Problem> {
        let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or_default());
        let correlation_id = text("x-correlation-id").map(CorrelationId::parse).transpose();
        let correlation_id =
            correlation_id.map_err(|error| Problem::invalid("x-correlation-id", error.to_string()))?;
        let traceparent = text("traceparent").and_then(|text| TraceParent::parse(text).ok());
        Ok(Self { correlation_id, traceparent })
    }
}

/// The events of a request, and whether they came as a list.
fn read_events(headers: &HeaderMap, text: &str, limits: Limits) -> Result<(Vec<NewEvent>, bool), Problem> {
    let context = Context::of(headers)?;
    if headers.contains_key(cloud::SPEC_VERSION_HEADER) {
        return Ok((vec![cloud::binary(headers, text, context, limits)?], false));
    }
    let one: fn(Fields<'_>, Context, Limits) -> Result<NewEvent, Problem> = match media_type(headers).as_str()
    {
        "" | "application/json" => plain,
        cloud::ONE | cloud::BATCH => cloud::structured,
        _ => {
            return Err(Problem::unsupported(
                "send content-type: application/json, application/cloudevents+json or \
                 application/cloudevents-batch+json",
            ));
        }
    };
    if !text.trim_start().starts_with('[') {
        return Ok((vec![one(Fields::parse(text)?, context, limits)?], false));
    }
    let elements = elements(text, limits.batch_events_max)?;
    if elements.is_empty() {
        return Err(Problem::invalid("body", "the array holds no event"));
    }
    let read = |(index, raw)| one(Fields::of_element(raw, index)?, context.clone(), limits);
    Ok((elements.into_iter().enumerate().map(read).collect::<Result<_, _>>()?, true))
}

/// Reads a [`NewEventBody`].
fn plain(mut fields: Fields<'_>, context: Context, limits: Limits) -> Result<NewEvent, Problem> {
    let NewEventBody { event_type, external_event_id, correlation_id, payload } =
        NewEventBody::read(&mut fields)?;
    let payload = payload_of(&fields, "payload", payload, limits)?;
    fields.finish()?;
    let correlation_id = correlation_id.or(context.correlation_id);
    Ok(NewEvent { event_type, payload, external_event_id, correlation_id, traceparent: context.traceparent })
}

/// The payload as it came, byte for byte.
fn payload_of(
    fields: &Fields<'_>,
    name: &str,
    value: &RawValue,
    limits: Limits,
) -> Result<JsonText, Problem> {
    JsonText::of_value(value, limits.payload_bytes_max).map_err(|error| unfit(&fields.path(name), &error))
}

/// The same of text that nobody has read yet.
fn payload_of_text(field: &str, text: &str, limits: Limits) -> Result<JsonText, Problem> {
    JsonText::parse(text, limits.payload_bytes_max).map_err(|error| unfit(field, &error))
}

fn unfit(field: &str, error: &JsonError) -> Problem {
    let detail = format!("{field}: {error}");
    match error {
        JsonError::TooLong { .. } => Problem { field: Some(field.to_owned()), ..Problem::too_large(detail) },
        JsonError::TooDeep { .. } => Problem::invalid(field, detail),
        JsonError::NotUtf8 { .. } | JsonError::Invalid { .. } => Problem::unreadable(detail),
    }
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({
    "id": 7, "external_event_id": "shop-7", "event_type": "order.paid", "correlation_id": null, "traceparent": null,
    "created_at": "2026-01-31T12:00:00.000000Z"
}))]
pub(crate) struct EventView {
    pub(crate) id: i64,
    pub(crate) external_event_id: Option<String>,
    pub(crate) event_type: String,
    pub(crate) correlation_id: Option<String>,
    pub(crate) traceparent: Option<String>,
    pub(crate) created_at: Utc,
    /// Only with `payload=true`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>)]
    pub(crate) payload: Option<Box<RawValue>>,
}

impl EventView {
    fn of(event: StoredEvent) -> Self {
        Self {
            id: event.id.get(),
            external_event_id: event.external_event_id.map(ExternalEventId::into_string),
            event_type: event.event_type.into_string(),
            correlation_id: event.correlation_id.map(CorrelationId::into_string),
            traceparent: event.traceparent.map(TraceParent::into_string),
            created_at: Utc(event.created_at),
            payload: Some(raw(event.payload)),
        }
    }

    fn of_head(head: EventHead) -> Self {
        Self {
            id: head.id.get(),
            external_event_id: head.external_event_id.map(ExternalEventId::into_string),
            event_type: head.event_type.into_string(),
            correlation_id: head.correlation_id.map(CorrelationId::into_string),
            traceparent: head.traceparent.map(TraceParent::into_string),
            created_at: Utc(head.created_at),
            payload: None,
        }
    }
}

/// Stored JSON as a part of an answer; a row that other hands wrote may hold none.
pub(crate) fn raw(text: JsonText) -> Box<RawValue> {
    RawValue::from_string(text.into_string()).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

parameters! {
    struct Parameters(LIST) -> EventFilter {
        event_type: EventType,
        external_event_id: ExternalEventId,
        /// Accepted at this time or later; the latest come first
        since: Timestamp,
        /// Accepted before this time
        until: Timestamp,
    }
}

#[utoipa::path(
    get,
    path = "/v1/events",
    tag = "events",
    summary = "List events, newest first (role viewer)",
    params(
        Parameters,
        ("payload" = Option<bool>, Query, description = "true: with the payloads; a page ends at 4 MiB of them"),
    ),
    responses((status = 200, description = "A page", body = Listed<EventView>)),
)]
pub(crate) async fn list<S: Stores>(State(api): Api<S>, uri: Uri) -> ApiResult {
    let mut query = Query::of(&uri)?;
    let has_payloads = query.flag("payload")?;
    let (filter, page) = Parameters::read(query)?;
    if !has_payloads {
        let found = api.reader.event_heads(filter, page).await?;
        return ok(&Listed::of(LIST, found, EventView::of_head));
    }
    let reserved = api.responses.reserve(PAYLOAD_PAGE_BYTES)?;
    let found = api.reader.events(filter, page).await?;
    Ok(reserved.hold(ok(&Listed::of(LIST, found, EventView::of))?))
}

/// The same for a page of the dashboard.
pub(crate) async fn find_heads<S: Stores, T>(
    api: &ApiState<S>,
    uri: &Uri,
    examined_max: u32,
    view: fn(EventHead) -> T,
) -> Result<Listed<T>, Problem> {
    let (filter, page) = Parameters::read(Query::of(uri)?)?;
    let page = page.looking_at(examined_max);
    Ok(Listed::of(LIST, api.reader.event_heads(filter, page).await?, view))
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({
    "id": 7, "external_event_id": "shop-7", "event_type": "order.paid", "correlation_id": null, "traceparent": null,
    "created_at": "2026-01-31T12:00:00.000000Z", "payload": {"order": 7}, "deliveries": [{
        "saga_id": 9, "event_id": 7, "subscription_id": 3, "event_type": "order.paid", "status": "Completed",
        "attempt_count": 1, "next_attempt_at": "2026-01-31T12:00:00.004000Z", "final_error_code": null,
        "requeued_from": null, "created_at": "2026-01-31T12:00:00.004000Z",
        "updated_at": "2026-01-31T12:00:00.020000Z"
    }],
    "deliveries_next_cursor": null
}))]
pub(crate) struct Shown {
    id: i64,
    external_event_id: Option<String>,
    event_type: String,
    correlation_id: Option<String>,
    traceparent: Option<String>,
    created_at: Utc,
    #[schema(value_type = serde_json::Value)]
    payload: Box<RawValue>,
    deliveries: Vec<DeliveryView>,
    /// Goes on in `/v1/deliveries?event_id=…`.
    deliveries_next_cursor: Option<String>,
}

#[utoipa::path(
    get,
    path = "/v1/events/{id}",
    tag = "events",
    summary = "An event with its deliveries (role viewer)",
    params(("id" = i64, Path)),
    responses((status = 200, description = "The event", body = Shown)),
)]
pub(crate) async fn show<S: Stores>(State(api): Api<S>, Path(text): Path<String>) -> ApiResult {
    let event_id = id("id", &text, EventId::new)?;
    let event = find_one(&api, event_id).await?;
    let filter = DeliveryFilter { event_id: Some(event_id), ..DeliveryFilter::default() };
    let page = PageRequest::first(DELIVERIES_SHOWN_MAX);
    let deliveries = api.reader.deliveries(filter, page).await?;
    let EventView { id, external_event_id, event_type, correlation_id, traceparent, created_at, payload } =
        event;
    ok(&Shown {
        id,
        external_event_id,
        event_type,
        correlation_id,
        traceparent,
        created_at,
        payload: payload.unwrap_or_else(|| RawValue::NULL.to_owned()),
        deliveries_next_cursor: write_cursor(crate::deliveries::LIST, deliveries.next),
        deliveries: deliveries.items.iter().map(DeliveryView::of).collect(),
    })
}

pub(crate) async fn find_one<S: Stores>(api: &ApiState<S>, id: EventId) -> Result<EventView, Problem> {
    let found = api.reader.event(id).await?;
    found.map(EventView::of).ok_or_else(|| Problem::not_found("event"))
}
