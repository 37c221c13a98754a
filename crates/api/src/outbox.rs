//! The lane to the broker, for operators: how it stands, and that it may go on.

use crate::problem::Problem;
use crate::query::ok;
use crate::state::{Api, ApiResult, ApiState};
use crate::time::Utc;
use axum::Extension;
use axum::extract::State;
use posthaste_core::audit::Actor;
use posthaste_core::lane::LaneMode;
use posthaste_core::ports::{DeadLetterStore as _, LaneStanding, ReaderStore as _, Stage, Stores};
use serde::Serialize;
use utoipa::ToSchema;

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = OutboxLane, example = json!({
    "state": "paused", "paused_at": "2026-01-31T12:00:00Z",
    "reason": "the broker refused our credentials 5 times in a row", "rate": 1000.0, "throttled": false,
    "sending": 0, "unauthorized_in_row": 5, "faults_in_row": 0, "probe_until": "2026-01-31T12:00:30Z",
    "updated_at": "2026-01-31T12:00:00Z"
}))]
pub(crate) struct LaneView {
    /// open; throttled while the broker asks for fewer; one_at_a_time while it is away; paused while it refuses our
    /// credentials. The last that applies.
    pub(crate) state: &'static str,
    #[serde(skip)]
    pub(crate) mode: LaneMode,
    pub(crate) paused_at: Option<Utc>,
    /// Why it is paused.
    pub(crate) reason: Option<String>,
    /// Sends per second that are allowed.
    pub(crate) rate: f64,
    /// Whether that is less than the lane would send by itself.
    pub(crate) throttled: bool,
    /// Orders that are being sent, by all processes.
    pub(crate) sending: u32,
    pub(crate) unauthorized_in_row: u32,
    pub(crate) faults_in_row: u32,
    /// Until then no further order is tried; only while the lane is not open.
    pub(crate) probe_until: Option<Utc>,
    /// Null on the embedded store as long as nothing was sent.
    pub(crate) updated_at: Option<Utc>,
}

impl LaneView {
    fn of(LaneStanding { lane, sending }: LaneStanding) -> Self {
        let mode = lane.mode();
        Self {
            state: mode.as_str(),
            mode,
            paused_at: lane.paused_at.map(Utc),
            rate: lane.rate_in_force(),
            throttled: lane.is_throttled(),
            sending,
            unauthorized_in_row: lane.unauthorized_in_row,
            faults_in_row: lane.faults_in_row,
            probe_until: lane.probe_until.filter(|_| mode.is_holding()).map(Utc),
            // In the embedded store the row is there from the first migration on, with the time zero.
            updated_at: (lane.updated_at.micros() > 0).then_some(Utc(lane.updated_at)),
            reason: lane.reason,
        }
    }
}

#[utoipa::path(
    get,
    path = "/v1/outbox",
    tag = "orders",
    operation_id = "lane",
    summary = "How the lane to the broker stands (role viewer)",
    responses((status = 200, description = "The lane", body = LaneView)),
)]
pub(crate) async fn show<S: Stores>(State(api): Api<S>) -> ApiResult {
    ok(&read(&api).await?)
}

pub(crate) async fn read<S: Stores>(api: &ApiState<S>) -> Result<LaneView, Problem> {
    Ok(LaneView::of(api.reader.lane().await?))
}

#[utoipa::path(
    post,
    path = "/v1/outbox/resume",
    tag = "orders",
    summary = "Let a lane that is paused or holds back go on (role operator)",
    responses((status = 200, description = "The lane as it is now", body = LaneView)),
)]
pub(crate) async fn resume<S: Stores>(State(api): Api<S>, Extension(by): Extension<Actor>) -> ApiResult {
    ok(&go_on(&api, by).await?)
}

/// Opens the lane, and says how it stands then.
pub(crate) async fn go_on<S: Stores>(api: &ApiState<S>, by: Actor) -> Result<LaneView, Problem> {
    let lane = api.dead_letters.resume_lane(by, api.clock.now()).await?;
    api.wake_ups.wake(Stage::Outbox);
    Ok(LaneView::of(LaneStanding { lane, sending: api.reader.lane().await?.sending }))
}
