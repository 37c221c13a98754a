//! Creates a saga for each queued event and matching subscription. A trigger queues events when they are stored, and
//! the orchestrator processes the sagas. Never reads sagas, payloads or secrets.

use crate::grants::DbRole;
use crate::postgres::PostgresStore;
use crate::postgres::conn::pool::RolePool;
use crate::postgres::conn::session::Session;
use crate::postgres::conn::value::{Instant, TAKE_MAX, get, id_or_none, int};
use crate::remote::{Call, Fault};
use posthaste_core::ports::{RouteTake, Routed, RouterStore, StoreResult};
use posthaste_core::{EventId, SubscriptionId, Timestamp};

/// The PostgreSQL implementation of [`RouterStore`], with the rights of the role `router_worker`.
#[derive(Debug, Clone)]
pub struct PostgresRouter {
    pool: RolePool,
}

impl PostgresRouter {
    pub(crate) fn new(store: &PostgresStore) -> Self {
        Self { pool: store.pool(DbRole::RouterWorker) }
    }
}

impl RouterStore for PostgresRouter {
    async fn route_events(&self, take: RouteTake, now: Timestamp) -> StoreResult<Routed> {
        let call = Call::repeatable("routing events");
        let mut whole = Routed::default();
        let mut wanted = take.events_max;
        while wanted > 0 {
            let part = RouteTake { events_max: wanted.min(TAKE_MAX), ..take };
            let routed = self.pool.call(call, |session| route(session, part, now)).await?;
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

async fn route(mut session: Session, take: RouteTake, now: Timestamp) -> Result<Routed, Fault> {
    let from = take.from.map_or(i64::MIN, EventId::get);
    let sql = include_str!("../sql/router/route_events.sql");
    let rows = session.run_relaxed(sql, &[&from, &int(take.events_max), &Instant(now)]).await?;
    let Some(row) = rows.first() else { return Ok(Routed::default()) };
    let number = |column: &str| Ok::<_, Fault>(u32::try_from(get::<i64>(row, column)?).unwrap_or(u32::MAX));
    let lowest = id_or_none(row, "lowest", EventId::from_store)?;
    let subscriptions =
        get::<Vec<i64>>(row, "subscriptions")?.into_iter().map(SubscriptionId::from_store).collect();
    Ok(Routed { events: number("events")?, pairs: number("pairs")?, lowest, subscriptions })
}
