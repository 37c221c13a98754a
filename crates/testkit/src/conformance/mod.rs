//! The promises of a store. Each is a function over any engine; [`promises`] names them all, so that
//! none can be forgotten on one of the engines.

pub mod audit;
pub mod cleaner;
pub mod dead_letter;
pub mod finding;
pub mod ingest;
pub mod key;
pub mod orchestrator;
pub mod outbox;
pub mod reader;
pub mod router;
pub mod subscriptions;
pub mod worker;

/// Calls a macro with every promise.
#[macro_export]
macro_rules! promises {
    ($call:ident) => {
        $call! {
            ingest::equal_submissions_at_once_are_one_event,
            ingest::a_batch_that_contains_its_own_duplicate,
            ingest::an_external_id_identifies_one_content,
            ingest::a_refused_request_stops_no_other,
            ingest::payloads_come_back_byte_for_byte,
            ingest::ids_belong_to_their_events,
            router::the_same_event_twice_makes_one_saga,
            router::an_event_committed_late_is_still_routed,
            router::only_active_and_verified_subscriptions_get_a_saga,
            router::two_routers_share_the_queue,
            orchestrator::two_orchestrators_make_one_job_for_each_saga,
            orchestrator::never_two_active_jobs,
            orchestrator::a_result_applied_twice_counts_once,
            orchestrator::an_ignored_result_is_returned_and_changes_nothing,
            orchestrator::a_strange_result_stops_nobody,
            orchestrator::a_limit_lowered_below_the_count_ends_the_saga_when_due,
            orchestrator::retries_follow_the_schedule_into_the_dead_letter,
            orchestrator::retry_after_is_read_from_the_row,
            orchestrator::a_large_backlog_starves_nobody,
            orchestrator::what_came_due_recently_is_found_oldest_first,
            orchestrator::a_quota_leaves_out_what_came_due_before,
            orchestrator::a_paused_subscription_holds_and_resumes,
            orchestrator::a_deleted_subscription_holds_for_good,
            orchestrator::a_clock_that_was_set_back_delays_no_delivery,
            orchestrator::deliveries_in_flight_are_counted_whoever_admitted_them,
            worker::sixteen_claimers_share_ten_thousand_jobs,
            worker::the_oldest_job_is_claimed_first,
            worker::a_zombie_reports_in_vain,
            worker::a_report_repeated_is_accepted_and_changes_nothing,
            worker::a_lost_lease_keeps_no_other_report_from_counting,
            worker::a_released_job_counts_no_reset,
            worker::events_and_targets_are_loaded_once_each,
            worker::suspects_are_claimed_one_by_one_and_oldest_first,
            worker::a_subscription_deleted_after_admission_is_not_loaded,
            cleaner::cleaner_against_reporter,
            cleaner::the_cleaner_is_idempotent_and_stops_at_the_limit,
            cleaner::leases_that_were_looked_at_are_not_looked_at_again,
            cleaner::a_lease_further_ahead_than_any_counts_as_expired,
            dead_letter::the_letter_commits_with_the_status_and_the_same_bytes,
            dead_letter::fifty_requeues_at_once_make_one_saga,
            dead_letter::the_dead_row_stays_as_it_was,
            dead_letter::a_requeued_saga_that_dies_can_be_requeued,
            dead_letter::what_cannot_be_requeued_says_why,
            dead_letter::letters_are_found_by_filter,
            dead_letter::a_lineage_is_known_from_either_end,
            dead_letter::what_came_of_requeued_ones_is_counted,
            dead_letter::an_operator_resumes_the_lane_and_keeps_its_rate,
            subscriptions::a_verification_of_the_old_url_does_not_verify_the_new_one,
            subscriptions::a_changed_url_unverifies,
            subscriptions::a_secret_rotates_with_overlap,
            subscriptions::every_change_is_kept,
            outbox::ten_submissions_at_once_are_one_order,
            outbox::another_body_under_the_same_key_is_refused,
            outbox::orders_are_claimed_once_and_oldest_first,
            outbox::a_stuck_order_is_rewound_and_the_late_sender_fenced,
            outbox::a_clock_that_was_set_back_delays_no_order,
            outbox::a_settled_order_keeps_its_result,
            outbox::failed_orders_wait_and_come_back,
            outbox::an_order_given_back_unsent_pays_nothing,
            outbox::an_order_that_was_tampered_with_is_set_aside,
            outbox::an_order_that_is_nested_too_deep_is_set_aside,
            outbox::the_ledger_outlives_every_unfinished_order,
            outbox::the_audit_replays_to_the_present_state,
            outbox::the_canonical_bytes_come_back,
            key::keys_are_found_by_hash_until_revoked,
            key::sessions_are_found_until_they_end,
            key::a_key_has_a_limited_number_of_sessions,
            key::a_key_never_changes_and_never_comes_back,
            key::presence_is_seen_and_counted,
            key::reports_are_bounded,
            reader::pages_stay_correct_while_rows_arrive,
            reader::a_delivery_shows_every_attempt,
            audit::every_change_is_audited,
            audit::what_changes_nothing_is_not_audited,
            audit::a_change_that_cannot_be_audited_is_not_made,
            audit::entries_are_found_by_action_and_time,
            finding::events_are_found_by_time,
            finding::a_page_of_payloads_ends_at_its_limit,
            finding::a_long_look_goes_on_where_it_ended,
            finding::subscriptions_are_found_by_type_and_standing,
            finding::deliveries_are_found_by_error_and_time,
            finding::the_health_of_a_subscription_is_told,
            finding::a_short_look_goes_on_where_it_ended,
        }
    };
}
