//! Port of the role subscription_admin: creates, changes, verifies and deletes subscriptions.

use super::StoreResult;
use crate::audit::Actor;
use crate::ids::SubscriptionId;
use crate::subscription::{
    CallbackUrl, NewSubscription, SealedSecret, Secrets, Subscription, SubscriptionPatch,
};
use crate::time::Timestamp;

/// The URL to which a challenge was sent, and the secret with which it was signed.
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

    /// Returns a subscription with its signing secrets, or `None` if it does not exist or was deleted.
    fn load_subscription(
        &self,
        id: SubscriptionId,
    ) -> impl Future<Output = StoreResult<Option<(Subscription, Secrets)>>> + Send;

    /// Applies a patch and returns the subscription, or `None` if it does not exist or was deleted. A patch
    /// that changes no value is not recorded in the history.
    fn update_subscription(
        &self,
        id: SubscriptionId,
        patch: SubscriptionPatch,
        by: Actor,
        now: Timestamp,
    ) -> impl Future<Output = StoreResult<Option<Subscription>>> + Send;

    /// Deletes a subscription permanently. Returns `false` if it does not exist or was already deleted.
    fn delete_subscription(
        &self,
        id: SubscriptionId,
        by: Actor,
        now: Timestamp,
    ) -> impl Future<Output = StoreResult<bool>> + Send;

    /// Marks a subscription as verified if its URL and secret are still those of the challenge. Returns whether
    /// the subscription was marked.
    fn mark_verified(
        &self,
        id: SubscriptionId,
        challenged: Verification,
        by: Actor,
        now: Timestamp,
    ) -> impl Future<Output = StoreResult<bool>> + Send;

    /// Replaces the signing secret and returns the subscription, or `None` if it does not exist or was deleted.
    /// The previous secret remains valid until `previous_until`.
    fn rotate_secret(
        &self,
        id: SubscriptionId,
        secret: SealedSecret,
        previous_until: Timestamp,
        by: Actor,
        now: Timestamp,
    ) -> impl Future<Output = StoreResult<Option<Subscription>>> + Send;
}
