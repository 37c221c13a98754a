//! Tests the path of orders from the queue to the broker and back with real workers, the real adapter, real
//! sockets and a simulated clock, on both engines.
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
    wire::an_order_is_sent_with_its_key_and_canonical_bytes,
    outcomes::each_response_and_fault_leads_to_its_outcome,
    retries::server_errors_are_retried_at_the_exact_times,
    retries::an_order_is_dead_after_nine_sends,
    retries::a_lowered_limit_ends_waiting_orders,
    claims::only_orders_that_can_be_sent_at_once_are_claimed,
    claims::a_free_sender_claims_the_next_order_without_a_poll,
    claims::a_stuck_order_is_rewound_and_its_late_sender_is_fenced,
    claims::an_old_claim_is_released_unsent,
    claims::a_panicking_send_frees_its_sender,
    claims::a_drain_waits_for_sends_in_progress,
    claims::settlements_delayed_by_an_outage_are_written_before_rewinds,
    claims::a_tampered_order_does_not_block_others,
    claims::expired_keys_are_purged,
    throttle::a_rate_limit_slows_the_lane_and_successes_speed_it_up,
    outages::revoked_credentials_end_few_orders_and_probes_end_none,
    outages::an_unreachable_broker_ends_no_order,
    outages::a_failing_broker_uses_up_the_nine_sends_of_an_order,
}
