//! Reads the settings from defaults, file, environment and flags, as defined in one [`table`], and checks them
//! together. A [`Settings`] value is always valid.

mod combination;
mod environment;
mod file;
mod flags;
mod kinds;
mod nearest;
mod print;
mod problem;
mod reference;
mod secret;
mod setting;
mod source;
mod table;
mod types;
mod warning;

pub(crate) use flags::{DatabaseFlags, Flags};
pub(crate) use print::{as_json, as_table, example};
pub(crate) use problem::Problems;
pub(crate) use reference::as_markdown;
pub(crate) use secret::Secret;
pub(crate) use source::Values;
pub(crate) use types::{
    BrokerSettings, DatabaseSettings, EgressSettings, LeaseSettings, LimitSettings, LogFormat, LogSettings,
    OutboxSettings, ProcessRole, Settings, WorkerSettings,
};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use posthaste_core::retry::{OrderRetryPolicy, RetryPolicy};
use posthaste_services::egress::EgressPolicy;
use posthaste_services::seal::SecretSealer;
use posthaste_services::webhook_request::InstallationNames;
use posthaste_store::postgres::PasswordSource;
use problem::Problem;
use std::ffi::OsString;
use std::net::{Ipv4Addr, Ipv6Addr};
use table as t;

/// The loopback networks of IPv4 and IPv6.
const LOOPBACK: [IpNet; 2] = [
    IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::new(127, 0, 0, 0), 8)),
    IpNet::V6(Ipv6Net::new_assert(Ipv6Addr::LOCALHOST, 128)),
];

/// Reads the settings from all sources.
///
/// # Errors
///
/// Returns all problems at once: invalid values, unknown names and conflicting settings.
pub(crate) fn load(
    flags: &Flags,
    environment: impl IntoIterator<Item = (OsString, OsString)>,
) -> Result<(Settings, Values), Problems> {
    read(flags, environment, &[])
}

/// Reads the settings for `posthaste dev`, which may always send requests to the loopback networks without TLS. A
/// broker on this machine is therefore accepted.
pub(crate) fn load_for_dev(
    environment: impl IntoIterator<Item = (OsString, OsString)>,
) -> Result<Settings, Problems> {
    read(&Flags::default(), environment, &LOOPBACK).map(|(settings, _)| settings)
}

/// Reads the settings from all sources. Requests may also be sent to the networks in `open`. If `open` is not empty,
/// requests do not need TLS.
fn read(
    flags: &Flags,
    environment: impl IntoIterator<Item = (OsString, OsString)>,
    open: &[IpNet],
) -> Result<(Settings, Values), Problems> {
    let mut problems = Vec::new();
    let values = Values::collect(flags, environment, &mut problems);
    combination::check(&values, open, &mut problems);
    if !problems.is_empty() {
        return Err(Problems(problems));
    }
    match settings(&values, open) {
        Ok(settings) => Ok((settings, values)),
        Err(problem) => Err(Problems(vec![problem])),
    }
}

fn egress_policy(values: &Values, open: &[IpNet]) -> Result<EgressPolicy, Problem> {
    let allow_http = values.value(&t::ALLOW_HTTP)? || !open.is_empty();
    let deny_cidrs = values.get(&t::DENY_CIDRS).unwrap_or_default();
    let mut allow_cidrs = values.get(&t::ALLOW_CIDRS).unwrap_or_default();
    allow_cidrs.extend(open);
    let allow_ports = values.value(&t::ALLOW_PORTS)?;
    Ok(EgressPolicy { allow_http, deny_cidrs, allow_cidrs, allow_ports })
}

fn settings(values: &Values, open: &[IpNet]) -> Result<Settings, Problem> {
    Ok(Settings {
        database: database(values)?,
        listen: values.value(&t::LISTEN)?,
        metrics_listen: values.get(&t::METRICS_LISTEN),
        trusted_proxies: values.value(&t::TRUSTED_PROXIES)?,
        roles: values.value(&t::ROLES)?,
        root_key: values.get(&t::ROOT_KEY),
        sealer: SecretSealer::new(values.get(&t::SECRET_KEY), values.value(&t::SECRETS)?),
        retry: RetryPolicy {
            base: values.value(&t::RETRY_BASE)?,
            cap: values.value(&t::RETRY_CAP)?,
            attempts_max: values.value(&t::MAX_RETRY_LIMIT)?,
        },
        lease: LeaseSettings {
            length: values.value(&t::LEASE)?,
            resets_max: values.value(&t::LEASE_RESETS_MAX)?,
            cleaner_interval: values.value(&t::CLEANER_INTERVAL)?,
        },
        poll: values.value(&t::POLL)?,
        request_timeout: values.value(&t::REQUEST_TIMEOUT)?,
        worker: WorkerSettings {
            concurrency: values.value(&t::WORKER_CONCURRENCY)?,
            subscription_in_flight: values.value(&t::SUBSCRIPTION_IN_FLIGHT)?,
        },
        names: InstallationNames {
            cloudevents_source: values.value(&t::CLOUDEVENTS_SOURCE)?,
            webhook_origin: values.get(&t::WEBHOOK_ORIGIN),
        },
        limits: LimitSettings {
            payload_bytes_max: values.value(&t::PAYLOAD_BYTES_MAX)?,
            batch_events_max: values.value(&t::BATCH_EVENTS_MAX)?,
        },
        attribute_rules: values.get(&t::ATTRIBUTE_RULES).unwrap_or_default(),
        egress: EgressSettings {
            policy: egress_policy(values, open)?,
            proxy: values.get(&t::EGRESS_PROXY),
            ca_file: values.get(&t::CA_FILE),
        },
        verification_methods: values.value(&t::VERIFICATION_METHODS)?,
        shutdown_grace: values.value(&t::SHUTDOWN_GRACE)?,
        log: LogSettings { filter: values.value(&t::LOG)?, format: values.value(&t::LOG_FORMAT)? },
        broker: BrokerSettings {
            url: values.get(&t::BROKER_URL),
            headers: values.get(&t::BROKER_HEADERS).unwrap_or_default(),
            processed_marker: values.value(&t::BROKER_PROCESSED_MARKER)?,
        },
        outbox: outbox(values)?,
        exposed_files: warning::exposed_files(values),
    })
}

fn database(values: &Values) -> Result<DatabaseSettings, Problem> {
    Ok(DatabaseSettings {
        url: values.value(&t::DATABASE_URL)?,
        direct: values.get(&t::DATABASE_URL_DIRECT),
        role_prefix: values.get(&t::ROLE_PREFIX).unwrap_or_default(),
        logins: t::LOGINS.iter().filter_map(|(role, setting)| Some((*role, values.get(setting)?))).collect(),
        password: password(values),
    })
}

/// Returns the source of database passwords. At most one of the two settings is set.
fn password(values: &Values) -> PasswordSource {
    let command = values.get(&t::DATABASE_PASSWORD_COMMAND).map(PasswordSource::Command);
    let file = || values.get(&t::DATABASE_PASSWORD_FILE).map(PasswordSource::File);
    command.or_else(file).unwrap_or_default()
}

fn outbox(values: &Values) -> Result<OutboxSettings, Problem> {
    Ok(OutboxSettings {
        batch_size: values.value(&t::OUTBOX_BATCH_SIZE)?,
        parallelism: values.value(&t::OUTBOX_PARALLELISM)?,
        retry: OrderRetryPolicy {
            retries_max: values.value(&t::OUTBOX_RETRY_MAX)?,
            ..OrderRetryPolicy::ORDER
        },
        idle_sleep: values.value(&t::OUTBOX_IDLE_SLEEP_MS)?,
        stuck_threshold: values.value(&t::OUTBOX_STUCK_THRESHOLD_MIN)?,
        ledger_ttl: values.value(&t::OUTBOX_LEDGER_TTL)?,
        lag_sla: values.value(&t::OUTBOX_LAG_SLA)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use posthaste_core::verification::VerificationMethods;

    #[test]
    fn defaults_match_those_of_core() {
        let (settings, _) = load(&Flags::default(), []).unwrap();
        assert_eq!(settings.retry, RetryPolicy::WEBHOOK);
        assert_eq!(settings.outbox.retry, OrderRetryPolicy::ORDER);
        assert_eq!(settings.egress.policy, EgressPolicy::default());
        assert_eq!(settings.verification_methods, VerificationMethods::default());
        assert_eq!(settings.roles.len(), ProcessRole::ALL.len());
        assert_eq!(settings.warnings().len(), 1);
    }

    #[test]
    fn broker_on_loopback_is_allowed_for_dev() {
        for (url, fits) in [
            ("http://127.0.0.1:9", true),
            ("http://[::1]:9", true),
            ("http://10.0.0.1:9", false),
            ("https://broker.example", true),
        ] {
            let broker = || [(OsString::from("POSTHASTE_BROKER_URL"), OsString::from(url))];
            assert_eq!(load_for_dev(broker()).is_ok(), fits, "{url}");
            assert_eq!(load(&Flags::default(), broker()).is_ok(), url.starts_with("https"), "{url}");
        }
        let policy = load_for_dev([]).unwrap().egress.policy;
        assert!(policy.allow_http && policy.allow_cidrs == LOOPBACK);
    }

    #[test]
    fn secrets_are_never_printed() {
        let key = "5f".repeat(32);
        let variables = [
            ("POSTHASTE_ROOT_KEY", "hush-9f86d081884c7d659a2feaa0c55ad015"),
            ("POSTHASTE_SECRET_KEY", &key),
            ("POSTHASTE_DATABASE_URL", "postgres://u:hush@h/d"),
            ("POSTHASTE_DATABASE_URL_ROUTER", "postgres://u:hush@h/d?password=hush"),
            ("POSTHASTE_BROKER_HEADERS", "Authorization: hush"),
            ("POSTHASTE_EGRESS_PROXY", "http://u:hush@proxy.example"),
        ];
        let command = [
            ("POSTHASTE_DATABASE_URL", "postgres://u@h/d"),
            ("POSTHASTE_DATABASE_PASSWORD_COMMAND", "echo hush"),
        ];
        for variables in [&variables[..], &command] {
            let variables = variables.iter().map(|(name, value)| (name.into(), value.into()));
            let (settings, values) = load(&Flags::default(), variables).unwrap();
            for text in [format!("{settings:?}"), as_table(&values), as_json(&values, &settings.warnings())] {
                assert!(!text.contains("hush") && !text.contains("5f5f"), "{text}");
            }
        }
    }
}
