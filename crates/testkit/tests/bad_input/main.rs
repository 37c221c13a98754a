//! Invalid input is refused with the same typed error on both engines and stores nothing; faults below the
//! stores are reported and survived.
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
