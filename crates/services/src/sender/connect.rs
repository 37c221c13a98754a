//! Opens a connection: resolves the host name, checks every address with [`crate::egress`], connects to one
//! of the checked addresses and performs the TLS handshake. Called by the [`crate::sender`] if no pooled
//! connection is available.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use posthaste_core::outcome::Failure;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

use super::connection::Connection;
use super::identity::ClientIdentity;
use super::resolve::Resolve;
use super::tls_clients::TlsClients;
use super::wire::{Channel, Socket, Stream, Track};
use crate::egress::{Destination, DestinationHost, EgressPolicy};

/// The maximum number of addresses tried for one host name. All addresses are checked, including those not
/// tried.
const ADDRESSES_TRIED_MAX: usize = 4;
/// The maximum time for connecting to one address while other addresses remain.
const ONE_ADDRESS_MAX: Duration = Duration::from_secs(3);

pub(super) struct Connector {
    pub(super) policy: EgressPolicy,
    pub(super) resolver: Box<dyn Resolve>,
    pub(super) tls: TlsClients,
}

impl Connector {
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
        self.policy.check_addresses(&addresses).map_err(|blocked| blocked.failure())?;
        let tcp = connect_to_one(&addresses, to.port, until).await.ok_or(Failure::ConnectFailed)?;
        let track = Track::new();
        let socket = Socket::new(tcp, track.clone());
        let channel =
            if to.tls { self.handshake(to, identity, socket).await? } else { Channel::Plain(socket) };
        let stream = Stream::new(channel, track.clone());
        Connection::open(stream, track).await.map_err(|_| Failure::ConnectFailed)
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

/// Connects to the first address that accepts a connection. The remaining time is divided among the addresses
/// not yet tried.
async fn connect_to_one(addresses: &[IpAddr], port: u16, until: Instant) -> Option<TcpStream> {
    let tried = addresses.len().min(ADDRESSES_TRIED_MAX);
    for (address, left) in addresses.iter().zip((1..=tried as u32).rev()) {
        let share = until.saturating_duration_since(Instant::now()) / left;
        let wait = if left > 1 { share.min(ONE_ADDRESS_MAX) } else { share };
        if let Ok(Ok(tcp)) = timeout(wait, TcpStream::connect(SocketAddr::new(*address, port))).await {
            // A request is written all at once, so Nagle's algorithm would only delay it.
            let _ = tcp.set_nodelay(true);
            return Some(tcp);
        }
    }
    None
}
