//! What calls cost, counted and not timed. No statement is proportional to history or to a backlog: with 300,000 finished rows in every large
//! table, and then 30,000 more in every state that somebody takes from, each statement of the hot paths is
//! planned and run, whatever the statistics say, and must read no more than its batch. What hangs must not
//! make a result dear, and one backlog must not make admission dear.
//!
//! Every file in the `sql` folders of both engines is covered, a new one too: its parameters are
//! guessed, and a file where that fails asks for a row in `postgres_samples.rs` or `sqlite_samples.rs`.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod backlog;
mod budget;
mod plan;
mod postgres;
mod postgres_samples;
mod sqlite;
mod sqlite_samples;
mod statements;

/// Rows that a statement moves at once in these tests.
const BATCH: usize = 100;

/// Tables that grow with history.
const LARGE: [&str; 8] = [
    "events",
    "webhook_delivery_sagas",
    "webhook_delivery_jobs",
    "dead_letters",
    "outbox_orders",
    "idempo_ledger",
    "outbox_audit",
    "subscription_changes",
];

/// Rows in each of them that have ended; see the fill scripts.
const HISTORY: i64 = 300_000;
