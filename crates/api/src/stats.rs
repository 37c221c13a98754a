//! What was done lately, and how much waits: sums that every process adds to, never a read of history.

use crate::problem::Problem;
use crate::query::{Query, ok};
use crate::state::{Api, ApiResult, ApiState};
use crate::time::Utc;
use axum::extract::State;
use http::Uri;
use posthaste_core::Timestamp;
use posthaste_core::lane::{Lane, LaneMode};
use posthaste_core::latency::{self, BUCKETS, percentile};
use posthaste_core::ports::{
    InsightStore as _, ReaderStore as _, Rollup, RollupWidth, Stage, Stores, Survey,
};
use posthaste_services::metrics::CHARTED;
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Duration;
use utoipa::ToSchema;

/// A window, the width of its intervals, and how many there are.
const WINDOWS: [(&str, RollupWidth, u32); 2] =
    [("1h", RollupWidth::TenSeconds, 360), ("24h", RollupWidth::FiveMinutes, 288)];

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
    pub(crate) window: &'static str,
    /// When the first interval begins.
    pub(crate) from: Utc,
    pub(crate) interval_s: u32,
    /// By counter, one number for each interval, the oldest first; the last one is not over yet.
    pub(crate) series: BTreeMap<String, Vec<i64>>,
    /// By counter, over the whole window.
    pub(crate) totals: BTreeMap<String, i64>,
    /// Deliveries that were completed, of all that ended; nothing if none did.
    pub(crate) success_ratio: Option<f64>,
    /// Attempts that a receiver took, of all that were made.
    pub(crate) attempt_success_ratio: Option<f64>,
    /// From routing to the end of a delivery.
    pub(crate) latency: Latency,
    pub(crate) dead_letters: i64,
    /// Nothing before it was first counted.
    pub(crate) waiting: Option<WaitingView>,
    pub(crate) outbox: LaneView,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Latency {
    pub(crate) p50_ms: Option<f64>,
    pub(crate) p90_ms: Option<f64>,
    pub(crate) p99_ms: Option<f64>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct WaitingView {
    /// When it was counted.
    pub(crate) sampled_at: Utc,
    pub(crate) stages: Vec<StageView>,
    /// Unfinished deliveries of paused, unverified or deleted subscriptions, counted to 100,000.
    pub(crate) held: u32,
    pub(crate) stuck_jobs: u32,
    pub(crate) stuck_orders: u32,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct StageView {
    pub(crate) stage: &'static str,
    /// Counted to 100,000.
    pub(crate) depth: u32,
    pub(crate) oldest_age_s: f64,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LaneView {
    #[serde(skip)]
    pub(crate) mode: LaneMode,
    pub(crate) paused: bool,
    pub(crate) paused_at: Option<Utc>,
    pub(crate) reason: Option<String>,
    /// Sends a second at most.
    pub(crate) rate: f64,
}

#[utoipa::path(
    get,
    path = "/v1/stats",
    tag = "operations",
    operation_id = "stats",
    summary = "What was done in the last hour or day, and how much waits (role viewer)",
    params(("window" = Option<String>, Query, description = "1h (unless said otherwise) or 24h", example = "24h")),
    responses((status = 200, description = "Sums and gauges", body = Stats)),
)]
pub(crate) async fn show<S: Stores>(State(api): Api<S>, uri: Uri) -> ApiResult {
    let mut query = Query::of(&uri)?;
    let asked = query.take("window");
    query.finish()?;
    ok(&read(&api, asked.as_deref().unwrap_or("1h")).await?)
}

/// The sums of one window, by its name.
pub(crate) async fn read<S: Stores>(api: &ApiState<S>, asked: &str) -> Result<Stats, Problem> {
    let window = WINDOWS.into_iter().find(|(name, _, _)| *name == asked);
    let (name, width, intervals) =
        window.ok_or_else(|| Problem::invalid("window", "window must be 1h or 24h"))?;
    let width_s = Duration::from_secs(width.seconds().into());
    let from = width.start_of(api.clock.now()).before(width_s * (intervals - 1));
    let rollups = api.insight.rollups(width, from, known_counters()).await?;
    let lane = api.reader.lane().await?.lane;
    let waiting = api.operations.last_survey.get().map(|(survey, at)| waiting(&survey, at));
    Ok(Sums::of(&rollups, from, width, intervals).stats(name, waiting, lane))
}

/// Everything that a process counts. Any login of the database may add counters of other names, which are not read.
fn known_counters() -> Vec<String> {
    CHARTED.into_iter().map(str::to_owned).chain((0..BUCKETS).map(latency::counter)).collect()
}

/// The counters of one window.
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
