//! Statistics of one tenant: the backlog and the recent attempts of its subscriptions, added up. Events and deliveries
//! are counted for the installation as a whole only, because counters per tenant would grow with the tenants.

use super::{WINDOWS, ratio};
use crate::problem::Problem;
use crate::state::ApiState;
use crate::time::Utc;
use posthaste_core::health::{Attempts, Within, interval_start};
use posthaste_core::ports::{InsightStore as _, PageRequest, ReaderStore as _, Stores, SubscriptionFilter};
use posthaste_core::tenant::Tenant;
use serde::Serialize;
use std::time::Duration;
use utoipa::ToSchema;

/// The maximum number of subscriptions that are read at once.
const PAGE: u32 = 200;
/// The maximum number of pages.
const PAGES_MAX: u32 = 5;
/// The maximum number of waiting and in-flight deliveries that are counted for a subscription.
const COUNTED_MAX: u32 = 100;

/// The backlog and the recent attempts of the subscriptions of one tenant.
#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({
    "tenant": "acme", "window": "1h", "from": "2026-01-31T11:00:00.000000Z", "subscriptions": 2, "waiting": 3,
    "in_flight": 1, "attempts_ok": 19, "attempts_failed": 1, "attempt_success_ratio": 0.95,
    "attempt_duration": {"p50_ms": 50, "p90_ms": 100, "p99_ms": null}, "truncated": false
}))]
pub(crate) struct TenantStats {
    /// The tenant.
    tenant: String,
    /// The name of the window.
    window: &'static str,
    /// The start of the window, rounded down to ten minutes.
    from: Utc,
    /// The number of subscriptions that are not deleted; at most 1,000 are counted, newest first.
    subscriptions: u64,
    /// The number of unfinished deliveries without an attempt in flight; at most 100 are counted per subscription.
    waiting: u64,
    /// The number of deliveries with an attempt in flight; at most 100 are counted per subscription.
    in_flight: u64,
    /// The number of successful attempts in the window.
    attempts_ok: u64,
    /// The number of failed attempts in the window.
    attempts_failed: u64,
    /// The ratio of successful attempts to all attempts; null if there were none.
    attempt_success_ratio: Option<f64>,
    /// The duration of successful attempts.
    attempt_duration: AttemptDuration,
    /// Whether the tenant has subscriptions that are not included.
    truncated: bool,
}

/// Percentiles of the duration of successful attempts, as upper bounds; null if there were none, or if the duration
/// exceeds ten seconds.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct AttemptDuration {
    /// The median, in milliseconds.
    p50_ms: Option<u64>,
    /// The 90th percentile, in milliseconds.
    p90_ms: Option<u64>,
    /// The 99th percentile, in milliseconds.
    p99_ms: Option<u64>,
}

impl AttemptDuration {
    fn of(attempts: &Attempts) -> Self {
        let ms = |of_hundred| match attempts.within(of_hundred) {
            Some(Within::AtMost(bound)) => u64::try_from(bound.as_millis()).ok(),
            Some(Within::Beyond(_)) | None => None,
        };
        Self { p50_ms: ms(50), p90_ms: ms(90), p99_ms: ms(99) }
    }
}

/// Returns the statistics of a tenant for a window.
pub(super) async fn read<S: Stores>(
    api: &ApiState<S>,
    tenant: Tenant,
    asked: &str,
) -> Result<TenantStats, Problem> {
    let window = WINDOWS.into_iter().find(|(name, _, _)| *name == asked);
    let (window, width, intervals) =
        window.ok_or_else(|| Problem::invalid_parameter("window", "window must be 1h or 24h"))?;
    let length = Duration::from_secs(u64::from(width.seconds()) * u64::from(intervals));
    let from = interval_start(api.clock.now().before(length));
    let filter = SubscriptionFilter { tenant: Some(tenant.clone()), ..SubscriptionFilter::default() };
    let (mut page, mut attempts) = (PageRequest::first(PAGE), Attempts::default());
    let (mut subscriptions, mut waiting, mut in_flight) = (0, 0, 0);
    for _ in 0..PAGES_MAX {
        let found = api.reader.subscriptions(filter.clone(), page).await?;
        let ids: Vec<_> = found.items.iter().map(|subscription| subscription.id).collect();
        subscriptions += ids.len() as u64;
        if !ids.is_empty() {
            for health in api.insight.subscription_health(ids, COUNTED_MAX, from).await? {
                waiting += u64::from(health.waiting);
                in_flight += u64::from(health.in_flight);
                attempts.add(&health.attempts);
            }
        }
        page = page.behind(found.next);
        if found.next.is_none() {
            break;
        }
    }
    let (attempts_ok, attempts_failed) = (attempts.succeeded(), attempts.failed);
    let count = |count: u64| i64::try_from(count).unwrap_or(i64::MAX / 2);
    Ok(TenantStats {
        tenant: tenant.into_string(),
        window,
        from: Utc(from),
        subscriptions,
        waiting,
        in_flight,
        attempts_ok,
        attempts_failed,
        attempt_success_ratio: ratio(count(attempts_ok), count(attempts_failed)),
        attempt_duration: AttemptDuration::of(&attempts),
        truncated: page.after.is_some(),
    })
}
