//! Events as the role viewer sees them: whole, and how each begins.

use posthaste_core::event::{EventType, ExternalEventId};
use posthaste_core::ports::{EventFilter, EventHead, Page, PageRequest, StoredEvent};
use posthaste_core::{EventId, Timestamp};
use rusqlite::{Row, params};

use super::error::Answer;
use super::pages;
use super::reader::{list, one, within};
use super::rows;
use super::session::Session;
use super::worker::stored_event;

const EVENT: &str = include_str!("sql/reader/event.sql");
const EVENT_TIME: &str = include_str!("sql/reader/event_time.sql");

/// The statements of one list, and how a row of theirs is read.
struct Statements<T> {
    all: &'static str,
    of_time: &'static str,
    of_type: &'static str,
    of_external_id: &'static str,
    read: fn(&Row<'_>) -> rusqlite::Result<T>,
    /// Which column is the time.
    created_at: usize,
}

const WHOLE: Statements<StoredEvent> = Statements {
    all: include_str!("sql/reader/events.sql"),
    of_time: include_str!("sql/reader/events_of_time.sql"),
    of_type: include_str!("sql/reader/events_of_type.sql"),
    of_external_id: include_str!("sql/reader/events_of_external_id.sql"),
    read: stored_event,
    created_at: 6,
};

const HEADS: Statements<EventHead> = Statements {
    all: include_str!("sql/reader/event_heads.sql"),
    of_time: include_str!("sql/reader/event_heads_of_time.sql"),
    of_type: include_str!("sql/reader/event_heads_of_type.sql"),
    of_external_id: include_str!("sql/reader/event_heads_of_external_id.sql"),
    read: read_head,
    created_at: 4,
};

pub(super) fn one_event(session: &Session<'_>, id: EventId) -> Answer<Option<StoredEvent>> {
    one(session, EVENT, [id.get()], |row| Ok(stored_event(row)?))
}

pub(super) fn list_events(
    session: &Session<'_>,
    filter: &EventFilter,
    page: PageRequest,
) -> Answer<Page<StoredEvent>> {
    found(session, filter, page, &WHOLE)
}

pub(super) fn heads(
    session: &Session<'_>,
    filter: &EventFilter,
    page: PageRequest,
) -> Answer<Page<EventHead>> {
    found(session, filter, page, &HEADS)
}

fn found<T>(
    session: &Session<'_>,
    filter: &EventFilter,
    page: PageRequest,
    by: &Statements<T>,
) -> Answer<Page<T>> {
    let (below, rows_max) = (pages::below(page), pages::rows_max(page));
    let event_type = filter.event_type.as_ref().map(EventType::as_str);
    let read = |row: &Row<'_>| {
        let kind = row.get_ref(2)?.as_str().map_err(rusqlite::Error::from)?;
        if event_type.is_some_and(|wanted| wanted != kind) {
            return Ok(None);
        }
        Ok(Some((by.read)(row)?))
    };
    let has_time = filter.since.is_some() || filter.until.is_some();
    match (&filter.external_event_id, event_type) {
        (Some(id), _) => {
            let read = |row: &Row<'_>| {
                let found = rows::time(row, by.created_at)?;
                if within(found, filter.since, filter.until) { read(row) } else { Ok(None) }
            };
            list(session, by.of_external_id, params![below, rows_max, id.as_str()], page, read)
        }
        (None, _) if has_time => {
            let (below, from, to) = time_bounds(session, filter, page)?;
            let values = params![below, rows_max, from.micros(), to.micros(), event_type];
            list(session, by.of_time, values, page, read)
        }
        (None, Some(kind)) => list(session, by.of_type, params![below, rows_max, kind], page, read),
        (None, None) => list(session, by.all, params![below, rows_max], page, read),
    }
}

/// The first and the last instant of a page in the order of time and, of the last one, the id to stay below.
fn time_bounds(
    session: &Session<'_>,
    filter: &EventFilter,
    page: PageRequest,
) -> Answer<(i64, Timestamp, Timestamp)> {
    let reached = match page.after {
        Some(id) => one(session, EVENT_TIME, [id], |row| Ok((id, rows::time(row, 0)?)))?,
        None => None,
    };
    Ok(filter.time_bounds(reached))
}

fn read_head(row: &Row<'_>) -> rusqlite::Result<EventHead> {
    Ok(EventHead {
        id: EventId::from_store(row.get(0)?),
        external_event_id: row.get::<_, Option<_>>(1)?.map(ExternalEventId::from_store),
        event_type: EventType::from_store(row.get(2)?),
        payload_head: row.get(3)?,
        created_at: rows::time(row, 4)?,
    })
}
