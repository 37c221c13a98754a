//! ONE table of all settings. It makes the reader of the file and of the environment, the flags with
//! their help, `posthaste config` and the example file. Adding a setting is adding a row, and a field to
//! [`super::Settings`] that takes it.

use super::kinds::{
    BrokerAt, Bytes, DatabaseAt, Filter, Format, Headers, Listen, Minutes, Networks, Number, OneLine,
    PathText, Roles, RootKey, SealingKeyText, ServerAt, Time, YesNo,
};
use super::setting::Group::{Database, Deliveries, Egress, Logs, Orders, Server};
use super::setting::Shown::{Nothing, PlainUrl, WithoutPassword};
use super::setting::{Group, Row, Setting};
use crate::database::DEFAULT_URL;
use posthaste_core::retry::ATTEMPTS_LIMIT_MAX;
use posthaste_store::grants::DbRole;
use std::time::Duration;

/// The CHECK of the table `events`: no larger payload could be stored.
const STORED_PAYLOAD_BYTES_MAX: usize = 1 << 20;

/// No key, on purpose: one that stands in an example is known to everybody, and must not work.
pub(super) const KEY_EXAMPLE: &str = "<what openssl rand -hex 32 prints>";

const HOUR_S: u64 = 3600;
const DAY_S: u64 = 24 * HOUR_S;

const fn ms(min: u64, max_s: u64) -> Time {
    Time { min: Duration::from_millis(min), max: Duration::from_secs(max_s) }
}

const fn number(min: u32, max: u32) -> Number {
    Number { min, max }
}

const fn login(env: &'static str, example: &'static str, help: &'static str) -> Setting<ServerAt> {
    Setting::absent(env, example, Database, ServerAt, help).shown(WithoutPassword)
}

macro_rules! table {
    ($($name:ident: $kind:ty = $setting:expr;)*) => {
        $(pub(super) static $name: Setting<$kind> = $setting;)*
        pub(super) static TABLE: &[&dyn Row] = &[$(&$name),*];
    };
}

table! {
    LISTEN: Listen = Setting::new("POSTHASTE_LISTEN", "127.0.0.1:8080", Server, Listen,
        "Where the API listens");
    METRICS_LISTEN: Listen = Setting::absent("POSTHASTE_METRICS_LISTEN", "127.0.0.1:9090", Server, Listen,
        "Where /healthz, /readyz and /metrics are answered, with or without the role api; the last two only there");
    ROLES: Roles = Setting::new("POSTHASTE_ROLES", "all", Server, Roles,
        "What this process does: all, or any of api,router,orchestrator,worker,cleaner,outbox");
    ROOT_KEY: RootKey = Setting::absent("POSTHASTE_ROOT_KEY", KEY_EXAMPLE, Server, RootKey,
        "An API key that may do everything, for the first start").shown(Nothing);
    SECRET_KEY: SealingKeyText = Setting::absent("POSTHASTE_SECRET_KEY", KEY_EXAMPLE, Server, SealingKeyText,
        "Encrypts the signing secrets in the database").shown(Nothing);
    PAYLOAD_BYTES_MAX: Bytes = Setting::new("POSTHASTE_PAYLOAD_BYTES_MAX", "256KiB", Server,
        Bytes { min: 1, max: STORED_PAYLOAD_BYTES_MAX },
        "The largest payload of an event that is accepted");
    BATCH_EVENTS_MAX: Number = Setting::new("POSTHASTE_BATCH_EVENTS_MAX", "1000", Server, number(1, 10_000),
        "The most events in one request");
    TRUSTED_PROXIES: Networks = Setting::new("POSTHASTE_TRUSTED_PROXIES", "127.0.0.0/8,::1/128", Server, Networks,
        "Networks of proxies: no limit of connections for each peer, and x-forwarded-for names the client");
    SHUTDOWN_GRACE: Time = Setting::new("POSTHASTE_SHUTDOWN_GRACE", "20s", Server, ms(0, HOUR_S),
        "How long a stopping process may take to finish what it began");

    DATABASE_URL: DatabaseAt = Setting::new("POSTHASTE_DATABASE_URL", DEFAULT_URL, Database, DatabaseAt,
        "sqlite://<file> or postgres://<user>@<host>/<database>").shown(WithoutPassword);
    DATABASE_URL_DIRECT: ServerAt = login("POSTHASTE_DATABASE_URL_DIRECT", "postgres://owner@db/posthaste",
        "The way past a connection pooler, for migrations and notifications");
    DATABASE_URL_INGEST: ServerAt = login("POSTHASTE_DATABASE_URL_INGEST", "postgres://ingest@db/posthaste",
        "The login that accepts events, a member of event_ingest_writer");
    DATABASE_URL_SUBSCRIPTIONS: ServerAt = login("POSTHASTE_DATABASE_URL_SUBSCRIPTIONS",
        "postgres://subscriptions@db/posthaste",
        "The login that keeps subscriptions, a member of subscription_admin");
    DATABASE_URL_ROUTER: ServerAt = login("POSTHASTE_DATABASE_URL_ROUTER", "postgres://router@db/posthaste",
        "The login of the router, a member of router_worker");
    DATABASE_URL_ORCHESTRATOR: ServerAt = login("POSTHASTE_DATABASE_URL_ORCHESTRATOR",
        "postgres://orchestrator@db/posthaste",
        "The login of the orchestrator, a member of saga_orchestrator");
    DATABASE_URL_WORKER: ServerAt = login("POSTHASTE_DATABASE_URL_WORKER", "postgres://worker@db/posthaste",
        "The login of the worker, a member of job_worker");
    DATABASE_URL_CLEANER: ServerAt = login("POSTHASTE_DATABASE_URL_CLEANER", "postgres://cleaner@db/posthaste",
        "The login of the cleaner, a member of lease_cleaner");
    DATABASE_URL_DEAD_LETTERS: ServerAt = login("POSTHASTE_DATABASE_URL_DEAD_LETTERS",
        "postgres://dead_letters@db/posthaste",
        "The login that requeues dead letters, a member of dead_letter_operator");
    DATABASE_URL_ORDERS: ServerAt = login("POSTHASTE_DATABASE_URL_ORDERS", "postgres://orders@db/posthaste",
        "The login that accepts orders, a member of outbox_writer");
    DATABASE_URL_OUTBOX: ServerAt = login("POSTHASTE_DATABASE_URL_OUTBOX", "postgres://outbox@db/posthaste",
        "The login of the outbox worker, a member of outbox_worker");
    DATABASE_URL_KEYS: ServerAt = login("POSTHASTE_DATABASE_URL_KEYS", "postgres://keys@db/posthaste",
        "The login that keeps API keys, a member of key_keeper");
    DATABASE_URL_VIEWER: ServerAt = login("POSTHASTE_DATABASE_URL_VIEWER", "postgres://viewer@db/posthaste",
        "The login that reads for the API, a member of viewer");

    MAX_RETRY_LIMIT: Number = Setting::new("POSTHASTE_MAX_RETRY_LIMIT", "5", Deliveries, number(1, ATTEMPTS_LIMIT_MAX),
        "Attempts in all, the first included, unless a subscription has its own limit");
    RETRY_BASE: Time = Setting::new("POSTHASTE_RETRY_BASE", "30s", Deliveries, ms(1, 7 * DAY_S),
        "The wait after the first failed attempt; it doubles after each");
    RETRY_CAP: Time = Setting::new("POSTHASTE_RETRY_CAP", "1h", Deliveries, ms(1, 7 * DAY_S),
        "The longest wait between two attempts");
    LEASE: Time = Setting::new("POSTHASTE_LEASE", "60s", Deliveries, ms(1_000, DAY_S),
        "How long a worker may hold a job before another gets it");
    LEASE_RESETS_MAX: Number = Setting::new("POSTHASTE_LEASE_RESETS_MAX", "3", Deliveries, number(0, 100),
        "After so many leases that ran out the attempt counts as failed");
    CLEANER_INTERVAL: Time = Setting::new("POSTHASTE_CLEANER_INTERVAL", "1s", Deliveries, ms(10, HOUR_S),
        "How often the cleaner looks for leases that ran out");
    POLL: Time = Setting::new("POSTHASTE_POLL", "100ms", Deliveries, ms(1, 60),
        "How often a role looks for work that nobody announced");
    REQUEST_TIMEOUT: Time = Setting::new("POSTHASTE_REQUEST_TIMEOUT", "15s", Deliveries, ms(10, HOUR_S),
        "The longest that one request may take, from connecting to the last byte");
    WORKER_CONCURRENCY: Number = Setting::new("POSTHASTE_WORKER_CONCURRENCY", "1024", Deliveries, number(1, 65_536),
        "Requests that a worker has open at once");
    SUBSCRIPTION_IN_FLIGHT: Number = Setting::new("POSTHASTE_SUBSCRIPTION_IN_FLIGHT", "2048", Deliveries, number(1, 65_536),
        "Attempts of one subscription that may be under way at once");

    ALLOW_CIDRS: Networks = Setting::absent("POSTHASTE_ALLOW_CIDRS", "10.0.0.0/8", Egress, Networks,
        "Networks that requests may reach although they are not public");
    ALLOW_HTTP: YesNo = Setting::new("POSTHASTE_ALLOW_HTTP", "false", Egress, YesNo,
        "Whether requests may go out without TLS");
    CA_FILE: PathText = Setting::absent("POSTHASTE_CA_FILE", "/etc/ssl/our-ca.pem", Egress, PathText,
        "Certificate authorities to trust beside those of the system, as PEM");

    BROKER_URL: BrokerAt = Setting::absent("POSTHASTE_BROKER_URL", "https://broker.example/orders", Orders, BrokerAt,
        "Where orders are sent; without it they are refused").shown(PlainUrl);
    BROKER_HEADERS: Headers = Setting::absent("POSTHASTE_BROKER_HEADERS", "Authorization: Bearer token", Orders, Headers,
        "Headers for the broker, as Name: value with semicolons between them").shown(Nothing);
    BROKER_PROCESSED_MARKER: OneLine = Setting::new("POSTHASTE_BROKER_PROCESSED_MARKER", "already processed", Orders,
        OneLine { chars_max: 200 },
        "What a 409 of the broker says, in any case, about an order that it has executed");
    OUTBOX_BATCH_SIZE: Number = Setting::new("OUTBOX_BATCH_SIZE", "32", Orders, number(1, 1_000),
        "Orders that are taken at once");
    OUTBOX_PARALLELISM: Number = Setting::new("OUTBOX_PARALLELISM", "4", Orders, number(1, 256),
        "Senders in this process");
    OUTBOX_RETRY_MAX: Number = Setting::new("OUTBOX_RETRY_MAX", "8", Orders, number(0, 100),
        "Sends of an order after the first");
    OUTBOX_IDLE_SLEEP_MS: Number = Setting::new("OUTBOX_IDLE_SLEEP_MS", "200", Orders, number(1, 60_000),
        "Milliseconds between two looks into an empty queue");
    OUTBOX_STUCK_THRESHOLD_MIN: Minutes = Setting::new("OUTBOX_STUCK_THRESHOLD_MIN", "10", Orders,
        Minutes { min: Duration::from_secs(3), max: Duration::from_secs(DAY_S) },
        "Minutes after which an order that is being sent goes back to the queue");
    OUTBOX_LEDGER_TTL: Time = Setting::new("OUTBOX_LEDGER_TTL", "7d", Orders, ms(60_000, 3_650 * DAY_S),
        "How long an idempotency key is remembered");
    OUTBOX_LAG_SLA: Time = Setting::new("OUTBOX_LAG_SLA", "60s", Orders, ms(1_000, 30 * DAY_S),
        "The age of the oldest waiting order that is worth an alert");

    LOG: Filter = Setting::new("POSTHASTE_LOG", "info", Logs, Filter,
        "What is logged: a level, or levels for parts as in info,posthaste_services=debug");
    LOG_FORMAT: Format = Setting::new("POSTHASTE_LOG_FORMAT", "human", Logs, Format,
        "Lines for people, or a JSON object on each line");
}

/// The logins that one part of the program has for itself, by role of the database.
pub(super) static LOGINS: [(DbRole, &Setting<ServerAt>); 11] = [
    (DbRole::EventIngestWriter, &DATABASE_URL_INGEST),
    (DbRole::SubscriptionAdmin, &DATABASE_URL_SUBSCRIPTIONS),
    (DbRole::RouterWorker, &DATABASE_URL_ROUTER),
    (DbRole::SagaOrchestrator, &DATABASE_URL_ORCHESTRATOR),
    (DbRole::JobWorker, &DATABASE_URL_WORKER),
    (DbRole::LeaseCleaner, &DATABASE_URL_CLEANER),
    (DbRole::DeadLetterOperator, &DATABASE_URL_DEAD_LETTERS),
    (DbRole::OutboxWriter, &DATABASE_URL_ORDERS),
    (DbRole::OutboxWorker, &DATABASE_URL_OUTBOX),
    (DbRole::KeyKeeper, &DATABASE_URL_KEYS),
    (DbRole::Viewer, &DATABASE_URL_VIEWER),
];

pub(super) const GROUPS: [Group; 6] = [Server, Database, Deliveries, Egress, Orders, Logs];

pub(super) fn find(is_it: impl Fn(&dyn Row) -> bool) -> Option<&'static dyn Row> {
    TABLE.iter().copied().find(|row| is_it(*row))
}

#[cfg(test)]
mod tests {
    use super::super::setting::Fallback;
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_default_and_every_example_can_be_read() {
        for row in TABLE {
            let (Fallback::Value(text) | Fallback::Nothing { example: text }) = row.about().fallback;
            assert_eq!(row.check(text).is_ok(), text != KEY_EXAMPLE, "{}", row.about().env);
        }
    }

    #[test]
    fn names_are_unique_and_prefixed() {
        let keys: BTreeSet<String> = TABLE.iter().map(|row| row.about().key()).collect();
        assert_eq!(keys.len(), TABLE.len());
        assert!(TABLE.iter().all(|row| {
            let env = row.about().env;
            env.starts_with("POSTHASTE_") || env.starts_with("OUTBOX_")
        }));
        assert_eq!(RETRY_BASE.about.key(), "retry_base");
        assert_eq!(RETRY_BASE.about.flag(), "--retry-base");
        assert_eq!(OUTBOX_BATCH_SIZE.about.key(), "outbox_batch_size");
    }

    #[test]
    fn groups_stand_together() {
        let mut groups: Vec<Group> = TABLE.iter().map(|row| row.about().group).collect();
        groups.dedup();
        assert_eq!(groups, GROUPS);
    }
}
