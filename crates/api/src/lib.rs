//! The HTTP side of Posthaste: what people and programs ask for, checked at the wall and handed to the
//! store's ports and the services. It decides nothing about deliveries. One file for each resource;
//! [`router`] is the table of all calls and of who may make them.

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
pub use router::{health_router, router};
pub use state::{ApiState, Limits, Operations, Outgoing};
