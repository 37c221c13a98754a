//! One module per database role, and one per record that several roles read.

pub(crate) mod announce;
pub(crate) mod audit;
pub(crate) mod cleaner;
pub(crate) mod dead_letter;
pub(crate) mod events;
pub(crate) mod examine;
pub(crate) mod health;
pub(crate) mod ingest;
pub(crate) mod insight;
pub(crate) mod key;
pub(crate) mod lane_row;
pub(crate) mod letters;
pub(crate) mod orchestrator;
pub(crate) mod order_row;
pub(crate) mod outbox_intake;
pub(crate) mod outbox_worker;
pub(crate) mod page;
pub(crate) mod presence;
pub(crate) mod reader;
pub(crate) mod router;
pub(crate) mod server;
pub(crate) mod subscriptions;
pub(crate) mod worker;
