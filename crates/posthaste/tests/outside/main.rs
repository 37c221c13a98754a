//! Posthaste as the outside meets it: what a new user types, a receiver in another language, a tester that
//! knows the API by its description alone, Prometheus, and whoever searches the logs for secrets. The
//! programs that this needs are found by `scripts/with-tools`, which `make test` runs first.
#![allow(clippy::expect_used, clippy::panic)]

mod alerts;
mod bad_input;
mod browser;
mod browser_events;
mod browser_lane;
mod browser_live;
mod browser_pages;
mod browser_roles;
mod browser_store_unavailable;
mod browser_subscription_edit;
mod browser_subscriptions;
mod foreign_receiver;
mod guides;
mod mentions;
mod metrics;
mod operations;
mod pages;
mod readme;
mod sample_api;
mod sample_data;
mod sample_orders;
mod sample_receivers;
mod samples;
mod schemathesis;
mod secrets;
mod served;
mod tools;
mod traces;
mod wake_ups;
mod webdriver;
mod world;
