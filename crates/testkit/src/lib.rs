//! The test harness, which is not part of a release. A [`harness::Harness`] is a new database on one engine;
//! [`conformance`] contains the promises of the stores, each a function that must pass on every engine. A
//! [`fleet::Fleet`] runs the whole program in many processes; [`soak`] and [`faults`] test it under load, and
//! [`siege`] attacks it. There is one tool per purpose: [`client`] sends requests, [`receiver`] receives them,
//! [`connect_proxy`] forwards them,
//! [`proxy`] disturbs connections between a store and its server, [`processes`] starts the program, [`commands`]
//! runs its commands, and [`fixtures`] creates test values.
#![allow(clippy::unwrap_used, clippy::expect_used)]

pub mod broker;
pub mod captured_log;
pub mod client;
pub mod commands;
pub mod conformance;
pub mod connect_proxy;
pub mod direct;
pub mod faults;
pub mod fixtures;
pub mod fleet;
pub mod harness;
pub mod order_lane;
pub mod pgbouncer;
pub mod pipeline;
pub mod postgres;
pub mod private_server;
pub mod processes;
pub mod proxy;
pub mod random;
pub mod receiver;
pub mod siege;
pub mod signals;
pub mod soak;
pub mod stages;
pub mod steady;
pub mod subscribers;
