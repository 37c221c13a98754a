//! Why an event went where it went: what matched when it was routed, what did not and why, and what
//! became of each delivery.

use crate::deliveries::DeliveryView;
use crate::problem::Problem;
use crate::query::{id, ok};
use crate::state::{Api, ApiResult, ApiState};
use crate::time::Utc;
use axum::extract::{Path, State};
use posthaste_core::history::{SubscriptionChange, Unmatched, Verdict, routed_between, turn, verdict};
use posthaste_core::ports::{ExplainedDelivery, ExplainedEvent, InsightStore as _, Stores};
use posthaste_core::{DeadLetterId, EventId, SagaId, SubscriptionId, Timestamp};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use utoipa::ToSchema;

/// The most subscriptions without a delivery that are told of.
const UNMATCHED_MAX: usize = 200;

#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({
    "event_id": 7, "event_type": "order.paid", "external_event_id": "shop-7", "correlation_id": null,
    "created_at": "2026-01-31T12:00:00.000000Z", "routed": true, "routed_at": "2026-01-31T12:00:00.004000Z",
    "summary": "routed to 1 subscription; 1 other of this type did not match", "deliveries": [],
    "unmatched": [{"subscription_id": 3, "reason": "paused", "told": "it was paused when the event was routed"}],
    "truncated": false
}))]
pub(crate) struct Explanation {
    pub(crate) event_id: i64,
    pub(crate) event_type: String,
    pub(crate) external_event_id: Option<String>,
    pub(crate) correlation_id: Option<String>,
    pub(crate) created_at: Utc,
    /// False while the event waits for the router: what matches is decided then.
    pub(crate) routed: bool,
    /// When its first delivery was made; nothing if no subscription matched.
    pub(crate) routed_at: Option<Utc>,
    pub(crate) summary: String,
    /// Oldest first, 200 at most; those that were made from dead letters too.
    pub(crate) deliveries: Vec<Explained>,
    /// Subscriptions that had or have this type and got no delivery, 200 at most.
    pub(crate) unmatched: Vec<NotMatched>,
    /// There is more than is told: see `/v1/deliveries?event_id=…`.
    pub(crate) truncated: bool,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Explained {
    #[serde(flatten)]
    pub(crate) delivery: DeliveryView,
    pub(crate) dead_letter_id: Option<i64>,
    /// The delivery that was made from its dead letter.
    pub(crate) requeued_as: Option<i64>,
    /// What happened, in a sentence.
    pub(crate) told: String,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct NotMatched {
    pub(crate) subscription_id: i64,
    /// created_later, deleted, other_type, paused, unverified, changed_meanwhile or missing.
    pub(crate) reason: &'static str,
    pub(crate) told: String,
}

#[utoipa::path(
    get,
    path = "/v1/events/{id}/explain",
    tag = "events",
    operation_id = "explain",
    summary = "Which subscriptions an event matched, which not and why, and what became of it (role viewer)",
    params(("id" = i64, Path)),
    responses((status = 200, description = "The explanation", body = Explanation)),
)]
pub(crate) async fn show<S: Stores>(State(api): Api<S>, Path(text): Path<String>) -> ApiResult {
    ok(&find(&api, id("id", &text, EventId::new)?).await?)
}

pub(crate) async fn find<S: Stores>(api: &ApiState<S>, event_id: EventId) -> Result<Explanation, Problem> {
    let Some(found) = api.insight.explain(event_id).await? else { return Err(Problem::not_found("event")) };
    Ok(explanation(found, api.clock.now()))
}

fn explanation(found: ExplainedEvent, now: Timestamp) -> Explanation {
    let routed_at = first_delivery(&found);
    let (unmatched, more_unmatched) = unmatched(&found, routed_at, now);
    let matched: BTreeSet<SubscriptionId> =
        found.deliveries.iter().map(|one| one.delivery.saga.subscription_id).collect();
    let summary = if found.is_queued {
        "not yet routed: it waits for the router, which decides what matches then".to_owned()
    } else {
        let (matches, others) = (count(matched.len(), "subscription"), count(unmatched.len(), "other"));
        format!("routed to {matches}; {others} of this type did not match")
    };
    let ExplainedEvent { event, is_queued, deliveries, more_deliveries, more_changes, .. } = found;
    Explanation {
        event_id: event.id.get(),
        event_type: event.event_type.into_string(),
        external_event_id: event.external_event_id.map(|id| id.into_string()),
        correlation_id: event.correlation_id.map(|id| id.into_string()),
        created_at: Utc(event.created_at),
        routed: !is_queued,
        routed_at: routed_at.map(Utc),
        summary,
        deliveries: deliveries.into_iter().map(explained).collect(),
        unmatched,
        truncated: more_deliveries || more_changes || more_unmatched,
    }
}

fn count(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

fn first_delivery(found: &ExplainedEvent) -> Option<Timestamp> {
    let sagas = found.deliveries.iter().map(|one| &one.delivery.saga);
    sagas.filter(|saga| saga.requeued_from.is_none()).map(|saga| saga.created_at).min()
}

/// Every subscription that ever had the type and has no delivery, and why.
fn unmatched(
    found: &ExplainedEvent,
    routed_at: Option<Timestamp>,
    now: Timestamp,
) -> (Vec<NotMatched>, bool) {
    if found.is_queued {
        return (Vec::new(), false);
    }
    let matched: BTreeSet<SubscriptionId> =
        found.deliveries.iter().map(|one| one.delivery.saga.subscription_id).collect();
    let mut changes: BTreeMap<SubscriptionId, Vec<SubscriptionChange>> = BTreeMap::new();
    for change in found.changes.iter().filter(|change| !matched.contains(&change.subscription_id)) {
        changes.entry(change.subscription_id).or_default().push(change.clone());
    }
    let kind = &found.event.event_type;
    let around = routed_between(found.event.created_at, routed_at, now);
    let mut told = Vec::new();
    for (id, changes) in &changes {
        let then = routed_at.map_or(around, |at| (at, at));
        let verdict_then = verdict(changes, kind, then.0, then.1);
        let (reason, text) = match (verdict_then, verdict(changes, kind, around.0, around.1)) {
            (Verdict::Not(reason), _) => (reason.as_str(), why(reason).to_owned()),
            // What is not listed may be there.
            (_, Verdict::Matched) if found.more_deliveries || found.more_changes => continue,
            (_, Verdict::Matched) => {
                ("missing", "it matched and has no delivery: run posthaste doctor".to_owned())
            }
            (_, Verdict::Unsure | Verdict::Not(_)) => {
                let turned = turn(changes, kind, around.0, around.1);
                ("changed_meanwhile", changed(turned, routed_at))
            }
        };
        told.push(NotMatched { subscription_id: id.get(), reason, told: text });
    }
    let more = told.len() > UNMATCHED_MAX;
    told.truncate(UNMATCHED_MAX);
    (told, more)
}

/// Which change may have come before the routing or after it.
fn changed(turned: Option<(&SubscriptionChange, Option<Unmatched>)>, routed_at: Option<Timestamp>) -> String {
    let about_then = match routed_at {
        Some(_) => "about when the event was routed",
        None => "and when exactly the event was routed is not kept",
    };
    let Some((change, reason)) = turned else { return format!("it changed {about_then}") };
    let what = match reason {
        None => "it began to take events of this type",
        Some(Unmatched::CreatedLater) => "it was created",
        Some(Unmatched::Deleted) => "it was deleted",
        Some(Unmatched::OtherType) => "it was changed to another type",
        Some(Unmatched::Paused) => "it was paused",
        Some(Unmatched::Unverified) => "its URL changed and was not verified",
    };
    format!("{what} at {}, {about_then}", change.changed_at)
}

const fn why(reason: Unmatched) -> &'static str {
    match reason {
        Unmatched::CreatedLater => "it was created after the event was routed",
        Unmatched::Deleted => "it was deleted before the event was routed",
        Unmatched::OtherType => "it asked for another type when the event was routed",
        Unmatched::Paused => "it was paused when the event was routed",
        Unmatched::Unverified => "its URL was not verified when the event was routed",
    }
}

fn explained(one: ExplainedDelivery) -> Explained {
    let told = told(&one);
    let (letter, again) = one.dead_letter.map_or((None, None), |(letter, again)| (Some(letter), again));
    Explained {
        delivery: DeliveryView::with_attempts(&one.delivery, one.attempts),
        dead_letter_id: letter.map(DeadLetterId::get),
        requeued_as: again.map(SagaId::get),
        told,
    }
}

fn told(one: &ExplainedDelivery) -> String {
    use posthaste_core::saga::SagaStatus;
    let state = &one.delivery.saga.state;
    let tries = count(state.attempt_count as usize, "attempt");
    let error = state.final_error_code.as_ref().map(ToString::to_string).unwrap_or_default();
    let next = state.next_attempt_at;
    match (state.status, one.dead_letter) {
        (SagaStatus::Pending, _) => format!("waits for its first attempt, due since {next}"),
        (SagaStatus::InProgress, _) => format!("attempt {} is under way", state.attempt_count + 1),
        (SagaStatus::PendingRetry, _) => {
            format!("{tries} failed, the last with {error}; the next is due at {next}")
        }
        (SagaStatus::Completed, _) => format!("delivered with {tries}"),
        (SagaStatus::DeadLettered, Some((letter, Some(again)))) => {
            format!(
                "given up after {tries} with {error} as dead letter {letter}, requeued as delivery {again}"
            )
        }
        (SagaStatus::DeadLettered, Some((letter, None))) => {
            format!("given up after {tries} with {error} as dead letter {letter}")
        }
        (SagaStatus::DeadLettered, None) => format!("given up after {tries} with {error}"),
    }
}
