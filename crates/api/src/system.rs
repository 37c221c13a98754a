//! Who runs what, on which database.

use crate::problem::Problem;
use crate::query::ok;
use crate::state::{Api, ApiResult, ApiState};
use crate::time::Utc;
use axum::extract::State;
use posthaste_core::ports::{InsightStore as _, ProcessSeen, Stores};
use posthaste_services::telemetry;
use serde::Serialize;
use std::time::Duration;
use utoipa::ToSchema;

/// Processes that were seen within this time are told of.
const SEEN_WITHIN: Duration = Duration::from_secs(3_600);

#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({
    "version": "0.1.0", "server_time": "2026-01-31T12:00:00.000000Z", "schema_version": 2,
    "engine": {"name": "postgresql", "version": "15.4", "bytes": 104_857_600},
    "processes": [{
        "process_id": "host-1", "role": "router", "version": "0.1.0", "started_at": "2026-01-31T11:00:00.000000Z",
        "seen_at": "2026-01-31T11:59:58.000000Z", "age_s": 2.0, "running": true
    }]
}))]
pub(crate) struct System {
    /// Of the process that answers.
    pub(crate) version: &'static str,
    /// By the clock that decides.
    pub(crate) server_time: Utc,
    pub(crate) schema_version: u32,
    pub(crate) engine: EngineView,
    /// Every role of every process that was seen within the last hour.
    pub(crate) processes: Vec<ProcessView>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct EngineView {
    /// sqlite or postgresql.
    pub(crate) name: &'static str,
    pub(crate) version: String,
    pub(crate) bytes: Option<u64>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ProcessView {
    pub(crate) process_id: String,
    pub(crate) role: String,
    pub(crate) version: String,
    pub(crate) started_at: Utc,
    pub(crate) seen_at: Utc,
    /// How long ago it was seen.
    pub(crate) age_s: f64,
    /// It was seen within the last half minute.
    pub(crate) running: bool,
}

#[utoipa::path(
    get,
    path = "/v1/system",
    tag = "operations",
    operation_id = "system",
    summary = "Processes, roles, the database and its schema (role viewer)",
    responses((status = 200, description = "The system", body = System)),
)]
pub(crate) async fn show<S: Stores>(State(api): Api<S>) -> ApiResult {
    ok(&read(&api).await?)
}

pub(crate) async fn read<S: Stores>(api: &ApiState<S>) -> Result<System, Problem> {
    let now = api.clock.now();
    let engine = api.insight.engine().await?;
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
        version: api.operations.version,
        server_time: Utc(now),
        schema_version: engine.schema_version,
        engine: EngineView { name: engine.name, version: engine.version, bytes: engine.bytes },
        processes: processes.into_iter().map(view).collect(),
    })
}
