//! The components of Posthaste as steps: bounded units of work against a store's port, with no loop,
//! sleep or clock of their own. They see no SQL and no HTTP server.

pub mod batcher;
pub mod cleaner;
pub mod egress;
pub mod router;
pub mod sender;
pub mod step;
