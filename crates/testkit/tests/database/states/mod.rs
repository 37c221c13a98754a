//! Tests what the database itself refuses, for any caller: every test bypasses the store with SQL as the owner of the
//! tables, on both engines.

mod arrange;
mod conditional;
mod immutable;
mod inserts;
mod publish;
mod refusal;
mod transitions;

posthaste_testkit::on_both_engines! {
    |h| &h;
    transitions::sagas_allow_only_legal_transitions,
    transitions::jobs_allow_only_legal_transitions,
    transitions::orders_allow_only_legal_transitions,
    transitions::identifying_columns_never_change,
    transitions::retry_count_changes_only_with_a_transition,
    immutable::finished_rows_never_change,
    immutable::append_only_rows_never_change,
    immutable::history_tables_cannot_be_emptied,
    inserts::rows_are_inserted_in_their_first_state_only,
    inserts::unique_keys_admit_one_row,
    inserts::a_dead_letter_is_requeued_once,
    conditional::the_ledger_of_an_unfinished_order_cannot_be_deleted,
    conditional::a_deleted_subscription_cannot_be_restored,
}
