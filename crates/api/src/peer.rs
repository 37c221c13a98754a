//! The address that a request comes from. [`crate::server`] adds it to every request as an extension; handlers
//! read it with `Extension<PeerAddress>`.

use std::net::{IpAddr, SocketAddr};

/// The IP address of the peer of a connection. An IPv4 address that arrives over IPv6 is an IPv4 address here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PeerAddress(pub IpAddr);

impl PeerAddress {
    pub(crate) fn of(peer: SocketAddr) -> Self {
        Self(peer.ip().to_canonical())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::Server;
    use axum::Extension;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    #[test]
    fn an_ipv4_address_has_one_spelling() {
        for (peer, expected) in [
            ("127.0.0.1:80", "127.0.0.1"),
            ("[::ffff:127.0.0.1]:80", "127.0.0.1"),
            ("[2001:db8::1]:80", "2001:db8::1"),
        ] {
            let peer = PeerAddress::of(peer.parse().expect("an address"));
            assert_eq!(peer.0.to_string(), expected);
        }
    }

    #[tokio::test]
    async fn handlers_receive_the_address() {
        let shown =
            |Extension(PeerAddress(address)): Extension<PeerAddress>| async move { address.to_string() };
        let router = axum::Router::new().route("/", axum::routing::get(shown));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let _server = Server::start(listener, router);
        let mut stream = tokio::net::TcpStream::connect(address).await.expect("a connection");
        let request = b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
        stream.write_all(request).await.expect("to write");
        let mut response = String::new();
        stream.read_to_string(&mut response).await.expect("a response");
        assert!(response.ends_with("\r\n\r\n127.0.0.1"), "{response}");
    }
}
