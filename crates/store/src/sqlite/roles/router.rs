//! Dequeues events and creates a saga for each matching subscription. The orchestrator processes the sagas. Never reads
//! sagas.

use posthaste_core::ports::{RouteTake, Routed, RouterStore, StoreResult};
use posthaste_core::{EventId, SubscriptionId, Timestamp};
use rusqlite::params;
use std::collections::BTreeSet;

use crate::grants::DbRole;
use crate::sqlite::SqliteStore;
use crate::sqlite::commit::task::Durability;
use crate::sqlite::conn::error::Answer;
use crate::sqlite::conn::session::Session;

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

fn route_events(session: &Session<'_>, take: RouteTake, now: Timestamp) -> Answer<Routed> {
    let mut routed = Routed::default();
    let (mut lowest, mut highest) = (None, 0_i64);
    let mut subscriptions = BTreeSet::new();
    {
        let mut matching = session.statement(MATCH_SUBSCRIPTIONS)?;
        let mut pairs = matching.query(params![take.from.map_or(0, EventId::get), take.events_max])?;
        while let Some(pair) = pairs.next()? {
            let (event_id, subscription_id): (i64, Option<i64>) = (pair.get(0)?, pair.get(1)?);
            if lowest.is_none() || event_id != highest {
                routed.events += 1;
            }
            lowest = lowest.or(Some(event_id));
            highest = event_id;
            routed.pairs += u32::from(subscription_id.is_some());
            subscriptions.extend(subscription_id.map(SubscriptionId::from_store));
        }
    }
    if let Some(lowest) = lowest {
        session.run(INSERT_SAGAS, params![lowest, take.events_max, now.micros()])?;
        session.run(DELETE_ROUTED, params![lowest, highest])?;
    }
    routed.lowest = lowest.map(EventId::from_store);
    routed.subscriptions = subscriptions.into_iter().collect();
    Ok(routed)
}
