//! The types of the parsed settings.

use super::secret::Secret;
use crate::database::{DatabaseUrl, ServerUrl};
use http::{HeaderName, HeaderValue};
use ipnet::IpNet;
use posthaste_core::attribute_rules::AttributeRules;
use posthaste_core::retry::{OrderRetryPolicy, RetryPolicy};
use posthaste_core::verification::VerificationMethods;
use posthaste_services::egress::EgressPolicy;
use posthaste_services::seal::SecretSealer;
use posthaste_services::sender::EgressProxy;
use posthaste_services::webhook_request::InstallationNames;
use posthaste_store::RolePrefix;
use posthaste_store::grants::DbRole;
use posthaste_store::postgres::PasswordSource;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
use tracing_subscriber::filter::Targets;

#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) database: DatabaseSettings,
    pub(crate) listen: SocketAddr,
    /// An additional address that serves only health probes and metrics.
    pub(crate) metrics_listen: Option<SocketAddr>,
    pub(crate) trusted_proxies: Vec<IpNet>,
    /// The process roles to run. Never empty.
    pub(crate) roles: BTreeSet<ProcessRole>,
    pub(crate) root_key: Option<Secret>,
    /// The cipher of signing secrets, with the configured keys.
    pub(crate) sealer: SecretSealer,
    pub(crate) retry: RetryPolicy,
    pub(crate) lease: LeaseSettings,
    pub(crate) poll: Duration,
    pub(crate) request_timeout: Duration,
    pub(crate) worker: WorkerSettings,
    /// The names by which receivers know this installation.
    pub(crate) names: InstallationNames,
    pub(crate) limits: LimitSettings,
    /// The rules that fill attributes of new events from their payloads.
    pub(crate) attribute_rules: AttributeRules,
    pub(crate) egress: EgressSettings,
    pub(crate) verification_methods: VerificationMethods,
    pub(crate) shutdown_grace: Duration,
    pub(crate) log: LogSettings,
    pub(crate) broker: BrokerSettings,
    pub(crate) outbox: OutboxSettings,
    /// The warnings about files with secrets that every user of the machine can read.
    pub(crate) exposed_files: Vec<String>,
}

/// A set of services that a process may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum ProcessRole {
    Api,
    Router,
    Orchestrator,
    Worker,
    Cleaner,
    Outbox,
}

impl ProcessRole {
    pub(crate) const ALL: [Self; 6] =
        [Self::Api, Self::Router, Self::Orchestrator, Self::Worker, Self::Cleaner, Self::Outbox];

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Api => "api",
            Self::Router => "router",
            Self::Orchestrator => "orchestrator",
            Self::Worker => "worker",
            Self::Cleaner => "cleaner",
            Self::Outbox => "outbox",
        }
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.as_str() == text)
    }
}

#[derive(Debug, Clone)]
pub(crate) struct DatabaseSettings {
    pub(crate) url: DatabaseUrl,
    /// A URL that bypasses the connection pooler, for LISTEN and migrations.
    pub(crate) direct: Option<ServerUrl>,
    /// The prefix of the names of the database roles on PostgreSQL.
    pub(crate) role_prefix: RolePrefix,
    /// The logins of individual database roles. Empty unless the database is PostgreSQL.
    pub(crate) logins: Vec<(DbRole, ServerUrl)>,
    /// Where the passwords of all these logins come from.
    pub(crate) password: PasswordSource,
}

impl DatabaseSettings {
    /// Returns the URL for migrations and LISTEN.
    pub(crate) fn direct_url(&self) -> DatabaseUrl {
        self.direct.clone().map_or_else(|| self.url.clone(), DatabaseUrl::Postgres)
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct LeaseSettings {
    pub(crate) length: Duration,
    pub(crate) resets_max: u32,
    pub(crate) cleaner_interval: Duration,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct WorkerSettings {
    pub(crate) concurrency: u32,
    pub(crate) subscription_in_flight: u32,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct LimitSettings {
    pub(crate) payload_bytes_max: usize,
    pub(crate) batch_events_max: u32,
}

#[derive(Debug, Clone)]
pub(crate) struct EgressSettings {
    pub(crate) policy: EgressPolicy,
    /// The proxy for all outgoing requests.
    pub(crate) proxy: Option<EgressProxy>,
    pub(crate) ca_file: Option<PathBuf>,
}

#[derive(Debug, Clone)]
pub(crate) struct LogSettings {
    pub(crate) filter: Targets,
    pub(crate) format: LogFormat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogFormat {
    Human,
    Json,
}

#[derive(Debug, Clone)]
pub(crate) struct BrokerSettings {
    /// The URL of the broker. Orders are refused if it is `None`.
    pub(crate) url: Option<String>,
    /// The headers for requests to the broker. Their values are marked as sensitive, which hides them in `Debug`
    /// output.
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    pub(crate) processed_marker: String,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct OutboxSettings {
    pub(crate) batch_size: u32,
    pub(crate) parallelism: u32,
    pub(crate) retry: OrderRetryPolicy,
    pub(crate) idle_sleep: Duration,
    pub(crate) stuck_threshold: Duration,
    pub(crate) ledger_ttl: Duration,
    pub(crate) lag_sla: Duration,
}
