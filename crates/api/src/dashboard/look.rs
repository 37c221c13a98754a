//! Lists, and how far they looked. A page looks at so many rows, whatever its filter finds among them, so that it costs
//! the same beside a short history and a long one; it says how far it came, and where to look further.

use super::filter::Filter;
use crate::problem::Problem;
use crate::query::{ITEMS_DEFAULT, Listed, instant, read_cursor, write_cursor};
use crate::state::ApiState;
use crate::time::Utc;
use crate::{audit, dead_letters, deliveries, events, orders, subscriptions};
use posthaste_core::audit::OperatorAuditFilter;
use posthaste_core::ports::{
    DeadLetterFilter, Delivery, DeliveryFilter, EventFilter, PageRequest, ReaderStore as _, Stores,
};
use posthaste_core::{SubscriptionId, Timestamp};

/// The rows that one request looks at.
pub(crate) const LOOKED_AT_MAX: u32 = 500;

/// Deliveries are made nearly in the order of their ids: what was begun together may end so far apart.
const ORDER_SLACK_ROWS: i64 = 1_000;

#[derive(Debug, Clone, Copy)]
enum Kind {
    Events,
    Subscriptions,
    Deliveries,
    DeadLetters,
    Orders,
    Audit,
}

impl Kind {
    /// What its cursors call it.
    const fn name(self) -> &'static str {
        match self {
            Self::Events => events::LIST,
            Self::Subscriptions => subscriptions::LIST,
            Self::Deliveries => deliveries::LIST,
            Self::DeadLetters => dead_letters::LIST,
            Self::Orders => orders::LIST,
            Self::Audit => audit::LIST,
        }
    }
}

/// A list of the dashboard, in words.
#[derive(Debug)]
pub(crate) struct List {
    kind: Kind,
    pub(crate) title: &'static str,
    pub(crate) one: &'static str,
    pub(crate) many: &'static str,
    pub(crate) refresh_ms: u32,
    /// The fields of its form.
    pub(crate) fields: &'static [&'static str],
}

pub(crate) const EVENTS: List = List {
    kind: Kind::Events,
    title: "Events",
    one: "event",
    many: "events",
    refresh_ms: 3_000,
    fields: &["id", "external_event_id", "event_type", "since", "until"],
};
pub(crate) const SUBSCRIPTIONS: List = List {
    kind: Kind::Subscriptions,
    title: "Subscriptions",
    one: "subscription",
    many: "subscriptions",
    refresh_ms: 5_000,
    fields: &["event_type", "state"],
};
pub(crate) const DELIVERIES: List = List {
    kind: Kind::Deliveries,
    title: "Deliveries",
    one: "delivery",
    many: "deliveries",
    refresh_ms: 2_000,
    fields: &["status", "subscription_id", "event_type", "event_id", "error_code", "since", "until"],
};
pub(crate) const DEAD_LETTERS: List = List {
    kind: Kind::DeadLetters,
    title: "Dead letters",
    one: "dead letter",
    many: "dead letters",
    refresh_ms: 3_000,
    fields: &["subscription_id", "event_type", "since", "until"],
};
pub(crate) const ORDERS: List = List {
    kind: Kind::Orders,
    title: "Orders",
    one: "order",
    many: "orders",
    refresh_ms: 2_000,
    fields: &["status", "idempotency_key"],
};

pub(crate) const AUDIT: List = List {
    kind: Kind::Audit,
    title: "Audit",
    one: "entry",
    many: "entries",
    refresh_ms: 5_000,
    fields: &["action", "since", "until"],
};

/// How far a list looked that is not full, where there is more to look through.
#[derive(Debug)]
pub(crate) struct Reach {
    pub(crate) looked: u32,
    /// The time of the last row that was looked at.
    pub(crate) at: Utc,
    /// A cursor that lies nearer to the time that was asked for, and that time.
    pub(crate) nearer: Option<String>,
    pub(crate) until: String,
}

impl List {
    /// The last row that was looked at, if the look ended before the list was full.
    fn reached<T>(&self, found: &Listed<T>, limit: &str) -> Result<Option<i64>, Problem> {
        let items_max = limit.parse().unwrap_or(ITEMS_DEFAULT as usize);
        let cursor = found.next_cursor.as_deref().filter(|_| found.items.len() < items_max);
        cursor.map(|cursor| read_cursor(self.kind.name(), cursor)).transpose()
    }

    /// How far the list looked.
    pub(crate) async fn reach<S: Stores, T>(
        &self,
        api: &ApiState<S>,
        found: &Listed<T>,
        limit: &str,
    ) -> Result<Option<Reach>, Problem> {
        let Some(last) = self.reached(found, limit)? else { return Ok(None) };
        let at = self.time_of(api, last).await?;
        Ok(at.map(|at| Reach { looked: LOOKED_AT_MAX, at: Utc(at), nearer: None, until: String::new() }))
    }

    /// When a row of the list was made.
    async fn time_of<S: Stores>(&self, api: &ApiState<S>, id: i64) -> Result<Option<Timestamp>, Problem> {
        let reader = &api.reader;
        let this = PageRequest::first(1).behind(Some(id.saturating_add(1)));
        Ok(match self.kind {
            Kind::Events => {
                let found = reader.event_heads(EventFilter::default(), this).await?;
                found.items.first().map(|event| event.created_at)
            }
            Kind::Subscriptions => {
                let found = reader.subscription(SubscriptionId::from_store(id)).await?;
                found.map(|subscription| subscription.created_at)
            }
            Kind::DeadLetters => {
                let found = reader.dead_letter_heads(DeadLetterFilter::default(), this).await?;
                found.items.first().map(|letter| letter.failed_at)
            }
            Kind::Orders => reader.orders(None, this).await?.items.first().map(|order| order.created_at),
            Kind::Audit => {
                let found = reader.operator_audit(OperatorAuditFilter::default(), this).await?;
                found.items.first().map(|entry| entry.created_at)
            }
            Kind::Deliveries => newest_below(api, id.saturating_add(1)).await?.map(|one| one.saga.created_at),
        })
    }
}

/// The same for deliveries, which may be asked for by a time that lies far back.
pub(crate) async fn reach_of_deliveries<S: Stores, T>(
    api: &ApiState<S>,
    found: &Listed<T>,
    filter: &Filter,
) -> Result<Option<Reach>, Problem> {
    let Some(last) = DELIVERIES.reached(found, &filter.limit)? else { return Ok(None) };
    let Some(reach) = DELIVERIES.reach(api, found, &filter.limit).await? else { return Ok(None) };
    let until = Some(&filter.until).filter(|text| !text.is_empty()).map(|text| instant("until", text));
    let nearer = match until.transpose()? {
        Some(until) if reach.at.0 >= until => first_since(api, until, last).await?,
        Some(_) | None => None,
    };
    let nearer = write_cursor(deliveries::LIST, nearer);
    Ok(Some(Reach { nearer, until: filter.until.clone(), ..reach }))
}

/// An id soon after the first delivery that was made at this time or later, found by halving: some forty reads of one
/// row each. Nothing if it is no nearer than `above`.
async fn first_since<S: Stores>(
    api: &ApiState<S>,
    time: Timestamp,
    above: i64,
) -> Result<Option<i64>, Problem> {
    let (mut low, mut high) = (0, above);
    while low + 1 < high {
        let middle = low + (high - low) / 2;
        match newest_below(api, middle).await? {
            Some(one) if one.saga.created_at >= time => high = one.saga.id.get(),
            Some(_) | None => low = middle,
        }
    }
    let begin = high.saturating_add(ORDER_SLACK_ROWS);
    Ok((begin < above).then_some(begin))
}

async fn newest_below<S: Stores>(api: &ApiState<S>, id: i64) -> Result<Option<Delivery>, Problem> {
    let page = PageRequest::first(1).behind(Some(id));
    Ok(api.reader.deliveries(DeliveryFilter::default(), page).await?.items.pop())
}
