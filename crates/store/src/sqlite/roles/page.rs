//! Pages of lists. A bounded number of rows is examined in id order, and those that match are returned, with the
//! position at which the next page continues.

use posthaste_core::ports::{EXAMINED_MAX, Page, PageRequest};
use rusqlite::{Row, Rows};

use crate::sqlite::conn::error::Answer;

/// Returns the maximum number of rows that a page examines.
fn examined_max(page: PageRequest) -> u32 {
    page.examined_max.clamp(1, EXAMINED_MAX)
}

/// Returns the LIMIT of a list: one more than the page examines, to detect whether there is another page.
pub(crate) fn rows_max(page: PageRequest) -> u32 {
    examined_max(page) + 1
}

/// Returns the exclusive upper bound of a descending list.
pub(crate) fn below(page: PageRequest) -> i64 {
    page.after.unwrap_or(i64::MAX)
}

/// Returns the exclusive lower bound of an ascending list.
pub(crate) fn above(page: PageRequest) -> i64 {
    page.after.unwrap_or(0)
}

/// Creates a page from rows whose first column is the id. `read` returns `None` for a row that does not match, before
/// it reads expensive columns.
pub(crate) fn fill<T>(
    mut rows: Rows<'_>,
    page: PageRequest,
    mut read: impl FnMut(&Row<'_>) -> Answer<Option<T>>,
) -> Answer<Page<T>> {
    let items_max = usize::try_from(page.items_max.max(1)).unwrap_or(usize::MAX);
    let mut items = Vec::new();
    let examined_max = examined_max(page);
    let (mut examined, mut last) = (0_u32, None);
    while let Some(row) = rows.next()? {
        if items.len() >= items_max || examined >= examined_max {
            return Ok(Page { items, next: last });
        }
        examined += 1;
        last = Some(row.get(0)?);
        items.extend(read(row)?);
    }
    Ok(Page { items, next: None })
}
