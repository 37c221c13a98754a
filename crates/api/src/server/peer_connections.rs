//! Counts the open connections of each peer, so that one peer cannot take all of them.

use crate::peer::PeerAddress;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

/// Has at most one entry for each open connection, whose number is limited.
#[derive(Debug, Clone)]
pub(crate) struct PeerConnections {
    open: Arc<Mutex<HashMap<IpAddr, usize>>>,
    per_peer_max: usize,
}

/// One counted connection, until it is dropped.
#[derive(Debug)]
pub(crate) struct Counted {
    connections: PeerConnections,
    network: IpAddr,
}

impl PeerConnections {
    pub(crate) fn new(per_peer_max: usize) -> Self {
        Self { open: Arc::default(), per_peer_max }
    }

    /// Counts one more connection of a peer. `None` if the peer has as many as it may have.
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
    fn a_peer_has_so_many_connections_and_others_have_their_own() {
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
    fn the_addresses_of_one_ipv6_network_are_one_peer() {
        let connections = PeerConnections::new(1);
        let _first = connections.open(peer("2001:db8::1")).expect("the first");
        assert!(connections.open(peer("2001:db8::ffff")).is_none());
        assert!(connections.open(peer("2001:db8:0:1::1")).is_some());
    }
}
