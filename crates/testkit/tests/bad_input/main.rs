//! Bad input gets the same typed refusal on both engines and stores nothing; faults below the stores are
//! told, survived, and named.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod orders;
mod past_the_wall;
mod read_only;
mod restart;
mod wall;

posthaste_testkit::on_both_engines! {
    |h| &h;
    past_the_wall::check_events,
    past_the_wall::check_configuration,
    past_the_wall::check_ids,
}
