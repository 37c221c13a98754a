//! A subscription as the API shows it, and its entity tag. Secrets are shown only when they are created or rotated.

use crate::problem::Problem;
use crate::query::json;
use crate::time::Utc;
use axum::response::Response;
use http::header::ETAG;
use http::{HeaderValue, StatusCode};
use posthaste_core::SubscriptionId;
use posthaste_core::duration;
use posthaste_core::identity::{SubscriptionName, Uid};
use posthaste_core::request::Auth;
use posthaste_core::signature::SigningSecret;
use posthaste_core::subscription::{Revision, Subscription, VerificationRecord};
use posthaste_core::tenant::Tenant;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// A subscription.
#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({
    "id": 3, "uid": "shop-1", "tenant": "acme", "name": "Shop", "description": "the shop",
    "metadata": {"team": "billing"},
    "event_types": ["order.paid"], "event_type": "order.paid", "filter": {"exact": {"region": "eu"}},
    "callback_url": "https://example.com/hook", "active": true, "verified": true,
    "verification": {
        "method": "challenge", "verified_at": "2026-01-31T12:00:05.000000Z", "verified_by": "ops",
        "allowed_per_second": null
    },
    "max_retry_limit": null, "timeout": null, "signatures": ["standard"], "public_key": null,
    "headers": {"X-Team": "billing", "X-Token": {"secret": true}}, "auth": {"basic": {"username": "posthaste"}},
    "envelope": "raw", "created_at": "2026-01-31T12:00:00.000000Z", "updated_at": "2026-01-31T12:00:05.000000Z"
}))]
pub(crate) struct SubscriptionView {
    /// The id of the subscription.
    pub(crate) id: i64,
    /// The caller's own id, unique within the tenant.
    pub(crate) uid: Option<String>,
    /// The tenant whose events are delivered; null for events without a tenant.
    pub(crate) tenant: Option<String>,
    /// A name for display.
    pub(crate) name: Option<String>,
    /// A description for display.
    pub(crate) description: Option<String>,
    /// Pairs of a name and a text that belong to the caller.
    pub(crate) metadata: BTreeMap<String, String>,
    /// The event types and patterns of the events to deliver.
    pub(crate) event_types: Vec<String>,
    /// The entry of `event_types` if there is exactly one; null otherwise.
    pub(crate) event_type: Option<String>,
    /// The filter on the attributes of events, in the dialect of CloudEvents Subscriptions; null for all events.
    #[schema(value_type = Value)]
    pub(crate) filter: Value,
    /// The URL to which events are sent.
    pub(crate) callback_url: String,
    /// Whether events are routed and delivered. An inactive subscription gets no new deliveries, and its existing
    /// deliveries are held.
    pub(crate) active: bool,
    /// Whether the receiver has confirmed the URL. Events are sent only to a verified URL.
    pub(crate) verified: bool,
    /// How the URL was verified; null if it is not verified, or was verified before this was recorded.
    pub(crate) verification: Option<VerificationView>,
    /// The number of attempts after which a delivery is dead-lettered; null for the server default.
    pub(crate) max_retry_limit: Option<u32>,
    /// The request timeout, such as `30s`; null for the server default (`POSTHASTE_REQUEST_TIMEOUT`).
    pub(crate) timeout: Option<String>,
    /// The signature formats of requests.
    #[schema(value_type = Vec<Value>)]
    pub(crate) signatures: Value,
    /// The public key (`whpk_…`) of the signature format `standard_ed25519`; null if there is none.
    pub(crate) public_key: Option<String>,
    /// The headers of requests. A secret header is shown as `{"secret": true}`.
    #[schema(value_type = BTreeMap<String, Value>)]
    pub(crate) headers: Value,
    /// The authentication of requests, without its secret; null if there is none.
    #[schema(value_type = Value)]
    pub(crate) auth: Value,
    /// The envelope in which events are sent: `raw`, `standard`, `cloudevents-binary` or `cloudevents-structured`.
    pub(crate) envelope: &'static str,
    /// The time at which the subscription was created.
    pub(crate) created_at: Utc,
    /// The time of the last change to the subscription.
    pub(crate) updated_at: Utc,
    /// The signing secret. Included only in the responses to creation and rotation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) secret: Option<String>,
    #[serde(skip)]
    revision: Revision,
}

/// The evidence that a URL was verified.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct VerificationView {
    /// How the URL was verified: `challenge`, `cloudevents` or `asserted`.
    pub(crate) method: &'static str,
    /// The time of the verification.
    pub(crate) verified_at: Utc,
    /// The name of the API key with which the verification was requested.
    pub(crate) verified_by: Option<String>,
    /// The number of requests per second that the receiver allows; null if it set no limit.
    pub(crate) allowed_per_second: Option<f64>,
}

impl VerificationView {
    fn of(record: VerificationRecord) -> Self {
        Self {
            method: record.method.as_str(),
            verified_at: Utc(record.verified_at),
            verified_by: record.verified_by,
            allowed_per_second: record.allowed_per_minute.map(|per_minute| f64::from(per_minute) / 60.0),
        }
    }
}

impl SubscriptionView {
    pub(crate) fn of(subscription: Subscription) -> Self {
        let json = |text: &str| serde_json::from_str(text).unwrap_or_default();
        let pairs = subscription.metadata.iter().map(|(name, value)| (name.to_owned(), value.to_owned()));
        let event_types = subscription.event_types.as_slice().iter().map(|one| one.as_str().to_owned());
        Self {
            id: subscription.id.get(),
            metadata: pairs.collect(),
            event_types: event_types.collect(),
            event_type: subscription.event_types.single().map(str::to_owned),
            filter: subscription.filter.as_ref().map_or(Value::Null, |filter| json(filter.as_text())),
            uid: subscription.uid.map(Uid::into_string),
            tenant: subscription.tenant.map(Tenant::into_string),
            name: subscription.name.map(SubscriptionName::into_string),
            description: subscription.description,
            callback_url: subscription.callback_url.as_str().to_owned(),
            active: subscription.active,
            verified: subscription.verified,
            verification: subscription.verification.map(VerificationView::of),
            max_retry_limit: subscription.max_retry_limit,
            timeout: subscription.timeout.map(duration::format),
            signatures: json(&subscription.signatures.to_json()),
            public_key: subscription.public_key,
            headers: json(&subscription.headers.to_json()),
            auth: subscription.auth.as_ref().map(Auth::to_json).map_or(Value::Null, |text| json(&text)),
            envelope: subscription.envelope.as_str(),
            created_at: Utc(subscription.created_at),
            updated_at: Utc(subscription.updated_at),
            secret: None,
            revision: subscription.revision,
        }
    }

    pub(crate) fn with_secret(subscription: Subscription, secret: &SigningSecret) -> Self {
        Self { secret: Some(secret.reveal()), ..Self::of(subscription) }
    }

    /// Creates a JSON response with the entity tag of the subscription.
    pub(crate) fn respond(&self, status: StatusCode) -> Result<Response, Problem> {
        let mut response = json(status, self)?;
        if let Ok(tag) = HeaderValue::try_from(entity_tag(SubscriptionId::from_store(self.id), self.revision))
        {
            response.headers_mut().insert(ETAG, tag);
        }
        Ok(response)
    }
}

/// Returns the entity tag (RFC 9110, section 8.8.3) of a subscription. It is strong: every change gets another one.
pub(super) fn entity_tag(id: SubscriptionId, revision: Revision) -> String {
    format!("\"{id}-{revision}\"")
}
