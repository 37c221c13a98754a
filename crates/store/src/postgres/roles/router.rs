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
    had_filters.store(get(row, "has_candidates")?, Ordering::Relaxed);
    let mut routed = routed(row)?;
    let (events, subscriptions) = decide(row)?;
    if events.is_empty() {
        session.commit().await?;
        return Ok(routed);
    }
    let sql = include_str!("../sql/router/insert_sagas.sql");
    session.commit_with(sql, &[&events, &subscriptions, &Instant(now)]).await?;
    let pairs = u32::try_from(events.len()).unwrap_or(u32::MAX);
    let subscriptions = subscriptions.into_iter().map(SubscriptionId::from_store).collect();
    add(&mut routed, Routed { pairs, subscriptions, ..Routed::default() });
    Ok(routed)
}

fn routed(row: &Row) -> Result<Routed, Fault> {
    let number = |column: &str| Ok::<_, Fault>(u32::try_from(get::<i64>(row, column)?).unwrap_or(u32::MAX));
    let lowest = id_or_none(row, "lowest", EventId::from_store)?;
    let subscriptions =
        get::<Vec<i64>>(row, "subscriptions")?.into_iter().map(SubscriptionId::from_store).collect();
    Ok(Routed { events: number("events")?, pairs: number("pairs")?, lowest, subscriptions })
}

/// Returns the pairs of event and subscription that match by a filter, as two arrays.
fn decide(row: &Row) -> Result<(Vec<i64>, Vec<i64>), Fault> {
    let texts = |column: &str| get::<Vec<String>>(row, column);
    let ids: Vec<i64> = get(row, "filtered_ids")?;
    let kinds = texts("filtered_tenants")?.into_iter().zip(texts("filtered_types")?);
    let mut filters: HashMap<(String, String), Vec<(i64, Filter)>> = HashMap::new();
    for ((kind, id), text) in kinds.zip(ids).zip(texts("filters")?) {
        if let Some(filter) = read_filter(id, &text) {
            filters.entry(kind).or_default().push((id, filter));
        }
    }
    let (mut events, mut subscriptions) = (Vec::new(), Vec::new());
    let kinds = texts("event_tenants")?.into_iter().zip(texts("event_types")?);
    let attributes: Vec<Option<String>> = get(row, "event_attributes")?;
    for ((kind, event_id), attributes) in kinds.zip(get::<Vec<i64>>(row, "event_ids")?).zip(attributes) {
        let attributes = read_attributes(attributes.as_deref());
        let event_type = EventType::from_store(kind.1.clone());
        for (id, filter) in filters.get(&kind).map(Vec::as_slice).unwrap_or_default() {
            if filter.matches(&event_type, &attributes) {
                events.push(event_id);
                subscriptions.push(*id);
            }
        }
    }
    Ok((events, subscriptions))
}
