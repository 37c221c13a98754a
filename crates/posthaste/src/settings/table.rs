//! The table of all settings. The file and environment readers, the flags and their help, `posthaste config`, the
//! example file and the settings reference are based on it. A new setting needs a row here and a field in
//! [`super::Settings`].

use super::kinds::{
    AttributeRuleList, BrokerAt, Bytes, DatabaseAt, Filter, Format, Headers, HostName, Listen, Methods,
    Networks, Number, OneLine, PathText, Ports, Prefix, ProxyAt, Roles, RootKey, SealingKeyList, ServerAt,
    ShellCommand, StoredSecrets, Time, Unit, UnitTime, UriReference, YesNo,
};
use super::setting::Group::{Database, Deliveries, Egress, Logs, Orders, Server};
use super::setting::Shown::{Hidden, PlainUrl, WithoutLogin, WithoutPassword};
use super::setting::{Group, Row, Setting};
use super::source::Form;
use super::types::ProcessRole;
use crate::database::DEFAULT_URL;
use posthaste_core::retry::ATTEMPTS_LIMIT_MAX;
use posthaste_services::webhook_request::InstallationNames;
use posthaste_store::grants::DbRole;
use std::time::Duration;

/// The largest payload that the CHECK constraint on the table `events` accepts, in bytes.
const STORED_PAYLOAD_BYTES_MAX: usize = 1 << 20;

/// The example value of a key. It is deliberately invalid, because a key in an example is publicly known.
pub(super) const KEY_EXAMPLE: &str = "<the output of: openssl rand -hex 32>";

const HOUR_S: u64 = 3600;
const DAY_S: u64 = 24 * HOUR_S;

const API: &[ProcessRole] = &[ProcessRole::Api];
const ROUTER: &[ProcessRole] = &[ProcessRole::Router];
const ORCHESTRATOR: &[ProcessRole] = &[ProcessRole::Orchestrator];
const WORKER: &[ProcessRole] = &[ProcessRole::Worker];
const CLEANER: &[ProcessRole] = &[ProcessRole::Cleaner];
const OUTBOX: &[ProcessRole] = &[ProcessRole::Outbox];
const API_AND_CLEANER: &[ProcessRole] = &[ProcessRole::Api, ProcessRole::Cleaner];
const API_AND_OUTBOX: &[ProcessRole] = &[ProcessRole::Api, ProcessRole::Outbox];
const API_AND_WORKER: &[ProcessRole] = &[ProcessRole::Api, ProcessRole::Worker];
/// The roles that use the lease settings. The API reports expired leases.
const LEASES: &[ProcessRole] = &[ProcessRole::Api, ProcessRole::Worker, ProcessRole::Cleaner];
const POLLING: &[ProcessRole] = &[ProcessRole::Router, ProcessRole::Orchestrator, ProcessRole::Worker];
/// The roles that send requests. The API sends verification challenges and test events.
const SENDING: &[ProcessRole] = &[ProcessRole::Api, ProcessRole::Worker, ProcessRole::Outbox];

const fn ms(min: u64, max_s: u64) -> Time {
    Time { min: Duration::from_millis(min), max: Duration::from_secs(max_s) }
}

const fn number(min: u32, max: u32) -> Number {
    Number { min, max }
}

const fn login(
    env: &'static str,
    example: &'static str,
    roles: &'static [ProcessRole],
    help: &'static str,
) -> Setting<ServerAt> {
    Setting::optional(env, example, Database, ServerAt, help).shown(WithoutPassword).used_by(roles)
}

macro_rules! table {
    ($($name:ident: $kind:ty = $setting:expr;)*) => {
        $(pub(super) static $name: Setting<$kind> = $setting;)*
        pub(super) static TABLE: &[&dyn Row] = &[$(&$name),*];
    };
}

table! {
    LISTEN: Listen = Setting::new("POSTHASTE_LISTEN", "127.0.0.1:8080", Server, Listen,
        "Address of the API and the dashboard").used_by(API);
    METRICS_LISTEN: Listen = Setting::optional("POSTHASTE_METRICS_LISTEN", "127.0.0.1:9090", Server, Listen,
        "Address of /healthz, /readyz and /metrics, for any role; of these, the API address then serves only /healthz");
    ROLES: Roles = Setting::new("POSTHASTE_ROLES", "all", Server, Roles,
        "Roles of this process: all, or a list of api,router,orchestrator,worker,cleaner,outbox");
    ROOT_KEY: RootKey = Setting::optional("POSTHASTE_ROOT_KEY", KEY_EXAMPLE, Server, RootKey,
        "API key with the role root, for creating the first keys").shown(Hidden).used_by(API);
    SECRET_KEY: SealingKeyList = Setting::optional("POSTHASTE_SECRET_KEY", KEY_EXAMPLE, Server, SealingKeyList,
        "Keys of signing secrets in the database: the first encrypts, all decrypt").shown(Hidden)
        .used_by(API_AND_WORKER);
    SECRETS: StoredSecrets = Setting::new("POSTHASTE_SECRETS", "any", Server, StoredSecrets,
        "Form of signing secrets in the database: any, or sealed to refuse plain text").used_by(API_AND_WORKER);
    PAYLOAD_BYTES_MAX: Bytes = Setting::new("POSTHASTE_PAYLOAD_BYTES_MAX", "256KiB", Server,
        Bytes { min: 1, max: STORED_PAYLOAD_BYTES_MAX },
        "Maximum payload size of an event").used_by(API);
    BATCH_EVENTS_MAX: Number = Setting::new("POSTHASTE_BATCH_EVENTS_MAX", "1000", Server, number(1, 10_000),
        "Maximum number of events in one request").used_by(API);
    ATTRIBUTE_RULES: AttributeRuleList = Setting::optional("POSTHASTE_ATTRIBUTE_RULES", "region=/customer/region", Server,
        AttributeRuleList,
        "Attributes to fill from the payload of new events, each as name=/json/pointer").used_by(API);
    TRUSTED_PROXIES: Networks = Setting::new("POSTHASTE_TRUSTED_PROXIES", "127.0.0.0/8,::1/128", Server, Networks,
        "Networks of reverse proxies: trusted to set x-forwarded-for, without a limit of connections per client");
    SHUTDOWN_GRACE: Time = Setting::new("POSTHASTE_SHUTDOWN_GRACE", "20s", Server, ms(0, HOUR_S),
        "How long a process may drain after SIGTERM or SIGINT");

    DATABASE_URL: DatabaseAt = Setting::new("POSTHASTE_DATABASE_URL", DEFAULT_URL, Database, DatabaseAt,
        "Database: sqlite://<file> or postgres://<user>@<host>/<database>").shown(WithoutPassword);
    DATABASE_URL_DIRECT: ServerAt = login("POSTHASTE_DATABASE_URL_DIRECT", "postgres://owner@db/posthaste",
        &ProcessRole::ALL, "URL that bypasses a connection pooler, for migrations and LISTEN");
    ROLE_PREFIX: Prefix = Setting::optional("POSTHASTE_ROLE_PREFIX", "posthaste_", Database, Prefix,
        "Prefix of the names of the PostgreSQL roles, which belong to the whole cluster");
    DATABASE_URL_INGEST: ServerAt = login("POSTHASTE_DATABASE_URL_INGEST", "postgres://ingest@db/posthaste",
        API, "Login that stores events, a member of event_ingest_writer");
    DATABASE_URL_SUBSCRIPTIONS: ServerAt = login("POSTHASTE_DATABASE_URL_SUBSCRIPTIONS",
        "postgres://subscriptions@db/posthaste",
        API, "Login that manages subscriptions, a member of subscription_admin");
    DATABASE_URL_ROUTER: ServerAt = login("POSTHASTE_DATABASE_URL_ROUTER", "postgres://router@db/posthaste",
        ROUTER, "Login of the router, a member of router_worker");
    DATABASE_URL_ORCHESTRATOR: ServerAt = login("POSTHASTE_DATABASE_URL_ORCHESTRATOR",
        "postgres://orchestrator@db/posthaste",
        ORCHESTRATOR, "Login of the orchestrator, a member of saga_orchestrator");
    DATABASE_URL_WORKER: ServerAt = login("POSTHASTE_DATABASE_URL_WORKER", "postgres://worker@db/posthaste",
        WORKER, "Login of the worker, a member of job_worker");
    DATABASE_URL_CLEANER: ServerAt = login("POSTHASTE_DATABASE_URL_CLEANER", "postgres://cleaner@db/posthaste",
        CLEANER, "Login of the cleaner, a member of lease_cleaner");
    DATABASE_URL_DEAD_LETTERS: ServerAt = login("POSTHASTE_DATABASE_URL_DEAD_LETTERS",
        "postgres://dead_letters@db/posthaste",
        API, "Login that requeues dead letters, a member of dead_letter_operator");
    DATABASE_URL_ORDERS: ServerAt = login("POSTHASTE_DATABASE_URL_ORDERS", "postgres://orders@db/posthaste",
        API, "Login that stores orders, a member of outbox_writer");
    DATABASE_URL_OUTBOX: ServerAt = login("POSTHASTE_DATABASE_URL_OUTBOX", "postgres://outbox@db/posthaste",
        OUTBOX, "Login of the outbox worker, a member of outbox_worker");
    DATABASE_URL_KEYS: ServerAt = login("POSTHASTE_DATABASE_URL_KEYS", "postgres://keys@db/posthaste",
        API, "Login that manages API keys, a member of key_keeper");
    DATABASE_URL_VIEWER: ServerAt = login("POSTHASTE_DATABASE_URL_VIEWER", "postgres://viewer@db/posthaste",
        API, "Login that reads for the API, a member of viewer");
    DATABASE_PASSWORD_COMMAND: ShellCommand = Setting::optional("POSTHASTE_DATABASE_PASSWORD_COMMAND",
        "gcloud auth print-access-token", Database, ShellCommand,
        "Shell command that prints the password of every database login, run for each new connection").shown(Hidden);
    DATABASE_PASSWORD_FILE: PathText = Setting::optional("POSTHASTE_DATABASE_PASSWORD_FILE",
        "/run/secrets/database_password", Database, PathText,
        "File with the password of every database login, read again for each new connection");

    MAX_RETRY_LIMIT: Number = Setting::new("POSTHASTE_MAX_RETRY_LIMIT", "5", Deliveries, number(1, ATTEMPTS_LIMIT_MAX),
        "Maximum number of attempts of a delivery, including the first; a subscription may set its own")
        .used_by(ORCHESTRATOR);
    RETRY_BASE: Time = Setting::new("POSTHASTE_RETRY_BASE", "30s", Deliveries, ms(1, 7 * DAY_S),
        "Delay before the first retry; it doubles with each further one").used_by(ORCHESTRATOR);
    RETRY_CAP: Time = Setting::new("POSTHASTE_RETRY_CAP", "1h", Deliveries, ms(1, 7 * DAY_S),
        "Maximum delay between two attempts").used_by(ORCHESTRATOR);
    LEASE: Time = Setting::new("POSTHASTE_LEASE", "60s", Deliveries, ms(1_000, DAY_S),
        "How long a worker may hold an attempt before it can be claimed again").used_by(LEASES);
    LEASE_RESETS_MAX: Number = Setting::new("POSTHASTE_LEASE_RESETS_MAX", "3", Deliveries, number(0, 100),
        "Number of expired leases after which an attempt counts as failed").used_by(CLEANER);
    CLEANER_INTERVAL: Time = Setting::new("POSTHASTE_CLEANER_INTERVAL", "1s", Deliveries, ms(10, HOUR_S),
        "How often the cleaner checks for expired leases").used_by(API_AND_CLEANER);
    POLL: Time = Setting::new("POSTHASTE_POLL", "100ms", Deliveries, ms(1, 60),
        "How often a role polls for work that no wake-up announced").used_by(POLLING);
    REQUEST_TIMEOUT: Time = Setting::new("POSTHASTE_REQUEST_TIMEOUT", "15s", Deliveries, ms(10, HOUR_S),
        "Timeout of a request, from connecting to the last byte of the response").used_by(SENDING);
    WORKER_CONCURRENCY: Number = Setting::new("POSTHASTE_WORKER_CONCURRENCY", "1024", Deliveries, number(1, 65_536),
        "Maximum number of requests in flight in one worker").used_by(WORKER);
    SUBSCRIPTION_IN_FLIGHT: Number = Setting::new("POSTHASTE_SUBSCRIPTION_IN_FLIGHT", "2048", Deliveries,
        number(1, 65_536), "Maximum number of attempts in flight for one subscription").used_by(ORCHESTRATOR);
    CLOUDEVENTS_SOURCE: UriReference = Setting::new("POSTHASTE_CLOUDEVENTS_SOURCE",
        InstallationNames::DEFAULT_SOURCE, Deliveries, UriReference,
        "Source of CloudEvents that are sent for events without one").used_by(API_AND_WORKER);
    WEBHOOK_ORIGIN: HostName = Setting::optional("POSTHASTE_WEBHOOK_ORIGIN", "events.example.com", Deliveries,
        HostName, "DNS name of this installation, sent as webhook-request-origin; required for the verification \
        method cloudevents").used_by(API_AND_WORKER);

    DENY_CIDRS: Networks = Setting::optional("POSTHASTE_DENY_CIDRS", "198.51.100.0/24", Egress, Networks,
        "Networks that requests must not reach, also if another setting allows them").used_by(SENDING);
    ALLOW_CIDRS: Networks = Setting::optional("POSTHASTE_ALLOW_CIDRS", "10.0.0.0/8", Egress, Networks,
        "Networks that requests may reach, on any port, although they are not public or belong to this host")
        .used_by(SENDING);
    ALLOW_PORTS: Ports = Setting::new("POSTHASTE_ALLOW_PORTS", "any", Egress, Ports,
        "Ports that requests may be sent to, except in the networks of POSTHASTE_ALLOW_CIDRS").used_by(SENDING);
    ALLOW_HTTP: YesNo = Setting::new("POSTHASTE_ALLOW_HTTP", "false", Egress, YesNo,
        "Allow requests without TLS").used_by(SENDING);
    EGRESS_PROXY: ProxyAt = Setting::optional("POSTHASTE_EGRESS_PROXY", "http://proxy.example:3128", Egress, ProxyAt,
        "HTTP proxy that opens the connections of all requests, to addresses that are checked before")
        .shown(WithoutLogin).used_by(SENDING);
    CA_FILE: PathText = Setting::optional("POSTHASTE_CA_FILE", "/etc/ssl/our-ca.pem", Egress, PathText,
        "Additional certificate authorities to trust, as a PEM file").used_by(SENDING);
    VERIFICATION_METHODS: Methods = Setting::new("POSTHASTE_VERIFICATION_METHODS", "challenge,cloudevents", Egress,
        Methods, "Allowed ways to verify callback URLs; with asserted, an administrator vouches for a URL")
        .used_by(API);

    BROKER_URL: BrokerAt = Setting::optional("POSTHASTE_BROKER_URL", "https://broker.example/orders", Orders, BrokerAt,
        "URL of the broker; orders are refused if it is not set").shown(PlainUrl).used_by(API_AND_OUTBOX);
    BROKER_HEADERS: Headers = Setting::optional("POSTHASTE_BROKER_HEADERS", "Authorization: Bearer token", Orders,
        Headers,
        "Headers of requests to the broker, as Name: value separated by semicolons").shown(Hidden).used_by(OUTBOX);
    BROKER_PROCESSED_MARKER: OneLine = Setting::new("POSTHASTE_BROKER_PROCESSED_MARKER", "already processed", Orders,
        OneLine { chars_max: 200 },
        "Text in a 409 response of the broker that proves that the order was executed; case is ignored")
        .used_by(OUTBOX);
    OUTBOX_BATCH_SIZE: Number = Setting::new("OUTBOX_BATCH_SIZE", "32", Orders, number(1, 1_000),
        "Maximum number of orders claimed at once").used_by(OUTBOX);
    OUTBOX_PARALLELISM: Number = Setting::new("OUTBOX_PARALLELISM", "4", Orders, number(1, 256),
        "Number of concurrent senders in this process").used_by(OUTBOX);
    OUTBOX_RETRY_MAX: Number = Setting::new("OUTBOX_RETRY_MAX", "8", Orders, number(0, 100),
        "Maximum number of retries of an order").used_by(OUTBOX);
    OUTBOX_IDLE_SLEEP_MS: UnitTime = Setting::new("OUTBOX_IDLE_SLEEP_MS", "200", Orders,
        UnitTime { unit: Unit::Milliseconds, min: Duration::from_millis(1), max: Duration::from_secs(60) },
        "How often an empty queue of orders is polled; a bare number is in milliseconds").used_by(OUTBOX);
    OUTBOX_STUCK_THRESHOLD_MIN: UnitTime = Setting::new("OUTBOX_STUCK_THRESHOLD_MIN", "10", Orders,
        UnitTime { unit: Unit::Minutes, min: Duration::from_secs(3), max: Duration::from_secs(DAY_S) },
        "Age after which an order in the state sending is queued again; a bare number is in minutes")
        .used_by(API_AND_OUTBOX);
    OUTBOX_LEDGER_TTL: Time = Setting::new("OUTBOX_LEDGER_TTL", "7d", Orders, ms(60_000, 3_650 * DAY_S),
        "How long idempotency keys are kept").used_by(API);
    OUTBOX_LAG_SLA: Time = Setting::new("OUTBOX_LAG_SLA", "60s", Orders, ms(1_000, 30 * DAY_S),
        "Age of the oldest queued order that triggers an alert");

    LOG: Filter = Setting::new("POSTHASTE_LOG", "info", Logs, Filter,
        "Log level, optionally per module, as in info,posthaste_services=debug");
    LOG_FORMAT: Format = Setting::new("POSTHASTE_LOG_FORMAT", "human", Logs, Format,
        "Log format: lines of text, or one JSON object per line");
}

/// The database roles that can have a separate login, each with its setting.
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

/// Returns the first row for which `is_it` returns `true`.
pub(super) fn find(is_it: impl Fn(&dyn Row) -> bool) -> Option<&'static dyn Row> {
    TABLE.iter().copied().find(|row| is_it(*row))
}

/// Returns the setting with this environment variable, which contains the value or the path of a file.
pub(super) fn find_variable(name: &str) -> Option<(&'static dyn Row, Form)> {
    let value = find(|row| row.about().env == name).map(|row| (row, Form::Value));
    value.or_else(|| {
        find(|row| row.about().file_env().as_deref() == Some(name)).map(|row| (row, Form::SecretFile))
    })
}

/// Returns the setting with this key in the settings file, which contains the value or the path of a file.
pub(super) fn find_key(key: &str) -> Option<(&'static dyn Row, Form)> {
    let value = find(|row| row.about().key() == key).map(|row| (row, Form::Value));
    value.or_else(|| {
        find(|row| row.about().file_key().as_deref() == Some(key)).map(|row| (row, Form::SecretFile))
    })
}

#[cfg(test)]
mod tests {
    use super::super::setting::Fallback;
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn defaults_and_examples_are_valid() {
        for row in TABLE {
            let (Fallback::Value(text) | Fallback::Unset { example: text }) = row.about().fallback;
            assert_eq!(row.check(text).is_ok(), text != KEY_EXAMPLE, "{}", row.about().env);
        }
    }

    #[test]
    fn names_are_unique_and_have_a_prefix() {
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
    fn names_of_secret_files_belong_to_one_setting() {
        let names: BTreeSet<&str> = TABLE.iter().map(|row| row.about().env).collect();
        let files: Vec<String> = TABLE.iter().filter_map(|row| row.about().file_env()).collect();
        assert!(files.iter().all(|file| !names.contains(file.as_str())), "{files:?}");
        assert!(files.len() > 15, "{files:?}");
        for name in [
            "POSTHASTE_ROOT_KEY",
            "POSTHASTE_SECRET_KEY",
            "POSTHASTE_DATABASE_URL",
            "POSTHASTE_BROKER_HEADERS",
        ] {
            assert!(files.contains(&format!("{name}_FILE")), "{name}");
        }
        assert!(find_variable("POSTHASTE_LEASE_FILE").is_none());
        let own =
            find_variable("POSTHASTE_DATABASE_PASSWORD_FILE").map(|(row, form)| (row.about().env, form));
        assert_eq!(own, Some(("POSTHASTE_DATABASE_PASSWORD_FILE", Form::Value)));
    }

    #[test]
    fn rows_of_a_group_are_adjacent() {
        let mut groups: Vec<Group> = TABLE.iter().map(|row| row.about().group).collect();
        groups.dedup();
        assert_eq!(groups, GROUPS);
    }
}
