//! Converts between core types and the texts that both engines store. In a batch, a value that cannot be read must not
//! stop the other rows, so it is logged and left out.

use posthaste_core::Timestamp;
use posthaste_core::attributes::Attributes;
use posthaste_core::envelope::Envelope;
use posthaste_core::event::{EventType, NewEvent};
use posthaste_core::filter::Filter;
use posthaste_core::identity::{SubscriptionName, Uid};
use posthaste_core::metadata::Metadata;
use posthaste_core::pattern::{EventTypePattern, probes};
use posthaste_core::request::{Auth, RequestHeaders};
use posthaste_core::signature::{Signatures, fingerprint};
use posthaste_core::subscription::{NewSubscription, Subscription, VerificationMethod, VerificationRecord};
use posthaste_core::tenant::Tenant;
use std::collections::BTreeSet;

/// Returns the stored form of an event's attributes, or `None` if there are none.
pub(crate) fn stored_attributes(event: &NewEvent) -> Option<String> {
    (!event.attributes.is_empty()).then(|| event.attributes.canonical())
}

/// Returns the attributes of an event. Attributes that cannot be read count as none.
pub(crate) fn read_attributes(text: Option<&str>) -> Attributes {
    let Some(text) = text else { return Attributes::default() };
    Attributes::from_store(text).unwrap_or_else(|error| {
        tracing::error!(%error, "attributes of an event cannot be read, using none");
        Attributes::default()
    })
}

/// Returns the filter of a subscription, or `None` if it cannot be read. Such a subscription matches no event.
pub(crate) fn read_filter(subscription_id: i64, text: &str) -> Option<Filter> {
    Filter::from_store(text)
        .inspect_err(|error| {
            tracing::error!(subscription_id, %error, "filter cannot be read, the subscription matches no event");
        })
        .ok()
}

/// Returns the filter of a past state of a subscription. As for the router, one that cannot be read accepts no event.
pub(crate) fn read_past_filter(subscription_id: i64, text: &str) -> Filter {
    read_filter(subscription_id, text).unwrap_or_else(Filter::accepting_none)
}

/// Returns the patterns that match events of the given tenants and types, each with its tenant as stored.
pub(crate) fn patterns_of<'e>(
    kinds: impl IntoIterator<Item = (Option<&'e Tenant>, &'e EventType)>,
) -> BTreeSet<(String, String)> {
    let kinds: BTreeSet<(&str, &EventType)> =
        kinds.into_iter().map(|(tenant, kind)| (tenant.map_or("", Tenant::as_str), kind)).collect();
    let patterns = kinds
        .into_iter()
        .flat_map(|(tenant, kind)| probes(kind).into_iter().map(move |pattern| (tenant.to_owned(), pattern)));
    patterns.collect()
}

/// Returns the fingerprint by which a public key is looked up, or `None` if the text is not a public key.
pub(crate) fn stored_fingerprint(public_key: &str) -> Option<String> {
    fingerprint(public_key).ok()
}

/// The columns of a subscription that are stored as texts. Default values are stored as NULL.
pub(crate) struct SubscriptionTexts<'a> {
    pub(crate) tenant: Option<&'a str>,
    pub(crate) uid: Option<&'a str>,
    pub(crate) name: Option<&'a str>,
    pub(crate) metadata: Option<String>,
    pub(crate) event_type: Option<&'a str>,
    pub(crate) event_types: Vec<&'a str>,
    pub(crate) filter: Option<&'a str>,
    pub(crate) signatures: Option<String>,
    pub(crate) public_key_fingerprint: Option<String>,
    pub(crate) headers: Option<String>,
    pub(crate) auth: Option<String>,
}

macro_rules! texts_of {
    ($subscription:ident) => {
        SubscriptionTexts {
            tenant: $subscription.tenant.as_ref().map(Tenant::as_str),
            uid: $subscription.uid.as_ref().map(Uid::as_str),
            name: $subscription.name.as_ref().map(SubscriptionName::as_str),
            metadata: (!$subscription.metadata.is_empty()).then(|| $subscription.metadata.to_json()),
            event_type: $subscription.event_types.single(),
            event_types: $subscription.event_types.as_slice().iter().map(EventTypePattern::as_str).collect(),
            filter: $subscription.filter.as_ref().map(Filter::as_text),
            signatures: ($subscription.signatures != Signatures::default())
                .then(|| $subscription.signatures.to_json()),
            public_key_fingerprint: $subscription.public_key.as_deref().and_then(stored_fingerprint),
            headers: (!$subscription.headers.is_empty()).then(|| $subscription.headers.to_json()),
            auth: $subscription.auth.as_ref().map(Auth::to_json),
        }
    };
}

impl<'a> SubscriptionTexts<'a> {
    pub(crate) fn of_new(new: &'a NewSubscription) -> Self {
        texts_of!(new)
    }

    pub(crate) fn of(subscription: &'a Subscription) -> Self {
        texts_of!(subscription)
    }

    /// Returns the patterns as a JSON array.
    pub(crate) fn event_types_json(&self) -> String {
        serde_json::Value::from(self.event_types.clone()).to_string()
    }
}

/// How a request is made, read from the texts of a row.
pub(crate) struct RequestColumns {
    pub(crate) signatures: Signatures,
    pub(crate) headers: RequestHeaders,
    pub(crate) auth: Option<Auth>,
    pub(crate) envelope: Envelope,
}

impl RequestColumns {
    /// Reads the columns `signatures`, `headers`, `auth` and `envelope`. The error names the column.
    pub(crate) fn read(
        signatures: Option<&str>,
        headers: Option<&str>,
        auth: Option<&str>,
        envelope: &str,
    ) -> Result<Self, String> {
        let headers = headers.map_or_else(|| Ok(RequestHeaders::default()), RequestHeaders::from_store);
        Ok(Self {
            signatures: signatures.map_or_else(Signatures::default, Signatures::from_store),
            headers: headers.map_err(|error| format!("column headers: {error}"))?,
            auth: auth.map(Auth::from_store).transpose().map_err(|error| format!("column auth: {error}"))?,
            envelope: Envelope::parse(envelope).map_err(|error| format!("column envelope: {error}"))?,
        })
    }
}

/// Reads the columns of a verification, or returns `None` if no record of it was kept.
pub(crate) fn read_verification(
    method: Option<&str>,
    verified_at: Option<Timestamp>,
    verified_by: Option<String>,
    allowed_per_minute: Option<u32>,
) -> Option<VerificationRecord> {
    let method = method.and_then(VerificationMethod::parse)?;
    Some(VerificationRecord { method, verified_at: verified_at?, verified_by, allowed_per_minute })
}

pub(crate) fn read_metadata(text: Option<&str>) -> Result<Metadata, String> {
    let metadata = text.map_or_else(|| Ok(Metadata::default()), Metadata::from_store);
    metadata.map_err(|error| format!("column metadata: {error}"))
}
