//! Whether this process lives, whether it works, and what it has counted. Needs no key.

use crate::exposition;
use crate::problem::Problem;
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
use serde::Serialize;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;
use utoipa::ToSchema;

/// How long the store may take to answer.
const STORE_ANSWERS_WITHIN: Duration = Duration::from_secs(3);

type Probe = dyn Fn() -> Pin<Box<dyn Future<Output = StoreResult<()>> + Send>> + Send + Sync;

/// What tells whether this process works.
pub struct Readiness {
    answers: Box<Probe>,
    pub(crate) metrics: Metrics,
    heartbeats: Vec<Arc<Heartbeat>>,
    late_after: Duration,
    lane: Option<LaneState>,
}

impl Readiness {
    /// `answers` asks the store for something small. The services are those whose steps prove that this
    /// process works; one is late after `late_after`. The lane is what this process knows of it, if
    /// anything.
    pub fn new<F>(
        answers: impl Fn() -> F + Send + Sync + 'static,
        metrics: Metrics,
        heartbeats: Vec<Arc<Heartbeat>>,
        late_after: Duration,
        lane: Option<LaneState>,
    ) -> Self
    where
        F: Future<Output = StoreResult<()>> + Send + 'static,
    {
        Self { answers: Box::new(move || Box::pin(answers())), metrics, heartbeats, late_after, lane }
    }
}

impl fmt::Debug for Readiness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Health").field("pulses", &self.heartbeats).finish_non_exhaustive()
    }
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Healthy {
    status: &'static str,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Ready {
    ready: bool,
    services: Vec<Stepped>,
    /// The lane to the broker. A lane that is paused is everybody's, so it makes no process unready.
    #[serde(skip_serializing_if = "Option::is_none")]
    outbox: Option<LaneSeen>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LaneSeen {
    /// `open`, `throttled`, `one_at_a_time` (the broker does not answer) or `paused`.
    lane: &'static str,
    paused: bool,
    /// Why it is paused.
    reason: Option<String>,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    advice: Option<&'static str>,
}

impl From<Lane> for LaneSeen {
    fn from(lane: Lane) -> Self {
        let mode = lane.mode();
        let paused = mode == LaneMode::Paused;
        let advice = "mend the broker's credentials; a probe finds out by itself, or POST /v1/outbox/resume";
        Self { lane: mode.as_str(), paused, reason: lane.reason, advice: paused.then_some(advice) }
    }
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Stepped {
    name: &'static str,
    /// How long ago its last step went well.
    age_ms: Option<u64>,
    failing: bool,
}

#[utoipa::path(
    get,
    path = "/healthz",
    tag = "health",
    summary = "Whether this process lives",
    responses((status = 200, description = "It does", body = Healthy)),
)]
pub(crate) async fn healthz() -> Result<Response, Problem> {
    ok(&Healthy { status: "ok" })
}

#[utoipa::path(
    get,
    path = "/readyz",
    tag = "health",
    summary = "Whether the store answers and every service of this process has stepped lately",
    responses(
        (status = 200, description = "Ready", body = Ready),
        (
            status = 503,
            description = "Not ready; says why",
            body = Problem,
            content_type = "application/problem+json",
        ),
    ),
)]
pub(crate) async fn readyz(State(health): State<Arc<Readiness>>) -> Result<Response, Problem> {
    let away = |cause: Option<String>| Problem {
        cause,
        ..Problem::try_again("Not ready", "the store does not answer: see the log, and check the database")
    };
    match timeout(STORE_ANSWERS_WITHIN, (health.answers)()).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => return Err(away(Problem::from(&error).cause)),
        Err(_) => return Err(away(None)),
    }
    let late: Vec<String> = health
        .heartbeats
        .iter()
        .filter(|heartbeat| heartbeat.age().is_none_or(|age| age > health.late_after))
        .map(|heartbeat| match heartbeat.age() {
            None => format!("{} (has not stepped yet)", heartbeat.name),
            Some(age) => format!("{} (last step {} s ago)", heartbeat.name, age.as_secs()),
        })
        .collect();
    if !late.is_empty() {
        let detail = format!("these services are late, see the log: {}", late.join(", "));
        return Err(Problem::try_again("Not ready", detail));
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
    summary = "What this process has counted, for Prometheus",
    responses(
        (
            status = 200,
            description = "OpenMetrics for those who accept it, else the text format of Prometheus",
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
    let encoded = prometheus_client::encoding::text::encode(&mut text, &health.metrics.registry);
    encoded.map_err(|_| Problem::new(500, "Something broke", "the metrics could not be written"))?;
    let (media, text) = match exposition::asks_for_open_metrics(&headers) {
        true => (exposition::OPEN_METRICS, text),
        false => (exposition::TEXT, exposition::as_text(&text)),
    };
    Ok(([(CONTENT_TYPE, HeaderValue::from_static(media))], text).into_response())
}
