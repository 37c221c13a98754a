//! The database itself: how it is migrated, what its catalogs contain, what each role may do, and what constraints
//! and triggers refuse, on both engines.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod migrations;
mod postgres_server;
mod roles;
mod schema;
mod states;
