//! Returns the state of the lane to the broker, and resumes the lane.

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

/// The state of the lane to the broker, shared by all processes.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = OutboxLane, example = json!({
    "state": "paused", "paused_at": "2026-01-31T12:00:00Z",
    "reason": "the broker refused the credentials 5 times in a row", "rate": 1000.0, "throttled": false,
    "sending": 0, "unauthorized_in_row": 5, "faults_in_row": 0, "probe_until": "2026-01-31T12:00:30Z",
    "updated_at": "2026-01-31T12:00:00Z"
}))]
pub(crate) struct LaneView {
    /// `open`; `throttled` while the broker responds with 429; `one_at_a_time` while the broker is unavailable;
    /// `paused` while the broker rejects the credentials. If several apply, the last of them.
    pub(crate) state: &'static str,
    #[serde(skip)]
    pub(crate) mode: LaneMode,
    /// The time at which the lane was paused; null if it is not paused.
    pub(crate) paused_at: Option<Utc>,
    /// The reason for the pause; null if the lane is not paused.
    pub(crate) reason: Option<String>,
    /// The current limit on orders sent per second.
    pub(crate) rate: f64,
    /// Whether the rate is below its maximum.
    pub(crate) throttled: bool,
    /// The number of orders in flight in all processes.
    pub(crate) sending: u32,
    /// The number of consecutive 401 and 403 responses.
    pub(crate) unauthorized_in_row: u32,
    /// The number of consecutive network errors and 5xx responses.
    pub(crate) faults_in_row: u32,
    /// The time at which the next probe may be sent; null while the lane is open.
    pub(crate) probe_until: Option<Utc>,
    /// The time of the last change to the lane; null on SQLite if no order was ever sent.
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
            // On SQLite, the first migration inserts the row with a time of zero.
            updated_at: (lane.updated_at.micros() > 0).then_some(Utc(lane.updated_at)),
            reason: lane.reason,
        }
    }
}

#[utoipa::path(
    get,
    path = "/v1/outbox",
    tag = "orders",
    operation_id = "get_outbox",
    summary = "Get the state of the lane",
    description = "Returns the state of the lane to the broker.",
    security(("api_key" = ["viewer"])),
    responses((status = 200, description = "The lane", body = LaneView)),
)]
pub(crate) async fn show<S: Stores>(State(api): Api<S>) -> ApiResult {
    ok(&read(&api).await?)
}

/// Returns the state of the lane.
pub(crate) async fn read<S: Stores>(api: &ApiState<S>) -> Result<LaneView, Problem> {
    Ok(LaneView::of(api.reader.lane().await?))
}

#[utoipa::path(
    post,
    path = "/v1/outbox/resume",
    tag = "orders",
    operation_id = "resume_outbox",
    summary = "Resume the lane",
    description = "Opens a lane that is paused or sends one order at a time, and resets its counts of failures.",
    security(("api_key" = ["operator"])),
    responses((status = 200, description = "The lane after the change", body = LaneView)),
)]
pub(crate) async fn resume<S: Stores>(State(api): Api<S>, Extension(by): Extension<Actor>) -> ApiResult {
    ok(&go_on(&api, by).await?)
}

/// Resumes the lane and returns its new state.
pub(crate) async fn go_on<S: Stores>(api: &ApiState<S>, by: Actor) -> Result<LaneView, Problem> {
    let lane = api.dead_letters.resume_lane(by, api.clock.now()).await?;
    api.wake_ups.wake(Stage::Outbox);
    Ok(LaneView::of(LaneStanding { lane, sending: api.reader.lane().await?.sending }))
}
