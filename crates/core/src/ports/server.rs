//! The state and the settings of the database server, for `/v1/system` and `doctor`. An embedded engine has no server.

use super::Observed;
use crate::time::Timestamp;
use std::net::SocketAddr;
use std::time::Duration;

/// The maximum number of standbys in [`ServerFacts`], those with the longest lag first.
pub const STANDBYS_MAX: u32 = 16;

/// How far the certificate of a server was checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verified {
    /// Not at all.
    No,
    /// The certificate was issued by a trusted authority, but may belong to another host.
    Authority,
    /// The certificate was issued by a trusted authority for this host.
    Host,
}

impl Verified {
    pub const ALL: [Self; 3] = [Self::No, Self::Authority, Self::Host];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::No => "none",
            Self::Authority => "authority",
            Self::Host => "host",
        }
    }
}

/// The TLS session of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsSession {
    /// The protocol version, such as `TLSv1.3`.
    pub version: &'static str,
    pub verified: Verified,
    /// The time at which the certificate of the server expires, or `None` if it cannot be read.
    pub expires: Option<Timestamp>,
}

/// The server of the most recent connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectedServer {
    /// The host as written in the URL, or the folder of a Unix socket.
    pub host: String,
    pub port: u16,
    /// The resolved address, or `None` for a Unix socket.
    pub address: Option<SocketAddr>,
    /// `None` if the connection is not encrypted.
    pub tls: Option<TlsSession>,
}

impl ConnectedServer {
    /// Returns whether the connection does not leave the machine.
    pub fn is_local(&self) -> bool {
        self.address.is_none_or(|address| address.ip().to_canonical().is_loopback())
    }
}

/// The state and the settings of the database server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerFacts {
    pub connected: ConnectedServer,
    /// Whether the server is a standby, which cannot write.
    pub is_standby: bool,
    pub durability: Durability,
    /// The attached standbys, up to [`STANDBYS_MAX`]. Denied if there are some and the database role may not see their
    /// state.
    pub standbys: Observed<Vec<Standby>>,
    /// The age of the oldest transaction id that is not frozen.
    pub transactions: IdAge,
    /// The age of the oldest multixact id that is not frozen.
    pub multixacts: IdAge,
    pub connections: ConnectionLimits,
}

/// The settings that determine what a crash or a failover can lose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Durability {
    pub fsync: bool,
    pub full_page_writes: bool,
    /// The default of new sessions: `off`, `local`, `remote_write`, `on` or `remote_apply`.
    pub synchronous_commit: String,
}

/// A standby that is attached to the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standby {
    pub name: String,
    /// Whether commits can wait for this standby.
    pub is_synchronous: bool,
    /// The time that the most recent writes took to be replayed.
    pub lag: Duration,
    /// The size of the write-ahead log that is not replayed yet.
    pub lag_bytes: u64,
}

/// The age of an id that must be frozen before ids wrap around.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdAge {
    pub age: u64,
    /// The age at which autovacuum freezes a table even if it is otherwise disabled.
    pub freeze_max_age: u64,
}

/// The maximum numbers of connections, or `None` without a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// The limit of the server, without the connections that it reserves for administrators.
    pub server: u32,
    pub database: Option<u32>,
    /// The limit of the login, if all roles share one.
    pub login: Option<u32>,
}

impl ConnectionLimits {
    /// Returns the smallest limit.
    pub fn smallest(&self) -> u32 {
        [self.database, self.login].into_iter().flatten().fold(self.server, u32::min)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_and_loopback_addresses_are_local() {
        for (address, is_local) in [
            (None, true),
            (Some("127.0.0.1:5432"), true),
            (Some("127.8.0.1:5432"), true),
            (Some("[::1]:5432"), true),
            (Some("[::ffff:127.0.0.1]:5432"), true),
            (Some("10.0.0.1:5432"), false),
            (Some("[::ffff:10.0.0.1]:5432"), false),
            (Some("[fe80::1]:5432"), false),
        ] {
            let server = ConnectedServer {
                host: "db".to_owned(),
                port: 5432,
                address: address.map(|text| text.parse().expect("an address")),
                tls: None,
            };
            assert_eq!(server.is_local(), is_local, "{address:?}");
        }
    }

    #[test]
    fn the_smallest_limit_applies() {
        let limits = |server, database, login| ConnectionLimits { server, database, login }.smallest();
        assert_eq!(limits(97, None, None), 97);
        assert_eq!(limits(97, Some(50), Some(60)), 50);
        assert_eq!(limits(97, Some(50), Some(40)), 40);
        assert_eq!(limits(30, Some(50), Some(40)), 30);
    }
}
