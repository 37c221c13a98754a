//! The table of rights, from which the PostgreSQL grants, the SQLite authorizer and `docs/roles.md` are derived. A
//! right that is not listed is denied. Tests compare both engines with a hand-written matrix.

use crate::RolePrefix;
use std::fmt::Write as _;

/// A database role. Each component uses exactly one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DbRole {
    EventIngestWriter,
    SubscriptionAdmin,
    RouterWorker,
    SagaOrchestrator,
    JobWorker,
    LeaseCleaner,
    DeadLetterOperator,
    OutboxWriter,
    OutboxWorker,
    KeyKeeper,
    Viewer,
    /// The role for applications that publish events in their own transactions. No component uses it.
    EventPublisher,
}

impl DbRole {
    pub const ALL: [Self; 12] = [
        Self::EventIngestWriter,
        Self::SubscriptionAdmin,
        Self::RouterWorker,
        Self::SagaOrchestrator,
        Self::JobWorker,
        Self::LeaseCleaner,
        Self::DeadLetterOperator,
        Self::OutboxWriter,
        Self::OutboxWorker,
        Self::KeyKeeper,
        Self::Viewer,
        Self::EventPublisher,
    ];

    /// The roles that the components of Posthaste use.
    pub const COMPONENTS: [Self; 11] = [
        Self::EventIngestWriter,
        Self::SubscriptionAdmin,
        Self::RouterWorker,
        Self::SagaOrchestrator,
        Self::JobWorker,
        Self::LeaseCleaner,
        Self::DeadLetterOperator,
        Self::OutboxWriter,
        Self::OutboxWorker,
        Self::KeyKeeper,
        Self::Viewer,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Self::EventIngestWriter => "event_ingest_writer",
            Self::SubscriptionAdmin => "subscription_admin",
            Self::RouterWorker => "router_worker",
            Self::SagaOrchestrator => "saga_orchestrator",
            Self::JobWorker => "job_worker",
            Self::LeaseCleaner => "lease_cleaner",
            Self::DeadLetterOperator => "dead_letter_operator",
            Self::OutboxWriter => "outbox_writer",
            Self::OutboxWorker => "outbox_worker",
            Self::KeyKeeper => "key_keeper",
            Self::Viewer => "viewer",
            Self::EventPublisher => "event_publisher",
        }
    }

    /// Returns the name of the setting for the URL of a separate login for this role, or `None` for a role that no
    /// component uses.
    pub const fn url_setting(self) -> Option<&'static str> {
        Some(match self {
            Self::EventIngestWriter => "POSTHASTE_DATABASE_URL_INGEST",
            Self::SubscriptionAdmin => "POSTHASTE_DATABASE_URL_SUBSCRIPTIONS",
            Self::RouterWorker => "POSTHASTE_DATABASE_URL_ROUTER",
            Self::SagaOrchestrator => "POSTHASTE_DATABASE_URL_ORCHESTRATOR",
            Self::JobWorker => "POSTHASTE_DATABASE_URL_WORKER",
            Self::LeaseCleaner => "POSTHASTE_DATABASE_URL_CLEANER",
            Self::DeadLetterOperator => "POSTHASTE_DATABASE_URL_DEAD_LETTERS",
            Self::OutboxWriter => "POSTHASTE_DATABASE_URL_ORDERS",
            Self::OutboxWorker => "POSTHASTE_DATABASE_URL_OUTBOX",
            Self::KeyKeeper => "POSTHASTE_DATABASE_URL_KEYS",
            Self::Viewer => "POSTHASTE_DATABASE_URL_VIEWER",
            Self::EventPublisher => return None,
        })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Privilege {
    Select,
    Insert,
    Update,
    Delete,
    /// The right to call a function that runs as the owner. On SQLite, the right to access the view that replaces the
    /// function.
    Execute,
}

impl Privilege {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Select => "SELECT",
            Self::Insert => "INSERT",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Execute => "EXECUTE",
        }
    }
}

/// A privilege of a role on a table or function. Empty `columns` means all columns; for a function, `columns` is always
/// empty.
#[derive(Debug, Clone, Copy)]
pub struct Grant {
    pub role: DbRole,
    pub privilege: Privilege,
    pub object: &'static str,
    pub columns: &'static [&'static str],
}

const fn grant(
    role: DbRole,
    privilege: Privilege,
    object: &'static str,
    columns: &'static [&'static str],
) -> Grant {
    Grant { role, privilege, object, columns }
}

const EVENTS: &str = "events";
const SUBSCRIPTIONS: &str = "subscriptions";
const CHANGES: &str = "subscription_changes";
const PATTERNS: &str = "subscription_patterns";
const ROUTING_QUEUE: &str = "routing_queue";
const SAGAS: &str = "webhook_delivery_sagas";
const JOBS: &str = "webhook_delivery_jobs";
const FINISHED: &str = "finished_jobs";
const DEAD_LETTERS: &str = "dead_letters";
const ORDERS: &str = "outbox_orders";
const LEDGER: &str = "idempo_ledger";
const AUDIT: &str = "outbox_audit";
const LANE: &str = "outbox_lane";
const KEYS: &str = "api_keys";
const SESSIONS: &str = "sessions";
const PROCESSES: &str = "processes";
const ROLLUPS: &str = "rollups";
const HEALTH: &str = "subscription_health";
const OPERATOR_AUDIT: &str = "operator_audit";
const MIGRATIONS: &str = "schema_migrations";
const MESSAGE_ID_KEY: &str = "message_id_key";

/// All tables of the schema, in the order used in the documentation.
pub const TABLES: [&str; 21] = [
    EVENTS,
    SUBSCRIPTIONS,
    CHANGES,
    PATTERNS,
    ROUTING_QUEUE,
    SAGAS,
    JOBS,
    FINISHED,
    DEAD_LETTERS,
    ORDERS,
    LEDGER,
    AUDIT,
    LANE,
    KEYS,
    SESSIONS,
    PROCESSES,
    ROLLUPS,
    HEALTH,
    OPERATOR_AUDIT,
    MESSAGE_ID_KEY,
    MIGRATIONS,
];

// Functions that run with the rights of the owner (SECURITY DEFINER). SQLite has views instead, see [`SQLITE_VIEWS`].
pub const PUBLISH: &str = "publish";
pub const COMPARE_EVENTS: &str = "compare_events";
pub const REQUEUE: &str = "requeue";
pub const RESUME_LANE: &str = "resume_lane";
pub const REPORT_PRESENCE: &str = "report_presence";
pub const REPORT_HEALTH: &str = "report_health";

/// The SQLite views, each with the PostgreSQL function that it replaces.
pub const SQLITE_VIEWS: [(&str, &str); 6] = [
    ("compare_events", COMPARE_EVENTS),
    ("requeue", REQUEUE),
    ("resume_lane", RESUME_LANE),
    ("presence_reports", REPORT_PRESENCE),
    ("rollup_reports", REPORT_PRESENCE),
    ("health_reports", REPORT_HEALTH),
];

const ALL: &[&str] = &[];
const EVENT_ROUTE: &[&str] = &["id", "event_type"];
const EVENT_OWNER: &[&str] = &["id", "event_type", "tenant"];
const EVENT_MATCH: &[&str] = &["id", "event_type", "tenant", "attributes"];
/// The columns of a subscription that decide about its deliveries.
const ADMISSIBLE: &[&str] = &[
    "id",
    "event_type",
    "callback_url",
    "active",
    "verified",
    "max_retry_limit",
    "timeout_ms",
    "previous_secret_expires_at",
    "description",
    "created_at",
    "updated_at",
    "deleted_at",
];
const ROUTABLE: &[&str] = &[
    "id",
    "event_type",
    "filter",
    "callback_url",
    "active",
    "verified",
    "max_retry_limit",
    "timeout_ms",
    "previous_secret_expires_at",
    "description",
    "created_at",
    "updated_at",
    "deleted_at",
];
const NO_SECRETS: &[&str] = &[
    "id",
    "tenant",
    "uid",
    "name",
    "metadata",
    "event_type",
    "event_types",
    "filter",
    "callback_url",
    "active",
    "verified",
    "verification_method",
    "verified_at",
    "verified_by",
    "allowed_per_minute",
    "max_retry_limit",
    "timeout_ms",
    "previous_secret_expires_at",
    "older_secret_expires_at",
    "description",
    "signatures",
    "public_key",
    "public_key_fingerprint",
    "headers",
    "auth",
    "envelope",
    "revision",
    "created_at",
    "updated_at",
    "deleted_at",
];
// Columns that may be inserted: all except `id`. Without a right on `id`, OVERRIDING SYSTEM VALUE cannot be used, so
// ids always come from their sequence.
const EVENT_NEW: &[&str] = &[
    "external_event_id",
    "event_type",
    "payload",
    "correlation_id",
    "traceparent",
    "tracestate",
    "tenant",
    "attributes",
    "created_at",
];
const SUBSCRIPTION_NEW: &[&str] = &[
    "tenant",
    "uid",
    "name",
    "metadata",
    "event_type",
    "event_types",
    "filter",
    "callback_url",
    "active",
    "verified",
    "verification_method",
    "verified_at",
    "verified_by",
    "allowed_per_minute",
    "max_retry_limit",
    "timeout_ms",
    "secret_ref",
    "secret",
    "previous_secret",
    "previous_secret_expires_at",
    "older_secret",
    "older_secret_expires_at",
    "credentials",
    "description",
    "signatures",
    "public_key",
    "public_key_fingerprint",
    "headers",
    "auth",
    "envelope",
    "revision",
    "created_at",
    "updated_at",
    "deleted_at",
];
const JOB_NEW: &[&str] = &[
    "saga_id",
    "status",
    "lease_until",
    "attempt_at",
    "response_status",
    "error_code",
    "lease_token",
    "lease_resets",
    "worker_id",
    "duration_ms",
    "retry_after_s",
    "created_at",
    "suspect",
];
const ORDER_NEW: &[&str] = &[
    "idempotency_key",
    "request_json",
    "request_digest",
    "status",
    "retry_count",
    "next_attempt_at",
    "last_error",
    "created_at",
    "updated_at",
    "lease_token",
    "worker_id",
    "trace_id",
    "broker_order_id",
    "result_json",
    "result_digest",
    "maybe_executed",
    "note",
];
const KEY_NEW: &[&str] = &["name", "role", "tenant", "key_hash", "created_at"];
const SAGA_FRESH: &[&str] = &["event_id", "subscription_id", "next_attempt_at", "created_at", "updated_at"];
const SAGA_MOVES: &[&str] =
    &["status", "attempt_count", "next_attempt_at", "final_error_code", "current_job_id", "updated_at"];
const JOB_WORK: &[&str] = &[
    "status",
    "lease_until",
    "lease_token",
    "lease_resets",
    "worker_id",
    "response_status",
    "error_code",
    "duration_ms",
    "retry_after_s",
];
const LEASE_READ: &[&str] = &["id", "saga_id", "status", "lease_until", "lease_resets", "worker_id"];
const LEASE_RESET: &[&str] =
    &["status", "lease_until", "lease_token", "lease_resets", "worker_id", "error_code", "suspect"];
/// The columns of an API key that may be updated. Name, role and hash never change.
const KEY_MOVES: &[&str] = &["last_used_at", "revoked_at"];
/// The columns of an audit row that may be inserted. The server generates the id and the time.
const AUDITED: &[&str] = &["key_id", "key_name", "client_address", "action", "object", "before", "after"];
const NO_HASH: &[&str] = &["id", "name", "role", "tenant", "created_at", "last_used_at", "revoked_at"];

/// All rights, except those that every component role has. UPDATE on a queue is granted because SELECT … FOR UPDATE
/// SKIP LOCKED requires it; no statement updates a queue.
pub const GRANTS: &[Grant] = &[
    grant(DbRole::EventIngestWriter, Privilege::Insert, EVENTS, EVENT_NEW),
    grant(DbRole::EventIngestWriter, Privilege::Select, EVENTS, &["id", "external_event_id"]),
    grant(DbRole::EventIngestWriter, Privilege::Execute, PUBLISH, ALL),
    grant(DbRole::EventIngestWriter, Privilege::Execute, COMPARE_EVENTS, ALL),
    grant(DbRole::SubscriptionAdmin, Privilege::Select, SUBSCRIPTIONS, ALL),
    grant(DbRole::SubscriptionAdmin, Privilege::Insert, SUBSCRIPTIONS, SUBSCRIPTION_NEW),
    grant(DbRole::SubscriptionAdmin, Privilege::Update, SUBSCRIPTIONS, ALL),
    grant(DbRole::SubscriptionAdmin, Privilege::Insert, OPERATOR_AUDIT, AUDITED),
    grant(DbRole::RouterWorker, Privilege::Select, EVENTS, EVENT_MATCH),
    grant(DbRole::RouterWorker, Privilege::Select, PATTERNS, ALL),
    grant(DbRole::RouterWorker, Privilege::Select, SUBSCRIPTIONS, ROUTABLE),
    grant(DbRole::RouterWorker, Privilege::Select, ROUTING_QUEUE, ALL),
    grant(DbRole::RouterWorker, Privilege::Update, ROUTING_QUEUE, ALL),
    grant(DbRole::RouterWorker, Privilege::Delete, ROUTING_QUEUE, ALL),
    grant(DbRole::RouterWorker, Privilege::Insert, SAGAS, SAGA_FRESH),
    grant(DbRole::SagaOrchestrator, Privilege::Select, EVENTS, EVENT_ROUTE),
    grant(DbRole::SagaOrchestrator, Privilege::Select, SUBSCRIPTIONS, ADMISSIBLE),
    grant(DbRole::SagaOrchestrator, Privilege::Select, SAGAS, ALL),
    grant(DbRole::SagaOrchestrator, Privilege::Update, SAGAS, SAGA_MOVES),
    grant(DbRole::SagaOrchestrator, Privilege::Select, JOBS, ALL),
    grant(DbRole::SagaOrchestrator, Privilege::Insert, JOBS, JOB_NEW),
    grant(DbRole::SagaOrchestrator, Privilege::Select, FINISHED, ALL),
    grant(DbRole::SagaOrchestrator, Privilege::Update, FINISHED, ALL),
    grant(DbRole::SagaOrchestrator, Privilege::Delete, FINISHED, ALL),
    grant(DbRole::JobWorker, Privilege::Select, EVENTS, ALL),
    grant(DbRole::JobWorker, Privilege::Select, SUBSCRIPTIONS, ALL),
    grant(DbRole::JobWorker, Privilege::Select, MESSAGE_ID_KEY, ALL),
    grant(DbRole::JobWorker, Privilege::Select, SAGAS, ALL),
    grant(DbRole::JobWorker, Privilege::Select, JOBS, ALL),
    grant(DbRole::JobWorker, Privilege::Update, JOBS, JOB_WORK),
    grant(DbRole::JobWorker, Privilege::Insert, FINISHED, ALL),
    grant(DbRole::LeaseCleaner, Privilege::Select, JOBS, LEASE_READ),
    grant(DbRole::LeaseCleaner, Privilege::Update, JOBS, LEASE_RESET),
    grant(DbRole::LeaseCleaner, Privilege::Select, SAGAS, &["id", "event_id"]),
    grant(DbRole::LeaseCleaner, Privilege::Select, EVENTS, &["id", "correlation_id"]),
    grant(DbRole::LeaseCleaner, Privilege::Insert, FINISHED, ALL),
    grant(DbRole::DeadLetterOperator, Privilege::Select, DEAD_LETTERS, ALL),
    grant(DbRole::DeadLetterOperator, Privilege::Select, EVENTS, EVENT_OWNER),
    grant(DbRole::DeadLetterOperator, Privilege::Execute, REQUEUE, ALL),
    grant(DbRole::DeadLetterOperator, Privilege::Execute, RESUME_LANE, ALL),
    grant(DbRole::DeadLetterOperator, Privilege::Select, LANE, ALL),
    grant(DbRole::DeadLetterOperator, Privilege::Insert, OPERATOR_AUDIT, AUDITED),
    grant(DbRole::OutboxWriter, Privilege::Select, ORDERS, ALL),
    grant(DbRole::OutboxWriter, Privilege::Insert, ORDERS, ORDER_NEW),
    grant(DbRole::OutboxWriter, Privilege::Select, LEDGER, ALL),
    grant(DbRole::OutboxWriter, Privilege::Insert, LEDGER, ALL),
    grant(DbRole::OutboxWorker, Privilege::Select, ORDERS, ALL),
    grant(DbRole::OutboxWorker, Privilege::Update, ORDERS, ALL),
    grant(DbRole::OutboxWorker, Privilege::Select, LEDGER, ALL),
    grant(DbRole::OutboxWorker, Privilege::Update, LEDGER, ALL),
    grant(DbRole::OutboxWorker, Privilege::Delete, LEDGER, ALL),
    grant(DbRole::OutboxWorker, Privilege::Select, LANE, ALL),
    grant(DbRole::OutboxWorker, Privilege::Update, LANE, ALL),
    grant(DbRole::KeyKeeper, Privilege::Select, KEYS, ALL),
    grant(DbRole::KeyKeeper, Privilege::Insert, KEYS, KEY_NEW),
    grant(DbRole::KeyKeeper, Privilege::Update, KEYS, KEY_MOVES),
    grant(DbRole::KeyKeeper, Privilege::Select, SESSIONS, ALL),
    grant(DbRole::KeyKeeper, Privilege::Insert, SESSIONS, ALL),
    grant(DbRole::KeyKeeper, Privilege::Delete, SESSIONS, ALL),
    grant(DbRole::KeyKeeper, Privilege::Insert, OPERATOR_AUDIT, AUDITED),
    grant(DbRole::Viewer, Privilege::Select, EVENTS, ALL),
    grant(DbRole::Viewer, Privilege::Select, SUBSCRIPTIONS, NO_SECRETS),
    grant(DbRole::Viewer, Privilege::Select, CHANGES, ALL),
    grant(DbRole::Viewer, Privilege::Select, PATTERNS, ALL),
    grant(DbRole::Viewer, Privilege::Select, ROUTING_QUEUE, ALL),
    grant(DbRole::Viewer, Privilege::Select, SAGAS, ALL),
    grant(DbRole::Viewer, Privilege::Select, JOBS, ALL),
    grant(DbRole::Viewer, Privilege::Select, FINISHED, ALL),
    grant(DbRole::Viewer, Privilege::Select, DEAD_LETTERS, ALL),
    grant(DbRole::Viewer, Privilege::Select, ORDERS, ALL),
    grant(DbRole::Viewer, Privilege::Select, LEDGER, ALL),
    grant(DbRole::Viewer, Privilege::Select, AUDIT, ALL),
    grant(DbRole::Viewer, Privilege::Select, LANE, ALL),
    grant(DbRole::Viewer, Privilege::Select, KEYS, NO_HASH),
    grant(DbRole::Viewer, Privilege::Select, PROCESSES, ALL),
    grant(DbRole::Viewer, Privilege::Select, ROLLUPS, ALL),
    grant(DbRole::Viewer, Privilege::Select, HEALTH, ALL),
    grant(DbRole::Viewer, Privilege::Select, OPERATOR_AUDIT, ALL),
    grant(DbRole::EventPublisher, Privilege::Execute, PUBLISH, ALL),
];

/// The functions that every component role may call, because every process reports its counters.
pub const EVERY_ROLE_EXECUTES: [&str; 2] = [REPORT_PRESENCE, REPORT_HEALTH];
/// The table that every component role may read, because every process checks the schema version.
pub const EVERY_ROLE_READS: &str = MIGRATIONS;

/// Returns whether a role has a privilege on a column of an object, or on any of its columns if `column` is `None`.
pub fn allows(role: DbRole, privilege: Privilege, object: &str, column: Option<&str>) -> bool {
    let is_everybodys = match privilege {
        Privilege::Execute => EVERY_ROLE_EXECUTES.contains(&object),
        Privilege::Select => object == EVERY_ROLE_READS,
        Privilege::Insert | Privilege::Update | Privilege::Delete => false,
    };
    if is_everybodys && DbRole::COMPONENTS.contains(&role) {
        return true;
    }
    GRANTS.iter().any(|grant| {
        grant.role == role
            && grant.privilege == privilege
            && grant.object == object
            && column.is_none_or(|column| grant.columns.is_empty() || grant.columns.contains(&column))
    })
}

/// Returns whether a role may insert into or select from a SQLite view, which requires the right to call the function
/// that the view replaces.
pub fn may_call_view(role: DbRole, view: &str) -> bool {
    SQLITE_VIEWS
        .iter()
        .any(|(name, function)| *name == view && allows(role, Privilege::Execute, function, None))
}

/// Returns the statements that set the rights in a PostgreSQL database to those of this table. The roles, whose names
/// start with `prefix`, must exist.
pub fn postgres_grants(prefix: &RolePrefix) -> String {
    let roles = prefix.roles(&DbRole::ALL).join(", ");
    let components = prefix.roles(&DbRole::COMPONENTS).join(", ");
    let mut sql = postgres_revokes(&format!("PUBLIC, {roles}"));
    let _ = writeln!(sql, "GRANT USAGE ON SCHEMA posthaste TO {roles};");
    for function in EVERY_ROLE_EXECUTES {
        let _ = writeln!(sql, "GRANT EXECUTE ON FUNCTION posthaste.{function} TO {components};");
    }
    let _ = writeln!(sql, "GRANT SELECT ON TABLE posthaste.{EVERY_ROLE_READS} TO {components};");
    for Grant { role, privilege, object, columns } in GRANTS {
        let (role, verb_name) = (prefix.role(*role), privilege.name());
        let columns = if columns.is_empty() { String::new() } else { format!(" ({})", columns.join(", ")) };
        let kind = if *privilege == Privilege::Execute { "FUNCTION" } else { "TABLE" };
        let _ = writeln!(sql, "GRANT {verb_name}{columns} ON {kind} posthaste.{object} TO {role};");
    }
    sql
}

/// Returns the statements that revoke all rights in a PostgreSQL database from a list of roles.
pub(crate) fn postgres_revokes(roles: &str) -> String {
    let objects = ["SCHEMA", "ALL FUNCTIONS IN SCHEMA", "ALL TABLES IN SCHEMA", "ALL SEQUENCES IN SCHEMA"];
    objects.map(|objects| format!("REVOKE ALL ON {objects} posthaste FROM {roles};\n")).concat()
}

/// Returns the content of `docs/roles.md`.
pub fn roles_markdown() -> String {
    let mut text = String::from(
        "# Database roles\n\n\
         Generated from the table in `crates/store/src/grants.rs`; a test compares them. PostgreSQL enforces\n\
         the rights with roles and column grants, SQLite with an authorizer when a statement is prepared. A\n\
         right that is not listed is denied.\n\n\
         Every role except `event_publisher` may also call `report_presence`, which records that a process is\n\
         running and adds its counters, and `report_health`, which adds the attempt counts of subscriptions.\n\
         It may also read `schema_migrations`, to check the schema version.\n\n\
         On PostgreSQL, the name of a role starts with `POSTHASTE_ROLE_PREFIX`, for example `posthaste_viewer`\n\
         ([postgresql.md](postgresql.md#roles-and-logins)).\n",
    );
    for role in DbRole::ALL {
        let _ =
            write!(text, "\n## `{}`\n\n| privilege | object | columns |\n| --- | --- | --- |\n", role.name());
        for grant in GRANTS.iter().filter(|grant| grant.role == role) {
            let columns = match (grant.privilege, grant.columns) {
                (Privilege::Execute, _) => String::new(),
                (Privilege::Select | Privilege::Insert | Privilege::Update | Privilege::Delete, []) => {
                    "all".to_owned()
                }
                (Privilege::Select | Privilege::Insert | Privilege::Update | Privilege::Delete, some) => {
                    some.join(", ")
                }
            };
            let _ = writeln!(text, "| {} | `{}` | {columns} |", grant.privilege.name(), grant.object);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unlisted_rights_are_denied() {
        let router = DbRole::RouterWorker;
        assert!(allows(router, Privilege::Select, EVENTS, Some("id")));
        assert!(!allows(router, Privilege::Select, EVENTS, Some("payload")));
        assert!(allows(router, Privilege::Select, EVENTS, None));
        assert!(!allows(router, Privilege::Update, SAGAS, None));
        assert!(allows(router, Privilege::Execute, REPORT_PRESENCE, None));
        assert!(!allows(router, Privilege::Execute, REQUEUE, None));
        assert!(allows(router, Privilege::Select, MIGRATIONS, Some("version")));
        assert!(!allows(router, Privilege::Update, MIGRATIONS, None));
        let publisher = DbRole::EventPublisher;
        assert!(allows(publisher, Privilege::Execute, PUBLISH, None));
        assert!(!allows(publisher, Privilege::Execute, REPORT_PRESENCE, None));
        assert!(!allows(publisher, Privilege::Select, MIGRATIONS, None));
    }

    #[test]
    fn no_role_may_insert_an_id() {
        for grant in GRANTS.iter().filter(|grant| grant.privilege == Privilege::Insert) {
            // Tables without an `id` column.
            let is_bare = [FINISHED, LEDGER, SESSIONS].contains(&grant.object);
            let has_id = grant.columns.is_empty() || grant.columns.contains(&"id");
            assert!(is_bare || !has_id, "{grant:?}");
        }
    }

    #[test]
    fn every_grant_is_on_an_existing_object() {
        for grant in GRANTS {
            let functions = [PUBLISH, COMPARE_EVENTS, REQUEUE, RESUME_LANE, REPORT_PRESENCE, REPORT_HEALTH];
            let known = if grant.privilege == Privilege::Execute { &functions[..] } else { &TABLES[..] };
            assert!(known.contains(&grant.object), "{grant:?}");
        }
    }
}
