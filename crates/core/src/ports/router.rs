//! Port of the role router_worker: creates sagas from queued events.

use super::StoreResult;
use crate::ids::{EventId, SubscriptionId};
use crate::time::Timestamp;

/// The maximum number of events to fetch, and the id at which to start reading. `None` starts at the beginning
/// of the queue, which also finds events whose transaction was committed late.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RouteTake {
    pub from: Option<EventId>,
    pub events_max: u32,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Routed {
    pub events: u32,
    /// The number of matching pairs of event and subscription. Includes pairs that already had a saga, because
    /// the router has no permission to read sagas.
    pub pairs: u32,
    /// The number of pairs for which a filter was evaluated, whether it accepted the event or not.
    pub filtered: u32,
    pub lowest: Option<EventId>,
    /// The distinct subscriptions of the pairs.
    pub subscriptions: Vec<SubscriptionId>,
}

pub trait RouterStore: Send + Sync + 'static {
    /// Dequeues events and creates one Pending saga for each subscription that matches at this time.
    fn route_events(
        &self,
        take: RouteTake,
        now: Timestamp,
    ) -> impl Future<Output = StoreResult<Routed>> + Send;
}
