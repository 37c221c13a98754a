//! The lists of the dashboard. A page examines a limited number of rows for any filter, so its cost does not depend on
//! the length of the history. The page shows the progress of the search and links to its continuation.

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

/// The maximum number of rows examined per request.
pub(crate) const ROWS_EXAMINED_MAX: u32 = 500;

/// The maximum deviation between the order of delivery ids and the order of creation times, in rows. Concurrent
/// transactions commit out of order.
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

/// The properties of one list.
#[derive(Debug)]
pub(crate) struct List {
    kind: Kind,
    /// The name of the list in its cursors.
    name: &'static str,
    pub(crate) title: &'static str,
    pub(crate) many: &'static str,
    pub(crate) refresh_ms: u32,
    /// The query parameters of the list in the API, which are also the fields of the filter form.
    pub(crate) parameters: &'static [&'static str],
    /// An additional form field that leads directly to one item.
    pub(crate) direct: Option<&'static str>,
}

macro_rules! list {
    ($kind:ident, $module:ident, $title:literal, $many:literal, $refresh_ms:literal, $direct:expr) => {
        List {
            kind: Kind::$kind,
            name: $module::LIST,
            title: $title,
            many: $many,
            refresh_ms: $refresh_ms,
            parameters: $module::Parameters::NAMES,
            direct: $direct,
        }
    };
}

pub(crate) static EVENTS: List = list!(Events, events, "Events", "events", 3_000, Some("id"));
pub(crate) static SUBSCRIPTIONS: List =
    list!(Subscriptions, subscriptions, "Subscriptions", "subscriptions", 5_000, None);
pub(crate) static DELIVERIES: List = list!(Deliveries, deliveries, "Deliveries", "deliveries", 2_000, None);
pub(crate) static DEAD_LETTERS: List =
    list!(DeadLetters, dead_letters, "Dead letters", "dead letters", 3_000, None);
pub(crate) static ORDERS: List = list!(Orders, orders, "Orders", "orders", 2_000, Some("idempotency_key"));
pub(crate) static AUDIT: List = list!(Audit, audit, "Audit", "entries", 5_000, None);

/// One page of a list with its filter form.
#[derive(Debug)]
pub(crate) struct ListPage<T> {
    pub(crate) filter: Filter,
    pub(crate) found: Listed<T>,
    pub(crate) scan: Option<PartialScan>,
}

impl<T> ListPage<T> {
    /// Creates the page. If the filter is invalid, the page has no items and its form shows the error.
    pub(crate) async fn of<S: Stores>(
        api: &ApiState<S>,
        mut filter: Filter,
        found: Result<Listed<T>, Problem>,
    ) -> Result<Self, Problem> {
        let found = filter.keep_error(found)?;
        let scan = filter.list.partial_scan(api, &found, &filter).await?;
        Ok(Self { filter, found, scan })
    }
}

/// The progress of a scan that reached [`ROWS_EXAMINED_MAX`] before the page was full.
#[derive(Debug)]
pub(crate) struct PartialScan {
    pub(crate) examined: u32,
    /// The creation time of the last examined row.
    pub(crate) at: Utc,
    /// A cursor closer to the requested `until` time; `None` if the next page is close enough.
    pub(crate) nearer: Option<String>,
    pub(crate) until: String,
}

impl List {
    /// Returns the progress of a partial scan, or `None` if the page is full or the end of the list was reached.
    async fn partial_scan<S: Stores, T>(
        &self,
        api: &ApiState<S>,
        found: &Listed<T>,
        filter: &Filter,
    ) -> Result<Option<PartialScan>, Problem> {
        let items_max = filter.get("limit").parse().unwrap_or(ITEMS_DEFAULT as usize);
        let cursor = found.next_cursor.as_deref().filter(|_| found.items.len() < items_max);
        let Some(cursor) = cursor else { return Ok(None) };
        let last = read_cursor(self.name, cursor)?;
        let Some(at) = self.time_of(api, last).await? else { return Ok(None) };
        // Deliveries have no index on time, so a search for an old one could take many pages.
        let until = time::parse(filter.get("until")).filter(|_| self.kind == Kind::Deliveries);
        let nearer = match until {
            Some(until) if at >= until => first_since(api, until, last).await?,
            Some(_) | None => None,
        };
        let (nearer, until) = (write_cursor(self.name, nearer), filter.get("until").to_owned());
        Ok(Some(PartialScan { examined: ROWS_EXAMINED_MAX, at: Utc(at), nearer, until }))
    }

    /// Returns the creation time of the row with this id, or of the next older row if it does not exist.
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

/// Returns an id slightly above the first delivery created at `time` or later, or `None` if it is not below `above`.
/// Uses a binary search over ids: about forty reads of one row each.
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
