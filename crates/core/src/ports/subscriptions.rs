//! Role subscription_admin: keeps the configuration of subscriptions.

use super::StoreResult;
use crate::audit::Actor;
use crate::ids::SubscriptionId;
use crate::subscription::{
    CallbackUrl, NewSubscription, SealedSecret, Secrets, Subscription, SubscriptionPatch,
};
use crate::time::Timestamp;

/// What a challenge was sent to and signed with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verification {
    pub callback_url: CallbackUrl,
    pub secret: SealedSecret,
}

pub trait SubscriptionStore: Send + Sync + 'static {
    fn create_subscription(
        &self,
        subscription: NewSubscription,
        by: Actor,
        now: Timestamp,
    ) -> impl Future<Output = StoreResult<Subscription>> + Send;

    /// The subscription with the secrets that sign a challenge or a test; nothing if it is not there
    /// or was deleted.
    fn load_subscription(
        &self,
        id: SubscriptionId,
    ) -> impl Future<Output = StoreResult<Option<(Subscription, Secrets)>>> + Send;

    /// Applies a change. A patch that changes nothing leaves no trace in the history. Returns `None` if there is no
    /// such subscription or it was deleted.
    fn update_subscription(
        &self,
        id: SubscriptionId,
        patch: SubscriptionPatch,
        by: Actor,
        now: Timestamp,
    ) -> impl Future<Output = StoreResult<Option<Subscription>>> + Send;

    /// Deactivates it for good. Answers whether there was one to delete.
    fn delete_subscription(
        &self,
        id: SubscriptionId,
        by: Actor,
        now: Timestamp,
    ) -> impl Future<Output = StoreResult<bool>> + Send;

    /// Marks it verified if URL and secret are still the ones that were challenged. Answers whether.
    fn mark_verified(
        &self,
        id: SubscriptionId,
        challenged: Verification,
        by: Actor,
        now: Timestamp,
    ) -> impl Future<Output = StoreResult<bool>> + Send;

    /// The current secret becomes the previous one until `previous_until`.
    fn rotate_secret(
        &self,
        id: SubscriptionId,
        secret: SealedSecret,
        previous_until: Timestamp,
        by: Actor,
        now: Timestamp,
    ) -> impl Future<Output = StoreResult<Option<Subscription>>> + Send;
}
