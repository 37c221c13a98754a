//! Events as the role viewer sees them: whole, and how each begins.

use crate::postgres::error::Fault;
use crate::postgres::page;
use crate::postgres::session::Session;
use crate::postgres::value::{Instant, get, instant};
use crate::postgres::worker::stored_event;
use posthaste_core::EventId;
use posthaste_core::event::{EventType, ExternalEventId};
use posthaste_core::ports::{EventFilter, EventHead, Page, PageRequest, StoredEvent};
use tokio_postgres::Row;

/// The statements of one list, and how a row of theirs is read.
struct Statements<T> {
    all: &'static str,
    of_time: &'static str,
    of_external_id: &'static str,
    read: fn(&Row) -> Result<T, Fault>,
}

const WHOLE: Statements<StoredEvent> = Statements {
    all: include_str!("sql/reader/events.sql"),
    of_time: include_str!("sql/reader/events_of_time.sql"),
    of_external_id: include_str!("sql/reader/events_of_external_id.sql"),
    read: stored_event,
};

const HEADS: Statements<EventHead> = Statements {
    all: include_str!("sql/reader/event_heads.sql"),
    of_time: include_str!("sql/reader/event_heads_of_time.sql"),
    of_external_id: include_str!("sql/reader/event_heads_of_external_id.sql"),
    read: head,
};

pub(super) async fn one(mut session: Session, id: EventId) -> Result<Option<StoredEvent>, Fault> {
    let rows = session.read(include_str!("sql/reader/event.sql"), &[&id.get()]).await?;
    rows.first().map(stored_event).transpose()
}

pub(super) async fn list(
    session: Session,
    filter: &EventFilter,
    request: PageRequest,
) -> Result<Page<StoredEvent>, Fault> {
    found(session, filter, request, &WHOLE).await
}

pub(super) async fn heads(
    session: Session,
    filter: &EventFilter,
    request: PageRequest,
) -> Result<Page<EventHead>, Fault> {
    found(session, filter, request, &HEADS).await
}

async fn found<T>(
    mut session: Session,
    filter: &EventFilter,
    request: PageRequest,
    by: &Statements<T>,
) -> Result<Page<T>, Fault> {
    let below = page::below(request);
    let event_type = filter.event_type.as_ref().map(EventType::as_str);
    if let Some(name) = filter.external_event_id.as_ref().map(ExternalEventId::as_str) {
        let (since, until) = (filter.since.map(Instant), filter.until.map(Instant));
        let rows = session.read(by.of_external_id, &[&below, &name, &event_type, &since, &until]).await?;
        let items = rows.iter().map(by.read).collect::<Result<_, Fault>>()?;
        return Ok(Page { items, next: None });
    }
    if filter.since.is_some() || filter.until.is_some() {
        return found_by_time(session, filter, request, by).await;
    }
    let (rows_max, examined_max) = (page::rows_max(request), page::examined_max(request));
    let rows = session.read(by.all, &[&below, &event_type, &rows_max, &examined_max]).await?;
    let last = include_str!("sql/reader/last_event_examined.sql");
    page::fill(&mut session, request, &rows, by.read, (last, &[&below, &examined_max])).await
}

async fn found_by_time<T>(
    mut session: Session,
    filter: &EventFilter,
    request: PageRequest,
    by: &Statements<T>,
) -> Result<Page<T>, Fault> {
    let reached = match request.after {
        Some(id) => {
            let rows = session.read(include_str!("sql/reader/event_time.sql"), &[&id]).await?;
            rows.first().map(|row| Ok::<_, Fault>((id, instant(row, 0)?))).transpose()?
        }
        None => None,
    };
    let (below, from, to) = filter.time_bounds(reached);
    let (from, to) = (Instant(from), Instant(to));
    let event_type = filter.event_type.as_ref().map(EventType::as_str);
    let (rows_max, examined_max) = (page::rows_max(request), page::examined_max(request));
    let rows = session.read(by.of_time, &[&below, &from, &to, &event_type, &rows_max, &examined_max]).await?;
    let last = include_str!("sql/reader/last_event_of_time_examined.sql");
    page::fill(&mut session, request, &rows, by.read, (last, &[&from, &to, &examined_max])).await
}

fn head(row: &Row) -> Result<EventHead, Fault> {
    Ok(EventHead {
        id: EventId::from_store(get(row, 0)?),
        external_event_id: get::<Option<String>>(row, 1)?.map(ExternalEventId::from_store),
        event_type: EventType::from_store(get(row, 2)?),
        payload_head: get(row, 3)?,
        created_at: instant(row, 4)?,
    })
}
