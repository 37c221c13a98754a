//! Checks the database server: encryption, standbys, durability, transaction ids and connections. Its input is what
//! the role viewer reads from the server, and what the connector recorded about the connection.

use super::system::SystemFacts;
use super::{Check, counted};
use crate::telemetry;
use posthaste_core::Timestamp;
use posthaste_core::ports::{
    ConnectedServer, ConnectionLimits, Durability, IdAge, Observed, ServerFacts, Standby, Verified,
};
use std::collections::BTreeSet;
use std::time::Duration;

/// The names of these checks. Each has a section in the runbook.
pub const SERVER_CHECKS: [&str; 7] =
    ["encryption", "certificate", "standbys", "failover", "durability", "wraparound", "connections"];

/// The time before the expiry of the server's certificate from which it is reported.
const EXPIRY_NOTICE: Duration = Duration::from_secs(14 * 86_400);
/// The replay lag above which a standby is reported. A standby that keeps up is far below a second.
const LAG_MAX: Duration = Duration::from_secs(30);
/// The size of the write-ahead log not yet replayed above which a standby is reported: 16 segments of 16 MiB. A standby
/// that has stopped responding has an outdated lag, but its size grows.
const LAG_BYTES_MAX: u64 = 256 << 20;
/// The age of an id above which PostgreSQL vacuums without regard to other work, by default (`vacuum_failsafe_age`).
/// The server refuses new transaction ids about 500 million later.
const FAILSAFE_AGE: u64 = 1_600_000_000;

/// The number of database connections that processes may open.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ConnectionDemand {
    /// The process roles, each with the number of connections of its pools.
    pub by_role: Vec<(&'static str, u32)>,
    /// The number of connections that a process opens regardless of its roles.
    pub per_process: u32,
}

pub(super) fn examine_server(server: &ServerFacts, facts: &SystemFacts<'_>) -> Vec<Check> {
    let mut checks = vec![encryption(&server.connected)];
    checks.extend(certificate(&server.connected, facts.now));
    checks.push(standbys(server));
    checks.extend(failover(server));
    checks.push(durability(&server.durability));
    checks.push(wraparound(server.transactions, server.multixacts));
    checks.push(connections(server.connections, facts));
    checks
}

fn encryption(server: &ConnectedServer) -> Check {
    let place = format!("{}:{}", server.host, server.port);
    if server.is_local() {
        return Check::ok("encryption", format!("the connection to {place} does not leave this machine"));
    }
    let to_do = "set sslmode=verify-full in the database URLs, with sslrootcert=FILE for the certificate of \
                 the authority that issued the server's";
    match server.tls.as_ref().map(|tls| (tls.version, tls.verified)) {
        None => {
            let found =
                format!("the connection to {place} is not encrypted: the network can read and change it");
            Check::warning("encryption", found, to_do)
        }
        Some((version, Verified::No)) => {
            let found = format!(
                "{version} to {place}, but its certificate is not checked: any server could take its place"
            );
            Check::warning("encryption", found, to_do)
        }
        Some((version, Verified::Authority)) => {
            let found = format!(
                "{version} to {place}, but its name is not checked: any server with a certificate of the same \
                 authority could take its place"
            );
            Check::warning("encryption", found, to_do)
        }
        Some((version, Verified::Host)) => {
            Check::ok("encryption", format!("{version} to {place}, certificate and name verified"))
        }
    }
}

/// Checks the expiry of the server's certificate. Returns `None` if there is no certificate.
fn certificate(server: &ConnectedServer, now: Timestamp) -> Option<Check> {
    let tls = server.tls.as_ref()?;
    let Some(expires) = tls.expires else {
        return Some(Check::ok("certificate", "its time of expiry cannot be read"));
    };
    let days = expires.since(now).as_secs() / 86_400;
    let to_do = "renew the certificate of the database server, and reload the server (pg_ctl reload)";
    Some(if expires <= now {
        let found = format!("the certificate of {} expired at {expires}", server.host);
        match tls.verified {
            // The certificate is not used.
            Verified::No => Check::warning("certificate", found, to_do),
            Verified::Authority | Verified::Host => {
                let found = format!("{found}: new connections are refused");
                Check::problem("certificate", found, to_do)
            }
        }
    } else if expires.since(now) <= EXPIRY_NOTICE {
        let left = counted(days, "day", "days");
        let found = format!("the certificate of {} expires at {expires}, in {left}", server.host);
        Check::warning("certificate", found, to_do)
    } else {
        Check::ok("certificate", format!("valid until {expires}"))
    })
}

fn standbys(server: &ServerFacts) -> Check {
    let host = &server.connected.host;
    if server.is_standby {
        let to_do = "connect to the primary, or list all servers in the database URLs with \
                     target_session_attrs=read-write";
        return Check::problem("standbys", format!("{host} is a standby, which cannot write"), to_do);
    }
    let standbys = match &server.standbys {
        Observed::Without => &[][..],
        Observed::Denied => {
            let found =
                "not checked: standbys or backups are attached, and the role viewer may not see their state";
            let to_do = "GRANT pg_read_all_stats TO viewer (with the prefix in POSTHASTE_ROLE_PREFIX)";
            return Check::warning("standbys", found, to_do);
        }
        Observed::Seen(standbys) => &standbys[..],
    };
    let behind: Vec<String> = standbys
        .iter()
        .filter(|standby| standby.lag > LAG_MAX || standby.lag_bytes > LAG_BYTES_MAX)
        .map(|Standby { name, lag, lag_bytes, .. }| {
            format!("{name:?} is {} s and {} MiB behind", lag.as_secs(), lag_bytes >> 20)
        })
        .collect();
    if !behind.is_empty() {
        let to_do = "check the load, disk and network of the standby: a failover to it takes longer, and \
                     loses what it has not received";
        return Check::warning("standbys", behind.join("; "), to_do);
    }
    match u64::try_from(standbys.len()).unwrap_or(u64::MAX) {
        0 => Check::ok("standbys", format!("{host} is the primary, no standby is attached")),
        count => {
            let count = counted(count, "standby keeps", "standbys keep");
            Check::ok("standbys", format!("{host} is the primary, {count} up"))
        }
    }
}

/// Checks whether a failover can lose commits. Returns `None` if the standbys of the primary cannot be seen.
fn failover(server: &ServerFacts) -> Option<Check> {
    let Observed::Seen(standbys) = &server.standbys else { return None };
    if server.is_standby {
        return None;
    }
    let synchronous_commit = server.durability.synchronous_commit.as_str();
    let attached = counted(u64::try_from(standbys.len()).unwrap_or(u64::MAX), "standby is", "standbys are");
    let to_do =
        "set synchronous_standby_names, and synchronous_commit to on: commits then wait for a standby";
    Some(if standbys.is_empty() {
        Check::ok("failover", "no standby is attached")
    } else if !standbys.iter().any(|standby| standby.is_synchronous) {
        let found = format!(
            "{attached} attached and none is synchronous: a failover can lose acknowledged events and orders"
        );
        Check::warning("failover", found, to_do)
    } else if ["off", "local"].contains(&synchronous_commit) {
        let found = format!(
            "synchronous_commit is {synchronous_commit}: commits do not wait for the synchronous standby, and \
             a failover can lose acknowledged events and orders"
        );
        Check::warning("failover", found, to_do)
    } else {
        let found =
            format!("commits wait for a synchronous standby (synchronous_commit is {synchronous_commit})");
        Check::ok("failover", found)
    })
}

fn durability(settings: &Durability) -> Check {
    let mut faults = Vec::new();
    if !settings.fsync {
        faults.push("fsync is off: a crash of the server's machine can destroy the database");
    }
    if !settings.full_page_writes {
        faults.push("full_page_writes is off: a crash can leave pages that were written only in part");
    }
    if settings.synchronous_commit == "off" {
        faults.push("synchronous_commit is off: a crash can lose acknowledged events and orders");
    }
    if faults.is_empty() {
        return Check::ok("durability", "commits are flushed to disk before they are acknowledged");
    }
    let to_do = "set these to on in postgresql.conf and reload; ALTER ROLE and ALTER DATABASE can also set \
                 synchronous_commit";
    Check::warning("durability", faults.join("\n"), to_do)
}

/// Checks the age of ids. Autovacuum freezes a table once it is older than `freeze_max_age`, so twice that age means
/// that it cannot.
fn wraparound(transactions: IdAge, multixacts: IdAge) -> Check {
    let is_above = |limit: fn(IdAge) -> u64| [transactions, multixacts].iter().any(|id| id.age > limit(*id));
    let found = format!(
        "the oldest transaction id is {} transactions old, the oldest multixact id {}",
        transactions.age, multixacts.age
    );
    let to_do = "find what keeps autovacuum from freezing rows (old transactions, prepared transactions, slots), \
                 then run VACUUM: writes stop at about 2.1 billion";
    if is_above(|_| FAILSAFE_AGE) {
        Check::problem("wraparound", found, to_do)
    } else if is_above(|id| id.freeze_max_age.saturating_mul(2)) {
        Check::warning("wraparound", found, to_do)
    } else {
        Check::ok("wraparound", found)
    }
}

/// Compares the connections that all running processes may open with the limits.
fn connections(limits: ConnectionLimits, facts: &SystemFacts<'_>) -> Check {
    let Some(demand) = facts.connections else {
        return Check::ok("connections", "processes connect through a pooler, whose limits apply");
    };
    let since = facts.now.before(telemetry::GONE_AFTER);
    let running = || facts.processes.iter().filter(|seen| seen.seen_at >= since);
    let of_role = |role: &str| {
        demand.by_role.iter().find(|(name, _)| *name == role).map_or(0, |(_, connections)| *connections)
    };
    let processes: BTreeSet<&str> = running().map(|seen| seen.process_id.as_str()).collect();
    let per_process = u64::try_from(processes.len()).unwrap_or(u64::MAX) * u64::from(demand.per_process);
    let wanted = per_process + running().map(|seen| u64::from(of_role(&seen.role))).sum::<u64>();
    let allowed = limits.smallest();
    let by = if limits.login == Some(allowed) {
        "the CONNECTION LIMIT of the login"
    } else if limits.database == Some(allowed) {
        "the CONNECTION LIMIT of the database"
    } else {
        "max_connections, without the reserved ones"
    };
    let found = format!("the running processes may open {wanted} connections, allowed are {allowed} ({by})");
    if wanted <= u64::from(allowed) {
        return Check::ok("connections", found);
    }
    let to_do = "raise the limit, run fewer processes, or put a connection pooler in front of the server";
    Check::warning("connections", found, to_do)
}

#[cfg(test)]
mod tests;
