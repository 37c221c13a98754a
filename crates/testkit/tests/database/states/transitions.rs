//! Tests UPDATEs between all pairs of states of a saga, a job and an order.

use super::arrange::{JOB_PATHS, JOBS, ORDER_PATHS, ORDERS, Paths, SAGA_PATHS, SAGAS, fresh, walk};
use super::refusal::{Rule, refused};
use posthaste_core::ports::Stores;
use posthaste_testkit::harness::{Engine, Harness};

/// A state machine in the specification.
struct Machine {
    table: &'static str,
    paths: Paths,
    /// The transitions that an update may make; all others are refused.
    legal: &'static [(&'static str, &'static str)],
}

const SAGA: Machine = Machine {
    table: SAGAS,
    paths: SAGA_PATHS,
    legal: &[
        ("Pending", "Pending"),
        ("Pending", "InProgress"),
        ("InProgress", "InProgress"),
        ("InProgress", "PendingRetry"),
        ("InProgress", "Completed"),
        ("InProgress", "DeadLettered"),
        ("PendingRetry", "PendingRetry"),
        ("PendingRetry", "InProgress"),
        ("PendingRetry", "DeadLettered"),
    ],
};

const JOB: Machine = Machine {
    table: JOBS,
    paths: JOB_PATHS,
    legal: &[
        ("Pending", "Pending"),
        ("Pending", "Leased"),
        ("Leased", "Leased"),
        ("Leased", "Pending"),
        ("Leased", "Completed"),
        ("Leased", "Failed"),
    ],
};

const ORDER: Machine = Machine {
    table: ORDERS,
    paths: ORDER_PATHS,
    legal: &[
        ("queued", "queued"),
        ("queued", "sending"),
        ("sending", "sending"),
        ("sending", "sent"),
        ("sending", "failed"),
        ("sending", "dead"),
        ("sending", "queued"),
        ("failed", "failed"),
        ("failed", "queued"),
        ("failed", "dead"),
    ],
};

pub(crate) async fn sagas_allow_only_legal_transitions<S: Stores>(h: &Harness<S>) {
    check_machine(h, &SAGA).await;
}

pub(crate) async fn jobs_allow_only_legal_transitions<S: Stores>(h: &Harness<S>) {
    check_machine(h, &JOB).await;
}

pub(crate) async fn orders_allow_only_legal_transitions<S: Stores>(h: &Harness<S>) {
    check_machine(h, &ORDER).await;
}

async fn check_machine<S: Stores>(h: &Harness<S>, machine: &Machine) {
    let Machine { table, paths, legal } = machine;
    let states = paths.len();
    let mut rows = fresh(h, table, states * states).await.into_iter();
    for (from, path) in *paths {
        for (to, _) in *paths {
            let id = rows.next().expect("a row for each pair");
            walk(h, table, id, path).await;
            let update = format!("UPDATE {table} SET status = '{to}' WHERE id = {id}");
            if legal.contains(&(from, to)) {
                h.direct.run(&update).await;
                let status = h.direct.texts(&format!("SELECT status FROM {table} WHERE id = {id}")).await;
                assert_eq!(status, [*to], "{update}");
            } else {
                refused(h, &[Rule::Guard], table, &update).await;
            }
            // Unknown states are refused in every state.
            let nowhere = format!("UPDATE {table} SET status = 'Elsewhere' WHERE id = {id}");
            refused(h, &[Rule::Guard, Rule::Value], table, &nowhere).await;
            let nothing = format!("UPDATE {table} SET status = NULL WHERE id = {id}");
            refused(h, &[Rule::Guard, Rule::Value], table, &nothing).await;
            if h.engine == Engine::Sqlite {
                check_replaced_null(h, machine, id).await;
            }
        }
    }
    assert_eq!(rows.next(), None);
}

/// Checks UPDATE OR REPLACE with NULL. Where NULL is not allowed, REPLACE uses the default, which is the initial state,
/// and does so after the triggers have seen the NULL. This must not allow other transitions either.
async fn check_replaced_null<S: Stores>(h: &Harness<S>, machine: &Machine, id: i64) {
    let Machine { table, paths, legal } = machine;
    let status = format!("SELECT status FROM {table} WHERE id = {id}");
    let from = h.direct.texts(&status).await.remove(0);
    let (first, _) = paths[0];
    let replace = format!("UPDATE OR REPLACE {table} SET status = NULL WHERE id = {id}");
    if legal.contains(&(from.as_str(), first)) {
        // The update may be refused or accepted; the row must be in a legal state.
        let _ = h.direct.try_rows(&replace).await;
        let to = h.direct.texts(&status).await.remove(0);
        assert!(to == from || to == first, "{from} became {to}");
    } else {
        refused(h, &[Rule::Guard], table, &replace).await;
    }
}

/// The columns that identify a row and never change.
const IDENTITY: &[(&str, Paths, &[&str])] = &[
    (
        SAGAS,
        SAGA_PATHS,
        &["event_id = event_id + 1000", "subscription_id = subscription_id + 1000", "requeued_from = 1"],
    ),
    (JOBS, JOB_PATHS, &["saga_id = saga_id + 1000", "attempt_at = lease_until"]),
    (
        ORDERS,
        ORDER_PATHS,
        &["idempotency_key = 'another'", "request_digest = 'another'", "request_json = '{\"another\":1}'"],
    ),
];

pub(crate) async fn identifying_columns_never_change<S: Stores>(h: &Harness<S>) {
    let moves: &[&str] = match h.engine {
        Engine::Sqlite => &["id = id + 1000", "rowid = id + 1000", "oid = id + 1000", "_rowid_ = id + 1000"],
        Engine::Postgres | Engine::PostgresCut => &["id = DEFAULT"],
    };
    for (table, paths, changes) in IDENTITY {
        let rows = fresh(h, table, paths.len()).await;
        // Make `lease_until` differ from `attempt_at`.
        if *table == JOBS {
            let later = match h.engine {
                Engine::Sqlite => "lease_until + 1",
                Engine::Postgres | Engine::PostgresCut => "lease_until + interval '1 second'",
            };
            h.direct.run(&format!("UPDATE {JOBS} SET lease_until = {later}")).await;
        }
        for ((_, path), id) in paths.iter().zip(rows) {
            walk(h, table, id, path).await;
            for change in moves.iter().chain(*changes) {
                let update = format!("UPDATE {table} SET {change} WHERE id = {id}");
                refused(h, &[Rule::Guard], table, &update).await;
            }
        }
    }
}

/// Checks that an order's retry count and error cannot change without a transition, because replaying the audit must
/// yield both.
pub(crate) async fn retry_count_changes_only_with_a_transition<S: Stores>(h: &Harness<S>) {
    let rows = fresh(h, ORDERS, 3).await;
    let paths: [&[&str]; 3] = [&[], &["sending"], &["sending", "failed"]];
    for (id, path) in rows.into_iter().zip(paths) {
        walk(h, ORDERS, id, path).await;
        for change in ["retry_count = retry_count + 1", "last_error = 'UNKNOWN'", "retry_count = -1"] {
            let update = format!("UPDATE {ORDERS} SET {change} WHERE id = {id}");
            refused(h, &[Rule::Guard], ORDERS, &update).await;
        }
        if h.engine == Engine::Sqlite {
            let back = format!("UPDATE OR REPLACE {ORDERS} SET retry_count = NULL WHERE id = {id}");
            refused(h, &[Rule::Guard], ORDERS, &back).await;
        }
    }
    let audited = "SELECT count(*) FROM outbox_audit";
    assert_eq!(h.direct.number(audited).await, 3 + 1 + 2, "one row for each insert and each transition");
    h.direct.run(&format!("UPDATE {ORDERS} SET status = 'sending', retry_count = 1, last_error = 'UNKNOWN' WHERE status = 'queued'")).await;
    assert_eq!(h.direct.number(audited).await, 3 + 1 + 2 + 1);
}
