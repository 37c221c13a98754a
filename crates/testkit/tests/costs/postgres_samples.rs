//! The sample arguments for each PostgreSQL statement. Most are guessed from the parameter types, because the fill
//! scripts use the same ids in every table. A statement that changes rows gets rows that it can change, so that the
//! plan does real work.

use crate::{BATCH, HISTORY};

/// The time of the live rows.
const NOW: &str = "timestamptz '2027-01-15 08:00:00Z'";
const LONG_AGO: &str = "timestamptz '-infinity'";
const TOKEN: &str = "uuid '00000000-0000-0000-0000-0000000000aa'";

/// The maximum number of rows that a page examines.
const EXAMINED_MAX: usize = posthaste_core::ports::EXAMINED_MAX as usize;

const COUNTED_MAX: usize = posthaste_core::ports::COUNTED_MAX as usize;
const CHANGES_MAX: usize = posthaste_core::ports::CHANGES_MAX as usize;

#[derive(Debug)]
pub(crate) struct Sample {
    /// Several lists of arguments as SQL, which may lead to different plans.
    pub(crate) arguments: Vec<Vec<String>>,
    pub(crate) rows_max: usize,
    pub(crate) buffers_max: usize,
}

/// Returns the explicit arguments of a statement, or guesses them from its parameter types.
pub(crate) fn sample(name: &str, types: &[String]) -> Result<Sample, String> {
    let arguments = match page(name).or_else(|| explicit(name).map(|arguments| vec![arguments])) {
        Some(arguments) => arguments,
        None => vec![types.iter().map(|name| guess(name)).collect::<Result<_, _>>()?],
    };
    if let Some(odd) = arguments.iter().find(|arguments| arguments.len() != types.len()) {
        return Err(format!("has {} parameters, its sample {}", types.len(), odd.len()));
    }
    let examined = examined(name);
    Ok(Sample { arguments, rows_max: 20 * BATCH + examined, buffers_max: 50 * BATCH + 10 * examined })
}

/// Returns the number of rows that a statement may read in addition to its batch: a page of a list or a backlog, but
/// no history.
fn examined(name: &str) -> usize {
    match name.split_once('/') {
        Some(("insight", "survey_queues" | "survey_sagas")) => COUNTED_MAX,
        // Five lookups per saga; two index entries and the row per change.
        Some(("insight", "examine_sagas" | "examine_orders" | "examine_newest_orders")) => 5 * EXAMINED_MAX,
        Some(("insight", "changes_of_patterns")) => CHANGES_MAX,
        Some(("reader" | "dead_letter" | "insight", _)) => EXAMINED_MAX,
        Some(_) | None => 0,
    }
}

fn guess(type_name: &str) -> Result<String, String> {
    Ok(match type_name {
        // A limit, or the id of a row in the history.
        "bigint" | "integer" | "smallint" => BATCH.to_string(),
        "bigint[]" => ids(201, 300),
        "integer[]" => repeated("1", "integer"),
        "boolean" => "false".to_owned(),
        "boolean[]" => repeated("false", "boolean"),
        "text" | "character varying" => "'key-300001'".to_owned(),
        "text[]" => texts("key-", 1, BATCH),
        "timestamp with time zone" => NOW.to_owned(),
        "timestamp with time zone[]" => repeated("2027-01-15 08:00:00Z", "timestamptz"),
        "uuid" => TOKEN.to_owned(),
        "uuid[]" => repeated("00000000-0000-0000-0000-0000000000aa", "uuid"),
        "bytea" => "sha256('1')".to_owned(),
        "json" | "jsonb" => format!("'{{}}'::{type_name}"),
        "json[]" => repeated("1", "json"),
        "jsonb[]" => repeated("1", "jsonb"),
        "double precision" => "1.0".to_owned(),
        other => {
            return Err(format!("has a parameter of type {other}: add a row to postgres_samples.rs"));
        }
    })
}

/// Returns the arguments listed for a statement, with which it finds rows, or `None` if it is not listed.
fn explicit(name: &str) -> Option<Vec<String>> {
    let text = |words: &str| format!("'{words}'");
    let batch = BATCH.to_string();
    let nothing = || repeated("NULL", "text");
    let now = || NOW.to_owned();
    let later = || format!("{NOW} + interval '1 minute'");
    let token = || TOKEN.to_owned();
    Some(match name {
        "cleaner/reset_expired_leases" => {
            vec![
                ids(201, 300),
                repeated("1", "integer"),
                repeated("false", "boolean"),
                now(),
                text("LEASE_EXPIRED"),
                repeated("false", "boolean"),
            ]
        }
        "ingest/compare_events" => {
            let (types, payloads) = (repeated("kind.1", "text"), repeated("1", "json"));
            vec![texts("external-", 1, BATCH), types, payloads, repeated("{}", "text"), nothing()]
        }
        "ingest/insert_events" => vec![
            repeated("kind.1", "text"),
            repeated("1", "json"),
            texts("new-", 1, BATCH),
            nothing(),
            nothing(),
            nothing(),
            repeated("acme", "text"),
            repeated("{}", "text"),
            now(),
            text("200ms"),
        ],
        "orchestrator/apply_job_results" => vec![
            ids(301, 400),
            ids(301, 400),
            repeated("Completed", "text"),
            repeated("1", "integer"),
            repeated("2027-01-15 08:00:00Z", "timestamptz"),
            nothing(),
            ids(301, 400),
            now(),
        ],
        "orchestrator/count_in_flight" | "insight/count_unfinished" => vec![numbers(1, 32), "16".to_owned()],
        "orchestrator/find_due_subscriptions" => vec!["0".to_owned(), batch, now()],
        "orchestrator/dead_letter_due_sagas" => vec![ids(101, 200), now()],
        "orchestrator/start_attempts" => {
            let attempts = repeated("2027-01-15 07:59:00Z", "timestamptz");
            vec![ids(1, 100), attempts, now(), repeated("false", "boolean")]
        }
        "orchestrator/fetch_due_sagas" => {
            let from = "array_fill('-infinity'::timestamptz, ARRAY[32])".to_owned();
            vec![numbers(1, 32), repeated("16", "integer"), from, now()]
        }
        "orchestrator/find_recently_due" => vec!["'2027-01-01Z'".to_owned(), now(), batch],
        "cleaner/fetch_expired_leases" => vec![now(), batch, "'-infinity'".to_owned(), later()],
        "orchestrator/list_waiting_sagas" | "outbox_worker/fetch_waiting_orders" => vec![now(), batch],
        "orchestrator/restart_waits" => vec![
            ids(101, 200),
            repeated("2027-01-15 09:00:00Z", "timestamptz"),
            repeated("2027-01-15 08:00:30Z", "timestamptz"),
            now(),
        ],
        "outbox_worker/fetch_stuck_orders" => vec![now(), batch, later()],
        "orchestrator/fetch_job_results" => vec!["0".to_owned(), batch],
        "outbox_intake/submit_orders" => vec![
            texts("new-", 1, BATCH),
            repeated("1", "text"),
            repeated("sha256:1", "text"),
            nothing(),
            now(),
            later(),
        ],
        "outbox_worker/claim_orders" => vec![now(), batch, token(), text("worker-1")],
        "outbox_worker/find_claimed_orders" => vec![token(), format!("{NOW} - interval '10 seconds'")],
        "outbox_worker/lock_orders" => vec![ids(101, 200)],
        "outbox_worker/move_orders" => vec![
            ids(101, 200),
            repeated("sending", "text"),
            repeated("sent", "text"),
            repeated("1", "integer"),
            repeated("2027-01-15 08:00:00Z", "timestamptz"),
            nothing(),
            repeated("false", "boolean"),
            nothing(),
            nothing(),
            repeated("sha256:1", "text"),
            repeated("NULL", "json"),
            "false".to_owned(),
            now(),
        ],
        "insight/changes_of_patterns" => {
            vec![repeated("", "text"), texts("kind.", 1, BATCH), (CHANGES_MAX + 1).to_string()]
        }
        "insight/examine_sagas" => {
            let first = HISTORY - EXAMINED_MAX as i64;
            vec![first.to_string(), HISTORY.to_string(), (posthaste_core::ports::SAGAS_MAX + 1).to_string()]
        }
        "insight/long_timeouts" => vec!["1000".to_owned(), EXAMINED_MAX.to_string()],
        "insight/explained_attempts" => vec![ids(201, 300)],
        "insight/attempts_of_subscriptions" => vec![numbers(1, 32), LONG_AGO.to_owned(), "300".to_owned()],
        "insight/last_dead_letters" => vec![numbers(1, 32)],
        "key/create_session" => {
            let ends_at = format!("{} + interval '1 hour'", now());
            vec!["sha256('token')".to_owned(), "sha256('key')".to_owned(), now(), ends_at]
        }
        "key/record_change" | "dead_letter/record_change" => vec![
            "7".to_owned(),
            text("ann"),
            text("192.0.2.7"),
            text("key_created"),
            text("keys/7"),
            "NULL".to_owned(),
            "'{}'".to_owned(),
        ],
        "key/create_key" => {
            vec![text("name"), text("ingest"), text("acme"), "sha256('new')".to_owned(), now()]
        }
        "reader/dead_letter_payloads" | "reader/event_payloads" => {
            vec![numbers(1, BATCH as i64), posthaste_core::ports::PAGE_BYTES_MAX.to_string()]
        }
        "router/insert_sagas" => vec![ids(501, 600), numbers(1_001, 1_100), now()],
        "worker/claim_due_jobs" => {
            vec![LONG_AGO.to_owned(), batch, later(), token(), text("worker-1")]
        }
        "worker/claim_suspect_job" => vec![LONG_AGO.to_owned(), later(), token(), text("worker-1")],
        "worker/find_claimed_jobs" => vec![format!("{NOW} - interval '30 seconds'"), token()],
        "worker/load_events" => vec![ids(201, 300)],
        "worker/load_targets" => vec![numbers(1, 32)],
        "worker/report_jobs" => vec![
            ids(201, 300),
            repeated("00000000-0000-0000-0000-0000000000aa", "uuid"),
            repeated("Completed", "text"),
            repeated("200", "integer"),
            nothing(),
            repeated("7", "integer"),
            repeated("NULL", "integer"),
        ],
        _ => return None,
    })
}

/// Returns several lists of arguments, or `None` if the statement is neither a list nor the router's. The first
/// arguments of a list have no filter; the second have one that matches no row, so that the page examines the maximum
/// number of rows. Lists are newest first, except for requeueing.
fn page(name: &str) -> Option<Vec<Vec<String>>> {
    let newest = i64::MAX;
    let rows = match name {
        "dead_letter/find_dead_letters" => {
            format!(
                "0, NULL, NULL, NULL, NULL, {BATCH}, {EXAMINED_MAX}, NULL; \
                 0, 1, 'kind.none', {NOW}, {NOW}, {BATCH}, {EXAMINED_MAX}, NULL; \
                 0, NULL, NULL, NULL, NULL, {BATCH}, {EXAMINED_MAX}, 'none'"
            )
        }
        "dead_letter/find_dead_letters_of_subscription" => {
            format!("0, 1, 'kind.none', {NOW}, {NOW}, {BATCH}, {EXAMINED_MAX}, 'none'")
        }
        "dead_letter/last_examined" => format!("0, NULL, {EXAMINED_MAX}; 0, 1, {EXAMINED_MAX}"),
        "reader/count_requeued" => {
            format!("1, {newest}, {NOW}, NULL, NULL; 1, {newest}, {NOW}, 1, 'kind.none'")
        }
        "reader/dead_letter_heads" => {
            format!(
                "{newest}, NULL, NULL, NULL, NULL, {BATCH}, {EXAMINED_MAX}, NULL; \
                 {newest}, 1, 'kind.none', {NOW}, {NOW}, {BATCH}, {EXAMINED_MAX}, NULL; \
                 {newest}, NULL, NULL, NULL, NULL, {BATCH}, {EXAMINED_MAX}, 'none'"
            )
        }
        "reader/dead_letter_heads_of_subscription" => {
            format!("{newest}, 1, 'kind.none', {NOW}, {NOW}, {BATCH}, {EXAMINED_MAX}, 'none'")
        }
        "reader/deliveries" => {
            format!(
                "{newest}, NULL, NULL, NULL, NULL, NULL, NULL, NULL, {BATCH}, {EXAMINED_MAX}, NULL; \
                 {newest}, 'Pending', 1, 'kind.none', 1, 'NONE', {NOW}, {NOW}, {BATCH}, {EXAMINED_MAX}, NULL; \
                 {newest}, NULL, NULL, NULL, NULL, NULL, NULL, NULL, {BATCH}, {EXAMINED_MAX}, 'none'"
            )
        }
        "reader/deliveries_of_event" => {
            format!("{newest}, NULL, NULL, NULL, 500, NULL, NULL, NULL, {BATCH}, {EXAMINED_MAX}, NULL")
        }
        "reader/event_heads" => {
            format!(
                "{newest}, NULL, {BATCH}, {EXAMINED_MAX}, NULL; {newest}, 'kind.none', {BATCH}, {EXAMINED_MAX}, 'acme'"
            )
        }
        "reader/event_heads_of_external_id" => {
            format!("{newest}, 'external-500', NULL, NULL, NULL, NULL")
        }
        "reader/event_heads_of_time" => {
            format!(
                "{newest}, {LONG_AGO}, {NOW}, NULL, {BATCH}, {EXAMINED_MAX}, NULL; \
                 {newest}, {LONG_AGO}, {NOW}, 'kind.none', {BATCH}, {EXAMINED_MAX}, 'acme'"
            )
        }
        "reader/last_event_of_time_examined" => format!("{LONG_AGO}, {NOW}, {EXAMINED_MAX}"),
        "reader/last_dead_letter_examined" | "reader/last_delivery_examined" => {
            format!("{newest}, NULL, {EXAMINED_MAX}; {newest}, 500, {EXAMINED_MAX}")
        }
        "reader/last_event_examined"
        | "reader/last_operator_audit_examined"
        | "reader/last_order_examined"
        | "reader/last_subscription_examined" => {
            format!("{newest}, {EXAMINED_MAX}")
        }
        "reader/newest_order_audit" => format!("'key-500', {BATCH}"),
        "reader/operator_audit" => {
            format!(
                "{newest}, NULL, NULL, NULL, {BATCH}, {EXAMINED_MAX}; {newest}, 'none', {NOW}, {NOW}, {BATCH}, {EXAMINED_MAX}"
            )
        }
        "reader/order_audit" => format!("'key-500', 0, {BATCH}"),
        "reader/orders" => {
            format!("{newest}, NULL, {BATCH}, {EXAMINED_MAX}; {newest}, 'none', {BATCH}, {EXAMINED_MAX}")
        }
        "reader/subscriptions" => {
            format!(
                "{newest}, NULL, NULL, NULL, {BATCH}, {EXAMINED_MAX}, NULL, NULL, NULL, NULL; \
                 {newest}, '{{kind.none}}', true, true, {BATCH}, {EXAMINED_MAX}, 'acme', 'uid', 'name', '{{\"team\":\"a\"}}'"
            )
        }
        // Without candidates, and from the first event, which has some once there is a backlog.
        "router/route_events" => {
            format!("{}, {BATCH}, {NOW}, false; 0, {BATCH}, {NOW}, true", HISTORY + 501)
        }
        _ => return None,
    };
    Some(rows.split("; ").map(|row| row.split(", ").map(str::to_owned).collect()).collect())
}

/// Returns an array of ids of live rows.
fn ids(first: i64, last: i64) -> String {
    numbers(HISTORY + first, HISTORY + last)
}

fn numbers(first: i64, last: i64) -> String {
    let list: Vec<String> = (first..=last).map(|id| id.to_string()).collect();
    format!("'{{{}}}'::bigint[]", list.join(","))
}

fn texts(prefix: &str, first: usize, count: usize) -> String {
    let list: Vec<String> = (first..first + count).map(|number| format!("{prefix}{number}")).collect();
    format!("'{{{}}}'::text[]", list.join(","))
}

/// Returns an array with `value` for each row of a batch.
fn repeated(value: &str, type_name: &str) -> String {
    let quoted = if value == "NULL" { value.to_owned() } else { format!("\"{value}\"") };
    format!("'{{{}}}'::{type_name}[]", vec![quoted; BATCH].join(","))
}
