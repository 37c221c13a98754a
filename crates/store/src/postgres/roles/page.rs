//! Pages of lists. A statement examines a bounded number of rows in id order and returns those that match, up to one
//! more than the page holds. If it returns fewer rows, a second statement returns the last row examined.

use crate::postgres::conn::session::{Params, Session};
use crate::postgres::conn::value::{Json, get};
use crate::remote::Fault;
use posthaste_core::json::JsonText;
use posthaste_core::ports::{EXAMINED_MAX, PAGE_BYTES_MAX, Page, PageRequest};
use tokio_postgres::Row;

/// Returns the row limit: one more than the page holds, to detect whether there is another page.
pub(crate) fn rows_max(page: PageRequest) -> i64 {
    i64::from(page.items_max.max(1)) + 1
}

/// Returns the maximum number of rows to examine.
pub(crate) fn examined_max(page: PageRequest) -> i64 {
    i64::from(page.examined_max.clamp(1, EXAMINED_MAX))
}

/// Returns the exclusive upper bound of a descending list.
pub(crate) fn below(page: PageRequest) -> i64 {
    page.after.unwrap_or(i64::MAX)
}

/// Returns the exclusive lower bound of an ascending list.
pub(crate) fn above(page: PageRequest) -> i64 {
    page.after.unwrap_or(i64::MIN)
}

/// Creates a page from the rows found, each of which has an `id` column. Runs `last_examined` only if the page is not
/// full.
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

/// Adds the payloads to a page. The page ends before the payload with which the total size would exceed
/// [`PAGE_BYTES_MAX`], but contains at least one. `sql` gets the ids and the limit, and returns as many payloads as
/// fit, in the order of the ids. Items whose rows were deleted are omitted.
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
