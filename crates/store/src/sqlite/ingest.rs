//! Takes events in, from the API's batches; the router finds them in the queue that a trigger fills.
//! Never looks at anything but its own ids.

use posthaste_core::event::NewEvent;
use posthaste_core::ports::{IngestRequest, IngestStore, Ingested, RequestOutcome, StoreResult};
use posthaste_core::{EventId, Timestamp};
use rusqlite::{CachedStatement, params};

use super::SqliteStore;
use super::error::Answer;
use super::session::Session;
use crate::grants::Role;

const INSERT_EVENT: &str = include_str!("sql/ingest/insert_event.sql");
const FIND_EVENT: &str = include_str!("sql/ingest/find_event.sql");

/// The port of role event_ingest_writer.
#[derive(Debug, Clone)]
pub struct SqliteIngest(pub(super) SqliteStore);

impl IngestStore for SqliteIngest {
    async fn insert_events(
        &self,
        requests: Vec<IngestRequest>,
        now: Timestamp,
    ) -> StoreResult<Vec<RequestOutcome>> {
        let role = Role::EventIngestWriter;
        self.0.write(role, "inserting events", move |session| insert_events(session, &requests, now)).await
    }
}

fn insert_events(
    session: &Session<'_>,
    requests: &[IngestRequest],
    now: Timestamp,
) -> Answer<Vec<RequestOutcome>> {
    let mut insert = session.statement(INSERT_EVENT)?;
    requests.iter().map(|request| insert_request(session, &mut insert, request, now)).collect()
}

/// One request: a single event is undone by its statement, several need a savepoint.
fn insert_request(
    session: &Session<'_>,
    insert: &mut CachedStatement<'_>,
    request: &[NewEvent],
    now: Timestamp,
) -> Answer<RequestOutcome> {
    let stored = match request {
        [event] => insert_event(session, insert, event, now).map(|one| vec![one]),
        events => session.all_or_nothing(|| {
            events.iter().map(|event| insert_event(session, insert, event, now)).collect()
        }),
    };
    match stored {
        Ok(events) => Ok(RequestOutcome::Stored(events)),
        Err(fault) if fault.is_constraint() => Ok(RequestOutcome::Refused(fault.to_string())),
        Err(fault) => Err(fault),
    }
}

fn insert_event(
    session: &Session<'_>,
    insert: &mut CachedStatement<'_>,
    event: &NewEvent,
    now: Timestamp,
) -> Answer<Ingested> {
    let external_id = event.external_event_id.as_ref().map(|id| id.as_str());
    let inserted = insert.execute(params![
        external_id,
        event.event_type.as_str(),
        event.payload.as_str(),
        event.correlation_id.as_ref().map(|id| id.as_str()),
        event.traceparent.as_ref().map(|trace| trace.as_str()),
        now.micros(),
    ])?;
    if inserted == 0 {
        let id = session.statement(FIND_EVENT)?.query_row([external_id], |row| row.get(0))?;
        return Ok(Ingested::Duplicate(EventId::from_store(id)));
    }
    Ok(Ingested::New(EventId::from_store(session.last_id())))
}
