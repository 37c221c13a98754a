//! The only crate that knows SQL: the ports of `posthaste-core` on SQLite and on PostgreSQL.
//!
//! Each engine has one file for each role and one SQL file for each verb; [`grants`] says what each
//! role may do on both; [`migration`] decides what a database still needs.

mod audit;
pub mod columns;
pub mod grants;
pub mod migration;
mod observer;
pub mod postgres;
mod remote;
pub mod sqlite;

pub use observer::{LogObserver, Observer};
