//! Role dead_letter_operator: reads dead letters, creates new sagas from them, and resumes the lane to the broker.

use super::{Page, PageRequest, StoreResult};
use crate::audit::Actor;
use crate::event::EventType;
use crate::ids::{DeadLetterId, SagaId, SubscriptionId};
use crate::lane::Lane;
use crate::time::Timestamp;

/// Which dead letters; every field narrows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeadLetterFilter {
    pub subscription_id: Option<SubscriptionId>,
    pub event_type: Option<EventType>,
    /// Failed at or after.
    pub since: Option<Timestamp>,
    /// Failed before.
    pub until: Option<Timestamp>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Requeue {
    Created(SagaId),
    /// It was requeued before; this is the saga of that time.
    AlreadyRequeued(SagaId),
    /// Its subscription was deleted, so nothing could ever be sent.
    SubscriptionDeleted,
    NotFound,
}

pub trait DeadLetterStore: Send + Sync + 'static {
    /// Makes a brand-new saga from each dead letter, at most one for each ever; answers in order.
    fn requeue_dead_letters(
        &self,
        ids: Vec<DeadLetterId>,
        by: Actor,
        now: Timestamp,
    ) -> impl Future<Output = StoreResult<Vec<Requeue>>> + Send;

    /// The ids that a filter finds, oldest first.
    fn find_dead_letters(
        &self,
        filter: DeadLetterFilter,
        page: PageRequest,
    ) -> impl Future<Output = StoreResult<Page<DeadLetterId>>> + Send;

    /// Applies [`Lane::resumed`] to the lane's row, and returns the lane. The role can change nothing else of it.
    fn resume_lane(&self, by: Actor, now: Timestamp) -> impl Future<Output = StoreResult<Lane>> + Send;
}
