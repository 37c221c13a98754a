//! Tests the running program from outside: the commands in the documents, receivers in other languages, the API against
//! its OpenAPI document, metrics and alerts, the dashboard in a browser, and a search for disclosed secrets. `make
//! test` runs them under `scripts/with-tools`, which provides the external programs.
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
mod browser_subscription_form;
mod browser_subscriptions;
mod foreign_receiver;
mod guides;
mod imported;
mod mentions;
mod metrics;
mod operations;
mod pages;
mod poolers;
mod readme;
mod reseal;
mod sample_api;
mod sample_data;
mod sample_orders;
mod sample_receivers;
mod samples;
mod schemathesis;
mod secrets;
mod served;
mod signature_libraries;
mod tools;
mod traces;
mod wake_ups;
mod webdriver;
mod world;
