//! Runs every promise of the stores on SQLite, on PostgreSQL, and on PostgreSQL behind a proxy that cuts connections.
//! Also contains tests of a single engine.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod announce;
mod observer;
mod proxy;
mod publish;

use posthaste_testkit::conformance::{
    audit, cleaner, dead_letter, finding, ingest, key, matching, orchestrator, outbox, reader, router,
    subscriptions, tenant, worker,
};

macro_rules! on_every_engine {
    ($($promises:tt)*) => {
        posthaste_testkit::on_both_engines! { |h| &h; $($promises)* }
        posthaste_testkit::on_engine! { postgres_cut, |h| &h; $($promises)* }
    };
}

posthaste_testkit::promises!(on_every_engine);
