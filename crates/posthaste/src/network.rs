//! Creates a process's listening sockets and the sender for its outgoing requests, as configured in the settings.

use crate::settings::Settings;
use anyhow::Context as _;
use posthaste_services::sender::{Egress, HostAddresses, KeepAlive, Sender, Trust};
use std::net::SocketAddr;
use tokio::net::{TcpListener, TcpSocket};

/// The listen backlog: the maximum number of connections that the kernel queues until they are accepted. The kernel may
/// lower it. A burst of clients overflows the usual backlog of 128, and a client whose SYN is dropped retries only
/// after a second.
const BACKLOG_MAX: u32 = 4_096;

/// The size of a connection's send buffer, in bytes; the kernel doubles the value. It limits the memory used for a
/// client that does not read its response: with autotuning, the kernel would allocate up to 4 MiB per connection.
const SEND_BUFFER_BYTES: u32 = 128 * 1024;

/// Opens the listening socket of the API.
pub(crate) fn listen(settings: &Settings) -> anyhow::Result<TcpListener> {
    bind(settings.listen, "POSTHASTE_LISTEN")
}

/// Opens the listening socket for health probes and metrics. Returns `None` if `POSTHASTE_METRICS_LISTEN` is not set.
pub(crate) fn listen_for_metrics(settings: &Settings) -> anyhow::Result<Option<TcpListener>> {
    settings.metrics_listen.map(|address| bind(address, "POSTHASTE_METRICS_LISTEN")).transpose()
}

fn bind(address: SocketAddr, setting: &str) -> anyhow::Result<TcpListener> {
    let context =
        || format!("cannot listen on {address}: stop the process that uses it, or change {setting}");
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() };
    let listen = |socket: TcpSocket| {
        socket.set_reuseaddr(true)?;
        // Accepted connections inherit the size of the send buffer.
        socket.set_send_buffer_size(SEND_BUFFER_BYTES)?;
        socket.bind(address)?;
        socket.listen(BACKLOG_MAX)
    };
    socket.and_then(listen).with_context(context)
}

/// Creates the sender for deliveries, orders, verification challenges and test requests.
pub(crate) fn sender(settings: &Settings) -> anyhow::Result<Sender> {
    let mut trust = Trust::system();
    if let Some(file) = &settings.egress.ca_file {
        trust = trust.with_ca_file(file).context("POSTHASTE_CA_FILE")?;
    }
    if trust.authorities() == 0 {
        tracing::warn!(
            "no certificate authorities found, requests over https will fail: \
             install the package ca-certificates, or set POSTHASTE_CA_FILE"
        );
    }
    let own_addresses = HostAddresses::system();
    own_addresses.check().context(
        "cannot read the addresses of this host, which requests must not reach: allow netlink sockets \
         (in a systemd unit, RestrictAddressFamilies must contain AF_NETLINK)",
    )?;
    let (policy, proxy) = (settings.egress.policy.clone(), settings.egress.proxy.clone());
    Ok(Sender::new(Egress { policy, own_addresses, proxy }, trust, keep_alive(settings))?)
}

/// Returns limits that allow as many idle connections as a worker may have requests in flight, even to a single host.
/// With lower limits, every delivery beyond them would open a new connection.
fn keep_alive(settings: &Settings) -> KeepAlive {
    let default = KeepAlive::default();
    let idle_max = (settings.worker.concurrency as usize).max(default.idle_total_max);
    KeepAlive { idle_per_host_max: idle_max, idle_total_max: idle_max, ..default }
}
