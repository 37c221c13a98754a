//! Takes accepted events off the queue (put there by ingest) and makes the sagas that the orchestrator
//! works on. Never looks at a saga, a job or a payload.

use crate::clock::Clock;
use crate::cursor::Cursor;
use crate::metrics::Metrics;
use crate::orchestrator::Flows;
use crate::step::{Progress, Step};
use crate::wake::Wakes;
use posthaste_core::ports::{RouteTake, RouterStore, Stage, StoreResult};
use posthaste_core::route::events_to_take;
use posthaste_core::{EventId, Timestamp};
use std::time::Duration;

const SERVICE: &str = "router";

/// The most events of one step.
const EVENTS_MAX: u32 = 500;
/// About how many sagas one step makes, whatever the fan-out.
const SAGAS_TARGET: u32 = 2_000;
/// How often the queue is read from its beginning: ids commit out of order, and one that was committed
/// late lies behind the cursor.
const FULL_PASS_EVERY: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub struct Router<S> {
    store: S,
    wakes: Wakes,
    metrics: Metrics,
    events_max: u32,
    cursor: Cursor<EventId>,
    /// Of an orchestrator in the same process: it need not look for what it is told.
    flows: Option<Flows>,
}

impl<S: RouterStore> Router<S> {
    pub const fn new(store: S, clock: Clock, wakes: Wakes, metrics: Metrics) -> Self {
        let cursor = Cursor::new(clock, FULL_PASS_EVERY);
        Self { store, wakes, metrics, events_max: EVENTS_MAX, cursor, flows: None }
    }

    /// Tells an orchestrator's memory which subscriptions it made sagas for.
    #[must_use]
    pub fn telling(self, flows: Option<Flows>) -> Self {
        Self { flows, ..self }
    }
}

impl<S: RouterStore> Step for Router<S> {
    async fn step(&mut self, now: Timestamp) -> StoreResult<Progress> {
        let from = self.cursor.from(now);
        let events_max = self.events_max;
        let routed = self.store.route_events(RouteTake { from, events_max }, now).await?;
        let may_be_more = routed.events == events_max;
        self.cursor.taken(routed.lowest.into_iter(), may_be_more, now);
        if routed.events > 0 {
            self.metrics.events_routed.inc_by(routed.events.into());
            self.metrics.pairs_routed.inc_by(routed.pairs.into());
            self.metrics.batch(SERVICE, routed.events as usize);
            let first_event_id = routed.lowest.map(tracing::field::display);
            tracing::debug!(events = routed.events, pairs = routed.pairs, first_event_id, "events routed");
        }
        if routed.pairs > 0 {
            if let Some(flows) = &self.flows {
                flows.found_due(routed.by_subscription.iter().map(|(id, _)| *id));
            }
            self.wakes.wake(Stage::Admission);
        }
        self.events_max = events_to_take(routed.events, routed.pairs, SAGAS_TARGET, EVENTS_MAX);
        Ok(if may_be_more { Progress::More } else { Progress::Idle })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use posthaste_core::SubscriptionId;
    use posthaste_core::ports::Routed;
    use std::sync::{Arc, Mutex};

    /// Answers from a script and keeps what it was asked.
    #[derive(Debug, Default, Clone)]
    struct Scripted {
        asked: Arc<Mutex<Vec<RouteTake>>>,
        fan_out: u32,
        lowest: i64,
    }

    impl RouterStore for Scripted {
        async fn route_events(&self, take: RouteTake, _now: Timestamp) -> StoreResult<Routed> {
            self.asked.lock().expect("the list").push(take);
            let lowest = Some(EventId::from_store(self.lowest));
            let pairs = take.events_max * self.fan_out;
            Ok(Routed {
                events: take.events_max,
                pairs,
                lowest,
                by_subscription: vec![(SubscriptionId::from_store(1), pairs)],
            })
        }
    }

    fn router(store: &Scripted) -> Router<Scripted> {
        Router::new(store.clone(), Clock::standing(Timestamp::MIN), Wakes::alone(), Metrics::new())
    }

    #[tokio::test]
    async fn goes_from_the_last_take_and_from_the_beginning_every_second() {
        let store = Scripted { fan_out: 1, lowest: 7, ..Scripted::default() };
        let start = Timestamp::from_micros(0);
        let mut router = router(&store);
        for ms in [0, 300, 999, 1_000, 1_300] {
            router.step(start.after(Duration::from_millis(ms))).await.expect("a step");
        }
        let from: Vec<_> = store.asked.lock().expect("the list").iter().map(|take| take.from).collect();
        let seven = Some(EventId::from_store(7));
        assert_eq!(from, [None, seven, seven, None, seven]);
    }

    #[tokio::test]
    async fn an_orchestrator_in_the_same_process_is_told_who_has_something_due() {
        for (fan_out, told) in [(0, false), (1, true)] {
            let flows = Flows::new(16);
            let store = Scripted { fan_out, lowest: 1, ..Scripted::default() };
            router(&store).telling(Some(flows.clone())).step(Timestamp::MIN).await.expect("a step");
            assert_eq!(flows.has_room(), told, "{fan_out} subscriptions for each event");
        }
    }

    #[tokio::test]
    async fn a_fan_out_of_a_thousand_makes_the_next_take_small() {
        let store = Scripted { fan_out: 1_000, lowest: 1, ..Scripted::default() };
        let mut router = router(&store);
        for _ in 0..3 {
            assert_eq!(router.step(Timestamp::MIN).await.expect("a step"), Progress::More);
        }
        let sizes: Vec<_> =
            store.asked.lock().expect("the list").iter().map(|take| take.events_max).collect();
        assert_eq!(sizes, [500, 2, 2]);
    }
}
