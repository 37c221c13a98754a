//! Routing: the rule for matching events with subscriptions, and the batch size of the router. The stores
//! implement the same rule in SQL.

use crate::event::EventType;

/// The part of a subscription that routing depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Routable<'a> {
    pub event_type: &'a EventType,
    pub active: bool,
    pub verified: bool,
    pub deleted: bool,
}

/// Returns whether a subscription, in its current state, matches an event.
pub fn matches(event_type: &EventType, subscription: Routable<'_>) -> bool {
    subscription.active
        && subscription.verified
        && !subscription.deleted
        && subscription.event_type == event_type
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
    fn only_active_verified_present_subscriptions_of_the_type_match() {
        let paid = EventType::parse("order.paid").expect("a type");
        let sent = EventType::parse("order.sent").expect("a type");
        let all = Routable { event_type: &paid, active: true, verified: true, deleted: false };
        assert!(matches(&paid, all));
        assert!(!matches(&sent, all));
        assert!(!matches(&paid, Routable { active: false, ..all }));
        assert!(!matches(&paid, Routable { verified: false, ..all }));
        assert!(!matches(&paid, Routable { deleted: true, ..all }));
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
