//! The components of Posthaste, implemented as steps: bounded units of work on a port of the store, without
//! loops, sleeps or clocks of their own. This crate contains no SQL and no HTTP server.

pub mod batcher;
pub mod cleaner;
pub mod clock;
pub mod doctor;
pub mod egress;
pub mod failed_sign_ins;
mod grace;
pub mod health;
pub mod ingest;
mod low_water_mark;
mod lru;
pub mod metrics;
pub mod oauth2;
pub mod orchestrator;
pub mod outbox;
mod read_position;
pub mod router;
pub mod runner;
mod scan_schedule;
pub mod seal;
mod send_tasks;
pub mod sender;
pub mod step;
pub mod survey;
pub mod telemetry;
pub mod wait_check;
pub mod wake;
pub mod webhook_request;
pub mod worker;
