//! Tests the path of deliveries from the accepted event to the receiver and back with all components, real
//! sockets and a simulated clock, on both engines.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod certificates;
mod changes;
mod faults;
mod isolation;
mod latency;
mod logs;
mod lost_workers;
mod message_ids;
mod misbehaving_receivers;
mod once;
mod requests;
mod retries;
mod retry_after;
mod rotation;
mod tokens;

posthaste_testkit::on_both_engines! {
    |h| h;
    once::a_duplicate_event_is_delivered_once,
    once::an_event_routed_twice_is_delivered_once,
    once::a_result_applied_twice_changes_nothing,
    once::two_of_every_component_send_each_attempt_once,
    lost_workers::a_job_of_a_killed_worker_is_sent_again_after_its_lease,
    lost_workers::a_late_report_is_refused,
    lost_workers::a_draining_worker_releases_its_jobs,
    lost_workers::a_job_that_kills_its_workers_fails_after_the_last_reset,
    lost_workers::neighbours_of_a_job_that_kills_its_worker_are_delivered,
    retries::retries_follow_the_schedule_until_dead_lettered,
    retries::a_requeue_creates_a_new_saga_and_leaves_the_old_one_unchanged,
    retries::each_subscription_has_its_own_limit,
    retries::a_limit_lowered_while_a_retry_waits_ends_the_delivery,
    retry_after::retry_after_delays_the_next_attempt,
    rotation::both_secrets_sign_until_the_old_one_expires,
    changes::a_subscription_has_its_own_timeout,
    changes::a_paused_subscription_holds_its_deliveries,
    changes::a_deleted_subscription_holds_its_deliveries_for_ever,
    changes::a_job_admitted_before_the_deletion_is_not_sent,
    changes::a_changed_url_gets_no_delivery_until_verified,
    changes::a_request_in_progress_is_unaffected_by_a_url_change,
    changes::a_clock_set_back_does_not_delay_new_deliveries,
    faults::a_missing_event_fails_with_a_code,
    faults::a_missing_subscription_holds_the_delivery,
    faults::an_unreadable_secret_fails_with_a_code,
    faults::a_planted_secret_fails_with_a_code,
    faults::an_invalid_stored_url_fails_with_a_code,
    faults::an_unreadable_subscription_row_fails_with_a_code,
    faults::a_redirect_to_loopback_is_not_followed,
    faults::a_blocked_address_is_never_contacted,
    faults::disallowed_http_is_never_sent,
    isolation::one_hanging_receiver_does_not_delay_nineteen_others,
    isolation::five_hanging_receivers_do_not_delay_fifteen_others,
    latency::latency_includes_a_router_outage,
    message_ids::an_id_is_stable_over_retries_and_a_requeue,
    message_ids::every_delivery_has_its_own_id,
    message_ids::events_before_the_key_keep_their_ids,
    message_ids::a_reissued_event_id_has_another_message_id,
    requests::each_envelope_has_its_body_and_headers,
    requests::custom_headers_are_sent_and_secret_ones_are_sealed,
    requests::requests_are_authenticated_by_a_header,
    requests::all_signature_formats_are_sent,
    tokens::one_token_serves_many_deliveries,
    tokens::a_failing_token_endpoint_fails_only_its_deliveries,
    certificates::a_client_certificate_is_presented,
    misbehaving_receivers::misbehaving_receivers_do_not_affect_a_healthy_one,
}
