//! What happens to orders, from the queue to the broker and back: real workers, the real adapter, real
//! sockets, a clock that the test moves, on both engines.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod broker;
mod claims;
mod logs;
mod lossy;
mod outages;
mod outcomes;
mod processes;
mod retries;
mod throttle;
mod wire;

posthaste_testkit::on_both_engines! {
    |h| h;
    wire::an_order_goes_out_under_its_key_with_its_bytes,
    outcomes::each_answer_and_each_fault_leads_where_the_table_says,
    retries::server_errors_then_a_success_with_the_exact_gaps,
    retries::nine_sends_at_most_and_then_it_is_dead,
    retries::a_lowered_limit_ends_what_waits,
    claims::nothing_is_claimed_that_cannot_be_sent_at_once,
    claims::a_freed_sender_takes_the_next_order_without_a_poll,
    claims::a_stuck_order_is_taken_back_and_its_late_sender_changes_nothing,
    claims::a_claim_that_grew_old_is_given_back_unsent,
    claims::a_send_that_panics_loses_no_sender,
    claims::what_is_under_way_ends_before_the_worker_does,
    claims::settlements_of_an_outage_land_before_anything_is_taken_back,
    claims::a_changed_order_stops_no_other,
    claims::old_keys_are_forgotten_now_and_then,
    throttle::a_rate_limit_slows_the_lane_and_successes_speed_it_up,
    outages::revoked_credentials_kill_a_handful_and_no_probe_kills_any,
    outages::a_broker_that_is_away_for_an_hour_kills_nothing,
    outages::a_broker_that_fails_for_an_hour_takes_nine_sends_of_an_order,
}
