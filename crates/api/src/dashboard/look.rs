//! Lists, and how far they looked. A page looks at so many rows, whatever its filter finds among them, so that it costs
//! the same beside a short history and a long one; it says how far it came, and where to look further.

use super::filter::Filter;
use crate::problem::Problem;
use crate::query::{ITEMS_DEFAULT, Listed, read_cursor, write_cursor};
use crate::state::ApiState;
use crate::time::{self, Utc};
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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Events,
    Subscriptions,
    Deliveries,
    DeadLetters,
    Orders,
    Audit,
}

/// A list of the dashboard, in words.
#[derive(Debug)]
pub(crate) struct List {
    kind: Kind,
    /// What its cursors call it.
    name: &'static str,
    pub(crate) title: &'static str,
    pub(crate) one: &'static str,
    pub(crate) many: &'static str,
    pub(crate) refresh_ms: u32,
    /// The parameters of the API's list, which are the fields of the form.
    pub(crate) parameters: &'static [&'static str],
    /// A further field, which leads to one item.
    pub(crate) direct: Option<&'static str>,
}

macro_rules! list {
    ($kind:ident, $module:ident, $title:literal, $one:literal, $many:literal, $refresh_ms:literal, $direct:expr) => {
        List {
            kind: Kind::$kind,
            name: $module::LIST,
            title: $title,
            one: $one,
            many: $many,
            refresh_ms: $refresh_ms,
            parameters: $module::Parameters::NAMES,
            direct: $direct,
        }
    };
}

pub(crate) static EVENTS: List = list!(Events, events, "Events", "event", "events", 3_000, Some("id"));
pub(crate) static SUBSCRIPTIONS: List =
    list!(Subscriptions, subscriptions, "Subscriptions", "subscription", "subscriptions", 5_000, None);
pub(crate) static DELIVERIES: List =
    list!(Deliveries, deliveries, "Deliveries", "delivery", "deliveries", 2_000, None);
pub(crate) static DEAD_LETTERS: List =
    list!(DeadLetters, dead_letters, "Dead letters", "dead letter", "dead letters", 3_000, None);
pub(crate) static ORDERS: List =
    list!(Orders, orders, "Orders", "order", "orders", 2_000, Some("idempotency_key"));
pub(crate) static AUDIT: List = list!(Audit, audit, "Audit", "entry", "entries", 5_000, None);

/// A page of a list: what was found, with the form above it.
#[derive(Debug)]
pub(crate) struct ListPage<T> {
    pub(crate) filter: Filter,
    pub(crate) found: Listed<T>,
    pub(crate) reach: Option<Reach>,
}

impl<T> ListPage<T> {
    /// A filter that is wrong gets a page without items that says so.
    pub(crate) async fn of<S: Stores>(
        api: &ApiState<S>,
        mut filter: Filter,
        found: Result<Listed<T>, Problem>,
    ) -> Result<Self, Problem> {
        let found = filter.judge(found)?;
        let reach = filter.list.reach(api, &found, &filter).await?;
        Ok(Self { filter, found, reach })
    }
}

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
    /// How far the list looked, if it ended before the page was full.
    async fn reach<S: Stores, T>(
        &self,
        api: &ApiState<S>,
        found: &Listed<T>,
        filter: &Filter,
    ) -> Result<Option<Reach>, Problem> {
        let items_max = filter.get("limit").parse().unwrap_or(ITEMS_DEFAULT as usize);
        let cursor = found.next_cursor.as_deref().filter(|_| found.items.len() < items_max);
        let Some(cursor) = cursor else { return Ok(None) };
        let last = read_cursor(self.name, cursor)?;
        let Some(at) = self.time_of(api, last).await? else { return Ok(None) };
        // Deliveries may be asked for by a time that lies far back.
        let until = time::parse(filter.get("until")).filter(|_| self.kind == Kind::Deliveries);
        let nearer = match until {
            Some(until) if at >= until => first_since(api, until, last).await?,
            Some(_) | None => None,
        };
        let (nearer, until) = (write_cursor(self.name, nearer), filter.get("until").to_owned());
        Ok(Some(Reach { looked: LOOKED_AT_MAX, at: Utc(at), nearer, until }))
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
