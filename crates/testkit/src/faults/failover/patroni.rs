//! Three PostgreSQL servers on the loopback interface under Patroni, with etcd and synchronous replication. Patroni
//! promotes a standby when the primary fails, and turns the former primary into a standby.

use super::Cluster;
use crate::fleet::free_address;
use crate::postgres::OWNER;
use crate::private_server::{as_server_user, new_folder, variable};
use crate::signals;
use serde_json::Value;
use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::block_in_place;
use tokio::time::timeout;

const NODES: usize = 3;
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// The timeout for a call of Patroni's API.
const ANSWERS_WITHIN: Duration = Duration::from_secs(2);
/// The maximum time to start the cluster, to elect a primary, and to copy a server.
const PATIENCE: Duration = Duration::from_secs(180);

#[derive(Debug)]
pub struct Patroni {
    nodes: Vec<Node>,
    etcd: Child,
    /// The folder of configuration, logs and sockets.
    folder: PathBuf,
}

/// A server and the Patroni process that controls it.
#[derive(Debug)]
struct Node {
    name: String,
    data: PathBuf,
    config: PathBuf,
    server: SocketAddr,
    api: SocketAddr,
    /// `None` after it was killed.
    patroni: Option<Child>,
}

/// Starts a program whose output is appended to a file.
fn spawn(mut command: Command, log: &Path) -> Child {
    let log = File::options().create(true).append(true).open(log).expect("a log file");
    let errors = log.try_clone().expect("a log file");
    command.stdin(Stdio::null()).stdout(log).stderr(errors).spawn().expect("to start the program")
}

fn end(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

impl Patroni {
    /// Starts the cluster and waits until it has a primary and two standbys.
    pub async fn start() -> Self {
        let folder = new_folder("patroni");
        let made = as_server_user(Path::new("mkdir")).arg(&folder).status().expect("mkdir");
        assert!(made.success(), "{} cannot be created", folder.display());
        let clients = free_address();
        let etcd = spawn(etcd(&folder, clients), &folder.join("etcd.log"));
        let nodes = (1..=NODES).map(|number| Node::create(number, &folder, clients)).collect();
        let mut cluster = Self { nodes, etcd, folder };
        cluster.nodes.iter_mut().for_each(Node::start);
        cluster.until_complete().await;
        cluster
    }

    /// Returns the index of the primary, or `None` during a failover.
    async fn primary(&self) -> Option<usize> {
        for (place, node) in self.nodes.iter().enumerate() {
            if node.ask("/primary").await.is_some_and(|(status, _)| status == 200) {
                return Some(place);
            }
        }
        None
    }

    /// Returns whether every standby receives the log of the primary, and one of them is synchronous and may be
    /// promoted. Patroni records in etcd which one may be; before that, it would promote none.
    async fn is_complete(&self) -> bool {
        let Some(primary) = self.primary().await else { return false };
        let Some((_, state)) = self.nodes[primary].ask("/patroni").await else { return false };
        let standbys = state["replication"].as_array().map_or(&[][..], Vec::as_slice);
        let is_streaming = |standby: &&Value| standby["state"] == "streaming";
        let is_synchronous = |name: &Value| {
            standbys.iter().any(|one| one["application_name"] == *name && one["sync_state"] == "sync")
        };
        let Some((_, cluster)) = self.nodes[primary].ask("/cluster").await else { return false };
        let members = cluster["members"].as_array().map_or(&[][..], Vec::as_slice);
        standbys.iter().filter(is_streaming).count() == NODES - 1
            && members.iter().any(|one| one["role"] == "sync_standby" && is_synchronous(&one["name"]))
    }

    async fn until_complete(&self) {
        let began = Instant::now();
        while !self.is_complete().await {
            assert!(began.elapsed() < PATIENCE, "the cluster is not complete: {}", self.logs());
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// Returns the last lines of all logs.
    fn logs(&self) -> String {
        let names = self.nodes.iter().map(|node| node.name.as_str()).chain(["etcd"]);
        let last = |name: &str| {
            let text = std::fs::read_to_string(self.folder.join(format!("{name}.log"))).unwrap_or_default();
            let lines: Vec<&str> = text.lines().rev().take(15).collect();
            format!("\n{name}:\n{}", lines.into_iter().rev().collect::<Vec<_>>().join("\n"))
        };
        names.map(last).collect()
    }
}

/// Returns the command that starts etcd with a single member.
fn etcd(folder: &Path, clients: SocketAddr) -> Command {
    let (clients, peers) = (format!("http://{clients}"), format!("http://{}", free_address()));
    let mut command = as_server_user(Path::new(&variable("POSTHASTE_TEST_ETCD")));
    command.arg("--data-dir").arg(folder.join("etcd")).args(["--name", "etcd"]);
    command.args(["--listen-client-urls", &clients, "--advertise-client-urls", &clients]);
    command.args(["--listen-peer-urls", &peers, "--initial-advertise-peer-urls", &peers]);
    command.args(["--initial-cluster", &format!("etcd={peers}")]);
    command
}

impl Node {
    fn create(number: usize, folder: &Path, etcd: SocketAddr) -> Self {
        let name = format!("node{number}");
        let (data, config) = (new_folder(&name), folder.join(format!("{name}.yml")));
        let node = Self { name, data, config, server: free_address(), api: free_address(), patroni: None };
        std::fs::write(&node.config, node.settings(folder, etcd)).expect("to write the configuration");
        node
    }

    /// Returns the configuration. A lost primary is noticed within `ttl` seconds, which is short, so that a run takes
    /// minutes. A primary that crashes is not restarted, but replaced (`primary_start_timeout`).
    fn settings(&self, folder: &Path, etcd: SocketAddr) -> String {
        let Self { name, data, server, api, .. } = self;
        let (folder, data, bin) = (folder.display(), data.display(), variable("POSTHASTE_TEST_POSTGRES_BIN"));
        format!(
            "scope: posthaste
name: {name}
restapi: {{listen: '{api}', connect_address: '{api}'}}
etcd3: {{hosts: '{etcd}'}}
bootstrap:
  dcs:
    ttl: 5
    loop_wait: 1
    retry_timeout: 2
    primary_start_timeout: 0
    synchronous_mode: true
    postgresql:
      use_pg_rewind: true
      parameters: {{max_connections: 300, wal_log_hints: 'on'}}
  initdb: [{{encoding: UTF8}}, {{locale: C}}]
  pg_hba: [local all all trust, host all all 127.0.0.1/32 trust, host replication all 127.0.0.1/32 trust]
postgresql:
  listen: '{server}'
  connect_address: '{server}'
  data_dir: {data}
  bin_dir: {bin}
  pgpass: {folder}/{name}.pgpass
  remove_data_directory_on_rewind_failure: true
  remove_data_directory_on_diverged_timelines: true
  authentication:
    superuser: {{username: posthaste_test, password: unused}}
    replication: {{username: replicator, password: unused}}
  parameters: {{unix_socket_directories: '{folder}', shared_buffers: 64MB}}
"
        )
    }

    fn start(&mut self) {
        let mut command = as_server_user(Path::new(&variable("POSTHASTE_TEST_PATRONI")));
        command.arg(&self.config);
        self.patroni = Some(spawn(command, &self.config.with_extension("log")));
    }

    /// Calls Patroni's API, whose responses have no length. Returns the status and the body, or `None` if it does not
    /// respond.
    async fn ask(&self, path: &str) -> Option<(u16, Value)> {
        let exchange = async {
            let mut stream = TcpStream::connect(self.api).await?;
            stream.write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes()).await?;
            let mut text = String::new();
            stream.read_to_string(&mut text).await.map(|_| text)
        };
        let text = timeout(ANSWERS_WITHIN, exchange).await.ok()?.ok()?;
        let (head, body) = text.split_once("\r\n\r\n")?;
        let status = head.split(' ').nth(1)?.parse().ok()?;
        Some((status, serde_json::from_str(body).unwrap_or_default()))
    }

    fn kill_patroni(&mut self) {
        self.patroni.take().iter_mut().for_each(end);
    }

    /// Kills all processes of the server.
    fn kill_server(&self) {
        let file = std::fs::read_to_string(self.data.join("postmaster.pid")).unwrap_or_default();
        if let Some(postmaster) = file.lines().next().and_then(|line| line.trim().parse().ok()) {
            signals::kill_with_children(postmaster);
        }
    }
}

impl Cluster for Patroni {
    fn url(&self) -> String {
        let hosts: Vec<String> = self.nodes.iter().map(|node| node.server.to_string()).collect();
        format!("postgres://{OWNER}@{}/postgres?target_session_attrs=read-write", hosts.join(","))
    }

    async fn primary_url(&self) -> String {
        let primary = self.primary().await.expect("a primary");
        format!("postgres://posthaste_test@{}/postgres", self.nodes[primary].server)
    }

    /// Kills the server, and in every second round also the Patroni of its node, as if the machine had failed.
    async fn kill_primary(&mut self, round: usize) -> (String, Instant) {
        let primary = self.primary().await.expect("a primary");
        let node = &mut self.nodes[primary];
        let whole_node = round % 2 == 1;
        block_in_place(|| {
            if whole_node {
                node.kill_patroni();
            }
            node.kill_server();
        });
        let what = if whole_node { "PostgreSQL and Patroni" } else { "PostgreSQL" };
        (format!("{what} of {}", node.name), Instant::now())
    }

    async fn repair(&mut self) {
        self.nodes.iter_mut().filter(|node| node.patroni.is_none()).for_each(Node::start);
        self.until_complete().await;
    }
}

impl Drop for Patroni {
    fn drop(&mut self) {
        self.nodes.iter_mut().for_each(Node::kill_patroni);
        self.nodes.iter().for_each(Node::kill_server);
        end(&mut self.etcd);
        for folder in self.nodes.iter().map(|node| &node.data).chain([&self.folder]) {
            let _ = std::fs::remove_dir_all(folder);
        }
    }
}
