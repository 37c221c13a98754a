//! Converts between PostgreSQL columns and core types: times as `timestamptz`, payloads as `json`, tokens as `uuid`.

use crate::remote::Fault;
use posthaste_core::outcome::ErrorCode;
use posthaste_core::{LeaseToken, SecretRef, Timestamp};
use std::error::Error;
use std::fmt::Display;
use tokio_postgres::Row;
use tokio_postgres::row::RowIndex;
use tokio_postgres::types::private::BytesMut;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, accepts, to_sql_checked};
use uuid::Uuid;

/// Microseconds from 1970-01-01, the epoch of [`Timestamp`], to 2000-01-01, the epoch of `timestamptz`.
const EPOCH_SHIFT_MICROS: i64 = 946_684_800_000_000;

/// A [`Timestamp`] stored as `timestamptz`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Instant(pub(crate) Timestamp);

impl ToSql for Instant {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        // The years 1 to 9999 do not overflow.
        out.extend_from_slice(&(self.0.micros() - EPOCH_SHIFT_MICROS).to_be_bytes());
        Ok(IsNull::No)
    }

    accepts!(TIMESTAMPTZ);
    to_sql_checked!();
}

impl<'a> FromSql<'a> for Instant {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        let micros = i64::from_be_bytes(raw.try_into()?);
        Ok(Self(Timestamp::from_micros(micros.saturating_add(EPOCH_SHIFT_MICROS))))
    }

    accepts!(TIMESTAMPTZ);
}

/// JSON text stored in a `json` column, byte for byte.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Json<'a>(pub(crate) &'a str);

impl ToSql for Json<'_> {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        out.extend_from_slice(self.0.as_bytes());
        Ok(IsNull::No)
    }

    accepts!(JSON);
    to_sql_checked!();
}

impl<'a> FromSql<'a> for Json<'a> {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Self(std::str::from_utf8(raw)?))
    }

    accepts!(JSON);
}

pub(crate) fn token(token: LeaseToken) -> Uuid {
    Uuid::from_u128(token.bits())
}

pub(crate) fn secret_ref(secret_ref: SecretRef) -> Uuid {
    Uuid::from_u128(secret_ref.bits())
}

/// Maximum number of rows that one statement fetches from a queue. It is a literal in the statements, so that the
/// planner knows it. A call that requests more rows runs several statements.
pub(crate) const TAKE_MAX: u32 = 1_000;

/// Returns the LIMIT for the next statement of a call that still needs `wanted` rows.
pub(crate) fn take(wanted: u32) -> i32 {
    int(wanted.min(TAKE_MAX))
}

/// Converts a limit or count to `integer`, saturating at the maximum.
pub(crate) fn int(count: u32) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

/// A column of a statement, by name, or by index if there is only one.
pub(crate) trait Column: RowIndex + Display {}

impl<C: RowIndex + Display> Column for C {}

pub(crate) fn get<'a, T: FromSql<'a>>(row: &'a Row, column: impl Column) -> Result<T, Fault> {
    row.try_get(&column).map_err(|error| {
        let cause = error.into_source().map_or_else(String::new, |source| format!(": {source}"));
        Fault::Unreadable(format!("column {column} has an unexpected value{cause}"))
    })
}

pub(crate) fn instant(row: &Row, column: impl Column) -> Result<Timestamp, Fault> {
    get::<Instant>(row, column).map(|instant| instant.0)
}

pub(crate) fn instant_or_none(row: &Row, column: impl Column) -> Result<Option<Timestamp>, Fault> {
    Ok(get::<Option<Instant>>(row, column)?.map(|instant| instant.0))
}

/// Reads a nullable id.
pub(crate) fn id_or_none<T>(
    row: &Row,
    column: impl Column,
    from_store: fn(i64) -> T,
) -> Result<Option<T>, Fault> {
    Ok(get::<Option<i64>>(row, column)?.map(from_store))
}

/// Reads a count. A CHECK constraint ensures that it is not negative.
pub(crate) fn count(row: &Row, column: impl Column) -> Result<u32, Fault> {
    let raw: i32 = get(row, column)?;
    u32::try_from(raw).map_err(|_| Fault::Unreadable(format!("{raw} is not a count")))
}

pub(crate) fn count_or_none(row: &Row, column: impl Column) -> Result<Option<u32>, Fault> {
    get::<Option<i32>>(row, column)?
        .map(|raw| u32::try_from(raw).map_err(|_| Fault::Unreadable(format!("{raw} is not a count"))))
        .transpose()
}

pub(crate) fn error_code(row: &Row, column: impl Column) -> Result<Option<ErrorCode>, Fault> {
    Ok(get::<Option<String>>(row, column)?.map(ErrorCode::from_store))
}

/// Reads a text column, such as a status, and parses it with `parse`.
pub(crate) fn word<T>(row: &Row, column: impl Column, parse: fn(&str) -> Option<T>) -> Result<T, Fault> {
    let text: &str = get(row, column)?;
    parse(text).ok_or_else(|| Fault::Unreadable(format!("{text:?} is not a known value")))
}
