//! Dequeues accepted events (queued by ingest) and creates the sagas that the orchestrator admits. Never
//! reads sagas, jobs or payloads.

use crate::clock::Clock;
use crate::metrics::Metrics;
use crate::read_position::ReadPosition;
use crate::step::{Progress, Step};
use crate::wake::WakeUps;
use posthaste_core::ports::{DueSince, RouteTake, RouterStore, StoreResult};
use posthaste_core::route::events_to_take;
use posthaste_core::{EventId, Timestamp};

const SERVICE: &str = "router";

/// The maximum number of events that one step routes.
const EVENTS_MAX: u32 = 500;
/// The approximate number of sagas that one step creates. With a high fan-out, it limits the number of events
/// in a step.
const SAGAS_TARGET: u32 = 2_000;
/// The number of evaluated filters that count as one saga for the size of the next batch. An estimate, not a
/// measurement: evaluating a filter needs no I/O, so it is assumed to cost a small part of a saga.
const FILTERS_PER_SAGA: u32 = 16;

#[derive(Debug)]
pub struct Router<S> {
    store: S,
    wake_ups: WakeUps,
    metrics: Metrics,
    events_max: u32,
    /// The position of reads by event id. Ids are not committed in order; a full scan finds events that were
    /// committed late.
    position: ReadPosition<EventId>,
}

impl<S: RouterStore> Router<S> {
    pub const fn new(store: S, clock: Clock, wake_ups: WakeUps, metrics: Metrics) -> Self {
        let position = ReadPosition::new(clock);
        Self { store, wake_ups, metrics, events_max: EVENTS_MAX, position }
    }
}

impl<S: RouterStore> Step for Router<S> {
    async fn step(&mut self, now: Timestamp) -> StoreResult<Progress> {
        let from = self.position.from(now);
        let events_max = self.events_max;
        let routed = self.store.route_events(RouteTake { from, events_max }, now).await?;
        let may_be_more = routed.events == events_max;
        self.position.record(routed.lowest, now);
        if routed.events > 0 {
            self.metrics.events_routed.inc_by(routed.events.into());
            self.metrics.pairs_routed.inc_by(routed.pairs.into());
            self.metrics.batch(SERVICE, routed.events as usize);
            let first_event_id = routed.lowest.map(tracing::field::display);
            tracing::debug!(events = routed.events, pairs = routed.pairs, first_event_id, "events routed");
        }
        if routed.pairs > 0 {
            let due = |subscription_id| DueSince { subscription_id, since: now };
            self.wake_ups.wake_admission(routed.subscriptions.into_iter().map(due));
        }
        let work = routed.pairs.saturating_add(routed.filtered / FILTERS_PER_SAGA);
        self.events_max = events_to_take(routed.events, work, SAGAS_TARGET, EVENTS_MAX);
        Ok(if may_be_more { Progress::More } else { Progress::Idle })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use posthaste_core::SubscriptionId;
    use posthaste_core::ports::Routed;
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    /// A store that returns scripted results and records its calls.
    #[derive(Debug, Default, Clone)]
    struct Scripted {
        asked: Arc<Mutex<Vec<RouteTake>>>,
        fan_out: u32,
        /// The number of filters for each event that accept no event.
        filters: u32,
        lowest: i64,
    }

    impl RouterStore for Scripted {
        async fn route_events(&self, take: RouteTake, _now: Timestamp) -> StoreResult<Routed> {
            self.asked.lock().expect("the list").push(take);
            let lowest = Some(EventId::from_store(self.lowest));
            let pairs = take.events_max * self.fan_out;
            let subscriptions = vec![SubscriptionId::from_store(1)];
            let filtered = take.events_max * self.filters;
            Ok(Routed { events: take.events_max, pairs, filtered, lowest, subscriptions })
        }
    }

    fn router(store: &Scripted, clock: &Clock) -> Router<Scripted> {
        Router::new(store.clone(), clock.clone(), WakeUps::alone(), Metrics::new())
    }

    #[tokio::test]
    async fn reads_start_at_the_mark_and_a_full_scan_runs_every_second() {
        let store = Scripted { fan_out: 1, lowest: 7, ..Scripted::default() };
        let start = Timestamp::from_micros(0);
        let clock = Clock::fixed(start);
        let mut router = router(&store, &clock);
        for ms in [0, 300, 999, 1_000, 1_300] {
            clock.set(start.after(Duration::from_millis(ms)));
            router.step(clock.now()).await.expect("a step");
        }
        let from: Vec<_> = store.asked.lock().expect("the list").iter().map(|take| take.from).collect();
        let seven = Some(EventId::from_store(7));
        assert_eq!(from, [None, seven, seven, None, seven]);
    }

    #[tokio::test]
    async fn subscriptions_of_new_sagas_are_passed_to_admission() {
        let store = Scripted { fan_out: 1, lowest: 1, ..Scripted::default() };
        let wake_ups = WakeUps::alone();
        let (clock, now) = (Clock::fixed(Timestamp::MIN), Timestamp::from_micros(5));
        let mut router = Router::new(store, clock, wake_ups.clone(), Metrics::new());
        router.step(now).await.expect("a step");
        let subscription_id = SubscriptionId::from_store(1);
        assert_eq!(wake_ups.take_due(), [DueSince { subscription_id, since: now }]);
    }

    #[tokio::test]
    async fn high_fan_out_and_many_filters_reduce_the_next_batch() {
        for (fan_out, filters, expected) in [(1_000, 0, 2), (0, 16_000, 2), (4, 16, 400), (1, 8, 500)] {
            let store = Scripted { fan_out, filters, lowest: 1, ..Scripted::default() };
            let mut router = router(&store, &Clock::fixed(Timestamp::MIN));
            for _ in 0..3 {
                assert_eq!(router.step(Timestamp::MIN).await.expect("a step"), Progress::More);
            }
            let sizes: Vec<_> =
                store.asked.lock().expect("the list").iter().map(|take| take.events_max).collect();
            assert_eq!(sizes, [500, expected, expected], "{fan_out} sagas and {filters} filters");
        }
    }
}
