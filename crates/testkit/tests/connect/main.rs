//! Tests connections to PostgreSQL: TLS compared with libpq, channel binding, several hosts, servers that disappear.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod certificates;
mod files;
mod handshake;
mod hosts;
mod libpq;
mod matrix;
mod server;
mod session;
