//! Where a process meets the network: the addresses that it listens on, and the way out for what is sent.

use crate::settings::Settings;
use anyhow::Context as _;
use posthaste_services::sender::{KeepAlive, Sender, Trust};
use std::net::SocketAddr;
use tokio::net::{TcpListener, TcpSocket};

/// Connections that the kernel keeps until they are accepted; it may allow fewer. The usual 128 are gone in a
/// moment when many callers come at once, and whoever is dropped tries again a second later.
const WAITING_MAX: u32 = 4_096;

/// How much of a response the kernel may hold for a client that does not read; it doubles the value. Left to itself it
/// takes up to 4 MiB for each connection.
const SEND_BUFFER_BYTES: u32 = 128 * 1024;

pub(crate) fn listen(settings: &Settings) -> anyhow::Result<TcpListener> {
    bind(settings.listen, "POSTHASTE_LISTEN")
}

/// Where probes and scrapers are answered, if that was asked for.
pub(crate) fn listen_for_metrics(settings: &Settings) -> anyhow::Result<Option<TcpListener>> {
    settings.metrics_listen.map(|address| bind(address, "POSTHASTE_METRICS_LISTEN")).transpose()
}

fn bind(address: SocketAddr, setting: &str) -> anyhow::Result<TcpListener> {
    let told = || format!("cannot listen on {address}: end what listens there, or set {setting}");
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() };
    let listen = |socket: TcpSocket| {
        socket.set_reuseaddr(true)?;
        // Connections inherit it.
        socket.set_send_buffer_size(SEND_BUFFER_BYTES)?;
        socket.bind(address)?;
        socket.listen(WAITING_MAX)
    };
    socket.and_then(listen).with_context(told)
}

pub(crate) fn sender(settings: &Settings) -> anyhow::Result<Sender> {
    let mut trust = Trust::system();
    if let Some(file) = &settings.egress.ca_file {
        trust = trust.with_ca_file(file).context("POSTHASTE_CA_FILE")?;
    }
    if trust.authorities() == 0 {
        tracing::warn!(
            "no certificate authority is known, so nothing can be delivered over https: \
             install the system's (the package ca-certificates), or set POSTHASTE_CA_FILE"
        );
    }
    Ok(Sender::new(settings.egress.policy.clone(), trust, keep_alive(settings))?)
}

/// As many connections as a worker uses at once are kept, all of them for one host if need be: a smaller number
/// would connect anew for every delivery beyond it.
fn keep_alive(settings: &Settings) -> KeepAlive {
    let usual = KeepAlive::default();
    let at_once = (settings.worker.concurrency as usize).max(usual.idle_total_max);
    KeepAlive { idle_per_host_max: at_once, idle_total_max: at_once, ..usual }
}
