//! Tests that both engines refuse invalid input with the same typed error and store nothing, and that stores
//! report database faults and recover from them.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod bypassing_validation;
mod orders;
mod read_only;
mod restart;
mod validation;

posthaste_testkit::on_both_engines! {
    |h| &h;
    bypassing_validation::invalid_events_are_refused,
    bypassing_validation::invalid_configuration_is_refused,
    bypassing_validation::unknown_ids_match_nothing,
}
