//! Accepts events and returns stored ones. New events are validated and passed to the ingest service; the response is
//! sent after the commit.

mod cloud;
mod parse;
mod view;

pub(crate) use cloud::CloudEvent;
pub(crate) use view::{EventView, raw};

use crate::auth::Scope;
use crate::body::{media_type, receive};
use crate::problem::{Problem, ProblemKind, RequestError};
use crate::query::{Listed, Query, id, json, ok};
use crate::state::{Api, ApiResult, ApiState};
use crate::values::{PublishedType, body, parameters};
use axum::Extension;
use axum::extract::{Path, Request, State};
use http::{HeaderMap, StatusCode, Uri};
use parse::IngestPolicy;
use posthaste_core::attributes::Attributes;
use posthaste_core::event::{CorrelationId, EventType, ExternalEventId};
use posthaste_core::ports::{
    Conflict, DeliveryFilter, EventFilter, EventHead, Ingested, PAGE_BYTES_MAX, PageRequest,
    ReaderStore as _, RequestOutcome, Stores,
};
use posthaste_core::tenant::Tenant;
use posthaste_core::{EventId, Timestamp};
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;
use view::Shown;

pub(crate) const LIST: &str = "events";
/// The memory reserved for a page with payloads, in bytes: the rows read from the store and the serialized response.
pub(crate) const PAYLOAD_PAGE_BYTES: usize = 2 * PAGE_BYTES_MAX;
/// The maximum number of deliveries in the response for one event. `/v1/deliveries` lists all of them.
const DELIVERIES_SHOWN_MAX: u32 = 200;

body! {
    /// A new event.
    #[schema(
        as = NewEvent,
        example = json!({
            "event_type": "order.paid", "payload": {"order": 7}, "external_event_id": "shop-7", "tenant": "acme",
            "attributes": {"region": "eu"}
        })
    )]
    struct NewEventBody<'a> {
        /// The event type, by which subscriptions are matched.
        #[schema(value_type = String, max_length = 200, pattern = "^[A-Za-z0-9][A-Za-z0-9_.:/-]*$")]
        event_type: PublishedType,
        /// The tenant to which the event belongs: only subscriptions of the same tenant get it. Overrides the header
        /// `posthaste-tenant`. A key that is bound to a tenant implies it.
        #[schema(value_type = Option<String>, min_length = 1, max_length = 200)]
        tenant: Option<Tenant>,
        /// Named values that the filters of subscriptions compare: at most 20, with names of `a-z` and `0-9` and values
        /// that are text, numbers or booleans.
        #[schema(value_type = Option<Object>)]
        attributes: Option<Attributes>,
        /// The caller's id of the event. An event with the id and the content of a stored event is a duplicate and is
        /// not stored again. The same id with a different tenant, type, attributes or payload is rejected.
        #[schema(value_type = Option<String>, min_length = 1, max_length = 200)]
        external_event_id: Option<ExternalEventId>,
        /// An id for log messages, to trace the event through the system. Overrides the header `x-correlation-id`.
        #[schema(value_type = Option<String>, min_length = 1, max_length = 200)]
        correlation_id: Option<CorrelationId>,
        /// The payload, which may be any JSON value. Stored and delivered byte for byte.
        #[schema(value_type = serde_json::Value)]
        payload: &'a RawValue,
    }
}

/// One event, or an array of events that are stored in one transaction.
#[derive(Debug, ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "the elements of an array are read one by one")]
pub(crate) enum EventOrEvents<'a> {
    One(NewEventBody<'a>),
    Many(Vec<NewEventBody<'a>>),
}

/// An accepted event.
#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({"id": 7, "duplicate": false}))]
pub(crate) struct Accepted {
    /// The id of the event.
    id: i64,
    /// Whether the event was already stored under the same `external_event_id`.
    duplicate: bool,
}

#[utoipa::path(
    post,
    path = "/v1/events",
    tag = "events",
    operation_id = "create_events",
    summary = "Publish events",
    description = "Accepts one event, an array of events, or CloudEvents 1.0 in structured or binary mode. An array is \
                   stored completely or not at all. The response is sent after the commit. An `external_event_id` \
                   identifies one content: with the same tenant, type, attributes and payload it is a duplicate; with \
                   another one the whole request is refused with 422, and the detail contains the id of the first \
                   event unless the key is bound to a tenant. In the binary mode of CloudEvents the header \
                   `ce-specversion` is set, `ce-type`, `ce-source` and `ce-id` are required, and the body is the \
                   data. `source`, `subject`, `time`, `dataschema` and extensions of CloudEvents become attributes of \
                   the event. `traceparent` and `tracestate` are stored with the event. Types that start with \
                   `posthaste.` are reserved.",
    security(("api_key" = ["ingest"])),
    params(
        ("ce-specversion" = Option<String>, Header, description = "The version of CloudEvents, `1.0`, in binary mode."),
        ("ce-type" = Option<String>, Header, description = "The event type in binary mode, such as `order.paid`."),
        ("ce-source" = Option<String>, Header, description = "The source in binary mode, such as `/shop`."),
        ("ce-id" = Option<String>, Header, description = "The id in binary mode, unique within its source."),
        (
            "posthaste-tenant" = Option<String>, Header,
            description = "The tenant of all events of the request; characters that are not ASCII are percent-encoded.",
        ),
    ),
    request_body(
        content(
            (EventOrEvents<'static> = "application/json"),
            (CloudEvent<'static> = "application/cloudevents+json"),
            (Vec<CloudEvent<'static>> = "application/cloudevents-batch+json"),
        ),
    ),
    responses(
        (status = 202, description = "Stored durably; at least one event is new", body = AcceptedOrMany),
        (status = 200, description = "All events are duplicates", body = AcceptedOrMany),
    ),
)]
pub(crate) async fn create<S: Stores>(
    State(api): Api<S>,
    Extension(scope): Extension<Scope>,
    request: Request,
) -> ApiResult {
    let (head, upload) = receive(&api.uploads, request, api.limits.ingest_body_bytes_max()).await?;
    let policy = IngestPolicy { limits: api.limits, rules: &api.attribute_rules, bound: scope.tenant() };
    let (events, is_list) = parse::read_events(&head.headers, upload.text()?, policy)?;
    // The upload counts against the memory limit until the events are stored.
    let outcome = api.ingest.call(events).await;
    drop(upload);
    let stored = match outcome? {
        RequestOutcome::Stored(stored) => stored,
        RequestOutcome::Blocked => {
            let detail =
                "another transaction holds an external_event_id of this request: try again in a moment";
            return Err(Problem::try_again(ProblemKind::StoreBusy, detail));
        }
        RequestOutcome::Refused(reason) => {
            let detail = "the database does not accept a value of this request: check its fields";
            return Err(Problem { cause: Some(reason.into()), ..Problem::invalid_body(detail) });
        }
        RequestOutcome::Conflict(conflict) => {
            return Err(conflicting(conflict, is_list, &scope, &head.headers));
        }
    };
    let any_new = stored.iter().any(|ingested| matches!(ingested, Ingested::New(_)));
    let status = if any_new { StatusCode::ACCEPTED } else { StatusCode::OK };
    let mut accepted: Vec<Accepted> = stored.into_iter().map(Accepted::of).collect();
    let body = match accepted.pop() {
        Some(only) if !is_list => AcceptedOrMany::One(only),
        last => {
            accepted.extend(last);
            AcceptedOrMany::Many(accepted)
        }
    };
    json(status, &body)
}

/// Returns the problem for an external id that belongs to an event with different content. No event of the request was
/// stored. The event may belong to another tenant, so a key that is bound to a tenant does not get its id.
fn conflicting(
    Conflict { place, first }: Conflict,
    is_list: bool,
    scope: &Scope,
    headers: &HeaderMap,
) -> Problem {
    let field = if is_list { format!("[{place}].external_event_id") } else { "external_event_id".to_owned() };
    let owner = match first {
        Some(_) if scope.tenant().is_some() => "an earlier event".to_owned(),
        Some(id) => format!("event {id}"),
        None => "an earlier event of this array".to_owned(),
    };
    let detail = format!(
        "{field} belongs to {owner}, which has another tenant, event_type, attributes or payload: send the same \
         content again, or use a new external_event_id"
    );
    let index = place.to_string();
    let error = match media_type(headers).as_str() {
        _ if headers.contains_key(cloud::SPEC_VERSION_HEADER) => {
            RequestError::in_header("ce-id", detail.clone())
        }
        cloud::ONE | cloud::BATCH if is_list => RequestError::in_body(&[&index, "id"], detail.clone()),
        cloud::ONE | cloud::BATCH => RequestError::in_body(&["id"], detail.clone()),
        _ if is_list => RequestError::in_body(&[&index, "external_event_id"], detail.clone()),
        _ => RequestError::in_body(&["external_event_id"], detail.clone()),
    };
    Problem::of(ProblemKind::ValidationFailed, detail).at(field, error)
}

impl Accepted {
    const fn of(ingested: Ingested) -> Self {
        match ingested {
            Ingested::New(id) => Self { id: id.get(), duplicate: false },
            Ingested::Duplicate(id) => Self { id: id.get(), duplicate: true },
        }
    }
}

/// The accepted event, or an array of accepted events in the order of the request.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub(crate) enum AcceptedOrMany {
    One(Accepted),
    Many(Vec<Accepted>),
}

parameters! {
    struct Parameters(LIST) -> EventFilter {
        /// Returns only events of this tenant.
        tenant: Tenant,
        /// Returns only events of this type.
        event_type: EventType,
        /// Returns only the event with this external id.
        external_event_id: ExternalEventId,
        /// Returns only events accepted at this time or later.
        since: Timestamp,
        /// Returns only events accepted before this time.
        until: Timestamp,
    }
}

#[utoipa::path(
    get,
    path = "/v1/events",
    tag = "events",
    operation_id = "list_events",
    summary = "List events",
    description = "Returns events, newest first.",
    security(("api_key" = ["viewer"])),
    params(
        Parameters,
        ("payload" = Option<bool>, Query, description = "Whether to include payloads. A page then ends at 4 MiB."),
    ),
    responses((status = 200, description = "A page of events", body = Listed<EventView>)),
)]
pub(crate) async fn list<S: Stores>(
    State(api): Api<S>,
    Extension(scope): Extension<Scope>,
    uri: Uri,
) -> ApiResult {
    let mut query = Query::of(&uri)?;
    let has_payloads = query.flag("payload");
    let (mut filter, page) = Parameters::read(query)?;
    let Some(tenant) = scope.restrict(filter.tenant.take()) else {
        return ok(&Listed::<EventView>::empty());
    };
    filter.tenant = tenant;
    if !has_payloads {
        let found = api.reader.event_heads(filter, page).await?;
        return ok(&Listed::of(LIST, found, EventView::of_head));
    }
    let reserved = api.responses.reserve(PAYLOAD_PAGE_BYTES)?;
    let found = api.reader.events(filter, page).await?;
    Ok(reserved.hold(ok(&Listed::of(LIST, found, EventView::of))?))
}

/// Returns the page selected by the query parameters of `uri`, without payloads. Used by the dashboard, whose users are
/// not bound to a tenant.
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

#[utoipa::path(
    get,
    path = "/v1/events/{id}",
    tag = "events",
    operation_id = "get_event",
    summary = "Get an event",
    description = "Returns an event with its payload and its deliveries.",
    security(("api_key" = ["viewer"])),
    params(("id" = i64, Path, description = "The id of the event.")),
    responses((status = 200, description = "The event", body = Shown)),
)]
pub(crate) async fn show<S: Stores>(
    State(api): Api<S>,
    Extension(scope): Extension<Scope>,
    Path(text): Path<String>,
) -> ApiResult {
    let event_id = id("id", &text, EventId::new)?;
    let event = find_one(&api, &scope, event_id).await?;
    let filter = DeliveryFilter { event_id: Some(event_id), ..DeliveryFilter::default() };
    let page = PageRequest::first(DELIVERIES_SHOWN_MAX);
    ok(&Shown::of(event, &api.reader.deliveries(filter, page).await?))
}

/// Returns an event with its payload, if it is within the scope of the caller.
pub(crate) async fn find_one<S: Stores>(
    api: &ApiState<S>,
    scope: &Scope,
    id: EventId,
) -> Result<EventView, Problem> {
    let found = api.reader.event(id).await?.filter(|event| scope.allows(event.tenant.as_ref()));
    found.map(EventView::of).ok_or_else(|| Problem::not_found("event"))
}
