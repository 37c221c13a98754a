//! The Posthaste that is measured: this very program as a process of its own, on a store made for one
//! scenario.

use crate::client::{Call, Server as Api};
use anyhow::Context as _;
use posthaste_store::{postgres, sqlite};
use serde_json::Value;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use url::Url;

const KEY: &str = "a-key-of-a-benchmark-on-this-machine";
const STARTS_WITHIN: Duration = Duration::from_secs(30);
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Clock ticks of `/proc` in a second, on every Linux that Posthaste runs on.
const TICKS_PER_SECOND: f64 = 100.0;

/// A store with a schema and nothing in it. Gone when it is let go.
pub(super) struct Scratch {
    pub(super) url: String,
    what: ScratchKind,
}

enum ScratchKind {
    File(PathBuf),
    Database { server: String, name: String },
}

impl Scratch {
    pub(super) fn sqlite(folder: &Path, name: &str) -> anyhow::Result<Self> {
        let folder = folder.join(name);
        std::fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
        let path = folder.join("posthaste.db");
        sqlite::migrate(&path)?;
        Ok(Self { url: format!("sqlite://{}", path.display()), what: ScratchKind::File(folder) })
    }

    /// A database of its own on the server that this URL leads to.
    pub(super) async fn postgres(server: &str, name: &str) -> anyhow::Result<Self> {
        let name = format!("posthaste_bench_{}_{}", std::process::id(), name.replace('-', "_"));
        let mut url = Url::parse(server).context("reading the URL of the server")?;
        url.set_path(&name);
        postgres::create_database(server, &name).await?;
        postgres::migrate(url.as_str()).await?;
        Ok(Self { url: url.into(), what: ScratchKind::Database { server: server.to_owned(), name } })
    }

    pub(super) async fn remove(self) {
        let removed = match self.what {
            ScratchKind::File(folder) => std::fs::remove_dir_all(folder).map_err(anyhow::Error::from),
            ScratchKind::Database { server, name } => {
                postgres::drop_database(&server, &name).await.map_err(anyhow::Error::from)
            }
        };
        if let Err(error) = removed {
            eprintln!("posthaste: a store of the benchmark is left behind: {error:#}");
        }
    }
}

pub(super) struct Server {
    child: Child,
    pub(super) address: SocketAddr,
    api: Api,
    log: PathBuf,
}

impl Server {
    /// Starts it and waits until it is ready.
    pub(super) async fn start(
        url: &str,
        roles: &str,
        folder: &Path,
        settings: &[(&str, String)],
    ) -> anyhow::Result<Self> {
        let address = free_address()?;
        let log = folder.join("server.log");
        let written = std::fs::File::options().create(true).append(true).open(&log);
        let written = written.with_context(|| format!("opening {}", log.display()))?;
        let program = std::env::current_exe().context("asking for the path of this program")?;
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
        let api = Api::new(&format!("http://{address}"), Some(KEY))?;
        let mut server = Self { child, address, api, log };
        server.wait_until_ready().await?;
        Ok(server)
    }

    async fn wait_until_ready(&mut self) -> anyhow::Result<()> {
        let ready = async {
            loop {
                if let Some(status) = self.child.try_wait().context("looking after the server")? {
                    let log = std::fs::read_to_string(&self.log).unwrap_or_default();
                    anyhow::bail!("the server ended with {status}:\n{log}");
                }
                if self.api.ask(&Call::get("/readyz")).await.is_ok() {
                    return Ok(());
                }
                tokio::time::sleep(LOOK_EVERY).await;
            }
        };
        tokio::time::timeout(STARTS_WITHIN, ready).await.context("the server does not become ready")?
    }

    pub(super) fn key(&self) -> Option<String> {
        Some(KEY.to_owned())
    }

    pub(super) async fn subscribe(&self, event_type: &str, url: &str) -> anyhow::Result<()> {
        let call = Call::post("/v1/subscriptions")
            .fields([("event_type", event_type.into()), ("callback_url", url.into())]);
        let made = self.ask(&call).await?;
        let verify = Call::post(format!("/v1/subscriptions/{}/verify", made["id"]));
        let verified = self.ask(&verify).await?;
        anyhow::ensure!(verified["verified"] == true, "the receiver was not verified: {verified}");
        Ok(())
    }

    /// Posts many events in one call.
    pub(super) async fn send_batch(&self, events: &[String]) -> anyhow::Result<()> {
        let call = Call::post("/v1/events").body(format!("[{}]", events.join(",")));
        self.ask(&call).await.map(|_| ())
    }

    async fn ask(&self, call: &Call) -> anyhow::Result<Value> {
        let text = self.api.ask(call).await.context("preparing the benchmark")?;
        serde_json::from_str(&text).context("reading an answer of the API")
    }

    /// The most memory that it has had in RAM, in MiB.
    pub(super) fn memory_mib(&self) -> Option<f64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
        let kib: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
        Some(kib / 1_024.0)
    }

    /// The processor time that it has used.
    pub(super) fn cpu(&self) -> Option<Duration> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).ok()?;
        let (_, rest) = stat.rsplit_once(") ")?;
        let fields: Vec<&str> = rest.split(' ').collect();
        let ticks = |at: usize| fields.get(at)?.parse::<u32>().ok();
        Some(Duration::from_secs_f64(f64::from(ticks(11)? + ticks(12)?) / TICKS_PER_SECOND))
    }
}

/// What is left undone is thrown away with the store.
impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Settings of whoever runs the benchmark do not count in it.
fn is_setting(name: &std::ffi::OsStr) -> bool {
    let name = name.to_string_lossy();
    name.starts_with("POSTHASTE_") || name.starts_with("OUTBOX_")
}

/// One that nothing listens on now. Another program could take it before the server does; then the start
/// fails and says so.
fn free_address() -> anyhow::Result<SocketAddr> {
    let listener =
        std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("looking for a free port")?;
    listener.local_addr().context("asking for the address")
}
