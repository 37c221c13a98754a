//! Tests the cost of calls. Costs are counted, not timed. The cost of a statement must not be proportional to history
//! or to a backlog: with 300,000 finished rows in every large table, and then 30,000 more in every state that a
//! statement reads, each statement of the hot paths is planned and executed with different statistics, and must read no
//! more than its batch. Hanging deliveries must not make a result more expensive, and the backlog of one subscription
//! must not make admission more expensive. Subscriptions that do not match an event must not make its routing more
//! expensive.
//!
//! Every file in the `sql` folders of both engines is covered, including new ones: parameters are guessed from their
//! types, and if that fails, the file needs an entry in `postgres_samples.rs` or `sqlite_samples.rs`.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod backlog;
mod budget;
mod patterns;
mod plan;
mod postgres;
mod postgres_samples;
mod sqlite;
mod sqlite_samples;
mod statements;

/// The number of rows that a statement processes at once in these tests.
const BATCH: usize = 100;

/// The tables that grow with history.
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

/// The number of finished rows that the fill scripts insert into each large table.
const HISTORY: i64 = 300_000;
