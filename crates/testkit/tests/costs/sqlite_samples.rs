//! The sample arguments for each SQLite statement, and exceptions for single statements. A statement without an entry
//! here gets the id of a finished row for every parameter.

use crate::{BATCH, HISTORY};
use rusqlite::types::Value;

const NOW: i64 = 1_800_000_000_000_000;
const PAGE: i64 = posthaste_core::ports::EXAMINED_MAX as i64;
const COUNTED_MAX: usize = posthaste_core::ports::COUNTED_MAX as usize;
const CHANGES_MAX: i64 = posthaste_core::ports::CHANGES_MAX as i64;
const BATCH_ROWS: i64 = BATCH as i64;

pub(crate) fn arguments(name: &str) -> Vec<Value> {
    let numbers = |numbers: &[i64]| numbers.iter().map(|number| Value::Integer(*number)).collect();
    let live = HISTORY;
    let text = |words: &str| Value::Text(words.to_owned());
    match name {
        "cleaner/insert_finished" | "cleaner/mark_suspect" | "worker/insert_finished" => {
            numbers(&[live + 201])
        }
        "cleaner/fetch_expired_leases" => numbers(&[NOW, BATCH_ROWS, 0, NOW + 120_000_000]),
        "dead_letter/find_dead_letters" => numbers(&[0, PAGE]),
        "dead_letter/find_dead_letters_of_subscription" => numbers(&[0, PAGE, 1]),
        "key/create_key" => {
            vec![text("name"), text("ingest"), text("acme"), Value::Blob(vec![7; 32]), Value::Integer(NOW)]
        }
        "insight/changes_of_patterns" => {
            let patterns: Vec<String> = (1..=BATCH).map(|kind| format!(r#"["","kind.{kind}"]"#)).collect();
            vec![Value::Text(format!("[{}]", patterns.join(","))), Value::Integer(CHANGES_MAX + 1)]
        }
        "insight/examine_sagas" => {
            numbers(&[live - PAGE, live, i64::from(posthaste_core::ports::SAGAS_MAX) + 1])
        }
        "insight/explained_deliveries" => numbers(&[500, BATCH_ROWS]),
        "insight/long_timeouts" => numbers(&[1_000, PAGE]),
        "insight/rollups" => numbers(&[10, NOW]),
        "insight/survey_queues" => numbers(&[NOW, 60_000, NOW, NOW]),
        "insight/survey_sagas" | "insight/processes" => numbers(&[NOW]),
        // Arguments that match the stored event; any other content would be refused.
        "ingest/compare_events" => {
            vec![text("nobody"), text("kind.1"), text("1"), Value::Null, Value::Null]
        }
        "ingest/insert_event" => events(1),
        "ingest/insert_8_events" => events(8),
        "ingest/insert_32_events" => events(32),
        "ingest/insert_128_events" => events(128),
        "key/find_key" | "key/end_session" => vec![Value::Blob(vec![7; 32])],
        "key/create_session" => {
            let hash = || Value::Blob(vec![7; 32]);
            vec![hash(), hash(), Value::Integer(NOW), Value::Integer(NOW + 1)]
        }
        "key/find_session" => vec![Value::Blob(vec![7; 32]), Value::Integer(NOW), Value::Integer(NOW)],
        "key/delete_surplus_sessions" => vec![Value::Blob(vec![7; 32]), Value::Integer(1)],
        "key/record_change" | "dead_letter/record_change" => {
            let (key, words) = (Value::Integer(7), ["ann", "192.0.2.7", "key_created", "keys/7"]);
            let mut values = vec![Value::Integer(NOW), key];
            values.extend(words.map(text));
            values.extend([Value::Null, text("{}")]);
            values
        }
        "orchestrator/count_in_flight" | "insight/count_unfinished" => vec![Value::Null, Value::Integer(16)],
        "insight/attempts_of_subscriptions" => vec![Value::Null, Value::Integer(0)],
        "orchestrator/delete_applied" => numbers(&[live + 301, live + 400]),
        "orchestrator/find_due_subscriptions" => numbers(&[0, BATCH_ROWS, NOW]),
        "orchestrator/find_recently_due" => {
            let mut values = numbers(&[0, NOW, BATCH_ROWS]);
            values.insert(0, text("Pending"));
            values
        }
        "orchestrator/fetch_due_sagas" => numbers(&[1, NOW, BATCH_ROWS, 0]),
        "orchestrator/fetch_job_results" => numbers(&[0, BATCH_ROWS]),
        "orchestrator/list_waiting_sagas" | "outbox_worker/fetch_waiting_orders" => {
            numbers(&[NOW, BATCH_ROWS])
        }
        "orchestrator/restart_waits" => numbers(&[1, NOW, NOW]),
        "outbox_worker/fetch_due_orders" => numbers(&[NOW, BATCH_ROWS]),
        "outbox_worker/list_queued_orders" => numbers(&[BATCH_ROWS]),
        "outbox_worker/fetch_stuck_orders" => numbers(&[NOW, BATCH_ROWS, NOW]),
        "outbox_worker/purge_ledger" => numbers(&[NOW, BATCH_ROWS]),
        "reader/count_requeued" => {
            vec![
                Value::Integer(1),
                Value::Integer(i64::MAX),
                Value::Integer(NOW),
                Value::Null,
                text("kind.none"),
            ]
        }
        "reader/dead_letter_heads"
        | "reader/deliveries"
        | "reader/event_heads"
        | "reader/operator_audit"
        | "reader/orders"
        | "reader/subscriptions" => numbers(&[i64::MAX, PAGE]),
        "reader/event_heads_of_time" => numbers(&[i64::MAX, PAGE, 0, i64::MAX]),
        "reader/dead_letter_heads_of_subscription" | "reader/deliveries_of_event" => {
            numbers(&[i64::MAX, PAGE, 500])
        }
        "reader/deliveries_of_status" => {
            vec![Value::Integer(i64::MAX), Value::Integer(PAGE), text("Completed")]
        }
        "reader/event_heads_of_external_id" => {
            vec![Value::Integer(i64::MAX), Value::Integer(PAGE), text("external-500")]
        }
        "reader/event_heads_of_type" => {
            vec![Value::Integer(i64::MAX), Value::Integer(PAGE), text("kind.5")]
        }
        "reader/newest_order_audit" => vec![text("key-500"), Value::Integer(BATCH_ROWS)],
        "reader/order_audit" => vec![text("key-500"), Value::Integer(0), Value::Integer(BATCH_ROWS)],
        "reader/order" | "outbox_intake/find_orders" => vec![text("key-500")],
        "reader/find_public_key" => vec![text("fingerprint-500")],
        "router/delete_routed" => numbers(&[live + 501, live + 600]),
        "router/fetch_queued_events" => numbers(&[0, BATCH_ROWS]),
        "router/insert_sagas" => vec![Value::Null, Value::Null, Value::Integer(NOW)],
        "router/match_subscriptions" => vec![text("")],
        "worker/find_suspect_job" => numbers(&[0]),
        "worker/lease_jobs" => {
            vec![Value::Null, Value::Integer(NOW), Value::Blob(vec![7; 16]), text("worker-1")]
        }
        "worker/complete_32_jobs" => (live + 201..live + 233).flat_map(delivered).collect(),
        "worker/fetch_due_jobs" => numbers(&[0, BATCH_ROWS]),
        _ => Vec::new(),
    }
}

/// Returns the insertion time, followed by eight values for each event.
fn events(count: usize) -> Vec<Value> {
    let text = |words: &str| Value::Text(words.to_owned());
    let one = |number| {
        let (traces, tenant) = ([Value::Null, Value::Null, Value::Null], text("acme"));
        let [correlation_id, parent, state] = traces;
        let id = text(&format!("new-{number}"));
        [id, text("kind.1"), text("{}"), correlation_id, parent, state, tenant, text("{}")]
    };
    std::iter::once(Value::Integer(NOW)).chain((0..count).flat_map(one)).collect()
}

/// Returns a leased job, its token and its result as arguments.
fn delivered(job: i64) -> [Value; 4] {
    [Value::Integer(job), Value::Blob(vec![0; 16]), Value::Integer(200), Value::Integer(7)]
}

/// Returns the values of the array parameter at `place`: mostly ids of live rows that the statement can change.
pub(crate) fn list(name: &str, place: usize) -> Vec<Value> {
    let first = match name.split_once('/') {
        Some(("orchestrator", verb)) if verb.contains("complete") => 301,
        // Subscription ids; the first 32 have live rows.
        Some(
            ("orchestrator", "count_in_flight")
            | ("insight", "count_unfinished" | "last_dead_letters" | "attempts_of_subscriptions"),
        ) => {
            return (1..=32).map(Value::Integer).collect();
        }
        Some(("orchestrator", _)) => 1,
        Some(("worker", verb)) if verb.contains("lease") => 401,
        // The probes of types with a common prefix.
        Some(("router", "match_subscriptions")) => {
            return (1..=BATCH).map(|kind| Value::Text(format!("kind.{kind}"))).collect();
        }
        // The subscriptions of each event.
        Some(("router", "insert_sagas")) if place == 2 => return vec![Value::Integer(1_000)],
        Some(_) | None => 201,
    };
    (HISTORY + first..HISTORY + first + BATCH_ROWS).map(Value::Integer).collect()
}

/// Returns the number of rows that a statement may examine: a page of a list, a backlog, or a batch.
pub(crate) fn rows_max(name: &str) -> usize {
    match name.split_once('/') {
        Some(("insight", "survey_queues" | "survey_sagas")) => COUNTED_MAX,
        Some(("reader" | "insight", _)) => PAGE as usize,
        Some(("dead_letter", verb)) if verb.starts_with("find") => PAGE as usize,
        Some(_) | None => BATCH,
    }
}

/// Returns whether a statement may sort. The listed statements sort only a few rows: the sagas of one event, counters
/// summed by name, or subscriptions that matched several types.
pub(crate) fn may_sort(name: &str) -> bool {
    [
        "reader/deliveries_of_event",
        "insight/explained_deliveries",
        "insight/rollups",
        "insight/changes_of_patterns",
    ]
    .contains(&name)
}
