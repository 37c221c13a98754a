//! The schema as shown by the catalogs of both engines, compared with reviewed golden files and with the
//! names of the specification.

mod golden;
mod postgres;
mod specified;
mod sqlite;
