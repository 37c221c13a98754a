//! Tests that every table, column, index and unique key in the specification exists with its specified name.

use posthaste_core::ports::Stores;
use posthaste_testkit::harness::{Engine, Harness};

/// The columns of each table, with their types on PostgreSQL.
const COLUMNS: &[(&str, &[(&str, &str)])] = &[
    ("events", &[("event_type", "text"), ("payload", "json"), ("created_at", "timestamp with time zone")]),
    (
        "subscriptions",
        &[("event_type", "text"), ("callback_url", "text"), ("active", "boolean"), ("verified", "boolean")],
    ),
    (
        "webhook_delivery_sagas",
        &[
            ("id", "bigint"),
            ("event_id", "bigint"),
            ("subscription_id", "bigint"),
            ("status", "posthaste.saga_status"),
            ("attempt_count", "integer"),
            ("next_attempt_at", "timestamp with time zone"),
            ("final_error_code", "character varying(100)"),
            ("created_at", "timestamp with time zone"),
            ("updated_at", "timestamp with time zone"),
        ],
    ),
    (
        "webhook_delivery_jobs",
        &[
            ("id", "bigint"),
            ("saga_id", "bigint"),
            ("status", "posthaste.job_status"),
            ("lease_until", "timestamp with time zone"),
            ("attempt_at", "timestamp with time zone"),
            ("response_status", "integer"),
            ("error_code", "character varying(100)"),
        ],
    ),
    (
        "dead_letters",
        &[
            ("id", "bigint"),
            ("saga_id", "bigint"),
            ("event_id", "bigint"),
            ("subscription_id", "bigint"),
            ("final_error_code", "character varying(100)"),
            ("failed_at", "timestamp with time zone"),
            ("payload_snapshot", "json"),
        ],
    ),
    (
        "outbox_orders",
        &[
            ("id", "bigint"),
            ("idempotency_key", "text"),
            ("request_json", "jsonb"),
            ("request_digest", "text"),
            ("status", "text"),
            ("retry_count", "integer"),
            ("next_attempt_at", "timestamp with time zone"),
            ("last_error", "text"),
            ("created_at", "timestamp with time zone"),
            ("updated_at", "timestamp with time zone"),
        ],
    ),
    (
        "idempo_ledger",
        &[
            ("idempotency_key", "text"),
            ("request_digest", "text"),
            ("result_digest", "text"),
            ("expires_at", "timestamp with time zone"),
        ],
    ),
];

/// An index in the specification. `name` is `None` if the specification does not name it.
struct Index {
    table: &'static str,
    name: Option<&'static str>,
    columns: &'static str,
    unique: bool,
}

const fn index(
    table: &'static str,
    name: Option<&'static str>,
    columns: &'static str,
    unique: bool,
) -> Index {
    Index { table, name, columns, unique }
}

const INDEXES: &[Index] = &[
    index("events", None, "created_at", false),
    index("events", None, "event_type", false),
    index("events", None, "external_event_id", true),
    index("webhook_delivery_sagas", Some("idx_saga_event"), "event_id,subscription_id", false),
    index("webhook_delivery_sagas", Some("idx_saga_status_retry"), "status,next_attempt_at", false),
    index("webhook_delivery_sagas", Some("idx_saga_status"), "status", false),
    index("webhook_delivery_sagas", Some("uniq_saga_event_subscription"), "event_id,subscription_id", true),
    index("webhook_delivery_jobs", Some("idx_job_saga"), "saga_id", false),
    index("webhook_delivery_jobs", Some("idx_job_status_lease"), "status,lease_until", false),
    index("webhook_delivery_jobs", Some("uniq_job_saga_attempt"), "saga_id,attempt_at", true),
    index("dead_letters", Some("idx_dead_saga"), "saga_id", false),
    index("dead_letters", Some("idx_dead_event"), "event_id", false),
    index("outbox_orders", None, "idempotency_key", true),
    index("outbox_orders", None, "status,next_attempt_at", false),
    index("outbox_orders", None, "created_at", false),
    index("idempo_ledger", None, "idempotency_key", true),
];

/// The only unique key that is narrower than specified, because it excludes requeued sagas.
const PARTIAL: &str = "uniq_saga_event_subscription";

// Both queries return the table, the index, its columns, whether it is unique, and whether it covers all rows.
const POSTGRES_INDEXES: &str = "SELECT t.relname, i.relname,
        (SELECT string_agg(a.attname, ',' ORDER BY place) FROM unnest(indkey) WITH ORDINALITY AS k (attnum, place)
            JOIN pg_attribute a ON a.attrelid = indrelid AND a.attnum = k.attnum),
        indisunique::text, (indpred IS NULL)::text
    FROM pg_index JOIN pg_class t ON t.oid = indrelid JOIN pg_class i ON i.oid = indexrelid
    WHERE t.relnamespace = 'posthaste'::regnamespace AND indisvalid";
const SQLITE_INDEXES: &str = "SELECT t.name, i.name,
        (SELECT group_concat(name, ',' ORDER BY seqno) FROM pragma_index_info(i.name)),
        iif(i.\"unique\", 'true', 'false'), iif(i.partial, 'false', 'true')
    FROM pragma_table_list t, pragma_index_list(t.name) i WHERE t.schema = 'main'";

async fn check<S: Stores>(h: &Harness<S>) {
    for (table, columns) in COLUMNS {
        for (column, kind) in *columns {
            let sql = match h.engine {
                Engine::Sqlite => {
                    format!("SELECT count(*) FROM pragma_table_info('{table}') WHERE name = '{column}'")
                }
                Engine::Postgres | Engine::PostgresCut => format!(
                    "SELECT count(*) FROM pg_attribute WHERE attrelid = 'posthaste.{table}'::regclass
                        AND attname = '{column}' AND format_type(atttypid, atttypmod) = '{kind}'"
                ),
            };
            assert_eq!(h.direct.number(&sql).await, 1, "{table}.{column} {kind} on {:?}", h.engine);
        }
    }
    let found =
        h.direct.rows(if h.engine == Engine::Sqlite { SQLITE_INDEXES } else { POSTGRES_INDEXES }).await;
    for Index { table, name, columns, unique } in INDEXES {
        let is_found = found.iter().any(|row| {
            let [Some(of), Some(called), Some(over), Some(is_unique), Some(over_all)] = &row[..] else {
                return false;
            };
            of == table
                && over == columns
                && *is_unique == unique.to_string()
                && name.is_none_or(|name| called == name)
                && (over_all == "true" || called == PARTIAL)
        });
        assert!(is_found, "no index {name:?} ({columns}) of {table} on {:?}", h.engine);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sqlite_has_the_specified_schema() {
    check(&Harness::sqlite("schema").await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn postgres_has_the_specified_schema() {
    let h = Harness::postgres("schema").await;
    h.direct.run("SET search_path = pg_catalog").await;
    check(&h).await;
    // The states, in the order of the specification.
    let labels = |name: &str| {
        format!(
            "SELECT enumlabel FROM pg_enum WHERE enumtypid = 'posthaste.{name}'::regtype ORDER BY enumsortorder"
        )
    };
    let saga = ["Pending", "InProgress", "PendingRetry", "Completed", "DeadLettered"];
    assert_eq!(h.direct.texts(&labels("saga_status")).await, saga);
    assert_eq!(h.direct.texts(&labels("job_status")).await, ["Pending", "Leased", "Completed", "Failed"]);
}
