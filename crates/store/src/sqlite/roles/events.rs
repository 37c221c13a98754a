//! Reads events, with and without payloads, for the roles `viewer` and `job_worker`.

use posthaste_core::event::{CorrelationId, EventType, ExternalEventId, TraceParent, TraceState};
use posthaste_core::json::JsonText;
use posthaste_core::ports::{EventFilter, EventHead, Page, PageRequest, StoredEvent};
use posthaste_core::tenant::Tenant;
use posthaste_core::{EventId, Timestamp};
use rusqlite::{Row, Statement, params};

use crate::columns::{SqlText, sql};
use crate::sqlite::conn::error::Answer;
use crate::sqlite::conn::session::Session;
use crate::sqlite::conn::value::{self, columns, get};
use crate::sqlite::roles::page;
use crate::sqlite::roles::reader::{list, one, with_payloads, within};
use crate::stored::read_attributes;

pub(crate) static EVENT: SqlText = sql!("../sql/reader/event.sql");
const EVENT_TIME: &str = include_str!("../sql/reader/event_time.sql");

const EVENT_PAYLOADS: &str = include_str!("../sql/reader/event_payloads.sql");
static EVENT_HEADS: SqlText = sql!("../sql/reader/event_heads.sql");
static EVENT_HEADS_OF_TIME: SqlText = sql!("../sql/reader/event_heads_of_time.sql");
static EVENT_HEADS_OF_TYPE: SqlText = sql!("../sql/reader/event_heads_of_type.sql");
static EVENT_HEADS_OF_EXTERNAL_ID: SqlText = sql!("../sql/reader/event_heads_of_external_id.sql");

pub(crate) fn one_event(session: &Session<'_>, id: EventId) -> Answer<Option<StoredEvent>> {
    one(session, &EVENT, [id.get()], |row| Ok(stored_event(row)?))
}

pub(crate) fn list_events(
    session: &Session<'_>,
    filter: &EventFilter,
    page: PageRequest,
) -> Answer<Page<StoredEvent>> {
    let heads = heads(session, filter, page)?;
    with_payloads(session, EVENT_PAYLOADS, heads, |head| head.id.get(), EventHead::with_payload)
}

pub(crate) fn heads(
    session: &Session<'_>,
    filter: &EventFilter,
    page: PageRequest,
) -> Answer<Page<EventHead>> {
    let (below, rows_max) = (page::below(page), page::rows_max(page));
    let event_type = filter.event_type.as_ref().map(EventType::as_str);
    let read = |row: &Row<'_>| {
        let kind = value::text(row, "event_type")?;
        if event_type.is_some_and(|wanted| wanted != kind) {
            return Ok(None);
        }
        let head = HeadColumns::of(row.as_ref())?.read(row)?;
        Ok(Some(head).filter(|head| filter.tenant.is_none() || filter.tenant == head.tenant))
    };
    let has_time = filter.since.is_some() || filter.until.is_some();
    match (&filter.external_event_id, event_type) {
        (Some(id), _) => {
            let read = |row: &Row<'_>| {
                let found = value::time(row, "created_at")?;
                if within(found, filter.since, filter.until) { read(row) } else { Ok(None) }
            };
            list(session, &EVENT_HEADS_OF_EXTERNAL_ID, params![below, rows_max, id.as_str()], page, read)
        }
        (None, _) if has_time => {
            let (below, from, to) = time_bounds(session, filter, page)?;
            let values = params![below, rows_max, from.micros(), to.micros()];
            list(session, &EVENT_HEADS_OF_TIME, values, page, read)
        }
        (None, Some(kind)) => list(session, &EVENT_HEADS_OF_TYPE, params![below, rows_max, kind], page, read),
        (None, None) => list(session, &EVENT_HEADS, params![below, rows_max], page, read),
    }
}

/// Returns the bounds of a page in time order: the exclusive upper bound of ids at the latest time, the earliest time
/// and the latest time.
fn time_bounds(
    session: &Session<'_>,
    filter: &EventFilter,
    page: PageRequest,
) -> Answer<(i64, Timestamp, Timestamp)> {
    let reached = match page.after {
        Some(id) => one(session, EVENT_TIME, [id], |row| Ok((id, value::time(row, "created_at")?)))?,
        None => None,
    };
    Ok(filter.time_bounds(reached))
}

columns!(HeadColumns {
    id,
    external_event_id,
    event_type,
    correlation_id,
    traceparent,
    tracestate,
    tenant,
    attributes,
    created_at,
});
columns!(PayloadColumn { payload });

impl HeadColumns {
    fn read(self, row: &Row<'_>) -> rusqlite::Result<EventHead> {
        Ok(EventHead {
            id: EventId::from_store(get(row, self.id)?),
            external_event_id: get::<Option<_>>(row, self.external_event_id)?
                .map(ExternalEventId::from_store),
            event_type: EventType::from_store(get(row, self.event_type)?),
            correlation_id: get::<Option<_>>(row, self.correlation_id)?.map(CorrelationId::from_store),
            traceparent: get::<Option<_>>(row, self.traceparent)?.map(TraceParent::from_store),
            tracestate: get::<Option<_>>(row, self.tracestate)?.map(TraceState::from_store),
            tenant: get::<Option<_>>(row, self.tenant)?.map(Tenant::from_store),
            attributes: read_attributes(get::<Option<String>>(row, self.attributes)?.as_deref()),
            created_at: value::time(row, self.created_at)?,
        })
    }
}

/// The column indexes of an event with its payload.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EventColumns(HeadColumns, PayloadColumn);

impl EventColumns {
    pub(crate) fn of(statement: &Statement<'_>) -> rusqlite::Result<Self> {
        Ok(Self(HeadColumns::of(statement)?, PayloadColumn::of(statement)?))
    }

    pub(crate) fn read(self, row: &Row<'_>) -> rusqlite::Result<StoredEvent> {
        let payload = JsonText::from_store(get(row, self.1.payload)?);
        Ok(self.0.read(row)?.with_payload(payload))
    }
}

pub(crate) fn stored_event(row: &Row<'_>) -> rusqlite::Result<StoredEvent> {
    EventColumns::of(row.as_ref())?.read(row)
}
