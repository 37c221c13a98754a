//! Port of the role dead_letter_operator: reads and requeues dead letters, and resumes the lane to the broker.

use super::{Page, PageRequest, StoreResult};
use crate::audit::Actor;
use crate::event::EventType;
use crate::ids::{DeadLetterId, SagaId, SubscriptionId};
use crate::lane::Lane;
use crate::tenant::Tenant;
use crate::time::Timestamp;

/// A filter for dead letters. A dead letter must match all fields that are set.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeadLetterFilter {
    /// Selects dead letters of events of this tenant.
    pub tenant: Option<Tenant>,
    pub subscription_id: Option<SubscriptionId>,
    pub event_type: Option<EventType>,
    /// Selects dead letters that failed at this time or later.
    pub since: Option<Timestamp>,
    /// Selects dead letters that failed before this time.
    pub until: Option<Timestamp>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Requeue {
    Created(SagaId),
    /// The dead letter was already requeued, as this saga.
    AlreadyRequeued(SagaId),
    /// The subscription was deleted, so a new saga could never be delivered.
    SubscriptionDeleted,
    NotFound,
}

pub trait DeadLetterStore: Send + Sync + 'static {
    /// Creates a new saga from each dead letter that was not requeued before. Returns the results in the order
    /// of `ids`.
    fn requeue_dead_letters(
        &self,
        ids: Vec<DeadLetterId>,
        by: Actor,
        now: Timestamp,
    ) -> impl Future<Output = StoreResult<Vec<Requeue>>> + Send;

    /// Returns the ids of the dead letters that match a filter, oldest first.
    fn find_dead_letters(
        &self,
        filter: DeadLetterFilter,
        page: PageRequest,
    ) -> impl Future<Output = StoreResult<Page<DeadLetterId>>> + Send;

    /// Applies [`Lane::resumed`] to the lane and returns the new state. The role cannot change the lane in any
    /// other way.
    fn resume_lane(&self, by: Actor, now: Timestamp) -> impl Future<Output = StoreResult<Lane>> + Send;
}
