//! The HTTP API and the dashboard. Validates requests and calls the ports and services; contains no delivery logic. One
//! file per resource; [`router`] lists all routes.

mod attempts;
mod audit;
mod auth;
mod body;
mod dashboard;
mod dead_letters;
mod deliveries;
mod docs;
mod doctor;
mod events;
mod explain;
mod exposition;
mod fields;
mod frame;
mod health;
mod keys;
mod openapi;
mod orders;
mod outbox;
mod peer;
pub mod problem;
mod process_metrics;
mod query;
mod responses;
mod router;
pub mod server;
mod state;
mod stats;
mod subscriptions;
mod system;
mod time;
mod values;

pub use auth::key_hash;
pub use health::Readiness;
pub use openapi::document;
pub use peer::{PeerAddress, TrustedProxies};
pub use process_metrics::BuildInfo;
pub use router::{health_router, router};
pub use state::{ApiState, Limits, Operations, Outgoing, VerificationOptions};
