//! Dequeues events and creates a saga for each matching subscription. The orchestrator processes the sagas. Never reads
//! sagas.

use posthaste_core::attributes::Attributes;
use posthaste_core::event::EventType;
use posthaste_core::filter::Filter;
use posthaste_core::pattern::probes;
use posthaste_core::ports::{RouteTake, Routed, RouterStore, StoreResult};
use posthaste_core::{EventId, SubscriptionId, Timestamp};
use rusqlite::params;
use rusqlite::types::Value;
use rusqlite::vtab::array::Array;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;

use crate::grants::DbRole;
use crate::sqlite::SqliteStore;
use crate::sqlite::commit::task::Durability;
use crate::sqlite::conn::error::Answer;
use crate::sqlite::conn::session::Session;
use crate::stored::{read_attributes, read_filter};

const FETCH_QUEUED_EVENTS: &str = include_str!("../sql/router/fetch_queued_events.sql");
const MATCH_SUBSCRIPTIONS: &str = include_str!("../sql/router/match_subscriptions.sql");
const INSERT_SAGAS: &str = include_str!("../sql/router/insert_sagas.sql");
const DELETE_ROUTED: &str = include_str!("../sql/router/delete_routed.sql");

/// The SQLite implementation of [`RouterStore`], with the rights of the role `router_worker`.
#[derive(Debug, Clone)]
pub struct SqliteRouter(pub(crate) SqliteStore);

impl RouterStore for SqliteRouter {
    async fn route_events(&self, take: RouteTake, now: Timestamp) -> StoreResult<Routed> {
        let role = DbRole::RouterWorker;
        self.0
            .write_as(Durability::Relaxed, role, "routing events", move |session| {
                route_events(session, take, now)
            })
            .await
    }
}

/// The tenant and the type of an event. The tenant is empty if there is none.
type Kind = (String, String);

/// The active and verified subscriptions that have a pattern for one kind of event.
struct Candidates {
    unfiltered: Vec<i64>,
    filtered: Vec<(i64, Filter)>,
}

fn route_events(session: &Session<'_>, take: RouteTake, now: Timestamp) -> Answer<Routed> {
    let (range, kinds) = fetch_queued_events(session, take)?;
    let Some((lowest, highest)) = range else { return Ok(Routed::default()) };
    let mut routed = Routed { lowest: Some(EventId::from_store(lowest)), ..Routed::default() };
    // Events of different kinds with the same subscriptions share a statement.
    let mut groups: BTreeMap<Vec<i64>, Vec<i64>> = BTreeMap::new();
    for (kind, events) in kinds {
        routed.events += u32::try_from(events.len()).unwrap_or(u32::MAX);
        let candidates = match_subscriptions(session, &kind)?;
        let filtered = events.len().saturating_mul(candidates.filtered.len());
        routed.filtered = routed.filtered.saturating_add(u32::try_from(filtered).unwrap_or(u32::MAX));
        for (targets, events) in decide(kind.1, events, candidates) {
            groups.entry(targets).or_default().extend(events);
        }
    }
    let mut subscriptions = BTreeSet::new();
    for (targets, mut events) in groups {
        events.sort_unstable();
        let pairs = events.len().saturating_mul(targets.len());
        routed.pairs = routed.pairs.saturating_add(u32::try_from(pairs).unwrap_or(u32::MAX));
        subscriptions.extend(targets.iter().copied().map(SubscriptionId::from_store));
        session.run(INSERT_SAGAS, params![ids(events), ids(targets), now.micros()])?;
    }
    session.run(DELETE_ROUTED, params![lowest, highest])?;
    routed.subscriptions = subscriptions.into_iter().collect();
    Ok(routed)
}

/// Events of one kind, each with its attributes as stored.
type Queued = HashMap<Kind, Vec<(i64, Option<String>)>>;

/// Returns the queued events by kind, and the lowest and the highest id.
fn fetch_queued_events(session: &Session<'_>, take: RouteTake) -> Answer<(Option<(i64, i64)>, Queued)> {
    let mut fetch = session.statement(FETCH_QUEUED_EVENTS)?;
    let mut rows = fetch.query(params![take.from.map_or(0, EventId::get), take.events_max])?;
    let (mut range, mut kinds) = (None, Queued::new());
    while let Some(row) = rows.next()? {
        let event_id = row.get(0)?;
        range = Some((range.map_or(event_id, |(lowest, _)| lowest), event_id));
        let kind = (row.get::<_, Option<String>>(2)?.unwrap_or_default(), row.get(1)?);
        kinds.entry(kind).or_default().push((event_id, row.get(3)?));
    }
    Ok((range, kinds))
}

fn match_subscriptions(session: &Session<'_>, (tenant, event_type): &Kind) -> Answer<Candidates> {
    let probes = probes(&EventType::from_store(event_type.clone())).into_iter().map(Value::Text);
    let probes: Array = Rc::new(probes.collect());
    let mut matching = session.statement(MATCH_SUBSCRIPTIONS)?;
    let mut rows = matching.query(params![tenant, probes])?;
    let mut found: Vec<(i64, Option<String>)> = Vec::new();
    while let Some(row) = rows.next()? {
        found.push((row.get(0)?, row.get(1)?));
    }
    // A subscription may have several of the patterns.
    found.sort_unstable();
    found.dedup_by_key(|(id, _)| *id);
    let mut candidates = Candidates { unfiltered: Vec::new(), filtered: Vec::new() };
    for (id, filter) in found {
        match filter {
            None => candidates.unfiltered.push(id),
            Some(text) => candidates.filtered.extend(read_filter(id, &text).map(|filter| (id, filter))),
        }
    }
    Ok(candidates)
}

/// Returns the events of one kind by the subscriptions that they match.
fn decide(
    event_type: String,
    events: Vec<(i64, Option<String>)>,
    candidates: Candidates,
) -> BTreeMap<Vec<i64>, Vec<i64>> {
    let Candidates { unfiltered, filtered } = candidates;
    let mut groups: BTreeMap<Vec<i64>, Vec<i64>> = BTreeMap::new();
    if filtered.is_empty() {
        if !unfiltered.is_empty() {
            groups.insert(unfiltered, events.into_iter().map(|(id, _)| id).collect());
        }
        return groups;
    }
    let event_type = EventType::from_store(event_type);
    for (id, attributes) in events {
        let attributes: Attributes = read_attributes(attributes.as_deref());
        let chosen = filtered.iter().filter(|(_, filter)| filter.matches(&event_type, &attributes));
        let targets: Vec<i64> = unfiltered.iter().copied().chain(chosen.map(|(id, _)| *id)).collect();
        if !targets.is_empty() {
            groups.entry(targets).or_default().push(id);
        }
    }
    groups
}

fn ids(ids: Vec<i64>) -> Array {
    Rc::new(ids.into_iter().map(Value::Integer).collect())
}
