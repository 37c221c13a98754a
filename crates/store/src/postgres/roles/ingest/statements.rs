//! Runs the statements that store a group and compare its events with stored events.

use super::rows::{Ids, Known, Rows};
use crate::postgres::conn::session::{Params, Session, TransactionMode};
use crate::postgres::conn::value::{Instant, Json, get};
use crate::remote::Fault;
use crate::stored::stored_attributes;
use posthaste_core::Timestamp;
use posthaste_core::event::NewEvent;
use posthaste_core::tenant::Tenant;
use std::time::Duration;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

const INSERT_EVENTS: &str = include_str!("../../sql/ingest/insert_events.sql");
const COMPARE_EVENTS: &str = include_str!("../../sql/ingest/compare_events.sql");

/// Options for storing a group.
#[derive(Debug, Clone, Copy)]
pub(super) struct Storing {
    pub(super) now: Timestamp,
    pub(super) patience: Duration,
    /// Whether a conflict of one event prevents the whole group from being stored.
    pub(super) all_or_nothing: bool,
}

/// Stores events with one statement. With `all_or_nothing`, the statement is part of a transaction that also compares
/// the events that were already stored. Returns the ids, and whether the new rows are stored.
pub(super) async fn insert(
    mut session: Session,
    events: &[&NewEvent],
    rows: &Rows,
    storing: Storing,
) -> Result<(Ids, bool), Fault> {
    let picked = || rows.order.iter().map(|&index| events[index]);
    let types: Vec<&str> = picked().map(|event| event.event_type.as_str()).collect();
    let payloads: Vec<Json<'_>> = picked().map(|event| Json(event.payload.as_str())).collect();
    let names: Vec<Option<&str>> =
        picked().map(|event| event.external_event_id.as_ref().map(|text| text.as_str())).collect();
    let correlations: Vec<Option<&str>> =
        picked().map(|event| event.correlation_id.as_ref().map(|text| text.as_str())).collect();
    let traces: Vec<Option<&str>> =
        picked().map(|event| event.traceparent.as_ref().map(|text| text.as_str())).collect();
    let states: Vec<Option<&str>> =
        picked().map(|event| event.tracestate.as_ref().map(|text| text.as_str())).collect();
    let tenants: Vec<Option<&str>> = picked().map(tenant_of).collect();
    let attributes: Vec<Option<String>> = picked().map(stored_attributes).collect();
    let patience = format!("{}ms", storing.patience.as_millis().max(1));
    let now = Instant(storing.now);
    let params: Params<'_> =
        &[&types, &payloads, &names, &correlations, &traces, &states, &tenants, &attributes, &now, &patience];
    if !storing.all_or_nothing {
        return Ok((new_ids(&session.run(INSERT_EVENTS, params).await?)?, true));
    }
    let mut ids = new_ids(&session.begin(TransactionMode::Flushed, INSERT_EVENTS, params).await?)?;
    let known = rows.missing(events, &ids);
    if !known.is_empty() {
        let answer = session.go_on(COMPARE_EVENTS, &comparison(&known).params()).await?;
        ids.extend(&known, compared(&known, &answer)?);
    }
    if ids.known.values().any(|known| !known.is_same) {
        session.roll_back().await?;
        return Ok((ids, false));
    }
    session.commit().await?;
    Ok((ids, true))
}

/// Returns, for each event, the stored event with the same external id, if any, and whether its content is the same.
pub(super) async fn compare(mut session: Session, events: &[&NewEvent]) -> Result<Vec<Option<Known>>, Fault> {
    let answer = session.read(COMPARE_EVENTS, &comparison(events).params()).await?;
    compared(events, &answer)
}

fn new_ids(answer: &[Row]) -> Result<Ids, Fault> {
    let mut ids = Ids::default();
    for row in answer {
        let id = get(row, 0)?;
        match get::<Option<String>>(row, 1)? {
            Some(name) => drop(ids.new.insert(name, id)),
            None => ids.unnamed.push(id),
        }
    }
    ids.unnamed.sort_unstable();
    Ok(ids)
}

fn compared(events: &[&NewEvent], answer: &[Row]) -> Result<Vec<Option<Known>>, Fault> {
    let mut found = vec![None; events.len()];
    for row in answer {
        let place: i64 = get(row, 0)?;
        let known = Known { id: get(row, 1)?, is_same: get(row, 2)? };
        // Array positions in SQL start at one.
        if let Some(slot) = usize::try_from(place - 1).ok().and_then(|place| found.get_mut(place)) {
            *slot = Some(known);
        }
    }
    Ok(found)
}

/// The parameters of a comparison, as one array per column. An event without an external id matches no stored event.
struct Comparison<'e> {
    names: Vec<Option<&'e str>>,
    types: Vec<&'e str>,
    payloads: Vec<Json<'e>>,
    attributes: Vec<Option<String>>,
    tenants: Vec<Option<&'e str>>,
}

fn tenant_of(event: &NewEvent) -> Option<&str> {
    event.tenant.as_ref().map(Tenant::as_str)
}

fn comparison<'e>(events: &[&'e NewEvent]) -> Comparison<'e> {
    Comparison {
        names: events
            .iter()
            .map(|event| event.external_event_id.as_ref().map(|name| name.as_str()))
            .collect(),
        types: events.iter().map(|event| event.event_type.as_str()).collect(),
        payloads: events.iter().map(|event| Json(event.payload.as_str())).collect(),
        attributes: events.iter().map(|event| stored_attributes(event)).collect(),
        tenants: events.iter().map(|event| tenant_of(event)).collect(),
    }
}

impl Comparison<'_> {
    fn params(&self) -> [&(dyn ToSql + Sync); 5] {
        [&self.names, &self.types, &self.payloads, &self.attributes, &self.tenants]
    }
}
