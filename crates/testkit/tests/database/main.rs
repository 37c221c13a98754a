//! Tests the database itself on both engines: migrations, catalogs, the rights of each role, and what constraints and
//! triggers refuse.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod migrations;
mod passwords;
mod postgres_server;
mod roles;
mod schema;
mod states;
