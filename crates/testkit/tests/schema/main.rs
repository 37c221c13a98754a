//! The schema as the catalogs of both engines tell it, compared with files that people review, and with
//! the names that the specification gave.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod golden;
mod postgres;
mod specified;
mod sqlite;
