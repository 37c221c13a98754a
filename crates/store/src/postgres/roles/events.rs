//! Reads events, with and without payloads, for the roles `viewer` and `job_worker`.

use crate::columns::{SqlText, sql};
use crate::postgres::conn::session::Session;
use crate::postgres::conn::value::{Instant, Json, get, instant};
use crate::postgres::roles::page;
use crate::remote::Fault;
use crate::stored::read_attributes;
use posthaste_core::EventId;
use posthaste_core::event::{CorrelationId, EventType, ExternalEventId, TraceParent, TraceState};
use posthaste_core::json::JsonText;
use posthaste_core::ports::{EventFilter, EventHead, Page, PageRequest, StoredEvent};
use posthaste_core::tenant::Tenant;
use tokio_postgres::Row;

pub(crate) static EVENT: SqlText = sql!("../sql/reader/event.sql");
static EVENT_HEADS_OF_EXTERNAL_ID: SqlText = sql!("../sql/reader/event_heads_of_external_id.sql");
static EVENT_HEADS: SqlText = sql!("../sql/reader/event_heads.sql");
static EVENT_HEADS_OF_TIME: SqlText = sql!("../sql/reader/event_heads_of_time.sql");

pub(crate) async fn one(mut session: Session, id: EventId) -> Result<Option<StoredEvent>, Fault> {
    let rows = session.read(&EVENT, &[&id.get()]).await?;
    rows.first().map(stored_event).transpose()
}

pub(crate) async fn list(
    mut session: Session,
    filter: &EventFilter,
    request: PageRequest,
) -> Result<Page<StoredEvent>, Fault> {
    let heads = found(&mut session, filter, request).await?;
    let sql = include_str!("../sql/reader/event_payloads.sql");
    page::with_payloads(&mut session, sql, heads, |head| head.id.get(), EventHead::with_payload).await
}

pub(crate) async fn heads(
    mut session: Session,
    filter: &EventFilter,
    request: PageRequest,
) -> Result<Page<EventHead>, Fault> {
    found(&mut session, filter, request).await
}

async fn found(
    session: &mut Session,
    filter: &EventFilter,
    request: PageRequest,
) -> Result<Page<EventHead>, Fault> {
    let below = page::below(request);
    let event_type = filter.event_type.as_ref().map(EventType::as_str);
    let tenant = filter.tenant.as_ref().map(Tenant::as_str);
    if let Some(name) = filter.external_event_id.as_ref().map(ExternalEventId::as_str) {
        let (since, until) = (filter.since.map(Instant), filter.until.map(Instant));
        let rows = session
            .read(&EVENT_HEADS_OF_EXTERNAL_ID, &[&below, &name, &event_type, &since, &until, &tenant])
            .await?;
        let items = rows.iter().map(head).collect::<Result<_, Fault>>()?;
        return Ok(Page { items, next: None });
    }
    if filter.since.is_some() || filter.until.is_some() {
        return found_by_time(session, filter, request).await;
    }
    let (rows_max, examined_max) = (page::rows_max(request), page::examined_max(request));
    let rows = session.read(&EVENT_HEADS, &[&below, &event_type, &rows_max, &examined_max, &tenant]).await?;
    let last = include_str!("../sql/reader/last_event_examined.sql");
    page::fill(session, request, &rows, head, (last, &[&below, &examined_max])).await
}

async fn found_by_time(
    session: &mut Session,
    filter: &EventFilter,
    request: PageRequest,
) -> Result<Page<EventHead>, Fault> {
    let reached = match request.after {
        Some(id) => {
            let rows = session.read(include_str!("../sql/reader/event_time.sql"), &[&id]).await?;
            rows.first().map(|row| Ok::<_, Fault>((id, instant(row, 0)?))).transpose()?
        }
        None => None,
    };
    let (below, from, to) = filter.time_bounds(reached);
    let (from, to) = (Instant(from), Instant(to));
    let event_type = filter.event_type.as_ref().map(EventType::as_str);
    let tenant = filter.tenant.as_ref().map(Tenant::as_str);
    let (rows_max, examined_max) = (page::rows_max(request), page::examined_max(request));
    let rows = session
        .read(&EVENT_HEADS_OF_TIME, &[&below, &from, &to, &event_type, &rows_max, &examined_max, &tenant])
        .await?;
    let last = include_str!("../sql/reader/last_event_of_time_examined.sql");
    page::fill(session, request, &rows, head, (last, &[&from, &to, &examined_max])).await
}

pub(crate) fn stored_event(row: &Row) -> Result<StoredEvent, Fault> {
    let payload = JsonText::from_store(get::<Json<'_>>(row, "payload")?.0.to_owned());
    Ok(head(row)?.with_payload(payload))
}

fn head(row: &Row) -> Result<EventHead, Fault> {
    Ok(EventHead {
        id: EventId::from_store(get(row, "id")?),
        external_event_id: get::<Option<String>>(row, "external_event_id")?.map(ExternalEventId::from_store),
        event_type: EventType::from_store(get(row, "event_type")?),
        correlation_id: get::<Option<String>>(row, "correlation_id")?.map(CorrelationId::from_store),
        traceparent: get::<Option<String>>(row, "traceparent")?.map(TraceParent::from_store),
        tracestate: get::<Option<String>>(row, "tracestate")?.map(TraceState::from_store),
        tenant: get::<Option<String>>(row, "tenant")?.map(Tenant::from_store),
        attributes: read_attributes(get::<Option<Json<'_>>>(row, "attributes")?.map(|json| json.0)),
        created_at: instant(row, "created_at")?,
    })
}
