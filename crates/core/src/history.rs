//! The past states of a subscription, derived from its recorded changes. They explain why an event matched a
//! subscription or not: [`route::decide`] applies to the state of the subscription when the event is routed.

use crate::filter::Filter;
use crate::ids::SubscriptionId;
use crate::pattern::EventTypePatterns;
use crate::route::{self, EventFacts, Routable, RouteDecision};
use crate::tenant::Tenant;
use crate::time::Timestamp;
use std::time::Duration;

/// The maximum clock skew between two processes, and the maximum time between the timestamp of a transaction
/// and its commit. If a subscription changed this close to the routing of an event, it is unknown whether the
/// router used the old or the new state.
pub const UNSURE_BEFORE: Duration = Duration::from_secs(30);
/// The maximum difference between the creation time of a saga and the time at which it was actually created. A
/// suspended router continues with its old timestamp.
pub const UNSURE_AFTER: Duration = Duration::from_secs(900);

/// A recorded change to a subscription. Contains the new state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubscriptionChange {
    pub subscription_id: SubscriptionId,
    pub tenant: Option<Tenant>,
    pub event_types: EventTypePatterns,
    pub filter: Option<Filter>,
    pub active: bool,
    pub verified: bool,
    pub is_deleted: bool,
    pub changed_at: Timestamp,
}

/// The reason why a subscription did not match an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unmatched {
    CreatedLater,
    Deleted,
    OtherTenant,
    /// No pattern of the subscription matches the type of the event.
    OtherType,
    Paused,
    Unverified,
    /// The filter of the subscription does not accept the event.
    Filtered,
}

impl Unmatched {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::CreatedLater => "created_later",
            Self::Deleted => "deleted",
            Self::OtherTenant => "other_tenant",
            Self::OtherType => "other_type",
            Self::Paused => "paused",
            Self::Unverified => "unverified",
            Self::Filtered => "filtered",
        }
    }
}

/// Whether a subscription matched an event, according to its recorded changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Matched,
    Not(Unmatched),
    /// The subscription changed around the time of routing, so it may or may not have matched.
    Unsure,
}

impl SubscriptionChange {
    /// Returns the part of the recorded state that routing depends on.
    pub fn routable(&self) -> Routable<'_> {
        Routable {
            tenant: self.tenant.as_ref(),
            event_types: &self.event_types,
            filter: self.filter.as_ref(),
            active: self.active,
            verified: self.verified,
            deleted: self.is_deleted,
        }
    }

    /// Returns what decided for an event, as if the subscription were active and verified.
    fn decide(&self, event: EventFacts<'_>) -> RouteDecision {
        route::decide(event, Routable { active: true, verified: true, ..self.routable() })
    }

    /// Returns whether the recorded state matched an event. The reasons that depend on the event only, such as another
    /// type, are returned in preference to those that the subscription had for all events, such as a pause.
    fn matches(&self, event: EventFacts<'_>) -> Verdict {
        let reason = match self.decide(event) {
            RouteDecision::Deleted => Unmatched::Deleted,
            RouteDecision::OtherTenant => Unmatched::OtherTenant,
            RouteDecision::NoPattern => Unmatched::OtherType,
            RouteDecision::Filtered { .. } => Unmatched::Filtered,
            RouteDecision::Unverified => Unmatched::Unverified,
            RouteDecision::Inactive => Unmatched::Paused,
            RouteDecision::Matched { .. } if !self.verified => Unmatched::Unverified,
            RouteDecision::Matched { .. } if !self.active => Unmatched::Paused,
            RouteDecision::Matched { .. } => return Verdict::Matched,
        };
        Verdict::Not(reason)
    }
}

/// Returns whether a subscription matched an event for all of, none of, or part of the time between `from`
/// and `to`. `changes` contains the changes to the subscription, oldest first. If it never matched, the reason
/// is that of the last state.
pub fn verdict(
    changes: &[SubscriptionChange],
    event: EventFacts<'_>,
    from: Timestamp,
    to: Timestamp,
) -> Verdict {
    let before = changes.iter().rfind(|change| change.changed_at <= from);
    let first = before.map_or(Verdict::Not(Unmatched::CreatedLater), |change| change.matches(event));
    let within = changes.iter().filter(|change| change.changed_at > from && change.changed_at <= to);
    within.map(|change| change.matches(event)).fold(first, |so_far, next| match (so_far, next) {
        (Verdict::Matched, Verdict::Matched) => Verdict::Matched,
        (Verdict::Not(_), Verdict::Not(reason)) => Verdict::Not(reason),
        (Verdict::Unsure, _) | (_, Verdict::Unsure) => Verdict::Unsure,
        (Verdict::Matched, Verdict::Not(_)) | (Verdict::Not(_), Verdict::Matched) => Verdict::Unsure,
    })
}

/// Returns what decided whether a subscription matched an event in its state at a time, or `None` if it did not exist.
/// A pause and a missing verification are ignored, because they hold for all events.
pub fn decision_at(
    changes: &[SubscriptionChange],
    event: EventFacts<'_>,
    at: Timestamp,
) -> Option<RouteDecision> {
    let state = changes.iter().rfind(|change| change.changed_at <= at)?;
    Some(state.decide(event))
}

/// Returns the decision by which a subscription matched an event that was routed about `at`, between `from` and `to`:
/// that of the state at this time, otherwise that of the last matching state in the interval.
pub fn decision_matched(
    changes: &[SubscriptionChange],
    event: EventFacts<'_>,
    at: Timestamp,
    (from, to): (Timestamp, Timestamp),
) -> Option<RouteDecision> {
    let within = changes.iter().filter(|change| change.changed_at > from && change.changed_at <= to);
    let states = within.rev().map(|change| change.decide(event));
    let before = decision_at(changes, event, from);
    decision_at(changes, event, at).into_iter().chain(states).chain(before).find(RouteDecision::is_matched)
}

/// Returns the last change between `from` and `to` that made the subscription start or stop matching an event.
/// If it stopped matching, the reason is also returned.
pub fn turn<'a>(
    changes: &'a [SubscriptionChange],
    event: EventFacts<'_>,
    from: Timestamp,
    to: Timestamp,
) -> Option<(&'a SubscriptionChange, Option<Unmatched>)> {
    let reason = |change: &SubscriptionChange| match change.matches(event) {
        Verdict::Not(reason) => Some(reason),
        Verdict::Matched | Verdict::Unsure => None,
    };
    // Before the first change, the subscription did not exist.
    let before = std::iter::once(Some(Unmatched::CreatedLater)).chain(changes.iter().map(reason));
    let turned = changes.iter().zip(before).filter(|(change, before)| {
        let is_within = change.changed_at > from && change.changed_at <= to;
        is_within && before.is_none() != reason(change).is_none()
    });
    turned.last().map(|(change, _)| (change, reason(change)))
}

/// Returns the interval in which an event was routed. If the event has a delivery, this is the time around the
/// creation of the first delivery; otherwise it is the time from the arrival of the event until now.
pub fn routed_between(
    arrived_at: Timestamp,
    first_delivery_at: Option<Timestamp>,
    now: Timestamp,
) -> (Timestamp, Timestamp) {
    let (from, to) = first_delivery_at.map_or((arrived_at, now), |at| (at, at));
    (from.before(UNSURE_BEFORE), to.after(UNSURE_AFTER))
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::attributes::Attributes;
    use crate::event::EventType;

    fn kind(text: &str) -> EventType {
        EventType::parse(text).expect("a type")
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_micros(seconds * 1_000_000)
    }

    fn change(seconds: i64, event_type: &str, active: bool, verified: bool) -> SubscriptionChange {
        SubscriptionChange {
            subscription_id: SubscriptionId::from_store(1),
            tenant: None,
            event_types: EventTypePatterns::of(kind(event_type)),
            filter: None,
            active,
            verified,
            is_deleted: false,
            changed_at: at(seconds),
        }
    }

    #[test]
    fn past_states_are_derived_from_changes() {
        let deleted = SubscriptionChange { is_deleted: true, ..change(600, "a", true, true) };
        let changes = [
            change(100, "a", true, false),
            change(200, "a", true, true),
            change(300, "a", false, true),
            change(400, "b", false, true),
            change(500, "a", true, true),
            deleted,
        ];
        let (event_type, attributes) = (kind("a"), Attributes::default());
        let event = EventFacts { event_type: &event_type, tenant: None, attributes: &attributes };
        let not = Verdict::Not;
        for (from, to, expected) in [
            (0, 99, not(Unmatched::CreatedLater)),
            (0, 150, not(Unmatched::Unverified)),
            (100, 199, not(Unmatched::Unverified)),
            (150, 250, Verdict::Unsure),
            (200, 299, Verdict::Matched),
            (299, 300, Verdict::Unsure),
            (300, 399, not(Unmatched::Paused)),
            (300, 450, not(Unmatched::OtherType)),
            (350, 500, Verdict::Unsure),
            (500, 599, Verdict::Matched),
            (600, 900, not(Unmatched::Deleted)),
            (0, 900, Verdict::Unsure),
        ] {
            assert_eq!(verdict(&changes, event, at(from), at(to)), expected, "{from} to {to}");
        }
        for (from, to, turned) in [
            (0, 150, None),
            (150, 250, Some((200, None))),
            (299, 450, Some((300, Some(Unmatched::Paused)))),
            (300, 450, None),
            (350, 500, Some((500, None))),
            (0, 900, Some((600, Some(Unmatched::Deleted)))),
        ] {
            let found = turn(&changes, event, at(from), at(to));
            let found = found.map(|(change, reason)| (change.changed_at, reason));
            assert_eq!(found, turned.map(|(when, reason)| (at(when), reason)), "{from} to {to}");
        }
    }

    #[test]
    fn everything_that_matching_depends_on_is_compared() {
        let acme = Tenant::from_store("acme".to_owned());
        let (event_type, attributes) = (kind("a.b"), Attributes::parse(r#"{"n":1}"#).expect("attributes"));
        let event = EventFacts { event_type: &event_type, tenant: Some(&acme), attributes: &attributes };
        let good = SubscriptionChange {
            tenant: Some(acme.clone()),
            event_types: EventTypePatterns::from_store(vec!["x".to_owned(), "a.*".to_owned()]),
            filter: Some(Filter::parse(r#"{"exact":{"n":"1"}}"#).expect("a filter")),
            ..change(0, "a", true, true)
        };
        let other_filter = Filter::parse(r#"{"exact":{"n":"2"}}"#).ok();
        let not = Verdict::Not;
        for (state, expected) in [
            (good.clone(), Verdict::Matched),
            (SubscriptionChange { filter: None, ..good.clone() }, Verdict::Matched),
            (SubscriptionChange { tenant: None, ..good.clone() }, not(Unmatched::OtherTenant)),
            (SubscriptionChange { filter: other_filter.clone(), ..good.clone() }, not(Unmatched::Filtered)),
            (
                SubscriptionChange { filter: other_filter, active: false, ..good.clone() },
                not(Unmatched::Filtered),
            ),
            (
                SubscriptionChange { active: false, verified: false, ..good.clone() },
                not(Unmatched::Unverified),
            ),
            (
                SubscriptionChange { event_types: EventTypePatterns::of(kind("a")), active: false, ..good },
                not(Unmatched::OtherType),
            ),
        ] {
            assert_eq!(state.matches(event), expected, "{state:?}");
            let is_matched = expected == Verdict::Matched;
            assert_eq!(route::matches(event, state.routable()), is_matched, "{state:?}");
        }
    }

    #[test]
    fn decision_is_that_of_the_state_at_the_time() {
        let (event_type, attributes) = (kind("a.b"), Attributes::default());
        let event = EventFacts { event_type: &event_type, tenant: None, attributes: &attributes };
        let refusing = Filter::parse(r#"{"exact":{"n":"1"}}"#).ok();
        let patterns = |text: &str| EventTypePatterns::from_store(vec![text.to_owned()]);
        let changes = [
            SubscriptionChange { event_types: patterns("*"), ..change(100, "x", true, false) },
            SubscriptionChange { event_types: patterns("a.*"), ..change(200, "x", false, true) },
            SubscriptionChange { filter: refusing, ..change(300, "a.b", true, true) },
        ];
        let matched =
            |pattern: &str| Some(RouteDecision::Matched { pattern: pattern.to_owned(), clause: None });
        let clause = r##"# {"exact":{"n":"1"}}"##.to_owned();
        for (seconds, expected) in [
            (99, None),
            (100, matched("*")),
            (250, matched("a.*")),
            (300, Some(RouteDecision::Filtered { clause })),
        ] {
            assert_eq!(decision_at(&changes, event, at(seconds)), expected, "{seconds}");
        }
        // If the state at the time does not match, the router used another one of the interval.
        for (seconds, from, to, expected) in [
            (150, 0, 400, matched("*")),
            (250, 0, 400, matched("a.*")),
            (300, 250, 400, matched("a.*")),
            (99, 50, 150, matched("*")),
            (99, 50, 99, None),
            (400, 300, 500, None),
        ] {
            let found = decision_matched(&changes, event, at(seconds), (at(from), at(to)));
            assert_eq!(found, expected, "{seconds} in {from} to {to}");
        }
    }

    #[test]
    fn time_of_routing_is_derived_from_the_first_delivery() {
        assert_eq!(routed_between(at(100), Some(at(200)), at(900)), (at(170), at(1_100)));
        assert_eq!(routed_between(at(100), None, at(900)), (at(70), at(1_800)));
    }
}
