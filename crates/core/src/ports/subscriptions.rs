//! Port of the role subscription_admin: creates, changes, verifies and deletes subscriptions.

use super::StoreResult;
use crate::audit::Actor;
use crate::identity::Uid;
use crate::ids::SubscriptionId;
use crate::subscription::{
    CallbackUrl, ExpiringSecret, NewSubscription, Revision, SealedSecret, Secrets, Subscription,
    SubscriptionPatch, VerificationMethod,
};
use crate::tenant::Tenant;
use crate::time::Timestamp;

/// A passed verification: the URL and the secret that were verified, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verification {
    pub callback_url: CallbackUrl,
    pub secret: SealedSecret,
    pub method: VerificationMethod,
    /// The number of requests per minute that the receiver allows. `None` if it set no limit.
    pub allowed_per_minute: Option<u32>,
}

impl Verification {
    /// Creates the result of a challenge.
    pub const fn challenge(callback_url: CallbackUrl, secret: SealedSecret) -> Self {
        Self { callback_url, secret, method: VerificationMethod::Challenge, allowed_per_minute: None }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Created {
    Created(Box<Subscription>),
    /// Another subscription of the tenant has the uid. No subscription was created.
    UidTaken,
}

impl Created {
    /// Returns the subscription, or `None` if its uid was taken.
    pub fn subscription(self) -> Option<Subscription> {
        match self {
            Self::Created(subscription) => Some(*subscription),
            Self::UidTaken => None,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Updated {
    /// Contains the subscription after the change, also if the patch changed nothing.
    Updated(Box<Subscription>),
    /// The subscription does not have the expected revision. No change was made.
    OtherRevision(Revision),
    /// Another subscription of the tenant has the uid. No change was made.
    UidTaken,
    /// The subscription does not exist or was deleted.
    NotFound,
}

impl Updated {
    /// Returns the subscription, or `None` if no change could be made.
    pub fn subscription(self) -> Option<Subscription> {
        match self {
            Self::Updated(subscription) => Some(*subscription),
            Self::OtherRevision(_) | Self::UidTaken | Self::NotFound => None,
        }
    }
}

/// The replacement of a signing secret by a new one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretRotation {
    /// The stored form of the secret that is replaced. If the row has another one, it was changed in the meantime, and
    /// the rotation has no effect.
    pub replaced: SealedSecret,
    pub secret: SealedSecret,
    /// The replaced secret as it is stored from now on, with its expiry time, or `None` if it becomes invalid at once.
    pub previous: Option<ExpiringSecret>,
    /// The secret that was replaced before, if it is still valid, as it is stored from now on.
    pub older: Option<ExpiringSecret>,
    /// The replacement of the signing key, or `None` to keep it.
    pub signing_key: Option<SigningKeyRotation>,
}

/// The replacement of an Ed25519 key, which is a part of the credentials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SigningKeyRotation {
    /// The stored form of the credentials that are replaced. If the row has other ones, they were changed in the
    /// meantime, and the rotation has no effect.
    pub replaced: Option<SealedSecret>,
    pub credentials: SealedSecret,
    pub public_key: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rotated {
    Rotated(Box<Subscription>),
    /// The current secret is not the one to replace. No change was made.
    Changed,
    /// The subscription does not exist or was deleted.
    NotFound,
}

/// The secrets of a subscription, encrypted again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResealedSecrets {
    pub id: SubscriptionId,
    /// The secrets as they were read. If the row has other ones, they were changed in the meantime, and the row is left
    /// unchanged.
    pub before: Secrets,
    pub current: SealedSecret,
    /// `None` if there is no previous secret, or if it is removed because it has expired.
    pub previous: Option<SealedSecret>,
    /// `None` if there is no older secret, or if it is removed because it has expired.
    pub older: Option<SealedSecret>,
    pub credentials: Option<SealedSecret>,
}

pub trait SubscriptionStore: Send + Sync + 'static {
    fn create_subscription(
        &self,
        subscription: NewSubscription,
        by: Actor,
        now: Timestamp,
    ) -> impl Future<Output = StoreResult<Created>> + Send;

    /// Returns the id of the subscription with a uid, or `None` if it does not exist or was deleted.
    fn find_uid(
        &self,
        tenant: Option<Tenant>,
        uid: Uid,
    ) -> impl Future<Output = StoreResult<Option<SubscriptionId>>> + Send;

    /// Returns a subscription with its signing secrets, or `None` if it does not exist or was deleted.
    fn load_subscription(
        &self,
        id: SubscriptionId,
    ) -> impl Future<Output = StoreResult<Option<(Subscription, Secrets)>>> + Send;

    /// Applies a patch if the subscription has the expected revision; `None` expects any. A patch that changes no
    /// value is not recorded in the history.
    fn update_subscription(
        &self,
        id: SubscriptionId,
        patch: SubscriptionPatch,
        expected: Option<Revision>,
        by: Actor,
        now: Timestamp,
    ) -> impl Future<Output = StoreResult<Updated>> + Send;

    /// Deletes a subscription permanently. Returns `false` if it does not exist or was already deleted.
    fn delete_subscription(
        &self,
        id: SubscriptionId,
        by: Actor,
        now: Timestamp,
    ) -> impl Future<Output = StoreResult<bool>> + Send;

    /// Marks a subscription as verified if its URL and secret are still those of the verification. Returns whether
    /// the subscription was marked.
    fn mark_verified(
        &self,
        id: SubscriptionId,
        challenged: Verification,
        by: Actor,
        now: Timestamp,
    ) -> impl Future<Output = StoreResult<bool>> + Send;

    /// Replaces the signing secret if it is still the one that the caller has read.
    fn rotate_secret(
        &self,
        id: SubscriptionId,
        rotation: SecretRotation,
        by: Actor,
        now: Timestamp,
    ) -> impl Future<Output = StoreResult<Rotated>> + Send;

    /// Returns the secrets of the subscriptions with the lowest ids above `after`, in the order of their ids. Deleted
    /// ones are omitted.
    fn load_secrets(
        &self,
        after: i64,
        rows_max: u32,
    ) -> impl Future<Output = StoreResult<Vec<(SubscriptionId, Secrets)>>> + Send;

    /// Stores secrets that were encrypted again with the key `key_id`. This is not a change of the subscription: its
    /// history and the time of its last change stay as they are. Returns the subscriptions whose secrets were replaced.
    fn reseal_secrets(
        &self,
        resealed: Vec<ResealedSecrets>,
        key_id: String,
        by: Actor,
        now: Timestamp,
    ) -> impl Future<Output = StoreResult<Vec<SubscriptionId>>> + Send;
}
