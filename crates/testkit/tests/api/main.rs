//! The HTTP API over real sockets, on both engines: each call's good path, each documented error, each
//! role let in and refused.
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
mod dashboard_subscriptions;
mod dashboard_system;
mod dashboard_trouble;
mod dead_letters;
mod deliveries;
mod docs_page;
mod doctor;
mod events;
mod explain;
mod faults;
mod frame;
mod keys;
mod openapi;
mod operations;
mod orders;
mod pages;
mod roles;
mod secrets;
mod server;
mod subscriptions;
mod verification;

posthaste_testkit::on_both_engines! {
    |h| &crate::server::TestApi::start(h).await;
    frame::every_failure_is_a_problem,
    frame::request_ids_come_back,
    frame::health_readiness_and_metrics_need_no_key,
    frame::a_paused_lane_is_told_and_stays_ready,
    roles::each_role_may_do_its_own_and_no_more,
    roles::only_a_known_key_is_let_in,
    keys::a_key_is_shown_once_and_revoked_for_good,
    keys::bad_keys_are_refused,
    events::an_event_is_accepted_once,
    events::payloads_are_kept_byte_for_byte,
    events::a_batch_is_all_or_nothing,
    events::a_batch_that_repeats_itself_is_stored_once,
    events::an_external_id_identifies_one_content,
    events::correlation_and_trace_are_kept,
    events::bad_events_are_refused_by_name,
    events::an_event_is_shown_with_its_deliveries,
    cloud_events::all_modes_are_the_same_event,
    cloud_events::ids_are_unique_within_their_source_only,
    cloud_events::bad_cloud_events_are_refused,
    openapi::the_document_describes_every_call,
    openapi::its_examples_work,
    openapi::its_answers_are_as_described,
    pages::every_row_comes_once_while_others_arrive,
    pages::bad_cursors_and_limits_are_refused,
    pages::payloads_come_when_asked_for_and_4_mib_at_once,
    pages::too_many_parameters_are_refused,
    subscriptions::a_subscription_lives_and_ends,
    subscriptions::bad_subscriptions_are_refused_by_name,
    subscriptions::a_changed_url_must_be_verified_again,
    subscriptions::secrets_are_shown_at_creation_and_rotation_only,
    verification::an_echo_verifies_and_anything_else_says_why_not,
    verification::a_change_meanwhile_leaves_it_unverified,
    verification::tests_go_to_verified_urls_only,
    deliveries::a_delivery_is_listed_and_shown_with_its_attempts,
    explain::every_reason_is_told,
    explain::every_fate_is_told,
    operations::stats_sum_up_what_was_counted,
    operations::stats_show_known_counters_only,
    operations::deeply_nested_rows_are_shown,
    operations::what_waits_is_counted_and_shown,
    operations::the_system_tells_who_runs,
    operations::requests_are_counted_by_call_and_status,
    doctor::a_busy_system_is_healthy,
    doctor::every_damage_is_found,
    doctor::history_is_walked_page_by_page,
    dead_letters::one_is_requeued_once,
    dead_letters::many_are_requeued_by_filter,
    dashboard::only_who_signed_in_sees_pages,
    dashboard::each_role_sees_what_it_may_press,
    dashboard::a_forged_form_is_refused,
    dashboard::a_session_is_known_and_ended_everywhere,
    dashboard::no_session_lasts_longer_than_twelve_hours,
    dashboard::a_form_of_another_origin_is_refused,
    roles::unknown_keys_are_limited_and_counted,
    frame::a_request_has_one_host,
    dashboard::a_delivery_is_told_with_its_lineage,
    dashboard_requeue::many_are_requeued_after_a_preview,
    dashboard_requeue::a_long_requeue_tells_how_far_it_is,
    dashboard_requeue::what_fails_after_the_preview_is_left,
    dashboard::what_others_wrote_stays_text,
    dashboard_subscriptions::a_subscription_is_made_and_its_secret_shown_once,
    dashboard_subscriptions::a_subscription_is_paused_and_resumed,
    dashboard_subscriptions::only_an_admin_changes_subscriptions,
    dashboard_subscriptions::subscriptions_are_found_with_their_health,
    dashboard_subscriptions::many_subscriptions_are_looked_through,
    dashboard_subscriptions::ten_thousand_subscriptions_come_in_short_pages,
    dashboard_subscription_edit::a_subscription_is_changed_in_a_form,
    dashboard_subscription_edit::a_subscription_is_deleted_after_a_question,
    dashboard_subscription_edit::only_an_admin_edits_and_deletes,
    dashboard_subscription_edit::a_test_shows_the_answer,
    dashboard_concerns::the_overview_says_what_is_wrong_for_whom_and_since_when,
    dashboard_concerns::a_delivery_that_is_held_says_why,
    dashboard_concerns::a_dead_letter_leads_to_all_that_it_is_about,
    dashboard_events::an_event_is_found_by_every_field,
    dashboard_events::a_list_of_events_has_no_payloads,
    dashboard_events::an_event_is_explained,
    dashboard_filters::a_wrong_filter_is_marked_in_its_form,
    dashboard_filters::a_time_is_taken_as_browsers_send_it,
    dashboard_events::a_long_look_says_how_far_it_came,
    dashboard_events::a_look_begins_near_the_time_asked_for,
    dashboard_orders::orders_are_found_by_status_and_key,
    dashboard_orders::an_order_is_told_with_its_audit,
    dashboard_orders::a_long_audit_is_cut,
    dashboard_orders::a_paused_lane_is_told_and_resumed_by_who_may,
    dashboard_system::the_system_is_told_to_whoever_may_look,
    dashboard_system::history_is_walked_when_asked,
    dashboard_trouble::an_unknown_id_leads_to_what_there_is,
    orders::an_order_is_accepted_once,
    orders::bad_orders_are_refused_by_name_and_nothing_is_stored,
    orders::one_order_has_one_digest_however_it_is_spelled,
    orders::keys_of_any_look_are_found_again,
    orders::the_end_of_an_order_is_told_to_whoever_submits_it_again,
    orders::the_ledger_of_an_unfinished_order_is_never_purged,
    orders::equal_submissions_at_once_are_one_order,
    orders::orders_are_listed_by_status_and_page,
    orders::every_transition_is_told,
    orders::the_lane_is_shown_and_resumed,
    audit::every_change_names_its_key_and_address,
    audit::the_audit_is_found_by_action_and_time,
    audit::failed_sign_ins_are_written_once_a_minute,
    audit::the_page_is_for_admins,
    faults::slow_uploads_stop_nobody,
    faults::a_full_queue_asks_to_come_back,
    faults::what_was_begun_is_finished_at_the_end,
}
