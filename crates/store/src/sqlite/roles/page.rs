//! Pages of lists: rows come in the order of their ids, a bounded number is looked at, and what
//! matches is kept, with the place where the next page goes on.

use posthaste_core::ports::{EXAMINED_MAX, Page, PageRequest};
use rusqlite::{Row, Rows};

use crate::sqlite::conn::error::Answer;

/// How many rows a page looks at.
fn examined_max(page: PageRequest) -> u32 {
    page.examined_max.clamp(1, EXAMINED_MAX)
}

/// The LIMIT of a list: one row more than a page looks at tells whether there is another page.
pub(crate) fn rows_max(page: PageRequest) -> u32 {
    examined_max(page) + 1
}

/// The bound of a list that begins with the newest row.
pub(crate) fn below(page: PageRequest) -> i64 {
    page.after.unwrap_or(i64::MAX)
}

/// The bound of a list that begins with the oldest row.
pub(crate) fn above(page: PageRequest) -> i64 {
    page.after.unwrap_or(0)
}

/// Fills a page from rows whose first column is the id. `read` answers nothing for a row that does not
/// match, before it reads what costs something.
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
