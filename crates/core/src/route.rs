//! Routing: the rule for matching events with subscriptions, and the batch size of the router. The stores
//! implement the rule in SQL, except for filters, which they evaluate with [`Filter::matches`]. The API uses
//! [`decide`] to explain the result.

use crate::attributes::Attributes;
use crate::event::EventType;
use crate::filter::Filter;
use crate::pattern::EventTypePatterns;
use crate::tenant::Tenant;

/// The part of an event that routing depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventFacts<'a> {
    pub event_type: &'a EventType,
    pub tenant: Option<&'a Tenant>,
    pub attributes: &'a Attributes,
}

/// The part of a subscription that routing depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Routable<'a> {
    pub tenant: Option<&'a Tenant>,
    pub event_types: &'a EventTypePatterns,
    pub filter: Option<&'a Filter>,
    pub active: bool,
    pub verified: bool,
    pub deleted: bool,
}

/// Whether a subscription matches an event, and what decided. If there are several reasons why it does not match, this
/// is the first of them in the order of the variants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RouteDecision {
    /// Contains the most specific pattern that matches, and the clause that decided if the subscription has a filter.
    Matched {
        pattern: String,
        clause: Option<String>,
    },
    Deleted,
    Inactive,
    Unverified,
    /// The event and the subscription have different tenants, or only one of them has a tenant.
    OtherTenant,
    NoPattern,
    /// The filter does not accept the event. Contains the clause that decided.
    Filtered {
        clause: String,
    },
}

impl RouteDecision {
    pub const fn is_matched(&self) -> bool {
        matches!(self, Self::Matched { .. })
    }
}

/// Returns whether a subscription, in its current state, matches an event.
pub fn matches(event: EventFacts<'_>, subscription: Routable<'_>) -> bool {
    subscription.active
        && subscription.verified
        && !subscription.deleted
        && subscription.tenant == event.tenant
        && subscription.event_types.matches(event.event_type)
        && subscription.filter.is_none_or(|filter| filter.matches(event.event_type, event.attributes))
}

/// Returns whether a subscription, in its current state, matches an event, and what decided.
pub fn decide(event: EventFacts<'_>, subscription: Routable<'_>) -> RouteDecision {
    if subscription.deleted {
        return RouteDecision::Deleted;
    }
    if !subscription.active {
        return RouteDecision::Inactive;
    }
    if !subscription.verified {
        return RouteDecision::Unverified;
    }
    if subscription.tenant != event.tenant {
        return RouteDecision::OtherTenant;
    }
    let Some(pattern) = subscription.event_types.find(event.event_type) else {
        return RouteDecision::NoPattern;
    };
    let pattern = pattern.as_str().to_owned();
    match subscription.filter.map(|filter| filter.decide(event.event_type, event.attributes)) {
        None => RouteDecision::Matched { pattern, clause: None },
        Some(decision) if decision.matched => {
            RouteDecision::Matched { pattern, clause: Some(decision.clause) }
        }
        Some(decision) => RouteDecision::Filtered { clause: decision.clause },
    }
}

/// Returns the number of events to fetch, at most `events_max`, so that the next step creates about
/// `sagas_target` sagas. The estimate assumes the fan-out of the last step, which created `sagas` sagas from
/// `events` events.
pub fn events_to_take(events: u32, sagas: u32, sagas_target: u32, events_max: u32) -> u32 {
    if events == 0 || sagas <= events {
        return events_max.max(1);
    }
    let take = u64::from(sagas_target) * u64::from(events) / u64::from(sagas);
    u32::try_from(take).unwrap_or(u32::MAX).clamp(1, events_max.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_named_in_order() {
        let (acme, other) = (Tenant::from_store("acme".to_owned()), Tenant::from_store("other".to_owned()));
        let event_type = EventType::parse("order.paid").expect("a type");
        let patterns = |texts: &[&str]| {
            EventTypePatterns::from_store(texts.iter().map(|text| (*text).to_owned()).collect())
        };
        let (orders, invoices) = (patterns(&["*", "order.*"]), patterns(&["invoice.*", "order.paid.late"]));
        let filter = |text| Filter::parse(text).expect("a filter");
        let (eu, us) = (filter(r#"{"exact":{"region":"eu"}}"#), filter(r#"[{"exact":{"region":"us"}}]"#));
        let attributes = Attributes::parse(r#"{"region":"eu"}"#).expect("attributes");
        let event = EventFacts { event_type: &event_type, tenant: Some(&acme), attributes: &attributes };
        let refused = RouteDecision::Filtered { clause: r#"#/0 {"exact":{"region":"us"}}"#.to_owned() };
        let matched = |clause: Option<&str>| RouteDecision::Matched {
            pattern: "order.*".to_owned(),
            clause: clause.map(str::to_owned),
        };
        let mut one = Routable {
            tenant: Some(&other),
            event_types: &invoices,
            filter: Some(&us),
            active: false,
            verified: false,
            deleted: true,
        };
        let check = |one: Routable<'_>, expected: RouteDecision| {
            assert_eq!(matches(event, one), expected.is_matched(), "{one:?}");
            assert_eq!(decide(event, one), expected, "{one:?}");
        };
        // Each change removes the first reason.
        check(one, RouteDecision::Deleted);
        one.deleted = false;
        check(one, RouteDecision::Inactive);
        one.active = true;
        check(one, RouteDecision::Unverified);
        one.verified = true;
        check(one, RouteDecision::OtherTenant);
        check(Routable { tenant: None, ..one }, RouteDecision::OtherTenant);
        one.tenant = Some(&acme);
        check(one, RouteDecision::NoPattern);
        one.event_types = &orders;
        check(one, refused);
        check(Routable { filter: Some(&eu), ..one }, matched(Some(r##"# {"exact":{"region":"eu"}}"##)));
        one.filter = None;
        check(one, matched(None));
        let without = EventFacts { tenant: None, ..event };
        assert!(!matches(without, one) && matches(without, Routable { tenant: None, ..one }));
    }

    #[test]
    fn both_functions_agree() {
        let names = ["a".to_owned(), "b".to_owned()];
        let tenants = [None, Some(Tenant::from_store("x".to_owned()))];
        let filters = [None, Some(Filter::parse(r#"{"not":{"exact":{"a":"1"}}}"#).expect("a filter"))];
        let attributes = Attributes::parse(r#"{"a":1}"#).expect("attributes");
        let event_type = EventType::from_store("a".to_owned());
        let mut matched = 0;
        for bits in 0..64_usize {
            let is_set = |bit: usize| bits >> bit & 1 == 1;
            let event = EventFacts { event_type: &event_type, tenant: None, attributes: &attributes };
            let event_types = EventTypePatterns::from_store(vec![names[usize::from(is_set(0))].clone()]);
            let one = Routable {
                tenant: tenants[usize::from(is_set(1))].as_ref(),
                event_types: &event_types,
                filter: filters[usize::from(is_set(2))].as_ref(),
                active: is_set(3),
                verified: is_set(4),
                deleted: is_set(5),
            };
            assert_eq!(matches(event, one), decide(event, one).is_matched(), "{one:?}");
            matched += usize::from(matches(event, one));
        }
        assert_eq!(matched, 1);
    }

    #[test]
    fn batch_shrinks_with_the_fan_out() {
        for (events, sagas, expected) in [
            (0, 0, 500),
            (500, 0, 500),
            (500, 500, 500),
            (500, 5_000, 200),
            (10, 10_000, 2),
            (1, 1_000_000, 1),
            (1, u32::MAX, 1),
        ] {
            assert_eq!(
                events_to_take(events, sagas, 2_000, 500),
                expected,
                "{sagas} sagas from {events} events"
            );
        }
    }
}
