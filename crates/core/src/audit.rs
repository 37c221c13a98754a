//! The audit of changes made by people. Each port method that makes such a change takes an [`Actor`], and the
//! store writes one [`Change`] to `operator_audit` in the same transaction. A [`Change`] never contains
//! secrets, API keys or hashes.

use crate::duration;
use crate::identity::{SubscriptionName, Uid};
use crate::ids::{DeadLetterId, KeyId, OperatorAuditId, SagaId, SubscriptionId};
use crate::json::JsonText;
use crate::lane::Lane;
use crate::pattern::EventTypePattern;
use crate::ports::ApiKey;
use crate::subscription::{Subscription, VerificationMethod};
use crate::tenant::Tenant;
use crate::time::Timestamp;
use serde_json::{Map, Value, json};
use std::net::IpAddr;

/// The name recorded for the root key, which is configured in the settings and has no row in `api_keys`.
pub const ROOT_NAME: &str = "root";

/// The API key and the address from which a change is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Actor {
    /// The id of the API key. `None` for the root key, and for a caller without a valid key.
    pub key_id: Option<KeyId>,
    /// The name of the API key. `None` for a caller without a valid key.
    pub key_name: Option<String>,
    /// The IP address of the client, or of the proxy through which it connects.
    pub address: Option<IpAddr>,
}

impl Actor {
    /// Creates the actor for the root key.
    pub fn root(address: Option<IpAddr>) -> Self {
        Self { key_id: None, key_name: Some(ROOT_NAME.to_owned()), address }
    }

    pub fn key(id: KeyId, name: impl Into<String>, address: Option<IpAddr>) -> Self {
        Self { key_id: Some(id), key_name: Some(name.into()), address }
    }

    /// Creates the actor for a caller without a valid key.
    pub fn unknown(address: Option<IpAddr>) -> Self {
        Self { key_id: None, key_name: None, address }
    }
}

/// The kind of change that an audit row records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AuditAction {
    KeyCreated,
    KeyRevoked,
    SubscriptionCreated,
    SubscriptionChanged,
    SubscriptionDeleted,
    SubscriptionVerified,
    SecretRotated,
    SecretsResealed,
    DeadLettersRequeued,
    LaneResumed,
    SignedIn,
    SignInFailed,
}

impl AuditAction {
    pub const ALL: [Self; 12] = [
        Self::KeyCreated,
        Self::KeyRevoked,
        Self::SubscriptionCreated,
        Self::SubscriptionChanged,
        Self::SubscriptionDeleted,
        Self::SubscriptionVerified,
        Self::SecretRotated,
        Self::SecretsResealed,
        Self::DeadLettersRequeued,
        Self::LaneResumed,
        Self::SignedIn,
        Self::SignInFailed,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::KeyCreated => "key_created",
            Self::KeyRevoked => "key_revoked",
            Self::SubscriptionCreated => "subscription_created",
            Self::SubscriptionChanged => "subscription_changed",
            Self::SubscriptionDeleted => "subscription_deleted",
            Self::SubscriptionVerified => "subscription_verified",
            Self::SecretRotated => "secret_rotated",
            Self::SecretsResealed => "secrets_resealed",
            Self::DeadLettersRequeued => "dead_letters_requeued",
            Self::LaneResumed => "lane_resumed",
            Self::SignedIn => "signed_in",
            Self::SignInFailed => "sign_in_failed",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|action| action.as_str() == text)
    }
}

/// The content of an audit row, to which the store adds the id, the time and the [`Actor`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    pub action: AuditAction,
    /// The changed object, as an API path below `/v1`.
    pub object: String,
    pub before: Option<JsonText>,
    pub after: Option<JsonText>,
}

impl Change {
    fn new(
        action: AuditAction,
        object: impl Into<String>,
        before: Option<Value>,
        after: Option<Value>,
    ) -> Self {
        let text = |value: Value| JsonText::from_store(value.to_string());
        Self { action, object: object.into(), before: before.map(text), after: after.map(text) }
    }

    pub fn key_created(key: &ApiKey) -> Self {
        Self::new(AuditAction::KeyCreated, format!("keys/{}", key.id), None, Some(key_fields(key)))
    }

    pub fn key_revoked(key: &ApiKey) -> Self {
        Self::new(AuditAction::KeyRevoked, format!("keys/{}", key.id), Some(key_fields(key)), None)
    }

    pub fn subscription_created(created: &Subscription) -> Self {
        let after = Value::Object(subscription_fields(created));
        Self::new(AuditAction::SubscriptionCreated, subscription(created.id), None, Some(after))
    }

    /// Creates the audit row for a change to a subscription. It contains only the fields that differ.
    pub fn subscription_changed(before: &Subscription, after: &Subscription) -> Self {
        let (mut was, mut is) = (subscription_fields(before), subscription_fields(after));
        is.retain(|field, value| was.get(field) != Some(value));
        was.retain(|field, _| is.contains_key(field));
        let (was, is) = (Value::Object(was), Value::Object(is));
        Self::new(AuditAction::SubscriptionChanged, subscription(after.id), Some(was), Some(is))
    }

    pub fn subscription_deleted(deleted: &Subscription) -> Self {
        let before = Value::Object(subscription_fields(deleted));
        Self::new(AuditAction::SubscriptionDeleted, subscription(deleted.id), Some(before), None)
    }

    pub fn subscription_verified(before: &Subscription, method: VerificationMethod) -> Self {
        let was = json!({ "verified": before.verified });
        let is = json!({ "verified": true, "method": method.as_str() });
        Self::new(AuditAction::SubscriptionVerified, subscription(before.id), Some(was), Some(is))
    }

    /// Creates the audit row for a rotation. `previous_until` is `None` if the replaced secret became invalid at once.
    pub fn secret_rotated(id: SubscriptionId, previous_until: Option<Timestamp>) -> Self {
        let until = previous_until.map(|until| until.to_string());
        let after = json!({ "previous_secret_expires_at": until });
        Self::new(AuditAction::SecretRotated, subscription(id), None, Some(after))
    }

    /// Creates the audit row for secrets that were encrypted again with a key, or returns `None` if there are none. It
    /// contains the range of the ids and not each of them, because a key rotation concerns all subscriptions.
    pub fn secrets_resealed(resealed: &[SubscriptionId], key_id: &str) -> Option<Self> {
        let (first, last) = (resealed.iter().min()?, resealed.iter().max()?);
        let after = json!({
            "count": resealed.len(), "first_id": first.get(), "last_id": last.get(), "key_id": key_id
        });
        Some(Self::new(AuditAction::SecretsResealed, "subscriptions", None, Some(after)))
    }

    /// Creates the audit row for a requeue, or returns `None` if no dead letter was requeued.
    pub fn dead_letters_requeued(created: &[(DeadLetterId, SagaId)]) -> Option<Self> {
        let (object, after) = match created {
            [] => return None,
            [(letter, saga)] => (format!("dead-letters/{letter}"), json!({ "saga_id": saga.get() })),
            [..] => {
                let ids: Vec<i64> = created.iter().map(|(letter, _)| letter.get()).collect();
                ("dead-letters".to_owned(), json!({ "count": ids.len(), "dead_letter_ids": ids }))
            }
        };
        Some(Self::new(AuditAction::DeadLettersRequeued, object, None, Some(after)))
    }

    pub fn lane_resumed(before: &Lane, after: &Lane) -> Self {
        let fields = |lane: &Lane| json!({ "state": lane.mode().as_str(), "reason": lane.reason });
        Self::new(AuditAction::LaneResumed, "outbox", Some(fields(before)), Some(fields(after)))
    }

    pub fn signed_in() -> Self {
        Self::new(AuditAction::SignedIn, DASHBOARD, None, None)
    }

    /// Creates the audit row for the failed sign-ins from one address since the previous row.
    pub fn sign_in_failed(count: u32) -> Self {
        Self::new(AuditAction::SignInFailed, DASHBOARD, None, Some(json!({ "count": count })))
    }
}

const DASHBOARD: &str = "dashboard";

fn subscription(id: SubscriptionId) -> String {
    format!("subscriptions/{id}")
}

fn key_fields(key: &ApiKey) -> Value {
    json!({ "name": key.name, "role": key.role.as_str(), "tenant": key.tenant.as_ref().map(Tenant::as_str) })
}

fn subscription_fields(subscription: &Subscription) -> Map<String, Value> {
    let text = |text: Option<&str>| text.map_or(Value::Null, Value::from);
    let json = |text: String| serde_json::from_str(&text).unwrap_or(Value::Null);
    let event_types: Vec<&str> =
        subscription.event_types.as_slice().iter().map(EventTypePattern::as_str).collect();
    let fields = [
        ("tenant", text(subscription.tenant.as_ref().map(Tenant::as_str))),
        ("uid", text(subscription.uid.as_ref().map(Uid::as_str))),
        ("name", text(subscription.name.as_ref().map(SubscriptionName::as_str))),
        ("metadata", json(subscription.metadata.to_json())),
        ("event_types", Value::from(event_types)),
        (
            "filter",
            subscription.filter.as_ref().map_or(Value::Null, |filter| json(filter.as_text().to_owned())),
        ),
        ("callback_url", Value::from(subscription.callback_url.as_str())),
        ("active", Value::from(subscription.active)),
        ("verified", Value::from(subscription.verified)),
        ("max_retry_limit", Value::from(subscription.max_retry_limit)),
        ("timeout", Value::from(subscription.timeout.map(duration::format))),
        ("description", Value::from(subscription.description.clone())),
        ("signatures", json(subscription.signatures.to_json())),
        ("public_key", text(subscription.public_key.as_deref())),
        ("headers", json(subscription.headers.to_json())),
        ("auth", subscription.auth.as_ref().map_or(Value::Null, |auth| json(auth.to_json()))),
        ("envelope", Value::from(subscription.envelope.as_str())),
    ];
    fields.into_iter().map(|(field, value)| (field.to_owned(), value)).collect()
}

/// A row of the audit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperatorAuditEntry {
    pub id: OperatorAuditId,
    pub created_at: Timestamp,
    pub key_id: Option<KeyId>,
    pub key_name: Option<String>,
    pub client_address: Option<String>,
    /// The name of an [`AuditAction`]. It may be an action from a newer version.
    pub action: String,
    pub object: String,
    pub before: Option<JsonText>,
    pub after: Option<JsonText>,
}

/// A filter for audit rows. A row must match all fields that are set.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OperatorAuditFilter {
    pub action: Option<AuditAction>,
    /// Selects rows written at this time or later.
    pub since: Option<Timestamp>,
    /// Selects rows written before this time.
    pub until: Option<Timestamp>,
}

impl OperatorAuditFilter {
    pub fn matches(&self, action: &str, created_at: Timestamp) -> bool {
        self.action.is_none_or(|wanted| wanted.as_str() == action)
            && self.since.is_none_or(|since| created_at >= since)
            && self.until.is_none_or(|until| created_at < until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn change_contains_only_fields_that_differ() {
        let before = Subscription::example();
        let after = Subscription { active: false, max_retry_limit: Some(7), ..before.clone() };
        let change = Change::subscription_changed(&before, &after);
        assert_eq!(change.object, "subscriptions/3");
        let text = |json: Option<JsonText>| json.unwrap().as_str().to_owned();
        assert_eq!(text(change.before), r#"{"active":true,"max_retry_limit":null}"#);
        assert_eq!(text(change.after), r#"{"active":false,"max_retry_limit":7}"#);
    }

    #[test]
    fn single_requeued_letter_is_the_object_and_several_are_listed() {
        let pair = |id| (DeadLetterId::from_store(id), SagaId::from_store(id + 100));
        let after = |created: &[_]| {
            Change::dead_letters_requeued(created)
                .map(|change| (change.object, change.after.unwrap().as_str().to_owned()))
        };
        let entry = |object: &str, after: &str| Some((object.to_owned(), after.to_owned()));
        assert_eq!(after(&[]), None);
        assert_eq!(after(&[pair(4)]), entry("dead-letters/4", r#"{"saga_id":104}"#));
        assert_eq!(
            after(&[pair(4), pair(5)]),
            entry("dead-letters", r#"{"count":2,"dead_letter_ids":[4,5]}"#)
        );
    }

    #[test]
    fn resealed_secrets_are_counted() {
        let ids = |ids: &[i64]| ids.iter().copied().map(SubscriptionId::from_store).collect::<Vec<_>>();
        assert_eq!(Change::secrets_resealed(&[], "72cd6e84"), None);
        let change = Change::secrets_resealed(&ids(&[5, 3, 9]), "72cd6e84").unwrap();
        assert_eq!(change.object, "subscriptions");
        assert_eq!(
            change.after.unwrap().as_str(),
            r#"{"count":3,"first_id":3,"key_id":"72cd6e84","last_id":9}"#
        );
    }

    #[test]
    fn every_action_round_trips() {
        for action in AuditAction::ALL {
            assert_eq!(AuditAction::parse(action.as_str()), Some(action));
        }
        assert_eq!(AuditAction::parse("signed_out"), None);
    }
}
