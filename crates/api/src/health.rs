//! Reports the liveness, readiness and metrics of this process. The routes require no key.

use crate::exposition;
use crate::problem::{Problem, ProblemKind};
use crate::process_metrics::{BuildInfo, process_registry};
use crate::query::ok;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue};
use posthaste_core::lane::{Lane, LaneMode};
use posthaste_core::ports::StoreResult;
use posthaste_services::metrics::Metrics;
use posthaste_services::outbox::LaneState;
use posthaste_services::runner::Heartbeat;
use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::registry::Registry;
use serde::Serialize;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;
use utoipa::ToSchema;

/// The timeout of the query that checks the store.
const STORE_CHECK_WITHIN: Duration = Duration::from_secs(3);

type Probe = dyn Fn() -> Pin<Box<dyn Future<Output = StoreResult<()>> + Send>> + Send + Sync;

/// The checks behind `/readyz`, and the metrics.
pub struct Readiness {
    check_store: Box<Probe>,
    pub(crate) metrics: Metrics,
    process_metrics: Registry,
    heartbeats: Vec<Arc<Heartbeat>>,
    late_after: Duration,
    lane: Option<LaneState>,
}

impl Readiness {
    /// Creates the checks. `check_store` runs a cheap query. Every service must have completed a step within
    /// `late_after`. The state of the lane is reported if `lane` is set.
    pub fn new<F>(
        check_store: impl Fn() -> F + Send + Sync + 'static,
        metrics: Metrics,
        build: BuildInfo,
        heartbeats: Vec<Arc<Heartbeat>>,
        late_after: Duration,
        lane: Option<LaneState>,
    ) -> Self
    where
        F: Future<Output = StoreResult<()>> + Send + 'static,
    {
        let process_metrics = process_registry(build);
        let check_store: Box<Probe> = Box::new(move || Box::pin(check_store()));
        Self { check_store, metrics, process_metrics, heartbeats, late_after, lane }
    }
}

impl fmt::Debug for Readiness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Readiness").field("heartbeats", &self.heartbeats).finish_non_exhaustive()
    }
}

/// The response of a process that is running.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Healthy {
    /// Always `ok`.
    status: &'static str,
}

/// The response of a process that is ready.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Ready {
    /// Always true. A process that is not ready returns 503.
    ready: bool,
    /// The services of this process.
    services: Vec<Stepped>,
    /// The state of the lane to the broker. All processes share the lane, so a paused lane does not affect readiness.
    #[serde(skip_serializing_if = "Option::is_none")]
    outbox: Option<LaneSeen>,
}

/// The state of the lane to the broker.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LaneSeen {
    /// `open`; `throttled` while the broker responds with 429; `one_at_a_time` while the broker is unavailable;
    /// `paused` while the broker rejects the credentials.
    lane: &'static str,
    /// Whether the lane is paused.
    paused: bool,
    /// The reason for the pause; null if the lane is not paused.
    reason: Option<String>,
    /// How to resolve the problem. Present only while the lane is paused.
    #[serde(skip_serializing_if = "Option::is_none")]
    advice: Option<&'static str>,
}

impl From<Lane> for LaneSeen {
    fn from(lane: Lane) -> Self {
        let mode = lane.mode();
        let paused = mode == LaneMode::Paused;
        let advice =
            "fix the broker's credentials; the next probe resumes the lane, or POST /v1/outbox/resume";
        Self { lane: mode.as_str(), paused, reason: lane.reason, advice: paused.then_some(advice) }
    }
}

/// A service of this process.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Stepped {
    /// The name of the service.
    name: &'static str,
    /// The time since the last successful step, in milliseconds; null before the first one.
    age_ms: Option<u64>,
    /// Whether the last step failed.
    failing: bool,
}

#[utoipa::path(
    get,
    path = "/healthz",
    tag = "health",
    operation_id = "get_healthz",
    summary = "Check liveness",
    description = "Returns 200 while the process can handle requests. It does not check the store.",
    security(()),
    responses((status = 200, description = "The process is running", body = Healthy)),
)]
pub(crate) async fn healthz() -> Result<Response, Problem> {
    ok(&Healthy { status: "ok" })
}

#[utoipa::path(
    get,
    path = "/readyz",
    tag = "health",
    operation_id = "get_readyz",
    summary = "Check readiness",
    description = "Returns 200 if the store responds and every service of this process has recently completed a step.",
    security(()),
    responses(
        (status = 200, description = "The process is ready", body = Ready),
        (
            status = 503,
            description = "The process is not ready; the detail has the reason",
            body = Problem,
            content_type = "application/problem+json",
        ),
    ),
)]
pub(crate) async fn readyz(State(health): State<Arc<Readiness>>) -> Result<Response, Problem> {
    let unavailable = |cause: Option<Box<str>>| {
        let detail = "the store does not respond: see the log, and check the database";
        Problem { cause, ..Problem::try_again(ProblemKind::NotReady, detail) }
    };
    match timeout(STORE_CHECK_WITHIN, (health.check_store)()).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => return Err(unavailable(Problem::from(&error).cause)),
        Err(_) => return Err(unavailable(None)),
    }
    let late: Vec<String> = health
        .heartbeats
        .iter()
        .filter(|heartbeat| heartbeat.age().is_none_or(|age| age > health.late_after))
        .map(|heartbeat| match heartbeat.age() {
            None => format!("{} (no step completed yet)", heartbeat.name),
            Some(age) => format!("{} (last step {} s ago)", heartbeat.name, age.as_secs()),
        })
        .collect();
    if !late.is_empty() {
        let detail = format!("services have not completed a step in time, see the log: {}", late.join(", "));
        return Err(Problem::try_again(ProblemKind::NotReady, detail));
    }
    let stepped = |heartbeat: &Arc<Heartbeat>| Stepped {
        name: heartbeat.name,
        age_ms: heartbeat.age().map(|age| u64::try_from(age.as_millis()).unwrap_or(u64::MAX)),
        failing: heartbeat.is_failing(),
    };
    let outbox = health.lane.as_ref().and_then(LaneState::seen).map(LaneSeen::from);
    ok(&Ready { ready: true, services: health.heartbeats.iter().map(stepped).collect(), outbox })
}

#[utoipa::path(
    get,
    path = "/metrics",
    tag = "health",
    operation_id = "get_metrics",
    summary = "Get metrics",
    description = "Returns the metrics of this process for Prometheus.",
    security(()),
    responses(
        (
            status = 200,
            description = "OpenMetrics if the client accepts it, otherwise the Prometheus text format",
            content(
                (String = "text/plain"),
                (String = "application/openmetrics-text"),
            ),
        ),
    ),
)]
pub(crate) async fn metrics(
    State(health): State<Arc<Readiness>>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let mut text = String::new();
    let encoded = encode_registry(&mut text, &health.metrics.registry)
        .and_then(|()| encode_registry(&mut text, &health.process_metrics))
        .and_then(|()| encode_eof(&mut text));
    encoded.map_err(|error| Problem::broken("the metrics could not be serialized", &error))?;
    let (media, text) = match exposition::asks_for_open_metrics(&headers) {
        true => (exposition::OPEN_METRICS, text),
        false => (exposition::TEXT, exposition::as_text(&text)),
    };
    Ok(([(CONTENT_TYPE, HeaderValue::from_static(media))], text).into_response())
}
