//! The settings: read from four sources through ONE table, checked together, and handed to the wiring as
//! plain types. Whoever holds a [`Settings`] need not doubt any of it.

mod combination;
mod environment;
mod file;
mod flags;
mod kinds;
mod nearest;
mod print;
mod problem;
mod secret;
mod setting;
mod source;
mod table;
mod types;
mod warning;

pub(crate) use flags::{DatabaseFlags, Flags};
pub(crate) use print::{as_json, as_table, example};
pub(crate) use problem::Problems;
pub(crate) use secret::Secret;
pub(crate) use source::Values;
pub(crate) use types::{
    BrokerSettings, DatabaseSettings, EgressSettings, LeaseSettings, LimitSettings, LogFormat, LogSettings,
    Logins, OutboxSettings, Role, Settings, WorkerSettings,
};

use posthaste_core::retry::{OrderRetryPolicy, RetryPolicy};
use posthaste_services::egress::EgressPolicy;
use problem::Problem;
use std::ffi::OsString;
use std::time::Duration;
use table as t;

/// Reads all sources. Either everything is right, or everything that is wrong is told.
pub(crate) fn load(
    flags: &Flags,
    environment: impl IntoIterator<Item = (OsString, OsString)>,
) -> Result<(Settings, Values), Problems> {
    let mut problems = Vec::new();
    let values = Values::collect(flags, environment, &mut problems);
    combination::check(&values, &mut problems);
    if !problems.is_empty() {
        return Err(Problems(problems));
    }
    match settings(&values) {
        Ok(settings) => Ok((settings, values)),
        Err(problem) => Err(Problems(vec![problem])),
    }
}

fn settings(values: &Values) -> Result<Settings, Problem> {
    Ok(Settings {
        database: database(values)?,
        listen: values.value(&t::LISTEN)?,
        metrics_listen: values.get(&t::METRICS_LISTEN),
        roles: values.value(&t::ROLES)?,
        root_key: values.get(&t::ROOT_KEY),
        secret_key: values.get(&t::SECRET_KEY),
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
        limits: LimitSettings {
            payload_bytes_max: values.value(&t::PAYLOAD_BYTES_MAX)?,
            batch_events_max: values.value(&t::BATCH_EVENTS_MAX)?,
        },
        egress: EgressSettings {
            policy: EgressPolicy {
                allow_http: values.value(&t::ALLOW_HTTP)?,
                allow_cidrs: values.get(&t::ALLOW_CIDRS).unwrap_or_default(),
            },
            ca_file: values.get(&t::CA_FILE),
        },
        shutdown_grace: values.value(&t::SHUTDOWN_GRACE)?,
        log: LogSettings { filter: values.value(&t::LOG)?, format: values.value(&t::LOG_FORMAT)? },
        broker: BrokerSettings {
            url: values.get(&t::BROKER_URL),
            headers: values.get(&t::BROKER_HEADERS).unwrap_or_default(),
            processed_marker: values.value(&t::BROKER_PROCESSED_MARKER)?,
        },
        outbox: outbox(values)?,
    })
}

fn database(values: &Values) -> Result<DatabaseSettings, Problem> {
    Ok(DatabaseSettings {
        url: values.value(&t::DATABASE_URL)?,
        direct: values.get(&t::DATABASE_URL_DIRECT),
        logins: Logins {
            ingest: values.get(&t::DATABASE_URL_INGEST),
            subscriptions: values.get(&t::DATABASE_URL_SUBSCRIPTIONS),
            router: values.get(&t::DATABASE_URL_ROUTER),
            orchestrator: values.get(&t::DATABASE_URL_ORCHESTRATOR),
            worker: values.get(&t::DATABASE_URL_WORKER),
            cleaner: values.get(&t::DATABASE_URL_CLEANER),
            dead_letters: values.get(&t::DATABASE_URL_DEAD_LETTERS),
            orders: values.get(&t::DATABASE_URL_ORDERS),
            outbox: values.get(&t::DATABASE_URL_OUTBOX),
            keys: values.get(&t::DATABASE_URL_KEYS),
            viewer: values.get(&t::DATABASE_URL_VIEWER),
        },
    })
}

fn outbox(values: &Values) -> Result<OutboxSettings, Problem> {
    Ok(OutboxSettings {
        batch_size: values.value(&t::OUTBOX_BATCH_SIZE)?,
        parallelism: values.value(&t::OUTBOX_PARALLELISM)?,
        retry: OrderRetryPolicy {
            retries_max: values.value(&t::OUTBOX_RETRY_MAX)?,
            ..OrderRetryPolicy::ORDER
        },
        idle_sleep: Duration::from_millis(values.value(&t::OUTBOX_IDLE_SLEEP_MS)?.into()),
        stuck_threshold: values.value(&t::OUTBOX_STUCK_THRESHOLD_MIN)?,
        ledger_ttl: values.value(&t::OUTBOX_LEDGER_TTL)?,
        lag_sla: values.value(&t::OUTBOX_LAG_SLA)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_those_of_the_core() {
        let (settings, _) = load(&Flags::default(), []).unwrap();
        assert_eq!(settings.retry, RetryPolicy::WEBHOOK);
        assert_eq!(settings.outbox.retry, OrderRetryPolicy::ORDER);
        assert_eq!(settings.egress.policy, EgressPolicy::default());
        assert_eq!(settings.roles.len(), Role::ALL.len());
        assert_eq!(settings.warnings().len(), 1);
    }

    #[test]
    fn nothing_secret_is_printed() {
        let key = "5f".repeat(32);
        let variables = [
            ("POSTHASTE_ROOT_KEY", "hush-hush-hush-hush"),
            ("POSTHASTE_SECRET_KEY", &key),
            ("POSTHASTE_DATABASE_URL", "postgres://u:hush@h/d"),
            ("POSTHASTE_DATABASE_URL_ROUTER", "postgres://u:hush@h/d?password=hush"),
            ("POSTHASTE_BROKER_HEADERS", "Authorization: hush"),
        ];
        let (settings, values) =
            load(&Flags::default(), variables.map(|(name, value)| (name.into(), value.into()))).unwrap();
        for text in [format!("{settings:?}"), as_table(&values), as_json(&values, &settings.warnings())] {
            assert!(!text.contains("hush") && !text.contains("5f5f"), "{text}");
        }
    }
}
