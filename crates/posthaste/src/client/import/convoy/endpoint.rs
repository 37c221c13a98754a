//! Maps the parts of a Convoy endpoint: its state, timeout, authentication, secret and signature.

use crate::client::import::Entry;
use crate::client::import::mapping::{is_set, items, text};
use posthaste_core::duration;
use serde_json::{Value, json};
use std::time::Duration;

/// The header of the signature if the project does not configure one.
const SIGNATURE_HEADER: &str = "X-Convoy-Signature";

/// Sets everything but the signature.
pub(super) fn map(entry: &mut Entry, endpoint: &Value) {
    entry.set_text("description", text(endpoint, "description"));
    let is_stopped = matches!(text(endpoint, "status"), Some("inactive" | "paused"));
    entry.set("active", !is_stopped && endpoint["is_disabled"] != true);
    if let Some(timeout) = timeout(&endpoint["http_timeout"]) {
        entry.set("timeout", duration::format(timeout));
    }
    authenticate(entry, endpoint);
    if text(endpoint, "owner_id").is_none() {
        entry.gap(
            "the addressing by endpoint: without an owner_id, the subscription has no tenant and gets the events of \
             its types that have no tenant",
        );
    }
    if let Some(kind) = text(endpoint, "content_type").filter(|kind| !kind.starts_with("application/json")) {
        entry.gap(format!("the content type {kind}"));
    }
    if is_set(endpoint, "rate_limit") {
        entry.note(format!("the rate limit of {} requests", endpoint["rate_limit"]));
    }
}

/// Returns the timeout, which is a number of seconds, or a duration in earlier versions.
fn timeout(value: &Value) -> Option<Duration> {
    let seconds = value.as_u64().map(Duration::from_secs);
    seconds.or_else(|| duration::parse(value.as_str()?)).filter(|timeout| !timeout.is_zero())
}

fn authenticate(entry: &mut Entry, endpoint: &Value) {
    let certificate = &endpoint["mtls_client_cert"];
    let has_certificate = is_set(endpoint, "mtls_client_cert");
    let authentication = &endpoint["authentication"];
    let kind = ["api_key", "basic_auth", "oauth2"].into_iter().find(|kind| is_set(authentication, kind));
    let Some(kind) = kind else {
        if has_certificate {
            let auth =
                [("certificate", text(certificate, "client_cert")), ("key", text(certificate, "client_key"))];
            set_auth(entry, "mtls", &auth, "the client certificate");
        }
        return;
    };
    if has_certificate {
        entry.gap("the client certificate, because the endpoint has another authentication as well");
    }
    let given = &authentication[kind];
    let member = |name: &str| text(given, name);
    match kind {
        "api_key" => {
            let auth = [("header", member("header_name")), ("value", member("header_value"))];
            set_auth(entry, "api_key", &auth, "the API key");
        }
        "basic_auth" => {
            let auth = [("username", member("username")), ("password", member("password"))];
            set_auth(entry, "basic", &auth, "the basic authentication");
        }
        _ if member("authentication_type").is_some_and(|kind| kind != "shared_secret") => {
            entry.gap("the OAuth 2 authentication with a signed assertion");
        }
        _ => {
            let auth = [
                ("token_url", member("url")),
                ("client_id", member("client_id")),
                ("client_secret", member("client_secret")),
            ];
            set_auth(entry, "oauth2_client_credentials", &auth, "the OAuth 2 authentication");
            for (name, value) in [("scope", member("scope")), ("audience", member("audience"))] {
                if let (Some(auth), Some(value)) = (entry.desired.fields.get_mut("auth"), value)
                    && let Some(members) = auth["oauth2_client_credentials"].as_object_mut()
                {
                    members.insert(name.to_owned(), value.into());
                }
            }
        }
    }
}

/// Sets the authentication, or records it as missing if Convoy does not show all of its members.
fn set_auth(entry: &mut Entry, kind: &str, members: &[(&str, Option<&str>)], what: &str) {
    let complete: Option<serde_json::Map<String, Value>> =
        members.iter().map(|(name, value)| Some(((*name).to_owned(), Value::from((*value)?)))).collect();
    match complete {
        Some(members) => entry.set("auth", json!({ kind: members })),
        None => entry.gap(format!("{what}, which Convoy does not show completely")),
    }
}

/// Sets the secret and the signature that the project configures.
pub(super) fn sign(entry: &mut Entry, endpoint: &Value, signature: &Value) {
    match active_secret(endpoint) {
        Some(secret) => entry.set("secret", secret),
        None => entry.gap("the secret, which is absent: the receiver needs the new one"),
    }
    let versions = items(signature, "versions");
    let version = versions.last().unwrap_or(&Value::Null);
    let hash = text(version, "hash").unwrap_or("SHA256");
    let is_advanced = endpoint["advanced_signatures"] == true;
    let (content, value) = match is_advanced {
        true => {
            let number = versions.len().max(1);
            ("{timestamp},{body}", format!("t={{timestamp}},v{number}={{signature}}"))
        }
        false => ("{body}", "{signature}".to_owned()),
    };
    if is_advanced && versions.len() > 1 {
        entry.gap(format!("the signature versions before v{}", versions.len()));
    }
    let header = text(signature, "header").unwrap_or(SIGNATURE_HEADER);
    let encoding = text(version, "encoding").unwrap_or("hex");
    entry.set(
        "signatures",
        json!([{"hmac": {
            "header": header, "algorithm": hash.to_lowercase(), "encoding": encoding, "content": content, "value": value
        }}]),
    );
}

/// Returns the newest secret that neither expires nor is deleted. New secrets are appended.
fn active_secret(endpoint: &Value) -> Option<&str> {
    // Earlier versions write the zero time of Go.
    let is_time = |secret: &Value, name: &str| is_set(secret, name) && secret[name] != "0001-01-01T00:00:00Z";
    let is_active = |secret: &&Value| !is_time(secret, "expires_at") && !is_time(secret, "deleted_at");
    items(endpoint, "secrets").iter().rev().filter(is_active).find_map(|secret| text(secret, "value"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::desired::Identity;

    fn mapped(endpoint: &Value) -> Entry {
        let identity = Identity { tenant: None, uid: "a".to_owned() };
        let mut entry = Entry::new(identity, "https://h.example/", vec!["*"]);
        map(&mut entry, endpoint);
        sign(&mut entry, endpoint, &Value::Null);
        entry
    }

    #[test]
    fn authentication_is_mapped_or_reported() {
        let owned = |authentication: Value| json!({"owner_id": "o", "secrets": [{"value": "s"}], "authentication": authentication});
        for (endpoint, auth, gap) in [
            (
                owned(json!({"type": "api_key", "api_key": {"header_name": "X-Key", "header_value": "v"}})),
                json!({"api_key": {"header": "X-Key", "value": "v"}}),
                None,
            ),
            (
                owned(json!({"type": "basic_auth", "basic_auth": {"username": "u", "password": "p"}})),
                json!({"basic": {"username": "u", "password": "p"}}),
                None,
            ),
            (
                owned(json!({"oauth2": {
                    "url": "https://t.example/", "client_id": "c", "client_secret": "s", "scope": "a",
                    "authentication_type": "shared_secret"
                }})),
                json!({"oauth2_client_credentials": {
                    "token_url": "https://t.example/", "client_id": "c", "client_secret": "s", "scope": "a"
                }}),
                None,
            ),
            (
                owned(json!({"oauth2": {"url": "u", "authentication_type": "client_assertion"}})),
                Value::Null,
                Some("signed assertion"),
            ),
            (
                owned(json!({"basic_auth": {"username": "u", "password": ""}})),
                Value::Null,
                Some("completely"),
            ),
            (
                json!({"owner_id": "o", "secrets": [{"value": "s"}],
                       "mtls_client_cert": {"client_cert": "c", "client_key": "k"}}),
                json!({"mtls": {"certificate": "c", "key": "k"}}),
                None,
            ),
            (owned(Value::Null), Value::Null, None),
        ] {
            let entry = mapped(&endpoint);
            assert_eq!(entry.desired.fields.get("auth").unwrap_or(&Value::Null), &auth, "{endpoint}");
            assert_eq!(entry.gaps.len(), usize::from(gap.is_some()), "{endpoint}: {:?}", entry.gaps);
            assert!(entry.gaps.concat().contains(gap.unwrap_or_default()), "{endpoint}: {:?}", entry.gaps);
        }
    }

    #[test]
    fn newest_active_secret_is_used() {
        let secret = |secrets: Value| active_secret(&json!({"secrets": secrets})).map(str::to_owned);
        let expired = "2026-01-31T12:00:00Z";
        for (secrets, expected) in [
            (json!([{"value": "a"}, {"value": "b"}]), Some("b")),
            (json!([{"value": "a", "expires_at": null}, {"value": "b", "expires_at": expired}]), Some("a")),
            (json!([{"value": "a", "expires_at": "0001-01-01T00:00:00Z"}]), Some("a")),
            (json!([{"value": "a"}, {"value": "b", "deleted_at": expired}]), Some("a")),
            (json!([{"value": "a", "expires_at": expired}]), None),
            (Value::Null, None),
        ] {
            assert_eq!(secret(secrets.clone()).as_deref(), expected, "{secrets}");
        }
    }

    #[test]
    fn timeouts_are_seconds_or_durations() {
        for (value, expected) in [
            (json!(30), Some(30)),
            (json!("10s"), Some(10)),
            (json!(0), None),
            (json!(""), None),
            (json!(null), None),
        ] {
            assert_eq!(timeout(&value), expected.map(Duration::from_secs), "{value}");
        }
    }
}
