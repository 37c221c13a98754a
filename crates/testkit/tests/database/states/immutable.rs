//! Tests finished rows and append-only rows with every SQL statement that could change or delete a row.

use super::arrange::{JOB_PATHS, JOBS, ORDER_PATHS, ORDERS, SAGA_PATHS, SAGAS, one_of_each};
use super::refusal::{Rule, refused};
use posthaste_core::ports::{IngestStore as _, Stores};
use posthaste_testkit::fixtures::{T0, named_event};
use posthaste_testkit::harness::{Engine, Harness};

/// A table, with the parts of an INSERT that conflicts with an existing row.
struct Table {
    name: &'static str,
    /// The columns that an insert must set, except the id.
    columns: &'static str,
    /// A nullable column for an upsert to set.
    harmless: &'static str,
    /// The unique keys other than the id on which an insert can conflict.
    keys: &'static [&'static str],
}

const EVENTS: Table = Table {
    name: "events",
    columns: "external_event_id, event_type, payload, created_at",
    harmless: "correlation_id",
    keys: &["(external_event_id)"],
};
const SAGA: Table = Table {
    name: SAGAS,
    columns: "event_id, subscription_id, next_attempt_at, created_at, updated_at",
    harmless: "final_error_code",
    keys: &["(event_id, subscription_id) WHERE requeued_from IS NULL"],
};
const JOB: Table = Table {
    name: JOBS,
    columns: "saga_id, lease_until, attempt_at, created_at",
    harmless: "worker_id",
    keys: &["(saga_id, attempt_at)"],
};
const ORDER: Table = Table {
    name: ORDERS,
    columns: "idempotency_key, request_json, request_digest, next_attempt_at, created_at, updated_at",
    harmless: "note",
    keys: &["(idempotency_key)"],
};
const LETTERS: Table = Table {
    name: "dead_letters",
    columns: "saga_id, event_id, subscription_id, failed_at, payload_snapshot",
    harmless: "final_error_code",
    keys: &[],
};
const AUDIT: Table = Table {
    name: "outbox_audit",
    columns: "outbox_id, status_from, status_to, retry_count, idempotency_key, created_at",
    harmless: "note",
    keys: &[],
};
const CHANGES: Table = Table {
    name: "subscription_changes",
    columns: "subscription_id, event_type, callback_url, active, verified, changed_at",
    harmless: "max_retry_limit",
    keys: &[],
};

const OPERATOR_AUDIT: Table = Table {
    name: "operator_audit",
    columns: "created_at, key_id, key_name, action, object",
    harmless: "after",
    keys: &[],
};

pub(crate) async fn finished_rows_never_change<S: Stores>(h: &Harness<S>) {
    let machines = [
        (SAGA, SAGA_PATHS, ["Completed", "DeadLettered"]),
        (JOB, JOB_PATHS, ["Completed", "Failed"]),
        (ORDER, ORDER_PATHS, ["sent", "dead"]),
    ];
    for (table, paths, terminal) in machines {
        for (state, id) in one_of_each(h, table.name, paths).await {
            if terminal.contains(&state) {
                try_everything(h, &table, id).await;
            }
        }
    }
}

pub(crate) async fn append_only_rows_never_change<S: Stores>(h: &Harness<S>) {
    let named = vec![named_event("immutable", "external")];
    h.calm.ingest().insert_events(vec![named], T0).await.expect("an event with every key");
    h.dead_letter("immutable").await;
    one_of_each(h, ORDERS, ORDER_PATHS).await;
    for table in [EVENTS, LETTERS, AUDIT, CHANGES, OPERATOR_AUDIT] {
        let id = h.direct.number(&format!("SELECT min(id) FROM {}", table.name)).await;
        try_everything(h, &table, id).await;
    }
}

async fn try_everything<S: Stores>(h: &Harness<S>, table: &Table, id: i64) {
    let columns = columns(h, table.name).await;
    assert!(columns.iter().any(|column| column == table.harmless), "{} has no such column", table.name);
    let mut tries = updates(h.engine, table, &columns, id);
    tries.extend(removals(h.engine, table, id));
    tries.extend(replacements(h.engine, table, id));
    for sql in tries {
        refused(h, &[Rule::Guard], table.name, &sql).await;
    }
}

async fn columns<S: Stores>(h: &Harness<S>, table: &str) -> Vec<String> {
    let sql = match h.engine {
        Engine::Sqlite => format!("SELECT name FROM pragma_table_info('{table}')"),
        Engine::Postgres | Engine::PostgresCut => format!(
            "SELECT column_name FROM information_schema.columns WHERE table_schema = 'posthaste' AND table_name = '{table}'"
        ),
    };
    h.direct.texts(&sql).await
}

/// Returns updates that leave the row unchanged, which must also be refused.
fn updates(engine: Engine, table: &Table, columns: &[String], id: i64) -> Vec<String> {
    let name = table.name;
    let mut tries: Vec<_> = columns
        .iter()
        .map(|column| match (engine, column.as_str()) {
            (Engine::Postgres | Engine::PostgresCut, "id") => "id = DEFAULT".to_owned(),
            (Engine::Sqlite | Engine::Postgres | Engine::PostgresCut, column) => {
                format!("{column} = {column}")
            }
        })
        .map(|change| format!("UPDATE {name} SET {change} WHERE id = {id}"))
        .collect();
    tries.push(format!("UPDATE {name} SET {harmless} = NULL WHERE id = {id}", harmless = table.harmless));
    match engine {
        Engine::Sqlite => {
            for conflict in ["REPLACE", "IGNORE", "FAIL", "ROLLBACK"] {
                tries.push(format!("UPDATE OR {conflict} {name} SET rowid = rowid WHERE id = {id}"));
            }
        }
        Engine::Postgres | Engine::PostgresCut => tries.push(format!(
            "MERGE INTO {name} USING (SELECT 1) AS one ON id = {id} WHEN MATCHED THEN UPDATE SET {harmless} = NULL",
            harmless = table.harmless
        )),
    }
    tries
}

fn removals(engine: Engine, table: &Table, id: i64) -> Vec<String> {
    let name = table.name;
    let mut tries = vec![format!("DELETE FROM {name} WHERE id = {id}"), format!("DELETE FROM {name}")];
    match engine {
        Engine::Sqlite => {}
        Engine::Postgres | Engine::PostgresCut => tries
            .push(format!("MERGE INTO {name} USING (SELECT 1) AS one ON id = {id} WHEN MATCHED THEN DELETE")),
    }
    tries
}

/// Returns inserts that conflict with the row on its id or another unique key and would replace it.
fn replacements(engine: Engine, table: &Table, id: i64) -> Vec<String> {
    let Table { name, columns, harmless, keys } = table;
    let with_id = format!("id, {columns}");
    let overriding = match engine {
        Engine::Sqlite => "",
        Engine::Postgres | Engine::PostgresCut => "OVERRIDING SYSTEM VALUE",
    };
    let inserts = std::iter::once((with_id.as_str(), "(id)")).chain(keys.iter().map(|key| (*columns, *key)));
    let mut tries = Vec::new();
    for (columns, key) in inserts {
        let row =
            format!("INTO {name} ({columns}) {overriding} SELECT {columns} FROM {name} WHERE id = {id}");
        tries.push(format!("INSERT {row} ON CONFLICT {key} DO UPDATE SET {harmless} = excluded.{harmless}"));
        if engine == Engine::Sqlite {
            tries.push(format!("INSERT OR REPLACE {row}"));
            tries.push(format!("REPLACE {row}"));
        }
    }
    tries
}

pub(crate) async fn history_tables_cannot_be_emptied<S: Stores>(h: &Harness<S>) {
    h.dead_letter("emptied").await;
    one_of_each(h, ORDERS, ORDER_PATHS).await;
    let tables = [
        "events",
        "subscriptions",
        "subscription_changes",
        SAGAS,
        JOBS,
        "dead_letters",
        ORDERS,
        "idempo_ledger",
        "outbox_audit",
        "operator_audit",
    ];
    for table in tables {
        let tries = match h.engine {
            // SQLite's truncate optimization would bypass row triggers if there were none.
            Engine::Sqlite => vec![format!("DELETE FROM {table}")],
            Engine::Postgres | Engine::PostgresCut => vec![
                format!("TRUNCATE {table}"),
                format!("TRUNCATE {table} CASCADE"),
                format!("TRUNCATE {table} RESTART IDENTITY"),
                format!("TRUNCATE routing_queue, {table}"),
                format!("DELETE FROM {table}"),
            ],
        };
        for sql in tries {
            refused(h, &[Rule::Guard], table, &sql).await;
        }
    }
}
