//! Converts between SQLite columns and core types. A value that Posthaste never writes is a [`Fault::Unreadable`].

use std::rc::Rc;

use posthaste_core::outcome::ErrorCode;
use posthaste_core::{LeaseToken, SecretRef, Timestamp};
use rusqlite::types::{FromSql, Value};
use rusqlite::vtab::array::Array;
use rusqlite::{Row, Statement};

use crate::sqlite::conn::error::{Answer, Fault};

/// Defines a struct with the indexes of columns, looked up by name. A lookup compares the column names of the statement
/// one by one, so it is done once per statement instead of once per row.
macro_rules! columns {
    ($name:ident { $($column:ident),+ $(,)? }) => {
        #[derive(Debug, Clone, Copy)]
        pub(crate) struct $name { $($column: usize),+ }

        impl $name {
            pub(crate) fn of(statement: &rusqlite::Statement<'_>) -> rusqlite::Result<Self> {
                Ok(Self { $($column: statement.column_index(stringify!($column))?),+ })
            }
        }
    };
}
pub(crate) use columns;

/// A column of a statement, by name or by index.
pub(crate) trait Column: Copy {
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
        statement.column_index(self)
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

/// Reads a nullable id.
pub(crate) fn maybe_id<T>(
    row: &Row<'_>,
    column: impl Column,
    from_store: fn(i64) -> T,
) -> rusqlite::Result<Option<T>> {
    Ok(get::<Option<i64>>(row, column)?.map(from_store))
}

pub(crate) fn error_code(row: &Row<'_>, column: impl Column) -> rusqlite::Result<Option<ErrorCode>> {
    Ok(get::<Option<String>>(row, column)?.map(ErrorCode::from_store))
}

/// Reads a text column without copying it.
pub(crate) fn text<'r>(row: &'r Row<'_>, column: impl Column) -> rusqlite::Result<&'r str> {
    Ok(row.get_ref(column.place(row)?)?.as_str()?)
}

/// Reads a text column, such as a status, and parses it with `parse`.
pub(crate) fn word<T>(
    row: &Row<'_>,
    column: impl Column,
    parse: impl FnOnce(&str) -> Option<T>,
) -> Answer<T> {
    let text = text(row, column)?;
    parse(text).ok_or_else(|| Fault::Unreadable(format!("{text:?} is not a known value")))
}

/// Reads and parses a text column in the same way as [`word`]. Returns `None` for NULL.
pub(crate) fn maybe_word<T>(
    row: &Row<'_>,
    column: impl Column,
    parse: fn(&str) -> Option<T>,
) -> Answer<Option<T>> {
    let is_null = get::<Option<String>>(row, column)?.is_none();
    if is_null { Ok(None) } else { word(row, column, parse).map(Some) }
}

pub(crate) fn token(token: LeaseToken) -> [u8; 16] {
    token.bits().to_be_bytes()
}

pub(crate) fn secret_ref(secret_ref: SecretRef) -> [u8; 16] {
    secret_ref.bits().to_be_bytes()
}

/// Converts ids to an argument for the table-valued function `rarray`.
pub(crate) fn array(ids: impl IntoIterator<Item = i64>) -> Array {
    Rc::new(ids.into_iter().map(Value::Integer).collect())
}
