//! The addresses of this host, as a set that the address policy takes as an argument. The
//! [`crate::sender`] reads them from the network interfaces.

use std::collections::BTreeSet;
use std::net::IpAddr;

/// The addresses of this host's network interfaces. The default is the empty set.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OwnAddresses(BTreeSet<IpAddr>);

impl OwnAddresses {
    pub fn contains(&self, address: IpAddr) -> bool {
        self.0.contains(&address)
    }
}

impl FromIterator<IpAddr> for OwnAddresses {
    fn from_iter<I: IntoIterator<Item = IpAddr>>(addresses: I) -> Self {
        Self(addresses.into_iter().collect())
    }
}
