//! Opens a connection: resolves the host name, checks every address with [`crate::egress`], connects to one
//! of the checked addresses, directly or through the proxy, and performs the TLS handshake. Called by the
//! [`crate::sender`] if no pooled connection is available.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use posthaste_core::outcome::Failure;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

use super::connection::Connection;
use super::host_addresses::HostAddresses;
use super::identity::ClientIdentity;
use super::proxy::{EgressProxy, Tunnels};
use super::resolve::Resolve;
use super::tls_clients::TlsClients;
use super::wire::{Channel, Socket, Stream, Track};
use crate::egress::{Blocked, Destination, DestinationHost, EgressPolicy};

/// The maximum number of addresses tried for one host name. All addresses are checked, including those not
/// tried.
const ADDRESSES_TRIED_MAX: usize = 4;
/// The maximum time for connecting to one address while other addresses remain.
const ONE_ADDRESS_MAX: Duration = Duration::from_secs(3);

/// How requests leave this host: the address policy and what it depends on, and the proxy.
#[derive(Debug)]
pub struct Egress {
    pub policy: EgressPolicy,
    pub own_addresses: HostAddresses,
    /// The proxy through which all connections go. Without one, connections are direct.
    pub proxy: Option<EgressProxy>,
}

/// Sends requests directly, and refuses the addresses of this host's network interfaces.
impl From<EgressPolicy> for Egress {
    fn from(policy: EgressPolicy) -> Self {
        Self { policy, own_addresses: HostAddresses::system(), proxy: None }
    }
}

pub(super) struct Connector {
    pub(super) policy: EgressPolicy,
    own_addresses: HostAddresses,
    tunnels: Option<Tunnels>,
    resolver: Box<dyn Resolve>,
    pub(super) tls: TlsClients,
}

impl Connector {
    pub(super) fn new(egress: Egress, resolver: impl Resolve, tls: TlsClients) -> Self {
        let Egress { policy, own_addresses, proxy } = egress;
        let tunnels = proxy.map(Tunnels::new);
        Self { policy, own_addresses, tunnels, resolver: Box::new(resolver), tls }
    }

    /// Checks a URL as far as possible without a DNS lookup.
    pub(super) fn check_url(&self, url: &str) -> Result<Destination, Blocked> {
        self.policy.check_url(url, &self.own_addresses.current())
    }

    /// Returns whether the policy allows an address now. The addresses of this host may have changed since a
    /// connection was opened.
    pub(super) fn allows(&self, peer: SocketAddr) -> bool {
        self.policy.check_address(peer.ip(), peer.port(), &self.own_addresses.current()).is_ok()
    }

    pub(super) async fn connect(
        &self,
        to: &Destination,
        identity: Option<&ClientIdentity>,
        until: Instant,
    ) -> Result<Connection, Failure> {
        let addresses = match &to.host {
            DestinationHost::Address(address) => vec![*address],
            DestinationHost::Name(name) => {
                self.resolver.resolve(name).await.map_err(|_| Failure::DnsFailed)?
            }
        };
        let own = self.own_addresses.current();
        self.policy.check_addresses(&addresses, to.port, &own).map_err(|blocked| blocked.failure())?;
        let (tcp, peer) =
            self.connect_to_one(&addresses, to.port, until).await.ok_or(Failure::ConnectFailed)?;
        let track = Track::new();
        let socket = Socket::new(tcp, track.clone());
        let channel =
            if to.tls { self.handshake(to, identity, socket).await? } else { Channel::Plain(socket) };
        let stream = Stream::new(channel, track.clone());
        Connection::open(stream, track, peer).await.map_err(|_| Failure::ConnectFailed)
    }

    /// Connects to the first address that accepts a connection, and returns that address. The remaining time
    /// is divided among the addresses not yet tried.
    async fn connect_to_one(
        &self,
        addresses: &[IpAddr],
        port: u16,
        until: Instant,
    ) -> Option<(TcpStream, SocketAddr)> {
        let tried = addresses.len().min(ADDRESSES_TRIED_MAX);
        for (address, left) in addresses.iter().zip((1..=tried as u32).rev()) {
            let share = until.saturating_duration_since(Instant::now()) / left;
            let wait = if left > 1 { share.min(ONE_ADDRESS_MAX) } else { share };
            let peer = SocketAddr::new(*address, port);
            if let Ok(Some(tcp)) = timeout(wait, self.open(peer)).await {
                // A request is written all at once, so Nagle's algorithm would only delay it.
                let _ = tcp.set_nodelay(true);
                return Some((tcp, peer));
            }
        }
        None
    }

    /// Opens a connection to a checked address, directly or through the proxy.
    async fn open(&self, peer: SocketAddr) -> Option<TcpStream> {
        match &self.tunnels {
            None => TcpStream::connect(peer).await.ok(),
            Some(tunnels) => tunnels.open(peer, self.resolver.as_ref()).await,
        }
    }

    async fn handshake(
        &self,
        to: &Destination,
        identity: Option<&ClientIdentity>,
        socket: Socket,
    ) -> Result<Channel, Failure> {
        let name = match &to.host {
            DestinationHost::Name(name) => {
                ServerName::try_from(name.clone()).map_err(|_| Failure::UrlInvalid)?
            }
            DestinationHost::Address(address) => ServerName::from(*address),
        };
        let tls = self.tls.connector(identity).map_err(|_| Failure::TlsFailed)?;
        let session = tls.connect(name, socket).await.map_err(|_| Failure::TlsFailed)?;
        Ok(Channel::Tls(Box::new(session)))
    }
}
