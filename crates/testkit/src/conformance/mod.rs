//! The promises of a store. Each one is a function that is generic over the engine. [`promises!`](crate::promises)
//! lists all of them, so that every engine is checked against every promise.

pub mod audit;
pub mod cleaner;
pub mod dead_letter;
pub mod finding;
pub mod ingest;
pub mod key;
pub mod matching;
pub mod orchestrator;
pub mod outbox;
pub mod reader;
pub mod router;
pub mod subscriptions;
pub mod tenant;
pub mod worker;

/// Invokes a macro with the list of all promises.
#[macro_export]
macro_rules! promises {
    ($call:ident) => {
        $call! {
            ingest::concurrent_equal_submissions_create_one_event,
            ingest::duplicates_within_a_batch_are_stored_once,
            ingest::an_external_id_identifies_one_content,
            ingest::a_refused_request_does_not_affect_others,
            ingest::payloads_are_returned_byte_for_byte,
            ingest::ids_are_returned_in_the_order_of_the_events,
            router::an_event_queued_twice_creates_one_saga,
            router::an_event_committed_late_is_still_routed,
            router::only_active_and_verified_subscriptions_get_a_saga,
            router::two_routers_share_the_queue,
            matching::ten_thousand_random_events_are_routed_as_core_decides,
            matching::each_rule_of_matching_selects_its_subscriptions,
            matching::an_unreadable_filter_matches_no_event,
            matching::filters_change_while_routers_share_the_queue,
            orchestrator::two_orchestrators_create_one_job_for_each_saga,
            orchestrator::a_saga_never_has_two_active_jobs,
            orchestrator::a_result_applied_twice_counts_once,
            orchestrator::an_ignored_result_is_returned_and_changes_nothing,
            orchestrator::an_invalid_result_does_not_stop_others,
            orchestrator::a_lowered_limit_dead_letters_the_saga_when_due,
            orchestrator::retries_follow_the_schedule_into_the_dead_letter,
            orchestrator::retry_after_is_read_from_the_row,
            orchestrator::a_large_backlog_does_not_starve_others,
            orchestrator::recently_due_sagas_are_found_oldest_first,
            orchestrator::a_quota_skips_sagas_due_before_its_start,
            orchestrator::a_paused_subscription_holds_and_resumes,
            orchestrator::a_deleted_subscription_holds_its_deliveries_for_ever,
            orchestrator::a_clock_set_back_delays_no_delivery,
            orchestrator::deliveries_in_flight_are_counted_across_orchestrators,
            worker::sixteen_claimers_share_ten_thousand_jobs,
            worker::the_oldest_job_is_claimed_first,
            worker::a_report_after_the_lease_was_lost_is_refused,
            worker::a_repeated_report_is_accepted_and_changes_nothing,
            worker::a_lost_lease_does_not_affect_other_reports,
            worker::a_release_does_not_count_as_a_reset,
            worker::events_and_targets_are_loaded_once_each,
            worker::suspects_are_claimed_one_by_one_and_oldest_first,
            worker::a_subscription_deleted_after_admission_is_not_loaded,
            cleaner::a_job_is_either_reported_or_reset,
            cleaner::the_cleaner_is_idempotent_and_stops_at_the_limit,
            cleaner::leases_before_the_low_water_mark_are_skipped,
            cleaner::a_lease_beyond_the_maximum_counts_as_expired,
            dead_letter::a_dead_letter_commits_with_the_status_and_keeps_the_payload,
            dead_letter::concurrent_requeues_create_one_saga,
            dead_letter::a_requeue_leaves_the_dead_saga_unchanged,
            dead_letter::a_requeued_saga_can_be_dead_lettered_and_requeued_again,
            dead_letter::a_refused_requeue_gives_the_reason,
            dead_letter::dead_letters_are_found_by_filter,
            dead_letter::lineage_is_returned_for_both_sagas,
            dead_letter::outcomes_of_requeued_sagas_are_counted,
            dead_letter::an_operator_resumes_the_lane_and_keeps_its_rate,
            subscriptions::a_verification_of_the_old_url_does_not_verify_the_new_one,
            subscriptions::a_changed_url_must_be_verified_again,
            subscriptions::a_secret_rotates_with_overlap,
            subscriptions::a_secret_reference_is_unique_and_never_changes,
            subscriptions::secrets_are_resealed_without_a_change_of_the_subscription,
            subscriptions::a_rotation_and_a_reseal_do_not_lose_a_secret,
            subscriptions::every_change_is_recorded,
            outbox::concurrent_submissions_create_one_order,
            outbox::another_body_under_the_same_key_is_refused,
            outbox::orders_are_claimed_once_and_oldest_first,
            outbox::a_stuck_order_is_rewound_and_the_late_sender_is_fenced,
            outbox::a_clock_set_back_delays_no_order,
            outbox::a_settled_order_keeps_its_result,
            outbox::failed_orders_are_requeued_when_due,
            outbox::a_released_order_does_not_count_a_retry,
            outbox::a_tampered_order_ends_dead_unsent,
            outbox::a_too_deeply_nested_order_ends_dead_unsent,
            outbox::the_ledger_keeps_keys_of_unfinished_orders,
            outbox::the_audit_replays_to_the_current_state,
            outbox::canonical_bytes_are_returned_unchanged,
            key::keys_are_found_by_hash_until_revoked,
            key::sessions_are_found_until_they_end,
            key::a_key_has_a_limited_number_of_sessions,
            key::a_key_is_immutable_and_cannot_be_unrevoked,
            key::presence_and_counts_are_recorded,
            key::reports_are_bounded,
            reader::pages_stay_correct_while_rows_are_inserted,
            reader::a_delivery_includes_every_attempt,
            audit::every_change_is_audited,
            audit::a_no_op_is_not_audited,
            audit::a_change_that_cannot_be_audited_is_rolled_back,
            audit::entries_are_found_by_action_and_time,
            finding::events_are_found_by_time,
            finding::a_page_of_payloads_ends_at_its_limit,
            finding::a_scan_beyond_the_limit_continues_on_the_next_page,
            finding::subscriptions_are_found_by_type_and_status,
            finding::deliveries_are_found_by_error_and_time,
            tenant::deliveries_and_dead_letters_are_found_by_tenant,
            finding::subscription_health_sums_all_reports,
            finding::small_scans_continue_on_the_next_page,
            finding::only_a_server_reports_its_state,
        }
    };
}
