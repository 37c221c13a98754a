//! Where a process meets the network: the addresses that it listens on, and the way out for what is sent.

use crate::settings::Settings;
use anyhow::Context as _;
use posthaste_services::sender::{KeepAlive, Sender, Trust};
use std::net::SocketAddr;
use tokio::net::TcpListener;

pub(crate) async fn listen(settings: &Settings) -> anyhow::Result<TcpListener> {
    bind(settings.listen, "POSTHASTE_LISTEN").await
}

/// Where probes and scrapers are answered, if that was asked for.
pub(crate) async fn listen_for_metrics(settings: &Settings) -> anyhow::Result<Option<TcpListener>> {
    match settings.metrics_listen {
        Some(address) => bind(address, "POSTHASTE_METRICS_LISTEN").await.map(Some),
        None => Ok(None),
    }
}

async fn bind(address: SocketAddr, setting: &str) -> anyhow::Result<TcpListener> {
    let told = || format!("cannot listen on {address}: end what listens there, or set {setting}");
    TcpListener::bind(address).await.with_context(told)
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
    Ok(Sender::new(settings.egress.policy.clone(), trust, KeepAlive::default())?)
}
