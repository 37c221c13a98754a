//! Checks for settings that are valid individually but conflict with each other. Each problem names both settings.

use super::problem::Problem;
use super::setting::Setting;
use super::source::{Source, Values};
use super::table as t;
use super::types::ProcessRole;
use crate::database::{DatabaseUrl, ServerUrl};
use ipnet::IpNet;
use posthaste_core::duration;
use posthaste_core::job::REPORT_TIME;
use posthaste_core::retry::{ORDER_BACKOFF_MAX, OrderRetryPolicy, RETRY_AFTER_MAX};
use posthaste_core::subscription::VerificationMethod;
use posthaste_services::egress::{Blocked, OwnAddresses};
use posthaste_services::seal::PlainSecrets;
use std::time::Duration;

/// Adds a problem for each violated rule. A rule is skipped if one of its values is invalid.
pub(super) fn check(values: &Values, open: &[IpNet], problems: &mut Vec<Problem>) {
    let rules = [
        request_and_lease(values),
        base_and_cap(values),
        cleaner_and_lease(values),
        request_and_stuck(values),
        ledger_and_retries(values),
        broker_and_egress(values, open),
        sealed_and_key(values),
        methods_and_origin(values),
    ];
    problems.extend(rules.into_iter().flatten());
    problems.extend(embedded_and_logins(values));
    problems.extend(password_sources(values));
}

fn conflict<A, B>(values: &Values, one: &Setting<A>, other: &Setting<B>, why: impl Into<String>) -> Problem {
    Problem::Conflict { one: values.spelled(one), other: values.spelled(other), why: why.into() }
}

fn request_and_lease(values: &Values) -> Option<Problem> {
    let fits = values.get(&t::REQUEST_TIMEOUT)?.saturating_add(REPORT_TIME) <= values.get(&t::LEASE)?;
    let why =
        "a request must time out at least 5s before its lease expires, so that its result can be reported";
    (!fits).then(|| conflict(values, &t::REQUEST_TIMEOUT, &t::LEASE, why))
}

fn base_and_cap(values: &Values) -> Option<Problem> {
    let fits = values.get(&t::RETRY_BASE)? <= values.get(&t::RETRY_CAP)?;
    let why = "the first delay must not exceed the longest one";
    (!fits).then(|| conflict(values, &t::RETRY_BASE, &t::RETRY_CAP, why))
}

fn cleaner_and_lease(values: &Values) -> Option<Problem> {
    let fits = values.get(&t::CLEANER_INTERVAL)? < values.get(&t::LEASE)?;
    let why = "the cleaner must run more often than leases expire";
    (!fits).then(|| conflict(values, &t::CLEANER_INTERVAL, &t::LEASE, why))
}

fn request_and_stuck(values: &Values) -> Option<Problem> {
    let fits = values.get(&t::REQUEST_TIMEOUT)?.saturating_add(REPORT_TIME) <= stuck_threshold(values)?;
    let why = "a request must time out at least 5s before its order counts as stuck";
    (!fits).then(|| conflict(values, &t::REQUEST_TIMEOUT, &t::OUTBOX_STUCK_THRESHOLD_MIN, why))
}

pub(super) fn stuck_threshold(values: &Values) -> Option<Duration> {
    values.get(&t::OUTBOX_STUCK_THRESHOLD_MIN)
}

/// Checks that idempotency keys outlive the retries of their orders. A key that expires earlier would allow a duplicate
/// order.
fn ledger_and_retries(values: &Values) -> Option<Problem> {
    let policy =
        OrderRetryPolicy { retries_max: values.get(&t::OUTBOX_RETRY_MAX)?, ..OrderRetryPolicy::ORDER };
    let chain = longest_chain(policy, stuck_threshold(values)?);
    let fits = values.get(&t::OUTBOX_LEDGER_TTL)? >= chain;
    let why =
        format!("an order can be retried for {}, and its key must be kept as long", duration::format(chain));
    (!fits).then(|| conflict(values, &t::OUTBOX_LEDGER_TTL, &t::OUTBOX_RETRY_MAX, why))
}

/// Returns the longest possible time from the start of the first attempt to send an order to the end of the last: every
/// attempt hangs until it counts as stuck, and every delay is the longest that `Retry-After` or the backoff allows.
fn longest_chain(policy: OrderRetryPolicy, send: Duration) -> Duration {
    let longest_wait = |retry| {
        // The jitter depends on the key: it may be as low as 0.9 for this key and as high as 1.1 for another.
        let backoff = policy.backoff("", retry) * 11 / 9;
        backoff.clamp(RETRY_AFTER_MAX, ORDER_BACKOFF_MAX * 11 / 10)
    };
    (1..=policy.retries_max).map(|retry| longest_wait(retry) + send).sum::<Duration>() + send
}

/// Checks the broker's URL against the egress policy, which applies to orders and webhooks. The addresses that the host
/// resolves to, and those of this host, are checked before each request.
fn broker_and_egress(values: &Values, open: &[IpNet]) -> Option<Problem> {
    let url = values.get(&t::BROKER_URL)?;
    let policy = super::egress_policy(values, open).ok()?;
    let blocked = policy.check_url(&url, &OwnAddresses::default()).err()?;
    let why = blocked.to_string();
    Some(match blocked {
        Blocked::Scheme(_) => conflict(values, &t::BROKER_URL, &t::ALLOW_HTTP, why),
        Blocked::Denied { .. } => conflict(values, &t::BROKER_URL, &t::DENY_CIDRS, why),
        Blocked::PortRefused { .. } => conflict(values, &t::BROKER_URL, &t::ALLOW_PORTS, why),
        Blocked::NotAUrl(_)
        | Blocked::UserInfo
        | Blocked::Fragment
        | Blocked::Name
        | Blocked::Port
        | Blocked::LocalName { .. }
        | Blocked::Address { .. }
        | Blocked::NoAddress => conflict(values, &t::BROKER_URL, &t::ALLOW_CIDRS, why),
    })
}

/// Checks that a process that handles signing secrets has a key, if it must not store them in plain text.
fn sealed_and_key(values: &Values) -> Option<Problem> {
    let roles = values.get(&t::ROLES)?;
    let handles = [ProcessRole::Api, ProcessRole::Worker].iter().any(|role| roles.contains(role));
    let refuses = values.get(&t::SECRETS)? == PlainSecrets::Refused;
    let why = "signing secrets cannot be encrypted without a key; create one with: openssl rand -hex 32";
    let fits = !handles || !refuses || values.given(t::SECRET_KEY.about.env).is_some();
    (!fits).then(|| conflict(values, &t::SECRETS, &t::SECRET_KEY, why))
}

/// Checks that at least one method of verification can be used. `cloudevents` needs an origin.
fn methods_and_origin(values: &Values) -> Option<Problem> {
    let methods = values.get(&t::VERIFICATION_METHODS)?;
    let fits = methods.as_slice() != [VerificationMethod::Cloudevents]
        || values.given(t::WEBHOOK_ORIGIN.about.env).is_some();
    let why = "the method cloudevents cannot be used without an origin; set it, or list another method";
    (!fits).then(|| conflict(values, &t::VERIFICATION_METHODS, &t::WEBHOOK_ORIGIN, why))
}

/// Checks that no logins are set for the embedded database. Logins without a database URL imply PostgreSQL.
fn embedded_and_logins(values: &Values) -> Vec<Problem> {
    let given = values.given(t::DATABASE_URL.about.env);
    let named = given.is_some_and(|given| given.source != Source::Default);
    if !named || !matches!(values.get(&t::DATABASE_URL), Some(DatabaseUrl::Sqlite(_))) {
        return Vec::new();
    }
    let logins = [&t::DATABASE_URL_DIRECT].into_iter().chain(t::LOGINS.iter().map(|(_, login)| *login));
    let given = logins.filter(|login| values.given(login.about.env).is_some());
    let why = "logins require PostgreSQL; the embedded database has none";
    given.map(|login| conflict(values, login, &t::DATABASE_URL, why)).collect()
}

/// Checks that every password has one source, and that a PostgreSQL database needs it.
fn password_sources(values: &Values) -> Vec<Problem> {
    let (command, file) = (&t::DATABASE_PASSWORD_COMMAND, &t::DATABASE_PASSWORD_FILE);
    let is_set = |env: &str| values.given(env).is_some();
    match (is_set(command.about.env), is_set(file.about.env)) {
        (false, false) => Vec::new(),
        (true, true) => {
            vec![conflict(values, command, file, "a password has one source; remove one of the two")]
        }
        (true, false) => urls_and_password(values, command),
        (false, true) => urls_and_password(values, file),
    }
}

fn urls_and_password<K>(values: &Values, source: &Setting<K>) -> Vec<Problem> {
    let logins = || [&t::DATABASE_URL_DIRECT].into_iter().chain(t::LOGINS.iter().map(|(_, login)| *login));
    let why = "a password has one source; remove it from the URL, or remove the other setting";
    let has_password = |url: &ServerUrl| url.has_password();
    let mut problems = Vec::new();
    match values.get(&t::DATABASE_URL) {
        Some(DatabaseUrl::Postgres(url)) if url.has_password() => {
            problems.push(conflict(values, &t::DATABASE_URL, source, why));
        }
        Some(DatabaseUrl::Sqlite(_)) if logins().all(|login| values.get(login).is_none()) => {
            let why = "only PostgreSQL has passwords; the embedded database has none";
            problems.push(conflict(values, source, &t::DATABASE_URL, why));
        }
        Some(DatabaseUrl::Postgres(_) | DatabaseUrl::Sqlite(_)) | None => {}
    }
    let own = logins().filter(|login| values.get(login).as_ref().is_some_and(has_password));
    problems.extend(own.map(|login| conflict(values, login, source, why)));
    problems
}

#[cfg(test)]
mod tests {
    use super::super::flags::Flags;
    use super::*;
    use std::ffi::OsString;

    fn check(variables: &[(&str, &str)]) -> Vec<String> {
        let mut problems = Vec::new();
        let environment = variables.iter().map(|(name, value)| (OsString::from(name), OsString::from(value)));
        let values = Values::collect(&Flags::default(), environment, &mut problems);
        super::check(&values, &[], &mut problems);
        problems.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn compatible_settings_pass() {
        for variables in [
            &[][..],
            &[("POSTHASTE_REQUEST_TIMEOUT", "55s")],
            &[("POSTHASTE_RETRY_BASE", "1h")],
            &[("POSTHASTE_CLEANER_INTERVAL", "59s")],
            &[("OUTBOX_RETRY_MAX", "100")],
            &[("OUTBOX_RETRY_MAX", "0"), ("OUTBOX_LEDGER_TTL", "10m")],
            &[("POSTHASTE_BROKER_URL", "https://broker.example")],
            &[
                ("POSTHASTE_BROKER_URL", "http://127.0.0.1:9"),
                ("POSTHASTE_ALLOW_HTTP", "true"),
                ("POSTHASTE_ALLOW_CIDRS", "127.0.0.0/8"),
            ],
            &[
                ("POSTHASTE_BROKER_URL", "https://10.0.0.1:9"),
                ("POSTHASTE_ALLOW_CIDRS", "10.0.0.0/8"),
                ("POSTHASTE_ALLOW_PORTS", "443"),
            ],
            &[
                ("POSTHASTE_DATABASE_URL", "postgres://h/d"),
                ("POSTHASTE_DATABASE_URL_ROUTER", "postgres://r@h/d"),
            ],
            &[("POSTHASTE_DATABASE_URL_ROUTER", "postgres://r@h/d")],
            &[
                ("POSTHASTE_DATABASE_URL", "postgres://u@h/d?sslmode=prefer"),
                ("POSTHASTE_DATABASE_PASSWORD_COMMAND", "true"),
            ],
            &[
                ("POSTHASTE_DATABASE_URL_ROUTER", "postgres://r@h:5432/d"),
                ("POSTHASTE_DATABASE_PASSWORD_FILE", "/p"),
            ],
            &[
                ("POSTHASTE_SECRETS", "sealed"),
                ("POSTHASTE_SECRET_KEY", "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"),
            ],
            &[("POSTHASTE_SECRETS", "sealed"), ("POSTHASTE_ROLES", "router,orchestrator,cleaner,outbox")],
            &[("POSTHASTE_VERIFICATION_METHODS", "cloudevents,asserted")],
            &[("POSTHASTE_VERIFICATION_METHODS", "cloudevents"), ("POSTHASTE_WEBHOOK_ORIGIN", "a.example")],
        ] {
            assert_eq!(check(variables), Vec::<String>::new(), "{variables:?}");
        }
    }

    #[test]
    fn conflicting_settings_are_refused() {
        for (variables, names) in [
            (
                &[("POSTHASTE_REQUEST_TIMEOUT", "56s")][..],
                ["POSTHASTE_REQUEST_TIMEOUT=56s", "POSTHASTE_LEASE=60s (the default)"],
            ),
            (
                &[("POSTHASTE_RETRY_BASE", "61m")],
                ["POSTHASTE_RETRY_BASE=61m", "POSTHASTE_RETRY_CAP=1h (the default)"],
            ),
            (
                &[("POSTHASTE_CLEANER_INTERVAL", "1m")],
                ["POSTHASTE_CLEANER_INTERVAL=1m", "POSTHASTE_LEASE=60s (the default)"],
            ),
            (
                &[("POSTHASTE_REQUEST_TIMEOUT", "10m"), ("POSTHASTE_LEASE", "11m")],
                ["POSTHASTE_REQUEST_TIMEOUT=10m", "OUTBOX_STUCK_THRESHOLD_MIN=10 (the default)"],
            ),
            (
                &[("OUTBOX_LEDGER_TTL", "9h")],
                [
                    "OUTBOX_LEDGER_TTL=9h",
                    "OUTBOX_RETRY_MAX=8 (the default): an order can be retried for 570m",
                ],
            ),
            (
                &[("POSTHASTE_BROKER_URL", "http://b.example")],
                ["POSTHASTE_BROKER_URL=http://b.example", "POSTHASTE_ALLOW_HTTP=false (the default)"],
            ),
            (
                &[("POSTHASTE_BROKER_URL", "http://10.0.0.1"), ("POSTHASTE_ALLOW_HTTP", "true")],
                [
                    "POSTHASTE_BROKER_URL=http://10.0.0.1",
                    "POSTHASTE_ALLOW_CIDRS: 10.0.0.1 is in a private network",
                ],
            ),
            (
                &[("POSTHASTE_BROKER_URL", "https://10.0.0.1"), ("POSTHASTE_ALLOW_CIDRS", "192.168.0.0/16")],
                [
                    "POSTHASTE_BROKER_URL=https://10.0.0.1",
                    "POSTHASTE_ALLOW_CIDRS=192.168.0.0/16: 10.0.0.1 is in a private network",
                ],
            ),
            (
                &[("POSTHASTE_BROKER_URL", "https://9.9.9.9"), ("POSTHASTE_DENY_CIDRS", "9.0.0.0/8")],
                [
                    "POSTHASTE_BROKER_URL=https://9.9.9.9",
                    "POSTHASTE_DENY_CIDRS=9.0.0.0/8: 9.9.9.9 is in 9.0.0.0/8, which",
                ],
            ),
            (
                &[("POSTHASTE_BROKER_URL", "https://b.example:9"), ("POSTHASTE_ALLOW_PORTS", "443,8443")],
                [
                    "POSTHASTE_BROKER_URL=https://b.example:9",
                    "POSTHASTE_ALLOW_PORTS=443,8443: port 9 is refused: POSTHASTE_ALLOW_PORTS allows 443,8443",
                ],
            ),
            (
                &[
                    ("POSTHASTE_DATABASE_URL", "sqlite://a.db"),
                    ("POSTHASTE_DATABASE_URL_ROUTER", "postgres://r:hush@h/d"),
                ],
                [
                    "POSTHASTE_DATABASE_URL_ROUTER=postgres://r:***@h/d",
                    "POSTHASTE_DATABASE_URL=sqlite://a.db",
                ],
            ),
            (
                &[
                    ("POSTHASTE_DATABASE_URL", "postgres://u@h/d"),
                    ("POSTHASTE_DATABASE_PASSWORD_COMMAND", "echo hush"),
                    ("POSTHASTE_DATABASE_PASSWORD_FILE", "/p"),
                ],
                [
                    "POSTHASTE_DATABASE_PASSWORD_COMMAND=(set, not shown)",
                    "POSTHASTE_DATABASE_PASSWORD_FILE=/p: a password has one source",
                ],
            ),
            (
                &[
                    ("POSTHASTE_DATABASE_URL", "postgres://u:hush@h/d"),
                    ("POSTHASTE_DATABASE_PASSWORD_FILE", "/p"),
                ],
                [
                    "POSTHASTE_DATABASE_URL=postgres://u:***@h/d",
                    "POSTHASTE_DATABASE_PASSWORD_FILE=/p: a password has one source; remove it from the URL",
                ],
            ),
            (
                &[
                    ("POSTHASTE_DATABASE_URL", "postgres://u@h/d"),
                    ("POSTHASTE_DATABASE_URL_ROUTER", "postgres://r@h/d?password=hush"),
                    ("POSTHASTE_DATABASE_PASSWORD_FILE", "/p"),
                ],
                [
                    "POSTHASTE_DATABASE_URL_ROUTER=postgres://r@h/d?…",
                    "POSTHASTE_DATABASE_PASSWORD_FILE=/p: a password has one source; remove it from the URL",
                ],
            ),
            (
                &[("POSTHASTE_DATABASE_PASSWORD_FILE", "/p")],
                [
                    "POSTHASTE_DATABASE_PASSWORD_FILE=/p",
                    "POSTHASTE_DATABASE_URL=sqlite://posthaste-data/posthaste.db (the default): only PostgreSQL",
                ],
            ),
            (
                &[("POSTHASTE_SECRETS", "sealed"), ("POSTHASTE_ROLES", "worker")],
                ["POSTHASTE_SECRETS=sealed", "POSTHASTE_SECRET_KEY: signing secrets cannot be encrypted"],
            ),
            (
                &[("POSTHASTE_VERIFICATION_METHODS", "cloudevents")],
                [
                    "POSTHASTE_VERIFICATION_METHODS=cloudevents",
                    "POSTHASTE_WEBHOOK_ORIGIN: the method cloudevents cannot be used without an origin",
                ],
            ),
        ] {
            let messages = check(variables);
            assert_eq!(messages.len(), 1, "{messages:?}");
            let expected = format!("{} and {}", names[0], names[1]);
            assert!(messages.iter().all(|message| message.starts_with(&expected)), "{messages:?}");
        }
    }

    #[test]
    fn invalid_values_are_not_checked_for_conflicts() {
        assert_eq!(check(&[("POSTHASTE_LEASE", "soon"), ("POSTHASTE_REQUEST_TIMEOUT", "1h")]).len(), 2);
    }
}
