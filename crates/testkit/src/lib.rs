//! What the tests stand on; never shipped. A [`harness::Harness`] is one fresh database of one engine;
//! [`conformance`] holds the promises of the stores, each a function that any engine must pass.
#![allow(clippy::unwrap_used, clippy::expect_used)]

pub mod conformance;
pub mod direct;
pub mod fixtures;
pub mod harness;
pub mod pipeline;
pub mod postgres;
pub mod proxy;
pub mod random;
pub mod receiver;
