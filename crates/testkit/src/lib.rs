//! What the tests stand on; never shipped. A [`harness::Harness`] is one fresh database of one engine;
//! [`conformance`] holds the promises of the stores, each a function that any engine must pass. A
//! [`fleet::Fleet`] is the whole program in many processes; [`soak`], [`chaos`]
//! and [`order_chaos`] put it to the test, and [`siege`] attacks it.
#![allow(clippy::unwrap_used, clippy::expect_used)]

pub mod acceptor;
pub mod broker;
pub mod caller;
pub mod captured_log;
pub mod chaos;
pub mod conformance;
pub mod counting_proxy;
pub mod direct;
pub mod fixtures;
pub mod fleet;
pub mod harness;
pub mod order_chaos;
pub mod order_lane;
pub mod outage;
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
pub mod tripwire;
