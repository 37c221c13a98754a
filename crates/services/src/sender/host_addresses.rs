//! Reads the addresses of this host from its network interfaces, for the address policy. They are read again
//! after a few seconds, because interfaces can gain and lose addresses while the process runs.

use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::log_pause::LogPause;
use crate::egress::OwnAddresses;

/// The time after which the addresses are read again. A read takes less than a millisecond.
const AGE_MAX: Duration = Duration::from_secs(5);

type Read = dyn Fn() -> io::Result<OwnAddresses> + Send + Sync;

/// A source of the addresses of this host.
pub struct HostAddresses {
    read: Box<Read>,
    age_max: Duration,
    known: Mutex<Known>,
    failure_logged: LogPause,
}

#[derive(Default)]
struct Known {
    addresses: Arc<OwnAddresses>,
    read_at: Option<Instant>,
}

impl fmt::Debug for HostAddresses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostAddresses").finish_non_exhaustive()
    }
}

impl HostAddresses {
    /// Returns the source that reads the network interfaces of this host.
    pub fn system() -> Self {
        let ips = || Ok(if_addrs::get_if_addrs()?.iter().map(if_addrs::Interface::ip).collect());
        Self::new(ips, AGE_MAX)
    }

    /// Creates a source that calls `read` if the addresses read last are older than `age_max`.
    pub fn new(
        read: impl Fn() -> io::Result<OwnAddresses> + Send + Sync + 'static,
        age_max: Duration,
    ) -> Self {
        Self { read: Box::new(read), age_max, known: Mutex::default(), failure_logged: LogPause::default() }
    }

    /// Reads the addresses once. Called at startup, because a process that does not know its addresses cannot
    /// refuse them.
    ///
    /// # Errors
    ///
    /// Returns the error of the operating system, for example if the process may not open netlink sockets.
    pub fn check(&self) -> io::Result<()> {
        (self.read)().map(drop)
    }

    /// Returns the addresses read last, at most a few seconds ago. If they cannot be read, the earlier ones
    /// remain in use.
    pub(super) fn current(&self) -> Arc<OwnAddresses> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.read_at.is_none_or(|at| at.elapsed() >= self.age_max) {
            known.read_at = Some(Instant::now());
            match (self.read)() {
                Ok(addresses) if addresses != *known.addresses => known.addresses = Arc::new(addresses),
                Ok(_) => {}
                Err(error) => self.failure_logged.run(|| {
                    tracing::warn!(%error, "cannot read the addresses of this host, using the earlier ones");
                }),
            }
        }
        Arc::clone(&known.addresses)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{IpAddr, Ipv4Addr};
    use std::sync::atomic::{AtomicU32, Ordering};

    #[tokio::test(start_paused = true)]
    async fn addresses_are_read_again_after_some_seconds() {
        let reads = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&reads);
        let addresses = HostAddresses::new(
            move || match counted.fetch_add(1, Ordering::Relaxed) {
                2 => Err(io::ErrorKind::PermissionDenied.into()),
                read => Ok([IpAddr::V4(Ipv4Addr::from_bits(read))].into_iter().collect()),
            },
            AGE_MAX,
        );
        let has = |address: u32| addresses.current().contains(IpAddr::V4(Ipv4Addr::from_bits(address)));
        assert!(has(0) && has(0));
        tokio::time::advance(AGE_MAX).await;
        assert!(has(1) && !has(0));
        tokio::time::advance(AGE_MAX).await;
        assert!(has(1), "the earlier ones, after a failure");
        tokio::time::advance(AGE_MAX).await;
        assert!(has(3));
        assert_eq!(reads.load(Ordering::Relaxed), 4);
    }

    #[test]
    fn interfaces_of_this_host_can_be_read() {
        let addresses = HostAddresses::system();
        addresses.check().expect("the interfaces");
        let own = addresses.current();
        assert!(own.contains(IpAddr::V4(Ipv4Addr::LOCALHOST)), "{own:?}");
        // Connecting a UDP socket sends nothing, but selects the address of the interface.
        let socket = std::net::UdpSocket::bind("0.0.0.0:0").expect("a socket");
        if socket.connect("192.0.2.1:9").is_ok() {
            let address = socket.local_addr().expect("an address").ip();
            assert!(own.contains(address), "{address} {own:?}");
        }
    }
}
