//! The schema as the catalogs of both engines tell it, compared with files that people review, and with
//! the names that the specification gave.

mod golden;
mod postgres;
mod specified;
mod sqlite;
