//! Tests inserts: rows must be in their initial state, with one row per unique key.

use super::arrange::{JOBS, ORDERS, SAGAS, fresh, walk};
use super::refusal::{Rule, dump, refused};
use posthaste_core::ports::{DeadLetterStore as _, Requeue, Stores};
use posthaste_testkit::fixtures::{T0, actor};
use posthaste_testkit::harness::{Engine, Harness};

/// A function that returns an INSERT without conflicts, with an additional column set to a value.
type Insert = fn(&str, &str) -> String;

fn saga(column: &str, value: &str) -> String {
    format!(
        "INSERT INTO {SAGAS} (event_id, subscription_id, next_attempt_at, created_at, updated_at, {column})
            SELECT 900000, 1, created_at, created_at, created_at, {value} FROM events WHERE id = 1"
    )
}

fn job(column: &str, value: &str) -> String {
    format!(
        "INSERT INTO {JOBS} (saga_id, lease_until, attempt_at, created_at, {column})
            SELECT 900000, created_at, created_at, created_at, {value} FROM events WHERE id = 1"
    )
}

fn order(column: &str, value: &str) -> String {
    format!(
        "INSERT INTO {ORDERS} (idempotency_key, request_json, request_digest, next_attempt_at, created_at, updated_at, {column})
            SELECT 'first-state', '{{}}', 'sha256:0', created_at, created_at, created_at, {value} FROM events WHERE id = 1"
    )
}

pub(crate) async fn rows_are_inserted_in_their_first_state_only<S: Stores>(h: &Harness<S>) {
    h.publish("first.state", 1).await;
    let token = match h.engine {
        Engine::Sqlite => "x'00112233445566778899aabbccddeeff'",
        Engine::Postgres | Engine::PostgresCut => "'00112233-4455-6677-8899-aabbccddeeff'",
    };
    let rows: &[(&str, Insert, &str, &str)] = &[
        (SAGAS, saga, "status", "'InProgress'"),
        (SAGAS, saga, "status", "'PendingRetry'"),
        (SAGAS, saga, "status", "'Completed'"),
        (SAGAS, saga, "status", "'DeadLettered'"),
        (SAGAS, saga, "attempt_count", "1"),
        (SAGAS, saga, "attempt_count", "-1"),
        (SAGAS, saga, "current_job_id", "1"),
        (SAGAS, saga, "final_error_code", "'HTTP_500'"),
        (JOBS, job, "status", "'Leased'"),
        (JOBS, job, "status", "'Completed'"),
        (JOBS, job, "status", "'Failed'"),
        (JOBS, job, "lease_resets", "1"),
        (JOBS, job, "lease_token", token),
        (ORDERS, order, "status", "'sending'"),
        (ORDERS, order, "status", "'sent'"),
        (ORDERS, order, "status", "'failed'"),
        (ORDERS, order, "status", "'dead'"),
        (ORDERS, order, "retry_count", "1"),
        (ORDERS, order, "retry_count", "-1"),
    ];
    for (table, insert, column, value) in rows {
        refused(h, &[Rule::Guard], table, &insert(column, value)).await;
    }
    // The same rows are accepted in their initial state, so the state was the reason for the refusal.
    for (table, insert, first) in
        [(SAGAS, saga as Insert, "'Pending'"), (JOBS, job, "'Pending'"), (ORDERS, order, "'queued'")]
    {
        h.direct.run(&insert("status", first)).await;
        assert_eq!(dump(h, table).await.len(), 1);
    }
}

pub(crate) async fn unique_keys_admit_one_row<S: Stores>(h: &Harness<S>) {
    let sagas = fresh(h, SAGAS, 1).await;
    let jobs = fresh(h, JOBS, 2).await;
    fresh(h, ORDERS, 1).await;
    walk(h, JOBS, jobs[1], &["Leased", "Failed"]).await;
    h.direct.run(&format!("UPDATE {SAGAS} SET status = 'InProgress' WHERE id = {}", sagas[0])).await;
    h.direct.run(&format!("UPDATE {SAGAS} SET status = 'Completed' WHERE id = {}", sagas[0])).await;
    let later = match h.engine {
        Engine::Sqlite => "attempt_at + 1",
        Engine::Postgres | Engine::PostgresCut => "attempt_at + interval '1 microsecond'",
    };
    let routed_again = format!(
        "INSERT INTO {SAGAS} (event_id, subscription_id, next_attempt_at, created_at, updated_at)
            SELECT event_id, subscription_id, next_attempt_at, created_at, updated_at FROM {SAGAS} WHERE id = {}",
        sagas[0]
    );
    let job_like = |id: i64, attempt_at: &str| {
        format!(
            "INSERT INTO {JOBS} (saga_id, lease_until, attempt_at, created_at)
                SELECT saga_id, lease_until, {attempt_at}, created_at FROM {JOBS} WHERE id = {id}"
        )
    };
    let ordered_again = format!(
        "INSERT INTO {ORDERS} (idempotency_key, request_json, request_digest, next_attempt_at, created_at, updated_at)
            SELECT idempotency_key, request_json, request_digest, next_attempt_at, created_at, updated_at FROM {ORDERS}"
    );
    // The pair of event and subscription stays reserved after its saga has finished.
    refused(h, &[Rule::Key], SAGAS, &routed_again).await;
    // A second active job, and the same attempt again although its job has finished.
    refused(h, &[Rule::Key], JOBS, &job_like(jobs[0], later)).await;
    refused(h, &[Rule::Key], JOBS, &job_like(jobs[1], "attempt_at")).await;
    refused(h, &[Rule::Key], ORDERS, &ordered_again).await;
    // After the job has finished, a later attempt is accepted and becomes the active one, leased or not.
    h.direct.run(&job_like(jobs[1], later)).await;
    let active = h.direct.number(&format!("SELECT max(id) FROM {JOBS}")).await;
    walk(h, JOBS, active, &["Leased"]).await;
    let much_later = later.replace("+ 1", "+ 2").replace("'1 ", "'2 ");
    refused(h, &[Rule::Key], JOBS, &job_like(jobs[1], &much_later)).await;
}

pub(crate) async fn a_dead_letter_is_requeued_once<S: Stores>(h: &Harness<S>) {
    let (subscription, dead, letter) = h.dead_letter("requeue").await;
    let by_hand = format!(
        "INSERT INTO {SAGAS} (event_id, subscription_id, requeued_from, next_attempt_at, created_at, updated_at)
            SELECT event_id, subscription_id, {letter}, next_attempt_at, created_at, updated_at FROM {SAGAS} WHERE id = {dead}"
    );
    let made = h.calm.dead_letters().requeue_dead_letters(vec![letter], actor(), T0).await.expect("a saga");
    let [Requeue::Created(saga)] = made[..] else { panic!("{made:?}") };
    refused(h, &[Rule::Key], SAGAS, &by_hand).await;
    // The function, or the view that replaces it on SQLite, returns the saga of the first requeue.
    let again = match h.engine {
        Engine::Sqlite => {
            h.direct
                .run(&format!("INSERT INTO requeue (dead_letter_id, requeued_at) VALUES ({letter}, 1)"))
                .await;
            format!("SELECT saga_id FROM requeue WHERE dead_letter_id = {letter}")
        }
        Engine::Postgres | Engine::PostgresCut => {
            format!("SELECT saga_id FROM requeue({letter}) WHERE outcome = 'already_requeued'")
        }
    };
    assert_eq!(h.direct.number(&again).await, saga.get());
    let of_subscription = format!("SELECT count(*) FROM {SAGAS} WHERE subscription_id = {subscription}");
    assert_eq!(h.direct.number(&of_subscription).await, 2, "the DeadLettered saga and the new one");
}
