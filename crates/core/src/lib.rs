//! The domain types and decision logic of Posthaste, without I/O, clocks or randomness.
//!
//! [`saga::step`] is the only function that decides the next state of a delivery, and [`order::step`] the only
//! function that decides the next state of an order. [`admission`] and [`results`] apply [`saga::step`] to sets
//! of deliveries. [`route`] contains the rule by which events match subscriptions. The [`ports`] define the operations
//! that each database role may call on a store.

pub mod admission;
pub mod attribute_rules;
pub mod attributes;
pub mod audit;
pub mod broker;
pub mod conservation;
pub mod digest;
pub mod duration;
pub mod envelope;
pub mod event;
pub mod filter;
pub mod health;
pub mod history;
pub mod identity;
pub mod ids;
pub mod in_flight;
pub mod job;
pub mod json;
mod json_object;
pub mod lane;
pub mod latency;
pub mod message_id;
pub mod metadata;
pub mod order;
pub mod outcome;
pub mod pattern;
pub mod ports;
pub mod request;
pub mod results;
pub mod retry;
pub mod route;
pub mod saga;
pub mod signature;
pub mod subscription;
pub mod tenant;
pub mod time;
pub mod verification;

pub use ids::{
    AuditId, DeadLetterId, EventId, JobId, KeyId, LeaseToken, OperatorAuditId, OrderId, SagaId, SecretRef,
    SubscriptionId, WorkerId,
};
pub use json_object::ObjectError;
pub use time::Timestamp;
