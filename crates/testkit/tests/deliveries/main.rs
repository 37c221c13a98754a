//! What happens to deliveries, from the accepted event to the receiver and back: every component, real
//! sockets, a clock that the test moves, on both engines.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod changes;
mod faults;
mod isolation;
mod latency;
mod logs;
mod lost_workers;
mod once;
mod retries;
mod retry_after;
mod rotation;
mod zoo;

posthaste_testkit::on_both_engines! {
    |h| h;
    once::a_duplicate_event_is_delivered_once,
    once::an_event_routed_twice_is_delivered_once,
    once::a_result_applied_twice_changes_nothing,
    once::two_of_every_component_send_nothing_twice,
    lost_workers::a_worker_killed_before_it_reports,
    lost_workers::a_worker_that_reports_too_late,
    lost_workers::a_worker_that_stops_gives_its_jobs_back,
    lost_workers::a_job_that_kills_its_worker_again_and_again,
    lost_workers::neighbours_of_a_job_that_kills_its_worker_are_delivered,
    retries::retries_keep_the_schedule_until_the_dead_letter,
    retries::a_requeue_begins_anew_and_leaves_the_old_row_alone,
    retries::a_subscription_has_a_limit_of_its_own,
    retries::a_limit_lowered_while_a_retry_waits,
    retry_after::a_receiver_asks_for_a_later_retry,
    rotation::both_secrets_sign_until_the_old_one_expires,
    changes::a_paused_subscription_holds_its_deliveries,
    changes::a_deleted_subscription_holds_its_deliveries_for_ever,
    changes::a_job_admitted_before_the_deletion_is_not_sent,
    changes::a_changed_url_gets_no_delivery_until_verified,
    changes::a_request_in_progress_is_unaffected_by_a_url_change,
    changes::a_clock_set_back_does_not_delay_new_deliveries,
    faults::an_event_that_is_gone,
    faults::a_subscription_that_is_gone,
    faults::a_secret_sealed_with_another_key,
    faults::a_stored_url_that_cannot_be_read,
    faults::a_subscription_row_that_cannot_be_read,
    faults::a_redirect_to_this_machine,
    faults::an_address_that_is_not_allowed,
    faults::plain_http_that_is_not_allowed,
    isolation::one_black_hole_among_twenty,
    isolation::five_black_holes_among_twenty,
    latency::a_router_that_was_down_shows_in_the_latency,
    zoo::odd_receivers_beside_a_healthy_one,
}
