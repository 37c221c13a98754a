//! The components of Posthaste as steps: bounded units of work against a store's port, with no loop,
//! sleep or clock of their own. They see no SQL and no HTTP server.

pub mod batcher;
pub mod cleaner;
pub mod clock;
mod cursor;
pub mod doctor;
pub mod egress;
pub mod health;
pub mod ingest;
pub mod intake;
pub mod metrics;
mod now_and_then;
pub mod orchestrator;
pub mod outbox;
pub mod presence;
pub mod router;
pub mod runner;
pub mod seal;
pub mod sender;
pub mod step;
pub mod survey;
pub mod wake;
pub mod worker;
