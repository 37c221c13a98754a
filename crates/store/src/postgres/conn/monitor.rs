//! Records the connection attempts of a process and the server it is connected to. Metrics, `/v1/system` and doctor
//! read the record.

pub use posthaste_core::ports::{ConnectedServer, TlsSession, Verified};

use crate::postgres::conn::url::Host;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::watch;

/// The reason why a connection could not be established.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectFailure {
    /// The host name could not be resolved.
    Dns,
    /// The server could not be reached, or closed the connection.
    Unreachable,
    /// The limit for one host expired.
    Timeout,
    /// TLS is required but not offered, or the handshake failed.
    Tls,
    /// The server refused the login, or requested the password in a form that is not allowed.
    Authentication,
    /// The password command or password file failed.
    Password,
    /// The server is a standby or read-only, but a writable server is required.
    ReadOnly,
    /// The server returned another error, for example because it is starting or has no free connection.
    Server,
}

impl ConnectFailure {
    pub const ALL: [Self; 8] = [
        Self::Dns,
        Self::Unreachable,
        Self::Timeout,
        Self::Tls,
        Self::Authentication,
        Self::Password,
        Self::ReadOnly,
        Self::Server,
    ];

    /// Returns the value of the metric label `reason`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Dns => "dns",
            Self::Unreachable => "unreachable",
            Self::Timeout => "timeout",
            Self::Tls => "tls",
            Self::Authentication => "authentication",
            Self::Password => "password",
            Self::ReadOnly => "read_only",
            Self::Server => "server",
        }
    }
}

/// A record shared by all connections of a process.
#[derive(Debug, Clone, Default)]
pub struct ConnectionMonitor {
    record: Arc<Record>,
    generation: Arc<watch::Sender<u64>>,
}

#[derive(Debug, Default)]
struct Record {
    failures: [AtomicU64; ConnectFailure::ALL.len()],
    failovers: AtomicU64,
    /// For each program name, the server of its last connection. The most recent one is at the end.
    servers: Mutex<Vec<(String, ConnectedServer)>>,
    /// For each list of hosts, the index of the one that the last connection used.
    hosts: Mutex<BTreeMap<String, usize>>,
}

impl ConnectionMonitor {
    /// Records the server of an established connection. `program` is the application name, which contains the role.
    pub fn connected(&self, program: &str, server: ConnectedServer) {
        let mut servers = self.record.servers.lock().unwrap_or_else(PoisonError::into_inner);
        servers.retain(|(known, _)| known != program);
        servers.push((program.to_owned(), server));
    }

    /// Records which host of a list was used. Another one than before counts as a failover, once for all connections
    /// with the same list.
    pub(crate) fn used(&self, hosts: &[Host], at: usize) {
        let list = hosts.iter().map(Host::to_string).collect::<Vec<_>>().join(",");
        let mut used = self.record.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        if used.insert(list, at).is_some_and(|before| before != at) {
            self.record.failovers.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Records a failed attempt to connect.
    pub(crate) fn failed(&self, reason: ConnectFailure) {
        if let Some(count) = self.record.failures.get(reason as usize) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns a monitor with its own record. It shares the decision to replace connections.
    pub fn separate(&self) -> Self {
        Self { record: Arc::default(), generation: Arc::clone(&self.generation) }
    }

    /// Makes the process replace all its connections, because a server is no longer the primary.
    pub(crate) fn search_again(&self) {
        self.generation.send_modify(|generation| *generation += 1);
    }

    /// Returns the generation of the connections: one that was opened in an earlier generation must be replaced.
    pub(crate) fn generation(&self) -> watch::Receiver<u64> {
        self.generation.subscribe()
    }

    /// Returns the number of failed attempts to connect with this reason.
    pub fn failures_of(&self, reason: ConnectFailure) -> u64 {
        self.record.failures.get(reason as usize).map_or(0, |count| count.load(Ordering::Relaxed))
    }

    /// Returns how often new connections used another host of their URL than before.
    pub fn failovers(&self) -> u64 {
        self.record.failovers.load(Ordering::Relaxed)
    }

    /// Returns the connected server, or `None` if there has been no connection. If the logins of the roles differ,
    /// returns the one whose connection is protected least, otherwise that of the most recent connection.
    pub fn server(&self) -> Option<ConnectedServer> {
        let servers = self.record.servers.lock().unwrap_or_else(PoisonError::into_inner);
        let protection = |server: &ConnectedServer| match server.tls.as_ref().map(|tls| tls.verified) {
            _ if server.is_local() => 4,
            None => 0,
            Some(Verified::No) => 1,
            Some(Verified::Authority) => 2,
            Some(Verified::Host) => 3,
        };
        servers.iter().rev().map(|(_, server)| server).min_by_key(|server| protection(server)).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(host: &str, address: &str, verified: Option<Verified>) -> ConnectedServer {
        let tls = verified.map(|verified| TlsSession { version: "TLSv1.3", verified, expires: None });
        ConnectedServer { host: host.to_owned(), port: 5432, address: address.parse().ok(), tls }
    }

    #[test]
    fn least_protected_server_is_reported() {
        let monitor = ConnectionMonitor::default();
        let reported = || monitor.server().map(|server| server.host);
        assert_eq!(reported(), None);
        for (program, host, address, verified, expected) in [
            ("viewer", "a", "127.0.0.1:1", None, "a"),
            ("router", "b", "127.0.0.1:1", None, "b"),
            ("worker", "c", "10.0.0.1:1", Some(Verified::Host), "c"),
            ("keys", "d", "10.0.0.1:1", Some(Verified::Authority), "d"),
            ("viewer", "e", "10.0.0.1:1", Some(Verified::Host), "d"),
            ("router", "f", "10.0.0.1:1", None, "f"),
            ("router", "g", "10.0.0.1:1", Some(Verified::No), "g"),
            ("router", "h", "10.0.0.1:1", Some(Verified::Host), "d"),
        ] {
            monitor.connected(program, server(host, address, verified));
            assert_eq!(reported().as_deref(), Some(expected));
        }
    }
}
