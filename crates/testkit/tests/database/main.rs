//! The database itself: migrations, catalogs, rights of each role, and what constraints and triggers refuse,
//! on both engines.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod migrations;
mod postgres_server;
mod roles;
mod schema;
mod states;
