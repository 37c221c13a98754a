//! Tests of the HTTP API over real sockets, on both engines: the success of each call, each documented error, and each
//! role, allowed and rejected.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod audit;
mod cloud_events;
mod dashboard;
mod dashboard_concerns;
mod dashboard_cost;
mod dashboard_events;
mod dashboard_filters;
mod dashboard_orders;
mod dashboard_requeue;
mod dashboard_subscription_edit;
mod dashboard_subscription_form;
mod dashboard_subscriptions;
mod dashboard_system;
mod dashboard_trouble;
mod dead_letters;
mod deliveries;
mod docs_page;
mod doctor;
mod doctor_server;
mod events;
mod explain;
mod faults;
mod frame;
mod keys;
mod openapi;
mod operations;
mod orders;
mod pages;
mod preview;
mod problems;
mod reseal;
mod roles;
mod secrets;
mod server;
mod subscription_identity;
mod subscription_patterns;
mod subscription_requests;
mod subscription_secrets;
mod subscriptions;
mod tenants;
mod verification;
mod verification_methods;

posthaste_testkit::on_both_engines! {
    |h| &crate::server::TestApi::start(h).await;
    frame::every_failure_is_a_problem,
    frame::request_ids_are_returned,
    frame::health_readiness_and_metrics_need_no_key,
    frame::a_paused_lane_is_reported_and_stays_ready,
    roles::each_role_may_make_its_own_calls_only,
    roles::only_a_known_key_is_accepted,
    keys::a_key_is_shown_once_and_revoked_for_good,
    keys::bad_keys_are_refused,
    events::an_event_is_accepted_once,
    events::payloads_are_kept_byte_for_byte,
    events::a_batch_is_all_or_nothing,
    events::duplicates_in_a_batch_are_stored_once,
    events::an_external_id_identifies_one_content,
    events::correlation_and_trace_are_kept,
    events::bad_events_are_refused_by_name,
    events::an_event_is_shown_with_its_deliveries,
    cloud_events::all_modes_produce_the_same_event,
    cloud_events::ids_are_unique_within_their_source_only,
    cloud_events::bad_cloud_events_are_refused,
    openapi::the_document_describes_every_call,
    openapi::everything_has_a_description,
    openapi::roles_are_security_scopes,
    problems::all_errors_of_a_request_are_reported,
    problems::each_problem_has_its_type_and_title,
    openapi::the_examples_are_accepted,
    openapi::responses_match_their_schemas,
    pages::every_row_is_listed_once_while_rows_are_inserted,
    pages::bad_cursors_and_limits_are_refused,
    pages::payloads_are_listed_on_request_up_to_4_mib_per_page,
    pages::too_many_parameters_are_refused,
    subscriptions::a_subscription_is_created_changed_and_deleted,
    subscriptions::bad_subscriptions_are_refused_by_name,
    subscriptions::a_change_is_a_merge_patch,
    subscriptions::a_changed_url_must_be_verified_again,
    subscriptions::secrets_are_shown_at_creation_and_rotation_only,
    subscription_patterns::types_and_filters_are_stored_and_changed,
    subscription_patterns::bad_types_and_filters_are_refused_by_name,
    subscription_patterns::operational_types_need_an_unbound_key,
    subscription_patterns::matching_subscriptions_are_explained,
    subscription_identity::identities_are_stored_and_unique_per_tenant,
    subscription_identity::lists_are_filtered_by_identity,
    subscription_identity::a_bound_key_sees_its_own_tenant_only,
    subscription_identity::a_replacement_creates_or_replaces_by_uid,
    subscription_identity::entity_tags_detect_other_changes,
    subscription_identity::concurrent_changes_are_not_lost,
    subscription_secrets::supplied_secrets_are_used,
    subscription_secrets::bad_secrets_and_formats_are_refused_by_name,
    subscription_secrets::three_secrets_are_live_during_rotations,
    subscription_secrets::public_keys_are_shown_to_receivers,
    subscription_secrets::a_replacement_keeps_secrets_that_it_does_not_name,
    subscription_requests::secret_values_are_kept_and_never_shown,
    subscription_requests::bad_requests_are_refused_by_name,
    subscription_requests::stored_secrets_stay_with_their_host,
    reseal::outdated_secrets_are_resealed_and_unreadable_ones_reported,
    verification::only_an_echo_verifies_and_failures_give_the_reason,
    verification::a_change_during_verification_leaves_it_unverified,
    verification::a_reseal_during_verification_does_not_matter,
    verification::test_events_are_sent_to_verified_urls_only,
    verification_methods::each_method_verifies_and_is_recorded,
    verification_methods::a_handshake_needs_the_origin_and_a_valid_rate,
    verification_methods::the_address_policy_applies_to_the_handshake,
    verification_methods::a_method_must_be_allowed,
    verification_methods::a_change_during_the_handshake_does_not_verify_the_new_url,
    verification_methods::nothing_is_sent_to_an_unverified_url,
    preview::a_preview_shows_the_request_without_secrets,
    preview::a_preview_shows_only_objects_of_the_tenant,
    tenants::every_call_is_limited_to_the_tenant_of_its_key,
    tenants::a_bound_key_creates_and_finds_subscriptions_of_its_tenant,
    tenants::a_bound_key_requeues_dead_letters_of_its_tenant_only,
    tenants::a_bound_key_implies_the_tenant_of_new_events,
    tenants::tenant_and_attributes_are_part_of_the_content,
    tenants::statistics_of_a_tenant_count_its_subscriptions_only,
    tenants::keys_are_bound_at_their_creation,
    cloud_events::attributes_are_stored,
    cloud_events::invalid_attributes_are_refused_by_name,
    deliveries::a_delivery_is_listed_and_shown_with_its_attempts,
    explain::every_reason_is_explained,
    explain::every_delivery_state_is_explained,
    explain::the_deciding_pattern_and_clause_are_named,
    explain::too_many_changes_are_reported_as_truncated,
    operations::stats_sum_the_counters_of_all_processes,
    operations::stats_show_known_counters_only,
    operations::deeply_nested_rows_are_shown,
    operations::the_backlog_is_counted_and_shown,
    operations::the_system_lists_its_processes,
    operations::requests_are_counted_by_call_and_status,
    doctor::a_busy_system_is_healthy,
    doctor::every_kind_of_damage_is_found,
    doctor::history_is_examined_page_by_page,
    doctor::conservation_follows_patterns_filters_and_tenants,
    doctor::capped_timeouts_are_reported,
    dead_letters::a_dead_letter_is_requeued_once,
    dead_letters::dead_letters_are_requeued_by_filter,
    roles::unknown_keys_are_limited_and_counted,
    frame::a_request_has_one_host,
    dashboard::pages_require_a_session,
    dashboard::each_role_sees_only_its_actions,
    dashboard::a_forged_form_is_refused,
    dashboard::sessions_are_shared_by_all_processes,
    dashboard::sessions_expire_after_twelve_hours,
    dashboard::a_form_from_another_origin_is_refused,
    dashboard::a_delivery_links_to_its_dead_letter_and_requeued_delivery,
    dashboard_requeue::matching_dead_letters_are_requeued_after_a_preview,
    dashboard_requeue::a_large_requeue_shows_progress,
    dashboard_requeue::failures_after_the_preview_are_not_requeued,
    dashboard::user_content_is_escaped,
    dashboard_subscriptions::the_secret_of_a_new_subscription_is_shown_once,
    dashboard_subscriptions::a_subscription_is_paused_and_resumed,
    dashboard_subscriptions::only_an_admin_changes_subscriptions,
    dashboard_subscriptions::a_url_is_verified_with_the_selected_method,
    dashboard_subscriptions::the_list_shows_the_health_of_subscriptions,
    dashboard_subscriptions::a_search_over_many_subscriptions_can_be_continued,
    dashboard_subscriptions::ten_thousand_subscriptions_are_listed_in_short_pages,
    dashboard_subscription_edit::a_subscription_is_edited,
    dashboard_subscription_edit::a_subscription_is_deleted_after_confirmation,
    dashboard_subscription_edit::only_an_admin_edits_and_deletes_subscriptions,
    dashboard_subscription_edit::a_test_event_shows_the_response,
    dashboard_subscription_form::every_field_is_created_shown_and_edited,
    dashboard_subscription_form::the_form_shows_matching_events,
    dashboard_subscription_form::the_request_is_shown_as_it_will_be_sent,
    dashboard_subscription_form::subscriptions_are_listed_by_tenant_uid_and_name,
    dashboard_events::tenant_and_attributes_of_events_are_shown,
    dashboard_concerns::the_overview_lists_problems_with_receiver_and_time,
    dashboard_concerns::a_held_delivery_shows_the_reason,
    dashboard_concerns::a_dead_letter_links_to_related_objects,
    dashboard_events::events_are_filtered_by_every_field,
    dashboard_events::the_list_of_events_contains_no_payloads,
    dashboard_events::an_event_is_explained,
    dashboard_filters::an_invalid_filter_is_marked_in_its_form,
    dashboard_filters::times_are_accepted_as_browsers_send_them,
    dashboard_events::a_long_search_shows_how_far_it_got,
    dashboard_events::a_search_can_start_near_the_requested_time,
    dashboard_orders::orders_are_filtered_by_status_and_key,
    dashboard_orders::an_order_is_shown_with_its_audit,
    dashboard_orders::a_long_audit_is_truncated,
    dashboard_orders::only_an_operator_resumes_a_paused_lane,
    dashboard_system::a_viewer_sees_the_state_of_the_system,
    dashboard_system::the_history_is_checked_on_request,
    dashboard_trouble::an_unknown_id_gets_a_helpful_error_page,
    orders::an_order_is_accepted_once,
    orders::bad_orders_are_refused_by_name_and_nothing_is_stored,
    orders::equal_orders_have_one_digest_whatever_their_spelling,
    orders::keys_with_special_characters_are_found,
    orders::a_repeated_submission_returns_the_result,
    orders::the_ledger_of_an_unfinished_order_is_never_purged,
    orders::concurrent_equal_submissions_create_one_order,
    orders::orders_are_listed_by_status_and_page,
    orders::every_transition_is_audited,
    orders::the_lane_is_shown_and_resumed,
    audit::every_change_names_its_key_and_address,
    audit::the_audit_is_found_by_action_and_time,
    audit::failed_sign_ins_are_written_once_a_minute,
    audit::the_audit_page_requires_an_admin,
    faults::slow_uploads_do_not_block_others,
    faults::a_full_queue_returns_503,
    faults::requests_in_progress_are_finished_at_shutdown,
}
