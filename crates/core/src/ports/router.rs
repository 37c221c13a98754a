//! Port of the role router_worker: creates sagas from queued events.

use super::StoreResult;
use crate::ids::{EventId, SubscriptionId};
use crate::time::Timestamp;

/// How many events to fetch, and the id from which to read; `None` means from the beginning, which also finds
/// ids that were committed late.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RouteTake {
    pub from: Option<EventId>,
    pub events_max: u32,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Routed {
    pub events: u32,
    /// The number of matching pairs of event and subscription. A pair that already had a saga is counted as
    /// well, because the router may not read sagas.
    pub pairs: u32,
    pub lowest: Option<EventId>,
    /// The subscriptions of the pairs, each once.
    pub subscriptions: Vec<SubscriptionId>,
}

pub trait RouterStore: Send + Sync + 'static {
    /// Dequeues events and creates one Pending saga for each subscription that matches now.
    fn route_events(
        &self,
        take: RouteTake,
        now: Timestamp,
    ) -> impl Future<Output = StoreResult<Routed>> + Send;
}
