//! Stores batches of events from the API. A trigger queues the events for the router. Reads only ids and external ids.

use posthaste_core::event::NewEvent;
use posthaste_core::ports::{
    Conflict, IngestRequest, IngestStore, Ingested, RequestOutcome, StoreResult, find_own_conflict,
};
use posthaste_core::tenant::Tenant;
use posthaste_core::{EventId, Timestamp};
use rusqlite::{Statement, params};

use crate::grants::DbRole;
use crate::sqlite::SqliteStore;
use crate::sqlite::conn::error::{Answer, Fault};
use crate::sqlite::conn::session::Session;
use crate::stored::stored_attributes;

const INSERT_EVENT: &str = include_str!("../sql/ingest/insert_event.sql");
const INSERT_8_EVENTS: &str = include_str!("../sql/ingest/insert_8_events.sql");
const INSERT_32_EVENTS: &str = include_str!("../sql/ingest/insert_32_events.sql");
const INSERT_128_EVENTS: &str = include_str!("../sql/ingest/insert_128_events.sql");
const COMPARE_EVENTS: &str = include_str!("../sql/ingest/compare_events.sql");
const FIND_EVENT: &str = include_str!("../sql/ingest/find_event.sql");

/// The insert statements, with the number of events that each inserts. Writer time per event in batches of 500: with
/// one event type, 6.4 µs with 1 event per statement, 4.3 µs with 8 and 3.5 µs with 32; with 32 event types, which are
/// on as many pages of an index, 12.3 µs with 32 and 6.8 µs with 128.
const STRIDES: [(usize, &str); 4] =
    [(128, INSERT_128_EVENTS), (32, INSERT_32_EVENTS), (8, INSERT_8_EVENTS), (1, INSERT_EVENT)];

/// The SQLite implementation of [`IngestStore`], with the rights of the role `event_ingest_writer`.
#[derive(Debug, Clone)]
pub struct SqliteIngest(pub(crate) SqliteStore);

impl IngestStore for SqliteIngest {
    async fn insert_events(
        &self,
        requests: Vec<IngestRequest>,
        now: Timestamp,
    ) -> StoreResult<Vec<RequestOutcome>> {
        let role = DbRole::EventIngestWriter;
        self.0.write(role, "inserting events", move |session| insert_requests(session, &requests, now)).await
    }
}

/// Stores all requests together. If a constraint refuses an event, or a stored event has the same external id but
/// different content, stores each request separately.
fn insert_requests(
    session: &Session<'_>,
    requests: &[IngestRequest],
    now: Timestamp,
) -> Answer<Vec<RequestOutcome>> {
    let events: Vec<&NewEvent> = requests.iter().flatten().collect();
    match session.all_or_nothing(|| insert_events(session, &events, now)) {
        Ok(ingested) => {
            let mut ingested = ingested.into_iter();
            let stored = |request: &IngestRequest| ingested.by_ref().take(request.len()).collect();
            Ok(requests.iter().map(stored).map(RequestOutcome::Stored).collect())
        }
        Err(fault) if fault.is_constraint() || matches!(fault, Fault::Conflict { .. }) => {
            requests.iter().map(|request| insert_request(session, request, now)).collect()
        }
        Err(fault) => Err(fault),
    }
}

fn insert_request(session: &Session<'_>, request: &[NewEvent], now: Timestamp) -> Answer<RequestOutcome> {
    if let Some(place) = find_own_conflict(request) {
        return Ok(RequestOutcome::Conflict(Conflict { place, first: None }));
    }
    let events: Vec<&NewEvent> = request.iter().collect();
    match session.all_or_nothing(|| insert_events(session, &events, now)) {
        Ok(ingested) => Ok(RequestOutcome::Stored(ingested)),
        Err(Fault::Conflict { place, first }) => {
            Ok(RequestOutcome::Conflict(Conflict { place, first: Some(first) }))
        }
        Err(fault) if fault.is_constraint() => Ok(RequestOutcome::Refused(fault.to_string())),
        Err(fault) => Err(fault),
    }
}

fn insert_events(session: &Session<'_>, events: &[&NewEvent], now: Timestamp) -> Answer<Vec<Ingested>> {
    let mut ingested = Vec::with_capacity(events.len());
    let mut rest = events;
    for (stride, sql) in STRIDES {
        if rest.len() < stride {
            continue;
        }
        let mut insert = session.statement(sql)?;
        let mut strides = rest.chunks_exact(stride);
        for events in &mut strides {
            let inserted = insert_stride(&mut insert, events, now)?;
            identify(session, events, inserted, &mut ingested)?;
        }
        rest = strides.remainder();
    }
    Ok(ingested)
}

/// Inserts as many events as the statement has rows. Returns how many of them were new.
fn insert_stride(insert: &mut Statement<'_>, events: &[&NewEvent], now: Timestamp) -> Answer<usize> {
    insert.raw_bind_parameter(1, now.micros())?;
    let mut place = 2..;
    let mut bind = |text: Option<&str>| match place.next() {
        Some(place) => insert.raw_bind_parameter(place, text),
        None => Ok(()),
    };
    for event in events {
        bind(event.external_event_id.as_ref().map(|id| id.as_str()))?;
        bind(Some(event.event_type.as_str()))?;
        bind(Some(event.payload.as_str()))?;
        bind(event.correlation_id.as_ref().map(|id| id.as_str()))?;
        bind(event.traceparent.as_ref().map(|trace| trace.as_str()))?;
        bind(event.tracestate.as_ref().map(|state| state.as_str()))?;
        bind(event.tenant.as_ref().map(Tenant::as_str))?;
        bind(stored_attributes(event).as_deref())?;
    }
    Ok(insert.raw_execute()?)
}

/// Determines the ids of the events that were just inserted. New rows have consecutive ids, in the order of the events.
/// An event that is not new was stored before or occurred earlier in the statement.
fn identify(
    session: &Session<'_>,
    events: &[&NewEvent],
    inserted: usize,
    ingested: &mut Vec<Ingested>,
) -> Answer<()> {
    let count = i64::try_from(inserted).unwrap_or(i64::MAX);
    let mut next = session.last_id() - count + 1;
    for event in events {
        let id = match &event.external_event_id {
            Some(external_id) if inserted < events.len() => find_event(session, external_id.as_str())?,
            Some(_) | None => next,
        };
        if inserted > 0 && id == next {
            next += 1;
            ingested.push(Ingested::New(EventId::from_store(id)));
        } else {
            let first = EventId::from_store(id);
            if !is_same_content(session, event)? {
                return Err(Fault::Conflict { place: ingested.len(), first });
            }
            ingested.push(Ingested::Duplicate(first));
        }
    }
    if inserted > 0 && next != session.last_id() + 1 {
        return Err(Fault::Unreadable("the ids of new events are not consecutive".to_owned()));
    }
    Ok(())
}

fn find_event(session: &Session<'_>, external_id: &str) -> Answer<i64> {
    Ok(session.statement(FIND_EVENT)?.query_row([external_id], |row| row.get(0))?)
}

/// Returns whether the stored event with this external id has the same type and payload. Uses a view with the rights of
/// the owner, since the role may not read payloads.
fn is_same_content(session: &Session<'_>, event: &NewEvent) -> Answer<bool> {
    let external_id = event.external_event_id.as_ref().map(|id| id.as_str());
    let tenant = event.tenant.as_ref().map(Tenant::as_str);
    let (event_type, payload) = (event.event_type.as_str(), event.payload.as_str());
    let values = params![external_id, event_type, payload, stored_attributes(event), tenant];
    match session.run(COMPARE_EVENTS, values) {
        Ok(_) => Ok(true),
        Err(fault) if fault.is_constraint() => Ok(false),
        Err(fault) => Err(fault),
    }
}
