//! How columns become the words of the core, and back. What no row can hold is an
//! [`Unreadable`](crate::sqlite::conn::error::Fault::Unreadable).

use std::cell::Cell;
use std::rc::Rc;

use posthaste_core::outcome::ErrorCode;
use posthaste_core::{LeaseToken, Timestamp};
use rusqlite::types::{FromSql, Value};
use rusqlite::vtab::array::Array;
use rusqlite::{Row, Statement};

use crate::sqlite::conn::error::{Answer, Fault};

thread_local! {
    /// The place after the column that was found last. Rows are read in the order of their columns, so the next one is
    /// there, and a lookup compares one name instead of half of them.
    static NEXT_COLUMN: Cell<usize> = const { Cell::new(0) };
}

/// A column of a statement: by its name, or by its place in rows of counts.
pub(crate) trait Column {
    fn place(self, row: &Row<'_>) -> rusqlite::Result<usize>;
}

impl Column for usize {
    fn place(self, _: &Row<'_>) -> rusqlite::Result<usize> {
        Ok(self)
    }
}

impl Column for &str {
    fn place(self, row: &Row<'_>) -> rusqlite::Result<usize> {
        let statement: &Statement<'_> = row.as_ref();
        let count = statement.column_count();
        let next = NEXT_COLUMN.get().min(count);
        let is_it = |place: &usize| statement.column_name(*place).is_ok_and(|name| name == self);
        let place = (next..count).chain(0..next).find(is_it);
        let place = place.ok_or_else(|| rusqlite::Error::InvalidColumnName(self.to_owned()))?;
        NEXT_COLUMN.set(place + 1);
        Ok(place)
    }
}

pub(crate) fn get<T: FromSql>(row: &Row<'_>, column: impl Column) -> rusqlite::Result<T> {
    row.get(column.place(row)?)
}

pub(crate) fn time(row: &Row<'_>, column: impl Column) -> rusqlite::Result<Timestamp> {
    get(row, column).map(Timestamp::from_micros)
}

pub(crate) fn maybe_time(row: &Row<'_>, column: impl Column) -> rusqlite::Result<Option<Timestamp>> {
    Ok(get::<Option<i64>>(row, column)?.map(Timestamp::from_micros))
}

/// An id, or `None`.
pub(crate) fn maybe_id<T>(
    row: &Row<'_>,
    column: &str,
    from_store: fn(i64) -> T,
) -> rusqlite::Result<Option<T>> {
    Ok(get::<Option<i64>>(row, column)?.map(from_store))
}

pub(crate) fn error_code(row: &Row<'_>, column: impl Column) -> rusqlite::Result<Option<ErrorCode>> {
    Ok(get::<Option<String>>(row, column)?.map(ErrorCode::from_store))
}

/// A text, without a copy.
pub(crate) fn text<'r>(row: &'r Row<'_>, column: &str) -> rusqlite::Result<&'r str> {
    Ok(row.get_ref(column.place(row)?)?.as_str()?)
}

/// A word of one of the core's enums.
pub(crate) fn word<T>(row: &Row<'_>, column: &str, parse: impl FnOnce(&str) -> Option<T>) -> Answer<T> {
    let text = text(row, column)?;
    parse(text).ok_or_else(|| Fault::Unreadable(format!("{text:?} is not a state")))
}

/// The same, or `None`.
pub(crate) fn maybe_word<T>(row: &Row<'_>, column: &str, parse: fn(&str) -> Option<T>) -> Answer<Option<T>> {
    let is_null = get::<Option<String>>(row, column)?.is_none();
    if is_null { Ok(None) } else { word(row, column, parse).map(Some) }
}

pub(crate) fn token(token: LeaseToken) -> [u8; 16] {
    token.bits().to_be_bytes()
}

/// Ids for the table-valued function rarray.
pub(crate) fn array(ids: impl IntoIterator<Item = i64>) -> Array {
    Rc::new(ids.into_iter().map(Value::Integer).collect())
}
