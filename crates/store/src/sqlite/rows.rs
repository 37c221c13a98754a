//! How columns become the words of the core, and back. What no row can hold is an
//! [`Unreadable`](super::error::Fault::Unreadable).

use std::rc::Rc;

use posthaste_core::outcome::ErrorCode;
use posthaste_core::{LeaseToken, Timestamp};
use rusqlite::Row;
use rusqlite::types::Value;
use rusqlite::vtab::array::Array;

use super::error::{Answer, Fault};

pub(super) fn time(row: &Row<'_>, column: usize) -> rusqlite::Result<Timestamp> {
    row.get(column).map(Timestamp::from_micros)
}

pub(super) fn maybe_time(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Timestamp>> {
    Ok(row.get::<_, Option<i64>>(column)?.map(Timestamp::from_micros))
}

pub(super) fn error_code(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<ErrorCode>> {
    Ok(row.get::<_, Option<String>>(column)?.map(ErrorCode::from_store))
}

/// A word of one of the core's enums.
pub(super) fn word<T>(row: &Row<'_>, column: usize, parse: impl FnOnce(&str) -> Option<T>) -> Answer<T> {
    let text = row.get_ref(column)?.as_str().map_err(rusqlite::Error::from)?;
    parse(text).ok_or_else(|| Fault::Unreadable(format!("{text:?} is not a state")))
}

pub(super) fn token(token: LeaseToken) -> [u8; 16] {
    token.bits().to_be_bytes()
}

/// Ids for the table-valued function rarray.
pub(super) fn array(ids: impl IntoIterator<Item = i64>) -> Array {
    Rc::new(ids.into_iter().map(Value::Integer).collect())
}
