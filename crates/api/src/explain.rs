//! Explains the routing of an event: which subscriptions matched, which did not and why, and the state of each
//! delivery. Derived from the recorded changes to subscriptions.

use crate::auth::Scope;
use crate::deliveries::DeliveryView;
use crate::problem::Problem;
use crate::query::{id, ok};
use crate::state::{Api, ApiResult, ApiState};
use crate::time::Utc;
use axum::Extension;
use axum::extract::{Path, State};
use posthaste_core::history::{
    SubscriptionChange, Unmatched, Verdict, decision_at, decision_matched, routed_between, turn, verdict,
};
use posthaste_core::ports::{ExplainedDelivery, ExplainedEvent, InsightStore as _, Stores};
use posthaste_core::route::{EventFacts, RouteDecision};
use posthaste_core::{DeadLetterId, EventId, SagaId, SubscriptionId, Timestamp};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use utoipa::ToSchema;

/// The maximum number of subscriptions without a delivery in a response.
const UNMATCHED_MAX: usize = 200;

/// An explanation of how an event was routed.
#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({
    "event_id": 7, "event_type": "order.paid", "external_event_id": "shop-7", "correlation_id": null,
    "created_at": "2026-01-31T12:00:00.000000Z", "routed": true, "routed_at": "2026-01-31T12:00:00.004000Z",
    "summary": "routed to 1 subscription; 2 others for this type did not match", "deliveries": [],
    "unmatched": [
        {"subscription_id": 3, "reason": "paused", "clause": null, "told": "it was paused when the event was routed"},
        {"subscription_id": 4, "reason": "filtered", "clause": "#/all/1 {\"exact\":{\"region\":\"eu\"}}",
         "told": "its filter did not accept the event when it was routed: #/all/1 {\"exact\":{\"region\":\"eu\"}}"}
    ],
    "truncated": false
}))]
pub(crate) struct Explanation {
    /// The id of the event.
    pub(crate) event_id: i64,
    /// The type of the event.
    pub(crate) event_type: String,
    /// The caller's id of the event.
    pub(crate) external_event_id: Option<String>,
    /// The id for log messages.
    pub(crate) correlation_id: Option<String>,
    /// The time at which the event was accepted.
    pub(crate) created_at: Utc,
    /// Whether the event has been routed. Subscriptions are matched when it is routed.
    pub(crate) routed: bool,
    /// The time at which the first delivery was created; null if no subscription matched.
    pub(crate) routed_at: Option<Utc>,
    /// A summary in one sentence.
    pub(crate) summary: String,
    /// The deliveries, oldest first, including those requeued from dead letters; at most 200.
    pub(crate) deliveries: Vec<Explained>,
    /// The subscriptions of the same tenant that have or had a pattern for this event type but got no delivery; at most
    /// 200.
    pub(crate) unmatched: Vec<NotMatched>,
    /// Whether entries were omitted. `/v1/deliveries?event_id=…` lists all deliveries.
    pub(crate) truncated: bool,
}

/// A delivery with its attempts, its dead letter and a description.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Explained {
    /// The delivery with its attempts.
    #[serde(flatten)]
    pub(crate) delivery: DeliveryView,
    /// The id of the dead letter of this delivery; null if there is none.
    pub(crate) dead_letter_id: Option<i64>,
    /// The id of the delivery created by requeueing the dead letter; null if there is none.
    pub(crate) requeued_as: Option<i64>,
    /// The pattern and the clause of the filter by which the subscription matched; null if its changes do not show it.
    pub(crate) matched_by: Option<MatchedBy>,
    /// A description of the state in one sentence.
    pub(crate) told: String,
}

impl Explained {
    /// Returns a description of what decided, or `None` if it is unknown.
    pub(crate) fn matched_text(&self) -> Option<String> {
        self.matched_by.as_ref().map(|MatchedBy { pattern, clause }| match clause {
            None => format!("matched by the pattern {pattern}"),
            Some(clause) => format!("matched by the pattern {pattern} and the filter {clause}"),
        })
    }
}

/// What decided that a subscription matched an event.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(example = json!({"pattern": "invoice.*", "clause": "#/any/0 {\"exact\":{\"region\":\"eu\"}}"}))]
pub(crate) struct MatchedBy {
    /// The most specific pattern of the subscription that matches the event type.
    pub(crate) pattern: String,
    /// The JSON pointer and the text of the clause of the filter that decided; null if there was no filter.
    pub(crate) clause: Option<String>,
}

/// A subscription that got no delivery of an event.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct NotMatched {
    /// The id of the subscription.
    pub(crate) subscription_id: i64,
    /// The reason for the missing delivery. `changed_meanwhile`: the subscription changed too close to the time of
    /// routing to be certain. `missing`: the subscription matched, so a delivery should exist.
    pub(crate) reason: &'static str,
    /// With the reason `filtered`, the JSON pointer and the text of the clause that did not accept the event.
    pub(crate) clause: Option<String>,
    /// A description of the reason in one sentence.
    pub(crate) told: String,
}

#[utoipa::path(
    get,
    path = "/v1/events/{id}/explain",
    tag = "events",
    operation_id = "explain_event",
    summary = "Explain the routing of an event",
    description = "Returns the subscriptions that an event matched, those that it did not match and why, and the \
                   state of each delivery.",
    security(("api_key" = ["viewer"])),
    params(("id" = i64, Path, description = "The id of the event.")),
    responses((status = 200, description = "The explanation", body = Explanation)),
)]
pub(crate) async fn show<S: Stores>(
    State(api): Api<S>,
    Extension(scope): Extension<Scope>,
    Path(text): Path<String>,
) -> ApiResult {
    ok(&find(&api, &scope, id("id", &text, EventId::new)?).await?)
}

/// Returns the explanation of an event, if it is within the scope of the caller. It mentions only subscriptions of the
/// same tenant.
pub(crate) async fn find<S: Stores>(
    api: &ApiState<S>,
    scope: &Scope,
    event_id: EventId,
) -> Result<Explanation, Problem> {
    let found = api.insight.explain(event_id).await?;
    let found = found.filter(|found| scope.allows(found.event.tenant.as_ref()));
    let found = found.ok_or_else(|| Problem::not_found("event"))?;
    Ok(explanation(found, api.clock.now()))
}

fn explanation(mut found: ExplainedEvent, now: Timestamp) -> Explanation {
    let history = History::of(&mut found, now);
    let (unmatched, more_unmatched) = unmatched(&found, &history);
    let matched: BTreeSet<SubscriptionId> =
        found.deliveries.iter().map(|one| one.delivery.saga.subscription_id).collect();
    let summary = if found.is_queued {
        "not yet routed: subscriptions are matched when the router processes the event".to_owned()
    } else {
        let (matches, others) = (count(matched.len(), "subscription"), count(unmatched.len(), "other"));
        format!("routed to {matches}; {others} for this type did not match")
    };
    let explained = |one: &ExplainedDelivery| {
        let matched_by = history.matched_by(&found, one.delivery.saga.subscription_id);
        explained(one, matched_by)
    };
    let deliveries = found.deliveries.iter().map(explained).collect();
    let ExplainedEvent { event, is_queued, more_deliveries, more_changes, .. } = found;
    Explanation {
        event_id: event.id.get(),
        event_type: event.event_type.into_string(),
        external_event_id: event.external_event_id.map(|id| id.into_string()),
        correlation_id: event.correlation_id.map(|id| id.into_string()),
        created_at: Utc(event.created_at),
        routed: !is_queued,
        routed_at: history.routed_at.map(Utc),
        summary,
        deliveries,
        unmatched,
        truncated: more_deliveries || more_changes || more_unmatched,
    }
}

/// The changes of the subscriptions for one event, and when it was routed.
struct History {
    changes: BTreeMap<SubscriptionId, Vec<SubscriptionChange>>,
    /// The time of the first delivery.
    routed_at: Option<Timestamp>,
    /// The interval in which the event was routed.
    around: (Timestamp, Timestamp),
}

impl History {
    fn of(found: &mut ExplainedEvent, now: Timestamp) -> Self {
        // The later changes of the last subscription may be among those that were omitted.
        let cut = found.changes.last().filter(|_| found.more_changes).map(|change| change.subscription_id);
        let mut changes: BTreeMap<SubscriptionId, Vec<SubscriptionChange>> = BTreeMap::new();
        for change in std::mem::take(&mut found.changes) {
            if Some(change.subscription_id) != cut {
                changes.entry(change.subscription_id).or_default().push(change);
            }
        }
        let routed_at = first_delivery(found);
        Self { changes, routed_at, around: routed_between(found.event.created_at, routed_at, now) }
    }

    /// Returns what decided that a subscription with a delivery matched.
    fn matched_by(&self, found: &ExplainedEvent, id: SubscriptionId) -> Option<MatchedBy> {
        let (changes, at) = (self.changes.get(&id)?, self.routed_at.unwrap_or(self.around.1));
        match decision_matched(changes, facts(found), at, self.around)? {
            RouteDecision::Matched { pattern, clause } => Some(MatchedBy { pattern, clause }),
            RouteDecision::Deleted
            | RouteDecision::Inactive
            | RouteDecision::Unverified
            | RouteDecision::OtherTenant
            | RouteDecision::NoPattern
            | RouteDecision::Filtered { .. } => None,
        }
    }
}

/// Returns the part of the event that routing depends on.
fn facts(found: &ExplainedEvent) -> EventFacts<'_> {
    EventFacts {
        event_type: &found.event.event_type,
        tenant: found.event.tenant.as_ref(),
        attributes: &found.event.attributes,
    }
}

fn count(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

fn first_delivery(found: &ExplainedEvent) -> Option<Timestamp> {
    let sagas = found.deliveries.iter().map(|one| &one.delivery.saga);
    sagas.filter(|saga| saga.requeued_from.is_none()).map(|saga| saga.created_at).min()
}

/// Returns the subscriptions that ever had a pattern for the event type but have no delivery, and whether the list was
/// truncated.
fn unmatched(found: &ExplainedEvent, history: &History) -> (Vec<NotMatched>, bool) {
    if found.is_queued {
        return (Vec::new(), false);
    }
    let matched: BTreeSet<SubscriptionId> =
        found.deliveries.iter().map(|one| one.delivery.saga.subscription_id).collect();
    let (event, around) = (facts(found), history.around);
    let then = history.routed_at.map_or(around, |at| (at, at));
    let mut not_matched = Vec::new();
    for (id, changes) in history.changes.iter().filter(|(id, _)| !matched.contains(id)) {
        let verdict_then = verdict(changes, event, then.0, then.1);
        let (reason, told) = match (verdict_then, verdict(changes, event, around.0, around.1)) {
            (Verdict::Not(reason), _) => (reason.as_str(), why(reason).to_owned()),
            // The delivery may be one of those that were omitted.
            (_, Verdict::Matched) if found.more_deliveries || found.more_changes => continue,
            (_, Verdict::Matched) => {
                ("missing", "it matched and has no delivery: run posthaste doctor".to_owned())
            }
            (_, Verdict::Unsure | Verdict::Not(_)) => {
                let turned = turn(changes, event, around.0, around.1);
                ("changed_meanwhile", changed(turned, history.routed_at))
            }
        };
        let clause = match (verdict_then, decision_at(changes, event, then.1)) {
            (Verdict::Not(Unmatched::Filtered), Some(RouteDecision::Filtered { clause })) => Some(clause),
            _ => None,
        };
        let told = clause.as_ref().map_or_else(|| told.clone(), |clause| [told.as_str(), clause].join(": "));
        not_matched.push(NotMatched { subscription_id: id.get(), reason, clause, told });
    }
    let more = not_matched.len() > UNMATCHED_MAX;
    not_matched.truncate(UNMATCHED_MAX);
    (not_matched, more)
}

/// Describes the change to a subscription that may have happened before or after the routing.
fn changed(turned: Option<(&SubscriptionChange, Option<Unmatched>)>, routed_at: Option<Timestamp>) -> String {
    let about_then = match routed_at {
        Some(_) => "about when the event was routed",
        None => "and the exact time of the routing is not recorded",
    };
    let Some((change, reason)) = turned else { return format!("it changed {about_then}") };
    let what = match reason {
        None => "it started to match events of this type",
        Some(Unmatched::CreatedLater) => "it was created",
        Some(Unmatched::Deleted) => "it was deleted",
        Some(Unmatched::OtherTenant) => "it belongs to another tenant",
        Some(Unmatched::OtherType) => "it was changed to other types",
        Some(Unmatched::Filtered) => "its filter was changed",
        Some(Unmatched::Paused) => "it was paused",
        Some(Unmatched::Unverified) => "its URL changed and was not verified",
    };
    format!("{what} at {}, {about_then}", change.changed_at)
}

const fn why(reason: Unmatched) -> &'static str {
    match reason {
        Unmatched::CreatedLater => "it was created after the event was routed",
        Unmatched::Deleted => "it was deleted before the event was routed",
        Unmatched::OtherTenant => "it belongs to another tenant",
        Unmatched::OtherType => "it had other event types when the event was routed",
        Unmatched::Filtered => "its filter did not accept the event when it was routed",
        Unmatched::Paused => "it was paused when the event was routed",
        Unmatched::Unverified => "its URL was not verified when the event was routed",
    }
}

fn explained(one: &ExplainedDelivery, matched_by: Option<MatchedBy>) -> Explained {
    let told = describe(one);
    let (letter, again) = one.dead_letter.map_or((None, None), |(letter, again)| (Some(letter), again));
    Explained {
        delivery: DeliveryView::with_attempts(&one.delivery, one.attempts.clone()),
        dead_letter_id: letter.map(DeadLetterId::get),
        requeued_as: again.map(SagaId::get),
        matched_by,
        told,
    }
}

/// Describes the state of a delivery in one sentence.
fn describe(one: &ExplainedDelivery) -> String {
    use posthaste_core::saga::SagaStatus;
    let state = &one.delivery.saga.state;
    let tries = count(state.attempt_count as usize, "attempt");
    let error = state.final_error_code.as_ref().map(ToString::to_string).unwrap_or_default();
    let next = state.next_attempt_at;
    match (state.status, one.dead_letter) {
        (SagaStatus::Pending, _) => format!("the first attempt is due since {next}"),
        (SagaStatus::InProgress, _) => format!("attempt {} is in progress", state.attempt_count + 1),
        (SagaStatus::PendingRetry, _) => {
            format!("{tries} failed, the last with {error}; the next is due at {next}")
        }
        (SagaStatus::Completed, _) => format!("delivered with {tries}"),
        (SagaStatus::DeadLettered, Some((letter, Some(again)))) => {
            format!(
                "dead-lettered after {tries} with {error} as dead letter {letter}, requeued as delivery {again}"
            )
        }
        (SagaStatus::DeadLettered, Some((letter, None))) => {
            format!("dead-lettered after {tries} with {error} as dead letter {letter}")
        }
        (SagaStatus::DeadLettered, None) => format!("dead-lettered after {tries} with {error}"),
    }
}
