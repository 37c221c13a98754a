//! Determines the client address of a request. [`crate::server`] adds it to every request as an extension; handlers
//! read it with `Extension<PeerAddress>`.

use http::{HeaderMap, HeaderName};
use ipnet::IpNet;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
/// The maximum number of `x-forwarded-for` entries that are read, one per proxy.
const PROXIES_MAX: usize = 16;

/// The IP address of a client: the peer address of the connection, or the address reported by a trusted proxy.
/// IPv4-mapped IPv6 addresses are converted to IPv4.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PeerAddress(pub IpAddr);

impl PeerAddress {
    pub(crate) fn of(peer: SocketAddr) -> Self {
        Self(peer.ip().to_canonical())
    }

    /// Returns the address by which limits count a client: the IPv4 address, or the /64 network of an IPv6 address,
    /// because providers assign whole /64 networks.
    pub(crate) fn network(self) -> IpAddr {
        match self.0 {
            IpAddr::V4(address) => IpAddr::V4(address),
            IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64)),
        }
    }
}

/// The networks of trusted proxies. Their connections are not limited, and their `x-forwarded-for` headers are used.
#[derive(Debug, Clone)]
pub struct TrustedProxies(pub Vec<IpNet>);

impl TrustedProxies {
    pub(crate) fn contains(&self, peer: PeerAddress) -> bool {
        self.0.iter().any(|network| network.contains(&peer.0))
    }

    /// Returns the address of the client behind a peer. Each proxy appends the address of its peer, so the client is
    /// the last entry that is not a trusted proxy. Earlier entries were sent by the client and cannot be trusted.
    pub(crate) fn client(&self, peer: PeerAddress, headers: &HeaderMap) -> PeerAddress {
        if !self.contains(peer) {
            return peer;
        }
        let values = headers.get_all(FORWARDED_FOR).iter().rev();
        let hops = values.flat_map(|value| value.to_str().unwrap_or_default().rsplit(','));
        let mut client = peer;
        for hop in hops.take(PROXIES_MAX) {
            let Some(address) = parse_hop(hop.trim()) else { break };
            client = address;
            if !self.contains(client) {
                break;
            }
        }
        client
    }
}

/// Parses an address with or without a port. Returns `None` if it is invalid.
fn parse_hop(text: &str) -> Option<PeerAddress> {
    let address = text.parse().or_else(|_| text.parse::<SocketAddr>().map(|address| address.ip()));
    address.ok().map(|address: IpAddr| PeerAddress(address.to_canonical()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::{Server, ServerOptions};
    use axum::Extension;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    #[test]
    fn ipv4_mapped_addresses_are_converted() {
        for (peer, expected) in [
            ("127.0.0.1:80", "127.0.0.1"),
            ("[::ffff:127.0.0.1]:80", "127.0.0.1"),
            ("[2001:db8::1]:80", "2001:db8::1"),
        ] {
            let peer = PeerAddress::of(peer.parse().expect("an address"));
            assert_eq!(peer.0.to_string(), expected);
        }
    }

    #[test]
    fn the_client_is_the_last_address_that_is_not_a_proxy() {
        let networks = ["127.0.0.0/8", "10.0.0.0/8"].map(|network| network.parse().expect("a network"));
        let proxies = TrustedProxies(networks.to_vec());
        for (peer, forwarded, expected) in [
            ("192.0.2.1", &["198.51.100.1"][..], "192.0.2.1"),
            ("127.0.0.1", &[], "127.0.0.1"),
            ("127.0.0.1", &["198.51.100.1"], "198.51.100.1"),
            ("127.0.0.1", &["203.0.113.9, 198.51.100.1"], "198.51.100.1"),
            ("127.0.0.1", &["203.0.113.9", "198.51.100.1,10.0.0.1"], "198.51.100.1"),
            ("127.0.0.1", &["203.0.113.9, nonsense"], "127.0.0.1"),
            ("127.0.0.1", &["203.0.113.9, nonsense, 10.0.0.1"], "10.0.0.1"),
            ("127.0.0.1", &["198.51.100.1:4711"], "198.51.100.1"),
            ("127.0.0.1", &["[2001:db8::1]:4711"], "2001:db8::1"),
            ("127.0.0.1", &["::ffff:198.51.100.1"], "198.51.100.1"),
        ] {
            let mut headers = HeaderMap::new();
            for value in forwarded {
                headers.append(FORWARDED_FOR, value.parse().expect("a header"));
            }
            let peer = PeerAddress(peer.parse().expect("an address"));
            assert_eq!(proxies.client(peer, &headers).0.to_string(), expected, "{peer:?} {forwarded:?}");
        }
    }

    #[tokio::test]
    async fn handlers_receive_the_client_address() {
        let shown =
            |Extension(PeerAddress(address)): Extension<PeerAddress>| async move { address.to_string() };
        let router = axum::Router::new().route("/", axum::routing::get(shown));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let trusted_proxies = TrustedProxies(vec!["127.0.0.0/8".parse().expect("a network")]);
        let _server = Server::start_with(
            listener,
            router,
            ServerOptions { trusted_proxies, ..ServerOptions::default() },
        );
        for (header, expected) in [("", "127.0.0.1"), ("x-forwarded-for: 192.0.2.1\r\n", "192.0.2.1")] {
            let mut stream = tokio::net::TcpStream::connect(address).await.expect("a connection");
            let request = format!("GET / HTTP/1.1\r\nhost: a\r\n{header}connection: close\r\n\r\n");
            stream.write_all(request.as_bytes()).await.expect("to write");
            let mut response = String::new();
            stream.read_to_string(&mut response).await.expect("a response");
            assert!(response.ends_with(&format!("\r\n\r\n{expected}")), "{response}");
        }
    }
}
