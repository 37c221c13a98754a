//! Port of the role subscription_admin: manages subscriptions.

use super::StoreResult;
use crate::audit::Actor;
use crate::ids::SubscriptionId;
use crate::subscription::{
    CallbackUrl, NewSubscription, SealedSecret, Secrets, Subscription, SubscriptionPatch,
};
use crate::time::Timestamp;

/// The URL that a challenge was sent to, and the secret that signed it.
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

    /// Returns the subscription with the secrets that sign a challenge or a test, or `None` if it does not
    /// exist or was deleted.
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

    /// Deletes a subscription permanently. Returns whether there was one to delete.
    fn delete_subscription(
        &self,
        id: SubscriptionId,
        by: Actor,
        now: Timestamp,
    ) -> impl Future<Output = StoreResult<bool>> + Send;

    /// Marks a subscription as verified if its URL and secret are still those of the challenge. Returns
    /// whether it did.
    fn mark_verified(
        &self,
        id: SubscriptionId,
        challenged: Verification,
        by: Actor,
        now: Timestamp,
    ) -> impl Future<Output = StoreResult<bool>> + Send;

    /// Replaces the secret. The old one stays valid until `previous_until`.
    fn rotate_secret(
        &self,
        id: SubscriptionId,
        secret: SealedSecret,
        previous_until: Timestamp,
        by: Actor,
        now: Timestamp,
    ) -> impl Future<Output = StoreResult<Option<Subscription>>> + Send;
}
