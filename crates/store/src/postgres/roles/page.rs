//! Pages of lists. A statement looks at so many rows in id order and answers what matched among them,
//! one more than the page takes; a second one, where that was not enough, tells where the look ended.

use crate::postgres::conn::session::{Params, Session};
use crate::postgres::conn::value::{Json, get};
use crate::remote::Fault;
use posthaste_core::json::JsonText;
use posthaste_core::ports::{EXAMINED_MAX, PAGE_BYTES_MAX, Page, PageRequest};
use tokio_postgres::Row;

/// One row more than the page takes shows whether there is another page.
pub(crate) fn rows_max(page: PageRequest) -> i64 {
    i64::from(page.items_max.max(1)) + 1
}

/// How many rows are looked at.
pub(crate) fn examined_max(page: PageRequest) -> i64 {
    i64::from(page.examined_max.clamp(1, EXAMINED_MAX))
}

/// Where a list that goes down begins.
pub(crate) fn below(page: PageRequest) -> i64 {
    page.after.unwrap_or(i64::MAX)
}

/// Where a list that goes up begins.
pub(crate) fn above(page: PageRequest) -> i64 {
    page.after.unwrap_or(i64::MIN)
}

/// Makes the page of what was found; every row has its `id`. `last_examined` is asked for the end
/// of the look only when the page is not full.
pub(crate) async fn fill<T>(
    session: &mut Session,
    page: PageRequest,
    found: &[Row],
    item: impl Fn(&Row) -> Result<T, Fault>,
    last_examined: (&str, Params<'_>),
) -> Result<Page<T>, Fault> {
    let items_max = page.items_max.max(1) as usize;
    let items = found.iter().take(items_max).map(item).collect::<Result<Vec<T>, Fault>>()?;
    let next = if found.len() > items_max {
        found.get(items_max - 1).map(|row| get(row, "id")).transpose()?
    } else {
        let (sql, params) = last_examined;
        let rows = session.read(sql, params).await?;
        rows.first().map_or(Ok(None), |row| get(row, 0))?
    };
    Ok(Page { items, next })
}

/// Adds the payloads to a page: it ends before the one that exceeds [`PAGE_BYTES_MAX`], unless that is the first. The
/// statement gets the ids and the bound, and returns the payloads in this order, as many as fit. An item whose row is
/// gone is left out.
pub(crate) async fn with_payloads<T, U>(
    session: &mut Session,
    sql: &str,
    page: Page<T>,
    id: fn(&T) -> i64,
    join: fn(T, JsonText) -> U,
) -> Result<Page<U>, Fault> {
    let ids: Vec<i64> = page.items.iter().map(id).collect();
    if ids.is_empty() {
        return Ok(Page { items: Vec::new(), next: page.next });
    }
    let bytes_max = i64::try_from(PAGE_BYTES_MAX).unwrap_or(i64::MAX);
    let rows = session.read(sql, &[&ids, &bytes_max]).await?;
    let next = if rows.len() < ids.len() {
        ids.get(..rows.len()).and_then(<[i64]>::last).copied()
    } else {
        page.next
    };
    let mut items = Vec::with_capacity(rows.len());
    for (head, row) in page.items.into_iter().zip(&rows) {
        if let Some(payload) = get::<Option<Json<'_>>>(row, 0)? {
            items.push(join(head, JsonText::from_store(payload.0.to_owned())));
        }
    }
    Ok(Page { items, next })
}
