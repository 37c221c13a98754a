//! The configuration of a subscription, formatted for display. It is read from the JSON that the API returns, so the
//! pages show the same values and no secrets.

use super::subscription_form::auth_label;
use crate::subscriptions::SubscriptionView;
use crate::time::{self, Utc};
use serde_json::Value;

/// The configuration of a subscription.
#[derive(Debug, Default)]
pub(crate) struct Details {
    pub(crate) name: Option<String>,
    pub(crate) uid: Option<String>,
    pub(crate) tenant: Option<String>,
    pub(crate) event_types: Vec<String>,
    pub(crate) metadata: Vec<(String, String)>,
    /// The filter as indented JSON.
    pub(crate) filter: Option<String>,
    pub(crate) envelope: Option<String>,
    pub(crate) signatures: Vec<String>,
    pub(crate) public_key: Option<String>,
    /// The names and values of the headers. The value of a secret header is `None`.
    pub(crate) headers: Vec<(String, Option<String>)>,
    pub(crate) auth: Option<AuthText>,
    pub(crate) verification: Option<VerificationText>,
}

/// A method of authentication without its secret.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct AuthText {
    pub(crate) label: String,
    /// The names and values of the members, except the secret.
    pub(crate) members: Vec<(String, String)>,
}

/// How and when the callback URL was verified.
#[derive(Debug)]
pub(crate) struct VerificationText {
    pub(crate) method: String,
    pub(crate) at: Option<Utc>,
    pub(crate) by: Option<String>,
    pub(crate) allowed_per_second: Option<String>,
}

impl Details {
    pub(crate) fn of(subscription: &SubscriptionView) -> Self {
        Self::of_json(&serde_json::to_value(subscription).unwrap_or_default())
    }

    fn of_json(json: &Value) -> Self {
        let text = |name: &str| json[name].as_str().map(str::to_owned);
        let indented = |value: &Value| serde_json::to_string_pretty(value).ok();
        Self {
            name: text("name"),
            uid: text("uid"),
            tenant: text("tenant"),
            event_types: elements(&json["event_types"]).map(plain).collect(),
            metadata: members(&json["metadata"]).map(|(name, value)| (name.clone(), plain(value))).collect(),
            filter: Some(&json["filter"]).filter(|filter| !filter.is_null()).and_then(indented),
            envelope: text("envelope"),
            signatures: elements(&json["signatures"]).map(signature_text).collect(),
            public_key: text("public_key"),
            headers: members(&json["headers"])
                .map(|(name, value)| (name.clone(), value.as_str().map(str::to_owned)))
                .collect(),
            auth: members(&json["auth"]).next().map(|(kind, facts)| AuthText {
                label: auth_label(kind).to_owned(),
                members: members(facts).map(|(name, value)| (name.replace('_', " "), plain(value))).collect(),
            }),
            verification: VerificationText::of(&json["verification"]),
        }
    }

    /// Returns the text that identifies the subscription in addition to its id.
    pub(crate) fn title(&self) -> Option<&str> {
        self.name.as_deref().or(self.uid.as_deref())
    }
}

impl VerificationText {
    fn of(json: &Value) -> Option<Self> {
        Some(Self {
            method: json["method"].as_str()?.to_owned(),
            at: json["verified_at"].as_str().and_then(time::parse).map(Utc),
            by: json["verified_by"].as_str().map(str::to_owned),
            allowed_per_second: json["allowed_per_second"].as_f64().map(|rate| format!("{rate:.2}")),
        })
    }
}

fn elements(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

fn members(object: &Value) -> impl Iterator<Item = (&String, &Value)> {
    object.as_object().into_iter().flatten()
}

/// Returns a text itself, and other values as JSON.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Returns the name of a signature format.
fn signature_text(format: &Value) -> String {
    match (format.as_str(), format["preset"].as_str(), format["hmac"]["header"].as_str()) {
        (Some("standard"), _, _) => "Standard Webhooks (HMAC)".to_owned(),
        (Some("standard_ed25519"), _, _) => "Standard Webhooks (Ed25519)".to_owned(),
        (_, Some(preset), _) => format!("{preset} preset"),
        (_, _, Some(header)) => {
            let hmac = &format["hmac"];
            format!("{header}: HMAC {} ({})", plain(&hmac["algorithm"]), plain(&hmac["encoding"]))
        }
        _ => plain(format),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_part_of_a_subscription_is_shown_without_secrets() {
        let hmac = json!({"header": "x-sig", "algorithm": "sha1", "encoding": "hex"});
        let details = Details::of_json(&json!({
            "name": null, "uid": "shop-1", "tenant": "acme", "event_types": ["a", "b.*"], "metadata": {"a": "x"},
            "filter": {"exact": {"region": "eu"}}, "envelope": "raw", "public_key": "whpk_x",
            "signatures": ["standard", "standard_ed25519", {"preset": "stripe"}, {"hmac": hmac}],
            "headers": {"X-A": "1", "X-B": {"secret": true}},
            "auth": {"oauth2_client_credentials": {"client_id": "c", "token_url": "https://t.example/"}},
            "verification": {"method": "cloudevents", "verified_at": "2026-01-31T12:00:00.000000Z",
                "verified_by": "ann", "allowed_per_second": 0.5},
        }));
        assert_eq!(details.title(), Some("shop-1"));
        assert_eq!(details.event_types, ["a", "b.*"]);
        assert_eq!(
            details.signatures,
            [
                "Standard Webhooks (HMAC)",
                "Standard Webhooks (Ed25519)",
                "stripe preset",
                "x-sig: HMAC sha1 (hex)"
            ]
        );
        assert_eq!(
            details.headers,
            [("X-A".to_owned(), Some("1".to_owned())), ("X-B".to_owned(), None)],
            "the value of a secret header is not shown"
        );
        let auth = details.auth.expect("a method");
        assert_eq!(auth.label, "OAuth 2 client credentials");
        assert_eq!(auth.members[0], ("client id".to_owned(), "c".to_owned()));
        let verification = details.verification.expect("a record");
        assert_eq!((verification.method.as_str(), verification.by.as_deref()), ("cloudevents", Some("ann")));
        assert_eq!(verification.allowed_per_second.as_deref(), Some("0.50"));
        assert!(verification.at.is_some());
        let empty =
            Details::of_json(&json!({"event_types": ["a"], "filter": null, "auth": null, "headers": {}}));
        assert!(empty.filter.is_none() && empty.auth.is_none() && empty.verification.is_none());
    }
}
