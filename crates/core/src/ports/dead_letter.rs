//! Port of the role dead_letter_operator: reads dead letters, creates new sagas from them, and resumes the
//! lane to the broker.

use super::{Page, PageRequest, StoreResult};
use crate::audit::Actor;
use crate::event::EventType;
use crate::ids::{DeadLetterId, SagaId, SubscriptionId};
use crate::lane::Lane;
use crate::time::Timestamp;

/// A filter for dead letters. All given conditions must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeadLetterFilter {
    pub subscription_id: Option<SubscriptionId>,
    pub event_type: Option<EventType>,
    /// Failed at this time or later.
    pub since: Option<Timestamp>,
    /// Failed before this time.
    pub until: Option<Timestamp>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Requeue {
    Created(SagaId),
    /// It was requeued before, as this saga.
    AlreadyRequeued(SagaId),
    /// Its subscription was deleted, so it could never be sent.
    SubscriptionDeleted,
    NotFound,
}

pub trait DeadLetterStore: Send + Sync + 'static {
    /// Creates a new saga from each dead letter, at most once for each. Returns the results in the same
    /// order.
    fn requeue_dead_letters(
        &self,
        ids: Vec<DeadLetterId>,
        by: Actor,
        now: Timestamp,
    ) -> impl Future<Output = StoreResult<Vec<Requeue>>> + Send;

    /// Returns the ids that match a filter, oldest first.
    fn find_dead_letters(
        &self,
        filter: DeadLetterFilter,
        page: PageRequest,
    ) -> impl Future<Output = StoreResult<Page<DeadLetterId>>> + Send;

    /// Applies [`Lane::resumed`] to the lane's row and returns the lane. The role cannot change the lane in
    /// any other way.
    fn resume_lane(&self, by: Actor, now: Timestamp) -> impl Future<Output = StoreResult<Lane>> + Send;
}
