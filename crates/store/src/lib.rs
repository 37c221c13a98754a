//! Implements the ports of `posthaste-core` on SQLite and PostgreSQL. No other crate contains SQL.
//!
//! Each engine has one module per role and one SQL file per statement. [`grants`] defines the rights of each role on
//! both engines; [`migration`] determines which migrations a database needs; [`secret_file`] reads files with secrets.

mod audit;
pub mod columns;
pub mod grants;
pub mod migration;
mod observer;
pub mod postgres;
mod remote;
mod role_prefix;
pub mod secret_file;
pub mod sqlite;
mod stored;

pub use observer::{LogObserver, Observer};
pub use role_prefix::{NotAPrefix, RolePrefix};
