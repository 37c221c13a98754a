//! The types and decisions of Posthaste, without I/O, clocks or randomness.
//!
//! [`saga::step`] is the only place that decides the next state of a delivery, [`order::step`] that of an
//! order. [`admission`] and [`results`] apply the former to sets of deliveries. The [`ports`] define what
//! each role may request from a store, and the stores implement them.

pub mod admission;
pub mod audit;
pub mod broker;
pub mod conservation;
pub mod digest;
pub mod duration;
pub mod event;
pub mod health;
pub mod history;
pub mod ids;
pub mod in_flight;
pub mod job;
pub mod json;
pub mod lane;
pub mod latency;
pub mod order;
pub mod outcome;
pub mod ports;
pub mod results;
pub mod retry;
pub mod route;
pub mod saga;
pub mod signature;
pub mod subscription;
pub mod time;

pub use ids::{
    AuditId, DeadLetterId, EventId, JobId, KeyId, LeaseToken, OperatorAuditId, OrderId, SagaId,
    SubscriptionId, WorkerId,
};
pub use time::Timestamp;
