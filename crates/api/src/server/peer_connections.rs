//! Counts open connections per peer for [`crate::server`], so that one peer cannot use all connections.

use crate::peer::PeerAddress;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

/// The number of open connections per network. The total connection limit bounds the size of the map.
#[derive(Debug, Clone)]
pub(crate) struct PeerConnections {
    open: Arc<Mutex<HashMap<IpAddr, usize>>>,
    per_peer_max: usize,
}

/// A counted connection. Dropping it decrements the count.
#[derive(Debug)]
pub(crate) struct Counted {
    connections: PeerConnections,
    network: IpAddr,
}

impl PeerConnections {
    pub(crate) fn new(per_peer_max: usize) -> Self {
        Self { open: Arc::default(), per_peer_max }
    }

    /// Counts a connection of a peer. Returns `None` if the peer has reached its limit.
    pub(crate) fn open(&self, peer: PeerAddress) -> Option<Counted> {
        let network = peer.network();
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let count = open.entry(network).or_default();
        if *count >= self.per_peer_max {
            return None;
        }
        *count += 1;
        drop(open);
        Some(Counted { connections: self.clone(), network })
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut open = self.connections.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = open.get_mut(&self.network) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.network);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(text: &str) -> PeerAddress {
        PeerAddress(text.parse().expect("an address"))
    }

    #[test]
    fn each_peer_has_its_own_limit() {
        let connections = PeerConnections::new(2);
        let first = connections.open(peer("192.0.2.1"));
        let second = connections.open(peer("192.0.2.1"));
        assert!(first.is_some() && second.is_some());
        assert!(connections.open(peer("192.0.2.1")).is_none());
        let other = connections.open(peer("192.0.2.2"));
        assert!(other.is_some());
        drop(first);
        assert!(connections.open(peer("192.0.2.1")).is_some(), "a connection ended");
        drop((second, other));
        assert!(connections.open.lock().expect("the map").is_empty());
    }

    #[test]
    fn the_addresses_of_an_ipv6_network_count_as_one_peer() {
        let connections = PeerConnections::new(1);
        let _first = connections.open(peer("2001:db8::1")).expect("the first");
        assert!(connections.open(peer("2001:db8::ffff")).is_none());
        assert!(connections.open(peer("2001:db8:0:1::1")).is_some());
    }
}
