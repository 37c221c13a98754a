//! The measured server: a separate process with a store created for one scenario.

use crate::wire::call;
use anyhow::Context as _;
use serde_json::{Value, json};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// The root key of every measured server.
pub const KEY: &str = "a-key-of-a-benchmark-on-this-machine";
const STARTS_WITHIN: Duration = Duration::from_secs(30);
const POLL_EVERY: Duration = Duration::from_millis(20);
/// The number of clock ticks per second, the unit of CPU times in `/proc`. It is 100 on every Linux system that
/// Posthaste supports.
const TICKS_PER_SECOND: f64 = 100.0;

#[derive(Debug)]
pub struct Server {
    child: Child,
    pub address: SocketAddr,
    log: PathBuf,
}

impl Server {
    /// Starts `posthaste serve` with the executable `program` and waits until the server is ready.
    pub async fn start(
        program: &Path,
        url: &str,
        roles: &str,
        folder: &Path,
        settings: &[(&str, String)],
    ) -> anyhow::Result<Self> {
        let address = free_address()?;
        let log = folder.join("server.log");
        let written = std::fs::File::options().create(true).append(true).open(&log);
        let written = written.with_context(|| format!("opening {}", log.display()))?;
        let mut command = Command::new(program);
        command.args(["serve", "--roles", roles]).env_clear();
        for (name, value) in std::env::vars_os().filter(|(name, _)| !is_setting(name)) {
            command.env(name, value);
        }
        command
            .env("POSTHASTE_DATABASE_URL", url)
            .env("POSTHASTE_LISTEN", address.to_string())
            .env("POSTHASTE_ROOT_KEY", KEY)
            .env("POSTHASTE_ALLOW_HTTP", "true")
            .env("POSTHASTE_ALLOW_CIDRS", "127.0.0.0/8")
            .envs(settings.iter().map(|(name, value)| (*name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(written);
        let child = command.spawn().context("starting posthaste serve")?;
        let mut server = Self { child, address, log };
        server.wait_until_ready().await?;
        Ok(server)
    }

    async fn wait_until_ready(&mut self) -> anyhow::Result<()> {
        let ready = async {
            loop {
                if let Some(status) = self.child.try_wait().context("checking the server process")? {
                    let log = std::fs::read_to_string(&self.log).unwrap_or_default();
                    anyhow::bail!("the server exited with {status}:\n{log}");
                }
                if call(self.address, "GET", "/readyz", KEY, "").await.is_ok() {
                    return Ok(());
                }
                tokio::time::sleep(POLL_EVERY).await;
            }
        };
        tokio::time::timeout(STARTS_WITHIN, ready).await.context("the server did not become ready in time")?
    }

    pub async fn subscribe(&self, event_type: &str, url: &str) -> anyhow::Result<()> {
        let body = json!({ "event_type": event_type, "callback_url": url }).to_string();
        let created = self.post("/v1/subscriptions", &body).await?;
        let verified = self.post(&format!("/v1/subscriptions/{}/verify", created["id"]), "").await?;
        anyhow::ensure!(verified["verified"] == true, "the receiver was not verified: {verified}");
        Ok(())
    }

    /// Posts all `events` in one request.
    pub async fn send_batch(&self, events: &[String]) -> anyhow::Result<()> {
        self.post("/v1/events", &format!("[{}]", events.join(","))).await.map(drop)
    }

    async fn post(&self, path: &str, body: &str) -> anyhow::Result<Value> {
        let answer = call(self.address, "POST", path, KEY, body).await.context("preparing the benchmark")?;
        serde_json::from_slice(&answer).context("reading a response of the API")
    }

    /// Returns the peak resident memory of the server process in MiB.
    pub fn memory_mib(&self) -> Option<f64> {
        peak_memory_mib(self.child.id())
    }

    /// Returns the CPU time that the server process has used so far.
    pub fn cpu(&self) -> Option<Duration> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).ok()?;
        let (_, rest) = stat.rsplit_once(") ")?;
        let fields: Vec<&str> = rest.split(' ').collect();
        let ticks = |at: usize| fields.get(at)?.parse::<u32>().ok();
        Some(Duration::from_secs_f64(f64::from(ticks(11)? + ticks(12)?) / TICKS_PER_SECOND))
    }
}

/// Kills the process. Unfinished work is discarded with the store.
impl Drop for Server {
    fn drop(&mut self) {
        // The process may have exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the peak resident memory of a process in MiB, or `None` if the process has ended.
pub fn peak_memory_mib(process: u32) -> Option<f64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib / 1_024.0)
}

/// Returns whether an environment variable is a setting. The settings of the caller are not passed to the
/// measured server.
fn is_setting(name: &std::ffi::OsStr) -> bool {
    let name = name.to_string_lossy();
    name.starts_with("POSTHASTE_") || name.starts_with("OUTBOX_")
}

/// Returns a loopback address with an unused port. If another program binds the port first, the server fails to
/// start.
fn free_address() -> anyhow::Result<SocketAddr> {
    let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("finding a free port")?;
    listener.local_addr().context("getting the local address")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_for_running_processes() {
        assert!(peak_memory_mib(std::process::id()).is_some_and(|mib| mib > 0.0));
        assert_eq!(peak_memory_mib(u32::MAX), None);
    }
}
