//! How far a list looked, and where else it could begin. A page looks at so many rows; a filter that no index serves
//! may find nothing among them.

use super::deliveries::Filter;
use crate::deliveries::{self, DeliveryView};
use crate::problem::Problem;
use crate::query::{Listed, instant, read_cursor, write_cursor};
use crate::state::ApiState;
use crate::time::Utc;
use posthaste_core::ports::{Delivery, DeliveryFilter, PageRequest, ReaderStore as _, Stores};
use posthaste_core::{SagaId, Timestamp};

/// Deliveries are made nearly in the order of their ids: what was begun together may end so far apart.
const ORDER_SLACK_ROWS: i64 = 1_000;

/// The last row that a list looked at, where the filter left rows out.
#[derive(Debug)]
pub(crate) struct Reach {
    pub(crate) id: i64,
    pub(crate) at: Utc,
    /// A cursor that lies nearer to the time that was asked for.
    pub(crate) nearer: Option<String>,
}

/// How far a list of deliveries looked.
pub(crate) async fn reach<S: Stores>(
    api: &ApiState<S>,
    found: &Listed<DeliveryView>,
    filter: &Filter,
) -> Result<Option<Reach>, Problem> {
    let Some(cursor) = found.next_cursor.as_deref().filter(|_| filter.leaves_out(found.items.len())) else {
        return Ok(None);
    };
    let last = SagaId::from_store(read_cursor(deliveries::LIST, cursor)?);
    let Some((last, _)) = api.reader.delivery(last).await? else { return Ok(None) };
    let (id, at) = (last.saga.id.get(), last.saga.created_at);
    let until = Some(&filter.until).filter(|text| !text.is_empty()).map(|text| instant("until", text));
    let nearer = match until.transpose()? {
        Some(until) if at >= until => first_since(api, until, id).await?,
        Some(_) | None => None,
    };
    Ok(Some(Reach { id, at: Utc(at), nearer: write_cursor(deliveries::LIST, nearer) }))
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
    let page = PageRequest { after: Some(id), items_max: 1 };
    Ok(api.reader.deliveries(DeliveryFilter::default(), page).await?.items.pop())
}
