//! Returns recent activity and the backlog. Reads sums that every process updates (`rollups`), never the history. For
//! one tenant, see [`tenant`].

mod tenant;

use crate::auth::Scope;
use crate::problem::Problem;
use crate::query::{Query, ok};
use crate::state::{Api, ApiResult, ApiState};
use crate::time::Utc;
use crate::values::{Text, described, string_schema};
use axum::Extension;
use axum::extract::State;
use http::Uri;
use posthaste_core::Timestamp;
use posthaste_core::lane::{Lane, LaneMode};
use posthaste_core::latency::{self, BUCKETS, percentile};
use posthaste_core::ports::{
    InsightStore as _, ReaderStore as _, Rollup, RollupWidth, Stage, Stores, Survey,
};
use posthaste_core::tenant::Tenant;
use posthaste_services::metrics::CHARTED;
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Duration;
use tenant::TenantStats;
use utoipa::openapi::path::{Parameter, ParameterIn};
use utoipa::openapi::schema::Object;
use utoipa::{IntoParams, ToSchema};

/// The windows, each with the width and the number of its intervals.
const WINDOWS: [(&str, RollupWidth, u32); 2] =
    [("1h", RollupWidth::TenSeconds, 360), ("24h", RollupWidth::FiveMinutes, 288)];

/// Recent activity and the backlog.
#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({
    "window": "1h", "from": "2026-01-31T11:00:10.000000Z", "interval_s": 10,
    "series": {"events_accepted": [0, 12, 7]}, "totals": {"events_accepted": 19},
    "success_ratio": 0.99, "attempt_success_ratio": 0.95,
    "latency": {"p50_ms": 7.6, "p90_ms": 38.4, "p99_ms": 985.3}, "dead_letters": 1,
    "waiting": {
        "sampled_at": "2026-01-31T12:00:00.000000Z", "held": 0, "stuck_jobs": 0, "stuck_orders": 0,
        "stages": [{"stage": "routing", "depth": 3, "oldest_age_s": 0.2}]
    },
    "outbox": {"paused": false, "paused_at": null, "reason": null, "rate": 1000.0}
}))]
pub(crate) struct Stats {
    /// The name of the window.
    pub(crate) window: &'static str,
    /// The start of the first interval.
    pub(crate) from: Utc,
    /// The length of an interval, in seconds.
    pub(crate) interval_s: u32,
    /// The value of each counter per interval, oldest first. The last interval is incomplete.
    pub(crate) series: BTreeMap<String, Vec<i64>>,
    /// The value of each counter over the whole window.
    pub(crate) totals: BTreeMap<String, i64>,
    /// The ratio of completed deliveries to all finished deliveries; null if none finished.
    pub(crate) success_ratio: Option<f64>,
    /// The ratio of successful attempts to all attempts; null if there were none.
    pub(crate) attempt_success_ratio: Option<f64>,
    /// The time from the acceptance of an event to its delivery.
    pub(crate) latency: Latency,
    /// The number of dead-lettered deliveries.
    pub(crate) dead_letters: i64,
    /// The backlog; null until the first measurement.
    pub(crate) waiting: Option<WaitingView>,
    /// The state of the lane to the broker.
    pub(crate) outbox: LaneView,
}

/// Percentiles of the latency; null if nothing was delivered. Each is an upper bound, at most 50 % above the exact
/// value.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Latency {
    /// The median, in milliseconds.
    pub(crate) p50_ms: Option<f64>,
    /// The 90th percentile, in milliseconds.
    pub(crate) p90_ms: Option<f64>,
    /// The 99th percentile, in milliseconds.
    pub(crate) p99_ms: Option<f64>,
}

/// The backlog of each stage, and work that is held or stuck.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct WaitingView {
    /// The time of the measurement.
    pub(crate) sampled_at: Utc,
    /// The queue of each stage.
    pub(crate) stages: Vec<StageView>,
    /// The number of unfinished deliveries of paused, unverified or deleted subscriptions; at most 100,000 are counted.
    pub(crate) held: u32,
    /// The number of attempts whose lease expired long ago.
    pub(crate) stuck_jobs: u32,
    /// The number of orders that have been `sending` for longer than the threshold.
    pub(crate) stuck_orders: u32,
}

/// The queue of one stage.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct StageView {
    /// The name of the stage.
    pub(crate) stage: &'static str,
    /// The number of entries; at most 100,000 are counted.
    pub(crate) depth: u32,
    /// The age of the oldest entry, in seconds.
    pub(crate) oldest_age_s: f64,
}

/// The state of the lane to the broker.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LaneView {
    #[serde(skip)]
    pub(crate) mode: LaneMode,
    /// Whether the lane is paused.
    pub(crate) paused: bool,
    /// The time at which the lane was paused; null if it is not paused.
    pub(crate) paused_at: Option<Utc>,
    /// The reason for the pause; null if the lane is not paused.
    pub(crate) reason: Option<String>,
    /// The current limit on orders sent per second.
    pub(crate) rate: f64,
}

/// The name of a window.
#[derive(Debug)]
struct Window(String);

impl Text for Window {
    fn text_schema() -> Object {
        let names = WINDOWS.map(|(name, ..)| name);
        string_schema().enum_values(Some(names)).default(Some("1h".into())).build()
    }

    fn read_text(name: &str, text: String) -> Result<Self, String> {
        let is_known = WINDOWS.iter().any(|(known, ..)| *known == text);
        if is_known { Ok(Self(text)) } else { Err(format!("{name} must be 1h or 24h")) }
    }
}

/// The query parameters.
#[derive(Debug)]
struct Parameters;

impl IntoParams for Parameters {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        vec![
            described("window", "How far back the numbers go.", Window::text_schema()),
            described("tenant", "Returns only what is counted for this tenant.", Tenant::text_schema()),
        ]
    }
}

#[utoipa::path(
    get,
    path = "/v1/stats",
    tag = "operations",
    operation_id = "get_stats",
    summary = "Get statistics",
    description = "Returns the activity of the last hour or day, latency percentiles and the backlog. With `tenant`, \
                   or with a key that is bound to a tenant, returns only what is counted per tenant: the backlog and \
                   the attempts of its subscriptions that are not deleted, up to 1,000 of them.",
    security(("api_key" = ["viewer"])),
    params(Parameters),
    responses((status = 200, description = "The statistics", body = StatsOrTenantStats)),
)]
pub(crate) async fn show<S: Stores>(
    State(api): Api<S>,
    Extension(scope): Extension<Scope>,
    uri: Uri,
) -> ApiResult {
    let mut query = Query::of(&uri)?;
    let (window, tenant) = (query.read::<Window>("window"), query.read::<Tenant>("tenant"));
    query.finish()?;
    let window = window.as_ref().map_or("1h", |window| &window.0);
    // There are no statistics of another tenant.
    let tenant = scope.restrict(tenant).ok_or_else(|| Problem::not_found("tenant"))?;
    ok(&match tenant {
        Some(tenant) => StatsOrTenantStats::Tenant(tenant::read(&api, tenant, window).await?),
        None => StatsOrTenantStats::All(Box::new(read(&api, window).await?)),
    })
}

/// The statistics of the installation, or of one tenant.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub(crate) enum StatsOrTenantStats {
    All(Box<Stats>),
    Tenant(TenantStats),
}

/// Returns the statistics for a window.
pub(crate) async fn read<S: Stores>(api: &ApiState<S>, asked: &str) -> Result<Stats, Problem> {
    let window = WINDOWS.into_iter().find(|(name, _, _)| *name == asked);
    let (name, width, intervals) =
        window.ok_or_else(|| Problem::invalid_parameter("window", "window must be 1h or 24h"))?;
    let width_s = Duration::from_secs(width.seconds().into());
    let from = width.start_of(api.clock.now()).before(width_s * (intervals - 1));
    let rollups = api.insight.rollups(width, from, known_counters()).await?;
    let lane = api.reader.lane().await?.lane;
    let waiting = api.operations.last_survey.get().map(|(survey, at)| waiting(&survey, at));
    Ok(Sums::of(&rollups, from, width, intervals).stats(name, waiting, lane))
}

/// Returns the names of the counters that processes write. Other names are not read, because any database login may add
/// them.
fn known_counters() -> Vec<String> {
    CHARTED.into_iter().map(str::to_owned).chain((0..BUCKETS).map(latency::counter)).collect()
}

/// The sums of the counters in one window.
struct Sums {
    from: Timestamp,
    width: RollupWidth,
    series: BTreeMap<String, Vec<i64>>,
    latencies: [u64; BUCKETS],
}

impl Sums {
    fn of(rollups: &[Rollup], from: Timestamp, width: RollupWidth, intervals: u32) -> Self {
        let empty = vec![0; intervals as usize];
        let series = CHARTED.into_iter().map(|name| (name.to_owned(), empty.clone())).collect();
        let mut sums = Self { from, width, series, latencies: [0; BUCKETS] };
        for rollup in rollups {
            if let Some(bucket) = latency::bucket_of(&rollup.counter) {
                if let Some(sum) = sums.latencies.get_mut(bucket) {
                    *sum = sum.saturating_add(u64::try_from(rollup.amount).unwrap_or_default());
                }
                continue;
            }
            let passed_s = rollup.interval_start.since(from).as_secs();
            let place = usize::try_from(passed_s / u64::from(width.seconds())).unwrap_or(usize::MAX);
            if let Some(sum) = sums.series.get_mut(&rollup.counter).and_then(|series| series.get_mut(place)) {
                *sum = sum.saturating_add(rollup.amount);
            }
        }
        sums
    }

    fn stats(self, window: &'static str, waiting: Option<WaitingView>, lane: Lane) -> Stats {
        let totals: BTreeMap<String, i64> =
            self.series.iter().map(|(name, series)| (name.clone(), series.iter().sum())).collect();
        let total = |name: &str| totals.get(name).copied().unwrap_or_default();
        let ms = |share| percentile(&self.latencies, share).map(|took| took.as_secs_f64() * 1_000.0);
        let dead_letters = total("deliveries_dead_lettered");
        Stats {
            window,
            from: Utc(self.from),
            interval_s: self.width.seconds(),
            success_ratio: ratio(total("deliveries_completed"), dead_letters),
            attempt_success_ratio: ratio(total("attempts_ok"), total("attempts_failed")),
            latency: Latency { p50_ms: ms(0.5), p90_ms: ms(0.9), p99_ms: ms(0.99) },
            dead_letters,
            waiting,
            outbox: LaneView {
                mode: lane.mode(),
                paused: lane.mode() == LaneMode::Paused,
                paused_at: lane.paused_at.map(Utc),
                rate: lane.rate_in_force(),
                reason: lane.reason,
            },
            series: self.series,
            totals,
        }
    }
}

fn ratio(good: i64, bad: i64) -> Option<f64> {
    let all = good + bad;
    #[expect(clippy::cast_precision_loss, reason = "a ratio for people")]
    let share = good as f64 / all as f64;
    (all > 0).then_some(share)
}

fn waiting(survey: &Survey, at: Timestamp) -> WaitingView {
    let stage = |stage: Stage| {
        let waiting = survey.of(stage);
        let age = waiting.oldest.map_or(Duration::ZERO, |oldest| at.since(oldest));
        StageView { stage: stage.as_str(), depth: waiting.depth, oldest_age_s: age.as_secs_f64() }
    };
    WaitingView {
        sampled_at: Utc(at),
        stages: Stage::ALL.into_iter().map(stage).collect(),
        held: survey.held,
        stuck_jobs: survey.stuck_jobs,
        stuck_orders: survey.stuck_orders,
    }
}
