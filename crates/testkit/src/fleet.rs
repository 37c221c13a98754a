//! Starts many processes on one PostgreSQL server. Each process runs one role and has its own login with only the
//! rights of that role.

use crate::postgres::{client, url_with};
use crate::private_server::PrivateServer;
use crate::processes::{LogLine, Process, Program};
use crate::proxy::{Mode, Proxy};
use crate::random::Random;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;
use tokio_postgres::Client;

/// The maximum time for a process to start.
const START_WITHIN: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    Router,
    Orchestrator,
    Worker,
    Cleaner,
    Api,
    Outbox,
}

/// The database roles of the API, which are all granted to one login.
const API_RIGHTS: &str =
    "viewer, event_ingest_writer, subscription_admin, dead_letter_operator, outbox_writer, key_keeper";

impl Role {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Router => "router",
            Self::Orchestrator => "orchestrator",
            Self::Worker => "worker",
            Self::Cleaner => "cleaner",
            Self::Api => "api",
            Self::Outbox => "outbox",
        }
    }

    /// Returns the database roles granted to the login of this role.
    const fn rights(self) -> &'static str {
        match self {
            Self::Router => "router_worker",
            Self::Orchestrator => "saga_orchestrator",
            Self::Worker => "job_worker",
            Self::Cleaner => "lease_cleaner",
            Self::Api => API_RIGHTS,
            Self::Outbox => "outbox_worker",
        }
    }

    /// Returns the setting for the login URL of this role, or `None` for the API, which uses the common URL here.
    fn variable(self) -> Option<String> {
        match self {
            Self::Router | Self::Orchestrator | Self::Worker | Self::Cleaner | Self::Outbox => {
                Some(format!("POSTHASTE_DATABASE_URL_{}", self.name().to_uppercase()))
            }
            Self::Api => None,
        }
    }
}

/// The connection between processes and the server: direct, or through a proxy that can break it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wiring {
    Direct,
    Tripwires,
}

#[derive(Debug)]
pub struct Member {
    pub role: Role,
    pub process: Process,
    pub wire: Option<Proxy>,
    /// The address that the process listens on, or `None` if it does not run the API.
    pub address: Option<SocketAddr>,
    settings: Vec<(String, String)>,
    /// The log lines of the processes that this one replaced.
    past: Vec<LogLine>,
}

#[derive(Debug)]
pub struct Fleet {
    program: Program,
    pub members: Vec<Member>,
}

/// Returns `more` and the settings common to all test processes, which allow deliveries to local receivers.
pub fn settings(more: &[(&str, &str)]) -> Vec<(String, String)> {
    let fixed = [
        ("POSTHASTE_ALLOW_HTTP", "true"),
        ("POSTHASTE_ALLOW_CIDRS", "127.0.0.0/8"),
        ("POSTHASTE_LOG_FORMAT", "json"),
    ];
    fixed.iter().chain(more).map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// Returns an address that stays free while its process is down, because its port is below the ephemeral range.
pub fn free_address() -> SocketAddr {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    const FIRST: u16 = 20_000;
    const COUNT: u16 = 12_000;
    let mut random = Random::new(std::process::id().into());
    let start = random.below(COUNT.into()) as u16;
    let candidates = std::iter::repeat_with(|| NEXT.fetch_add(1, Ordering::Relaxed)).take(COUNT.into());
    let mut addresses = candidates
        .map(|next| SocketAddr::from((Ipv4Addr::LOCALHOST, FIRST + (start + next % COUNT) % COUNT)));
    addresses.find(|address| TcpListener::bind(address).is_ok()).expect("a free port")
}

impl Fleet {
    /// Creates the logins, starts all processes, and waits until they serve.
    pub async fn start(
        server: &PrivateServer,
        wiring: Wiring,
        roles: &[(Role, usize)],
        settings: &[(String, String)],
    ) -> Self {
        let (admin, url) = (client(&server.admin_url("postgres")).await, server.url("postgres"));
        let socket = match wiring {
            Wiring::Direct => None,
            Wiring::Tripwires => Some(server.socket()),
        };
        Self::start_on(&admin, &url, socket, roles, settings).await
    }

    /// Creates the logins with `admin`, starts all processes on the database of `url`, and waits until they serve. With
    /// `cut`, the socket of the server, each process connects through a proxy.
    pub async fn start_on(
        admin: &Client,
        url: &str,
        cut: Option<PathBuf>,
        roles: &[(Role, usize)],
        settings: &[(String, String)],
    ) -> Self {
        let (program, mut members) = (Program::find(), Vec::new());
        for (role, count) in roles {
            for number in 1..=*count {
                let name = format!("{}-{number}", role.name());
                let login = format!(r#"CREATE ROLE "{name}" LOGIN IN ROLE {}"#, role.rights());
                admin.batch_execute(&login).await.expect("a login");
                let wire = match &cut {
                    None => None,
                    Some(socket) => Some(Proxy::start(socket.clone(), Mode::Trip).await),
                };
                let url = url_with(url, Some(&name), wire.as_ref().map(|wire| wire.address));
                let mut settings = settings.to_vec();
                // For a role with its own login, the common URL is used only for LISTEN, which needs no rights.
                settings.push(("POSTHASTE_DATABASE_URL".to_owned(), url.clone()));
                settings.extend(role.variable().map(|variable| (variable, url)));
                let address = (*role == Role::Api).then(free_address);
                settings.extend(address.map(|at| ("POSTHASTE_LISTEN".to_owned(), at.to_string())));
                let process = program.serve(&name, role.name(), &settings);
                members.push(Member { role: *role, process, wire, address, settings, past: Vec::new() });
            }
        }
        let fleet = Self { program, members };
        fleet.all_serve().await;
        fleet
    }

    pub async fn all_serve(&self) {
        for member in &self.members {
            let (name, process) = (&member.process.name, &member.process);
            assert!(process.serves(START_WITHIN).await, "{name} does not serve: {:#?}", process.lines());
        }
    }

    /// Replaces a killed process with a new one. Does not wait until the new process serves.
    pub fn restart(&mut self, member: usize) {
        let member = &mut self.members[member];
        let process = self.program.serve(&member.process.name, member.role.name(), &member.settings);
        let former = std::mem::replace(&mut member.process, process);
        member.past.extend(former.lines());
    }

    /// Returns the indexes of the processes with this role.
    pub fn places(&self, role: Role) -> Vec<usize> {
        let is_meant = |place: &usize| self.members[*place].role == role;
        (0..self.members.len()).filter(is_meant).collect()
    }

    /// Returns the names of the processes that exited on their own.
    pub fn ended(&self) -> Vec<String> {
        let ended = self.members.iter().filter(|member| member.process.has_ended());
        ended.map(|member| member.process.name.clone()).collect()
    }

    /// Returns the warnings and errors of all processes, except those about settings at startup.
    pub fn complaints(&self) -> Vec<String> {
        self.lines_that(|line| line.is_complaint() && !line.text.contains("POSTHASTE_"))
    }

    /// Returns the log lines of all processes, each prefixed with the name of its process.
    pub fn lines(&self) -> Vec<String> {
        self.lines_that(|_| true)
    }

    fn lines_that(&self, is_meant: impl Fn(&LogLine) -> bool) -> Vec<String> {
        let mut lines = Vec::new();
        for member in &self.members {
            let all = member.past.iter().cloned().chain(member.process.lines());
            lines.extend(all.filter(&is_meant).map(|line| format!("{} {}", member.process.name, line.text)));
        }
        lines
    }
}
