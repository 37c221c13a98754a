//! What the database itself refuses, whoever asks: every test here goes past the store, with plain SQL
//! as the owner of the tables, on both engines.

mod arrange;
mod immutable;
mod inserts;
mod keepers;
mod publish;
mod refusal;
mod transitions;

posthaste_testkit::on_both_engines! {
    |h| &h;
    transitions::sagas_move_as_the_machine_says,
    transitions::jobs_move_as_the_machine_says,
    transitions::orders_move_as_the_machine_says,
    transitions::no_row_takes_another_identity,
    transitions::an_order_counts_only_with_a_transition,
    immutable::what_has_ended_never_changes,
    immutable::what_is_append_only_never_changes,
    immutable::tables_of_history_are_not_emptied,
    inserts::nothing_begins_in_the_middle,
    inserts::keys_admit_one_row,
    inserts::one_letter_is_requeued_once,
    keepers::the_ledger_outlives_an_unfinished_order,
    keepers::a_deleted_subscription_never_comes_back,
}
