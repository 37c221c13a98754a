//! Checks the history, one page per request, and the running system. Collects the facts that
//! [`posthaste_services::doctor`] evaluates.

use crate::problem::{Problem, ProblemKind};
use crate::query::{Query, ok};
use crate::state::{Api, ApiResult, ApiState};
use crate::time::Utc;
use axum::extract::State;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::Uri;
use posthaste_core::outcome::Failure;
use posthaste_core::ports::{
    DeliveryFilter, Examine, Examined, InsightStore as _, PageRequest, ReaderStore as _, StoreResult, Stores,
    SubscriptionFilter, SubscriptionTimeout, Survey,
};
use posthaste_core::{EventId, Timestamp};
use posthaste_services::doctor::{Check, EgressFacts, Status, SystemFacts, examine_page, examine_system};
use posthaste_services::telemetry;
use serde::Serialize;
use utoipa::ToSchema;

/// The number of subscriptions read at a time for the check of the egress rules.
const SUBSCRIPTIONS_PER_PAGE: u32 = 1_000;
/// The maximum number of subscriptions whose URLs one call of the API checks.
const SUBSCRIPTIONS_MAX: u32 = 100_000;
/// The maximum number of subscriptions whose URLs the dashboard checks. Its page refreshes itself.
const SUBSCRIPTIONS_SHOWN_MAX: u32 = SUBSCRIPTIONS_PER_PAGE;
/// The number of newest deliveries that are searched for refused addresses.
const DELIVERIES_MAX: u32 = 1_000;

/// The result of all checks.
#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({
    "healthy": true, "server_time": "2026-01-31T12:00:00.000000Z",
    "checks": [{"name": "leases", "status": "ok", "found": "no lease is older than it can be", "to_do": null}],
    "examined": {"events": 10_000, "deliveries": 20_000, "orders": 0, "undecidable": 0, "faults": 0},
    "examined_through": 10_000, "last_event_id": 25_000, "next_cursor": "ZG9jdG9yOjEwMDAwOi0"
}))]
pub(crate) struct Diagnosis {
    /// Whether none of these checks found a problem.
    pub(crate) healthy: bool,
    /// The time at which the checks ran.
    pub(crate) server_time: Utc,
    /// The results of the checks.
    pub(crate) checks: Vec<CheckView>,
    /// The numbers of records checked on this page.
    pub(crate) examined: ExaminedView,
    /// The id of the last event on this page.
    pub(crate) examined_through: Option<i64>,
    /// The id of the newest event in the store.
    pub(crate) last_event_id: Option<i64>,
    /// The `cursor` of the next page of the history; null on the last page.
    pub(crate) next_cursor: Option<String>,
}

/// The result of one check.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CheckView {
    /// The name of the check.
    pub(crate) name: &'static str,
    /// The severity of the result.
    pub(crate) status: &'static str,
    /// A description of the result.
    pub(crate) found: String,
    /// The recommended action; null if none is needed.
    pub(crate) to_do: Option<&'static str>,
}

/// The numbers of records that were checked.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ExaminedView {
    /// The number of events.
    pub(crate) events: u64,
    /// The number of deliveries.
    pub(crate) deliveries: u64,
    /// The number of orders.
    pub(crate) orders: u64,
    /// The number of pairs of event and subscription that could not be checked, because the subscription changed at
    /// about the time of routing.
    pub(crate) undecidable: u64,
    /// The number of inconsistencies found.
    pub(crate) faults: u64,
}

#[utoipa::path(
    get,
    path = "/v1/doctor",
    tag = "operations",
    operation_id = "get_doctor",
    summary = "Check the system",
    description = "Checks that every event has its deliveries and every order its audit, in pages of up to 10,000 \
                   events. The first page also checks the running system: queues, leases, processes, clocks, settings \
                   and the database server.",
    security(("api_key" = ["viewer"])),
    params(
        ("cursor" = Option<String>, Query, description = "The `next_cursor` of the previous page."),
        ("recent" = Option<bool>, Query, description = "Whether to check only the newest records, on one page."),
    ),
    responses((status = 200, description = "The results", body = Diagnosis)),
)]
pub(crate) async fn show<S: Stores>(State(api): Api<S>, uri: Uri) -> ApiResult {
    let mut query = Query::of(&uri)?;
    let cursor = query.take("cursor");
    let newest = query.flag("recent");
    query.finish()?;
    let is_first = cursor.is_none();
    if newest && !is_first {
        let detail = "cursor must be left out with recent=true, which has one page";
        return Err(Problem::invalid_parameter("cursor", detail));
    }
    let page = Examine { newest, ..place(cursor.as_deref())? };
    ok(&examine(&api, page, is_first).await?)
}

/// Returns the page that `cursor` points to, or the first page without a cursor.
pub(crate) fn place(cursor: Option<&str>) -> Result<Examine, Problem> {
    let begin = Examine { events_after: Some(0), orders_after: Some(0), newest: false };
    cursor.map_or(Ok(begin), read_cursor)
}

/// Checks one page of the history, and the running system if `with_system` is set.
pub(crate) async fn examine<S: Stores>(
    api: &ApiState<S>,
    page: Examine,
    with_system: bool,
) -> Result<Diagnosis, Problem> {
    let busy =
        |_| Problem::try_again(ProblemKind::ServerBusy, "another check is running: try again in a moment");
    let _turn = api.examinations.acquire().await.map_err(busy)?;
    let now = api.clock.now();
    let examined = api.insight.examine(page).await?;
    let findings = examine_page(&examined, now);
    let mut checks = Vec::new();
    if with_system {
        let survey = api.insight.survey(api.operations.survey.request(now)).await?;
        let long_timeouts = api.insight.long_timeouts(api.outgoing.timeouts.max()).await?;
        checks = system_checks(api, now, &survey, SUBSCRIPTIONS_MAX, Some(&long_timeouts)).await?;
    }
    checks.extend(findings.checks);
    Ok(Diagnosis {
        healthy: checks.iter().all(|check| check.status != Status::Problem),
        server_time: Utc(now),
        checks: checks.into_iter().map(view).collect(),
        examined: ExaminedView {
            events: findings.events,
            deliveries: findings.deliveries,
            orders: findings.orders,
            undecidable: findings.undecidable,
            faults: findings.faults,
        },
        examined_through: examined.events.last().map(|event| event.id.get()),
        last_event_id: examined.last_event.map(EventId::get),
        next_cursor: write_cursor(&examined),
    })
}

/// Checks the running system, using the last survey of the queues if there is one. Cheap enough for a page that
/// refreshes itself.
pub(crate) async fn look<S: Stores>(api: &ApiState<S>) -> Result<Vec<CheckView>, Problem> {
    let now = api.clock.now();
    let survey = match api.operations.last_survey.get() {
        Some((survey, _)) => survey,
        None => api.insight.survey(api.operations.survey.request(now)).await?,
    };
    let checks = system_checks(api, now, &survey, SUBSCRIPTIONS_SHOWN_MAX, None).await?;
    Ok(checks.into_iter().map(view).collect())
}

async fn system_checks<S: Stores>(
    api: &ApiState<S>,
    now: Timestamp,
    survey: &Survey,
    subscriptions_max: u32,
    long_timeouts: Option<&[SubscriptionTimeout]>,
) -> Result<Vec<Check>, Problem> {
    let operations = &api.operations;
    let processes = api.insight.processes(now.before(telemetry::GONE_AFTER)).await?;
    let (lane, upkeep) = (api.reader.lane().await?.lane, api.insight.upkeep().await?);
    let (engine, server) = (api.insight.engine().await?, api.insight.server().await?);
    let egress = egress_facts(api, subscriptions_max).await?;
    let machine_now = (operations.machine_now)();
    Ok(examine_system(&SystemFacts {
        now,
        survey,
        engine: &engine,
        schema_needed: operations.schema_needed,
        machine_now,
        clock_step: api.clock.last_step(),
        lane: &lane,
        processes: &processes,
        upkeep: &upkeep,
        server: server.as_ref(),
        connections: operations.connections.as_ref(),
        warnings: &operations.warnings,
        egress: &egress,
        long_timeouts,
        timeout_max: api.outgoing.timeouts.max(),
    }))
}

/// Checks the URLs of up to `subscriptions_max` subscriptions against the egress rules, and searches the newest
/// deliveries for addresses that were refused.
async fn egress_facts<S: Stores>(api: &ApiState<S>, subscriptions_max: u32) -> StoreResult<EgressFacts> {
    let mut facts = EgressFacts::default();
    let mut request = PageRequest::first(SUBSCRIPTIONS_PER_PAGE);
    for _ in 0..subscriptions_max / SUBSCRIPTIONS_PER_PAGE {
        let page = api.reader.subscriptions(SubscriptionFilter::default(), request).await?;
        page.items.iter().for_each(|subscription| facts.check(subscription, &api.outgoing.sender));
        facts.has_more = page.next.is_some();
        if !facts.has_more {
            break;
        }
        request = request.behind(page.next);
    }
    let refused =
        DeliveryFilter { error_code: Some(Failure::BlockedAddress.code()), ..DeliveryFilter::default() };
    let newest = PageRequest::first(DELIVERIES_MAX).looking_at(DELIVERIES_MAX);
    let deliveries = api.reader.deliveries(refused, newest).await?.items;
    facts.failing = deliveries.iter().map(|delivery| delivery.saga.subscription_id).collect();
    Ok(facts)
}

fn view(check: Check) -> CheckView {
    let Check { name, status, found, to_do } = check;
    CheckView { name, status: status.as_str(), found, to_do: Some(to_do).filter(|text| !text.is_empty()) }
}

/// Encodes the positions at which events and orders continue; a dash means that all were checked. Returns `None` after
/// the last page.
fn write_cursor(examined: &Examined) -> Option<String> {
    let place = |next: Option<i64>| next.map_or_else(|| "-".to_owned(), |next| next.to_string());
    let (event, order) = (examined.next_event, examined.next_order);
    let goes_on = event.is_some() || order.is_some();
    goes_on.then(|| URL_SAFE_NO_PAD.encode(format!("doctor:{}:{}", place(event), place(order))))
}

fn read_cursor(text: &str) -> Result<Examine, Problem> {
    let decoded = URL_SAFE_NO_PAD.decode(text).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let place = |text: &str| match text {
        "-" => Some(None),
        number => number.parse::<i64>().ok().filter(|number| *number >= 0).map(Some),
    };
    let read = decoded.as_deref().and_then(|inner| {
        let (events, orders) = inner.strip_prefix("doctor:")?.split_once(':')?;
        Some(Examine { events_after: place(events)?, orders_after: place(orders)?, newest: false })
    });
    read.ok_or_else(|| {
        Problem::invalid_parameter("cursor", "cursor must be the next_cursor of a page of this call")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_contains_the_positions_of_events_and_orders() {
        for (events_after, orders_after) in [(Some(7), Some(9)), (None, Some(9)), (Some(7), None)] {
            let examined = Examined {
                events: vec![],
                sagas: vec![],
                changes: vec![],
                more_changes: false,
                orders: vec![],
                next_event: events_after,
                next_order: orders_after,
                last_event: None,
            };
            let cursor = write_cursor(&examined).expect("a cursor");
            let expected = Examine { events_after, orders_after, newest: false };
            assert_eq!(read_cursor(&cursor).expect("a place"), expected);
        }
        for bad in ["", "x", "ZG9jdG9y", "ZXZlbnRzOjE"] {
            assert_eq!(read_cursor(bad).expect_err(bad).status, 422);
        }
    }
}
