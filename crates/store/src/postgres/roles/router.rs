//! Creates a saga for each queued event and matching subscription. A trigger queues events when they are stored, and
//! the orchestrator processes the sagas. Never reads sagas, payloads or secrets.

use crate::grants::DbRole;
use crate::postgres::PostgresStore;
use crate::postgres::conn::pool::RolePool;
use crate::postgres::conn::session::{Session, TransactionMode};
use crate::postgres::conn::value::{Instant, TAKE_MAX, get, id_or_none, int};
use crate::remote::{Call, Fault};
use crate::stored::{read_attributes, read_filter};
use posthaste_core::event::EventType;
use posthaste_core::filter::Filter;
use posthaste_core::ports::{RouteTake, Routed, RouterStore, StoreResult};
use posthaste_core::{EventId, SubscriptionId, Timestamp};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio_postgres::Row;

const ROUTE_EVENTS: &str = include_str!("../sql/router/route_events.sql");

/// The PostgreSQL implementation of [`RouterStore`], with the rights of the role `router_worker`.
#[derive(Debug, Clone)]
pub struct PostgresRouter {
    pool: RolePool,
    /// Whether the last batch had candidates with filters. Such a batch needs a second statement in the same
    /// transaction, so it cannot be committed in the round trip of the first one.
    had_filters: Arc<AtomicBool>,
}

impl PostgresRouter {
    pub(crate) fn new(store: &PostgresStore) -> Self {
        Self { pool: store.pool(DbRole::RouterWorker), had_filters: Arc::default() }
    }
}

impl RouterStore for PostgresRouter {
    async fn route_events(&self, take: RouteTake, now: Timestamp) -> StoreResult<Routed> {
        let call = Call::repeatable("routing events");
        let mut whole = Routed::default();
        let mut wanted = take.events_max;
        while wanted > 0 {
            let part = RouteTake { events_max: wanted.min(TAKE_MAX), ..take };
            let routed = self.pool.call(call, |session| route(session, part, now, &self.had_filters)).await?;
            wanted = if routed.events < part.events_max { 0 } else { wanted - routed.events };
            add(&mut whole, routed);
        }
        Ok(whole)
    }
}

fn add(whole: &mut Routed, part: Routed) {
    whole.events += part.events;
    whole.pairs = whole.pairs.saturating_add(part.pairs);
    whole.filtered = whole.filtered.saturating_add(part.filtered);
    whole.lowest = whole.lowest.into_iter().chain(part.lowest).min();
    whole.subscriptions.extend(part.subscriptions);
    whole.subscriptions.sort_unstable();
    whole.subscriptions.dedup();
}

async fn route(
    mut session: Session,
    take: RouteTake,
    now: Timestamp,
    had_filters: &AtomicBool,
) -> Result<Routed, Fault> {
    if !had_filters.load(Ordering::Relaxed) {
        let from = take.from.map_or(i64::MIN, EventId::get);
        let rows =
            session.run_relaxed(ROUTE_EVENTS, &[&from, &int(take.events_max), &Instant(now), &false]).await?;
        let Some(row) = rows.first() else { return Ok(Routed::default()) };
        if !get::<bool>(row, "has_candidates")? {
            return routed(row);
        }
    }
    route_with_filters(session, take, now, had_filters).await
}

/// Routes a batch in which subscriptions may have filters.
async fn route_with_filters(
    mut session: Session,
    take: RouteTake,
    now: Timestamp,
    had_filters: &AtomicBool,
) -> Result<Routed, Fault> {
    let from = take.from.map_or(i64::MIN, EventId::get);
    let rows = session
        .begin(TransactionMode::Relaxed, ROUTE_EVENTS, &[&from, &int(take.events_max), &Instant(now), &true])
        .await?;
    let Some(row) = rows.first() else {
        session.roll_back().await?;
        return Ok(Routed::default());
    };
    let mut routed = routed(row)?;
    // An empty batch says nothing about the next one.
    if routed.events > 0 {
        had_filters.store(get(row, "has_candidates")?, Ordering::Relaxed);
    }
    let decided = decide(row)?;
    routed.filtered = decided.filtered;
    if decided.events.is_empty() {
        session.commit().await?;
        return Ok(routed);
    }
    let sql = include_str!("../sql/router/insert_sagas.sql");
    session.commit_with(sql, &[&decided.events, &decided.subscriptions, &Instant(now)]).await?;
    let pairs = u32::try_from(decided.events.len()).unwrap_or(u32::MAX);
    let subscriptions = decided.subscriptions.into_iter().map(SubscriptionId::from_store).collect();
    add(&mut routed, Routed { pairs, subscriptions, ..Routed::default() });
    Ok(routed)
}

fn routed(row: &Row) -> Result<Routed, Fault> {
    let number = |column: &str| Ok::<_, Fault>(u32::try_from(get::<i64>(row, column)?).unwrap_or(u32::MAX));
    let lowest = id_or_none(row, "lowest", EventId::from_store)?;
    let subscriptions =
        get::<Vec<i64>>(row, "subscriptions")?.into_iter().map(SubscriptionId::from_store).collect();
    Ok(Routed { events: number("events")?, pairs: number("pairs")?, filtered: 0, lowest, subscriptions })
}

/// The decisions of the filters.
#[derive(Debug, Default)]
struct Decided {
    /// The events of the pairs that match, and the subscriptions at the same indices.
    events: Vec<i64>,
    subscriptions: Vec<i64>,
    /// The number of evaluated filters.
    filtered: u32,
}

/// Evaluates the filters of the candidates. Events of one kind, that is, tenant and type, have the same candidates.
fn decide(row: &Row) -> Result<Decided, Fault> {
    let numbers = |column: &str| get::<Vec<i64>>(row, column);
    let texts = numbers("filter_ids")?.into_iter().zip(get::<Vec<&str>>(row, "filters")?);
    let filters: HashMap<i64, Filter> =
        texts.filter_map(|(id, text)| Some((id, read_filter(id, text)?))).collect();
    let mut candidates: HashMap<i64, Vec<(i64, &Filter)>> = HashMap::new();
    for (kind, id) in numbers("candidate_kinds")?.into_iter().zip(numbers("candidate_ids")?) {
        if let Some(filter) = filters.get(&id) {
            candidates.entry(kind).or_default().push((id, filter));
        }
    }
    let mut decided = Decided::default();
    let events = numbers("event_ids")?.into_iter().zip(numbers("event_kinds")?);
    let attributes: Vec<Option<&str>> = get(row, "event_attributes")?;
    let facts = get::<Vec<String>>(row, "event_types")?.into_iter().zip(attributes);
    for ((event_id, kind), (event_type, attributes)) in events.zip(facts) {
        let candidates = candidates.get(&kind).map(Vec::as_slice).unwrap_or_default();
        decided.filtered =
            decided.filtered.saturating_add(u32::try_from(candidates.len()).unwrap_or(u32::MAX));
        let (event_type, attributes) = (EventType::from_store(event_type), read_attributes(attributes));
        for (id, filter) in candidates {
            if filter.matches(&event_type, &attributes) {
                decided.events.push(event_id);
                decided.subscriptions.push(*id);
            }
        }
    }
    Ok(decided)
}
