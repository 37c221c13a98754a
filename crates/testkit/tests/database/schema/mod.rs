//! Compares the schema in the catalogs of both engines with reviewed golden files and with the names in the
//! specification.

mod golden;
mod postgres;
mod specified;
mod sqlite;
