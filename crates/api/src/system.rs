//! Returns the running processes with their roles, and the database.

use crate::problem::Problem;
use crate::query::ok;
use crate::state::{Api, ApiResult, ApiState};
use crate::time::Utc;
use axum::extract::State;
use posthaste_core::ports::{ConnectedServer, InsightStore as _, ProcessSeen, ServerFacts, Stores, Verified};
use posthaste_services::telemetry;
use serde::Serialize;
use std::time::Duration;
use utoipa::ToSchema;

/// The age of the last report after which a process is omitted.
const SEEN_WITHIN: Duration = Duration::from_secs(3_600);

/// The processes and the database.
#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({
    "version": "0.1.0", "server_time": "2026-01-31T12:00:00.000000Z", "schema_version": 2,
    "engine": {"name": "postgresql", "version": "15.4", "bytes": 104_857_600},
    "database": {
        "host": "db1.example.com", "port": 5432, "standby": false,
        "tls": {"in_use": true, "version": "TLSv1.3", "verified": "host", "expires": "2026-06-30T12:00:00.000000Z"}
    },
    "verification_methods": ["challenge", "cloudevents"],
    "processes": [{
        "process_id": "host-1", "role": "router", "version": "0.1.0", "started_at": "2026-01-31T11:00:00.000000Z",
        "seen_at": "2026-01-31T11:59:58.000000Z", "age_s": 2.0, "running": true
    }]
}))]
pub(crate) struct System {
    /// The version of the process that handled this request.
    pub(crate) version: &'static str,
    /// The time of the clock that schedules deliveries: the database clock on PostgreSQL, the machine clock on SQLite.
    pub(crate) server_time: Utc,
    /// The version of the database schema.
    pub(crate) schema_version: u32,
    /// The database.
    pub(crate) engine: EngineView,
    /// The database server that this process is connected to; null with SQLite, which has no server.
    pub(crate) database: Option<DatabaseView>,
    /// The methods by which callback URLs may be verified (`POSTHASTE_VERIFICATION_METHODS`).
    pub(crate) verification_methods: Vec<&'static str>,
    /// One entry per role of each process that reported within the last hour.
    pub(crate) processes: Vec<ProcessView>,
}

/// The database.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct EngineView {
    /// The name of the engine.
    pub(crate) name: &'static str,
    /// The version of the engine.
    pub(crate) version: String,
    /// The size of the database, in bytes; null if it is not known.
    pub(crate) bytes: Option<u64>,
}

/// The database server that the process is connected to.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DatabaseView {
    /// The host as written in the URL, or the folder of a Unix socket.
    pub(crate) host: String,
    /// The port of the server.
    pub(crate) port: u16,
    /// Whether the server is a standby, which cannot write.
    pub(crate) standby: bool,
    /// The encryption of the connection.
    pub(crate) tls: TlsView,
}

/// The encryption of the connection to the database.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TlsView {
    /// Whether the connection is encrypted.
    pub(crate) in_use: bool,
    /// The protocol version, such as `TLSv1.3`; null without TLS.
    pub(crate) version: Option<&'static str>,
    /// What was verified: `none`; `authority`, if a trusted authority issued the certificate, perhaps for another host;
    /// or `host`, if it was issued for this host.
    pub(crate) verified: &'static str,
    /// The time at which the server's certificate expires; null without TLS.
    pub(crate) expires: Option<Utc>,
}

impl From<ServerFacts> for DatabaseView {
    fn from(server: ServerFacts) -> Self {
        let ConnectedServer { host, port, tls, .. } = server.connected;
        let tls = TlsView {
            in_use: tls.is_some(),
            version: tls.as_ref().map(|tls| tls.version),
            verified: tls.as_ref().map_or(Verified::No, |tls| tls.verified).as_str(),
            expires: tls.and_then(|tls| tls.expires).map(Utc),
        };
        Self { host, port, standby: server.is_standby, tls }
    }
}

/// A process role that a process runs.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ProcessView {
    /// The id of the process.
    pub(crate) process_id: String,
    /// The name of the process role.
    pub(crate) role: String,
    /// The version of the process.
    pub(crate) version: String,
    /// The time at which the process started.
    pub(crate) started_at: Utc,
    /// The time of the last report.
    pub(crate) seen_at: Utc,
    /// The time since the last report, in seconds.
    pub(crate) age_s: f64,
    /// Whether the process reported within the last 30 seconds.
    pub(crate) running: bool,
}

#[utoipa::path(
    get,
    path = "/v1/system",
    tag = "operations",
    operation_id = "get_system",
    summary = "Get processes and database",
    description = "Returns the processes with their roles and versions, and the database with its schema version.",
    security(("api_key" = ["viewer"])),
    responses((status = 200, description = "The system", body = System)),
)]
pub(crate) async fn show<S: Stores>(State(api): Api<S>) -> ApiResult {
    ok(&read(&api).await?)
}

/// Returns the processes and the database.
pub(crate) async fn read<S: Stores>(api: &ApiState<S>) -> Result<System, Problem> {
    let now = api.clock.now();
    let (engine, server) = (api.insight.engine().await?, api.insight.server().await?);
    let processes = api.insight.processes(now.before(SEEN_WITHIN)).await?;
    let view = |seen: ProcessSeen| {
        let age = now.since(seen.seen_at);
        ProcessView {
            process_id: seen.process_id.as_str().to_owned(),
            role: seen.role,
            version: seen.version,
            started_at: Utc(seen.started_at),
            seen_at: Utc(seen.seen_at),
            age_s: age.as_secs_f64(),
            running: age <= telemetry::GONE_AFTER,
        }
    };
    Ok(System {
        version: api.operations.build.version,
        server_time: Utc(now),
        schema_version: engine.schema_version,
        engine: EngineView { name: engine.name, version: engine.version, bytes: engine.bytes },
        database: server.map(DatabaseView::from),
        verification_methods: api.verification.methods.as_slice().iter().map(|one| one.as_str()).collect(),
        processes: processes.into_iter().map(view).collect(),
    })
}
