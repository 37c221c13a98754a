//! What the tests stand on; never shipped. A [`harness::Harness`] is one fresh database of one engine;
//! [`conformance`] holds the promises of the stores, each a function that any engine must pass. A
//! [`fleet::Fleet`] is the whole program in many processes; [`soak`] and [`faults`] put it to the test, and [`siege`]
//! attacks it. There is one of each tool: [`client`] calls, [`receiver`] is called, [`proxy`] stands between a store and
//! its server, [`processes`] starts the program
//! and [`commands`] its commands, [`fixtures`] builds the records.
#![allow(clippy::unwrap_used, clippy::expect_used)]

pub mod broker;
pub mod captured_log;
pub mod client;
pub mod commands;
pub mod conformance;
pub mod direct;
pub mod faults;
pub mod fixtures;
pub mod fleet;
pub mod harness;
pub mod order_lane;
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
