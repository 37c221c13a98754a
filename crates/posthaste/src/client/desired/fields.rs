//! Compares the fields of a desired subscription with those that the server shows, and builds the body of its PUT.
//!
//! A server never shows secrets, so they cannot be compared. They are sent when a subscription, a header or the
//! authentication is created, and otherwise only on request: a secret that was rotated since must not be reset.

use posthaste_core::duration;
use serde_json::{Map, Value, json};
use url::Url;

/// The fields that are compared, in the order in which they are shown.
pub(crate) const FIELDS: [&str; 13] = [
    "name",
    "description",
    "callback_url",
    "event_types",
    "filter",
    "active",
    "metadata",
    "max_retry_limit",
    "timeout",
    "signatures",
    "headers",
    "auth",
    "envelope",
];

/// The fields that a server accepts but never shows.
pub(crate) const SECRET_FIELDS: [&str; 2] = ["secret", "signing_key"];

/// A kind of authentication: its name, its public members and its secret member.
pub(crate) type AuthKind = (&'static str, &'static [&'static str], &'static str);

pub(crate) const AUTH_KINDS: [AuthKind; 5] = [
    ("basic", &["username"], "password"),
    ("bearer", &[], "token"),
    ("api_key", &["header"], "value"),
    ("oauth2_client_credentials", &["token_url", "client_id", "scope", "audience"], "client_secret"),
    ("mtls", &["certificate"], "key"),
];

/// How the secrets of a subscription that exists are treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Secrets {
    /// The stored ones are kept.
    Keep,
    /// They are replaced by those of the file.
    Write,
}

/// Returns the desired fields, completed by those of the stored subscription that are not described. Headers are
/// completed one by one.
pub(crate) fn completed(desired: &Map<String, Value>, stored: &Value) -> Map<String, Value> {
    let shown = FIELDS.into_iter().filter_map(|field| Some((field.to_owned(), stored.get(field)?.clone())));
    let mut fields: Map<String, Value> = shown.filter(|(_, value)| !value.is_null()).collect();
    fields.extend(desired.clone());
    let described = public_headers(desired.get("headers"));
    let others = stored.get("headers").and_then(Value::as_object).into_iter().flatten();
    let others: Vec<_> = others.filter(|(name, _)| described.get(name.to_lowercase()).is_none()).collect();
    if let Some(headers) = fields.get_mut("headers").and_then(Value::as_object_mut) {
        headers.extend(others.into_iter().map(|(name, value)| (name.clone(), value.clone())));
    }
    fields
}

/// Returns the fields whose values differ.
pub(crate) fn changed(desired: &Map<String, Value>, stored: &Value) -> Vec<&'static str> {
    let differs =
        |field: &&str| normalized(field, desired.get(*field)) != normalized(field, stored.get(*field));
    FIELDS.into_iter().filter(differs).collect()
}

/// Returns the value of a field in the form in which two values that mean the same are equal. An absent field has its
/// default.
fn normalized(field: &str, value: Option<&Value>) -> Value {
    let value = value.filter(|value| !value.is_null());
    let text = || value.and_then(Value::as_str);
    match field {
        "name" | "description" => text().filter(|text| !text.is_empty()).into(),
        "callback_url" => text().map(|url| Url::parse(url).map_or(url.to_owned(), String::from)).into(),
        "event_types" => {
            let mut types = value.and_then(Value::as_array).cloned().unwrap_or_default();
            types.sort_by_key(ToString::to_string);
            types.into()
        }
        "active" => value.cloned().unwrap_or(Value::Bool(true)),
        "metadata" => value.cloned().unwrap_or_else(|| json!({})),
        "timeout" => match text().and_then(duration::parse) {
            Some(timeout) => duration::format(timeout).into(),
            None => value.cloned().unwrap_or_default(),
        },
        "signatures" => value.map_or_else(|| json!(["standard"]), without_nulls),
        "headers" => public_headers(value),
        "auth" => public_auth(value),
        "envelope" => value.cloned().unwrap_or_else(|| "raw".into()),
        _ => value.cloned().unwrap_or_default(),
    }
}

fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let kept = members.iter().filter(|(_, value)| !value.is_null());
            kept.map(|(name, value)| (name.clone(), without_nulls(value))).collect::<Map<_, _>>().into()
        }
        Value::Array(items) => items.iter().map(without_nulls).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

/// A header: whether it is secret, and its value if it is known.
fn header(value: &Value) -> (bool, Option<&str>) {
    (value["secret"] == true, value.as_str().or_else(|| value["value"].as_str()))
}

/// Returns the headers by their names in lower case, without the values of secret ones.
fn public_headers(headers: Option<&Value>) -> Value {
    let public = |value: &Value| match header(value) {
        (true, _) => json!({"secret": true}),
        (false, value) => value.into(),
    };
    let headers = headers.and_then(Value::as_object).into_iter().flatten();
    headers.map(|(name, value)| (name.to_lowercase(), public(value))).collect::<Map<_, _>>().into()
}

/// Returns the authentication without its secret member.
fn public_auth(auth: Option<&Value>) -> Value {
    let Some(auth) = auth else { return Value::Null };
    let mut public = without_nulls(auth);
    for (kind, _, secret) in AUTH_KINDS {
        if let Some(members) = public.get_mut(kind).and_then(Value::as_object_mut) {
            members.remove(secret);
        }
    }
    public
}

/// Returns whether the stored subscription has a secret header of this name.
fn has_secret_header(stored: &Value, name: &str) -> bool {
    public_headers(stored.get("headers"))[name.to_lowercase()]["secret"] == true
}

/// Returns whether the stored subscription has the same authentication apart from its secret.
fn has_auth(stored: &Value, auth: &Value) -> bool {
    normalized("auth", stored.get("auth")) == normalized("auth", Some(auth))
}

/// Returns the secret member of the authentication, if it has a value.
fn auth_secret(auth: &Value) -> Option<&Value> {
    AUTH_KINDS
        .iter()
        .find_map(|(kind, _, secret)| auth.get(kind)?.get(secret))
        .filter(|value| !value.is_null())
}

/// Returns whether the fields name a secret.
pub(crate) fn names_secrets(desired: &Map<String, Value>) -> bool {
    let headers = desired.get("headers").and_then(Value::as_object).into_iter().flatten();
    let mut headers = headers.map(|(_, value)| header(value));
    SECRET_FIELDS.iter().any(|field| desired.get(*field).is_some_and(|value| !value.is_null()))
        || headers.any(|(is_secret, value)| is_secret && value.is_some())
        || desired.get("auth").and_then(auth_secret).is_some()
}

/// Returns the places that need a secret which neither the fields nor the stored subscription have.
pub(crate) fn missing_secrets(desired: &Map<String, Value>, stored: Option<&Value>) -> Vec<String> {
    let headers = desired.get("headers").and_then(Value::as_object).into_iter().flatten();
    let is_stored = |name: &str| stored.is_some_and(|stored| has_secret_header(stored, name));
    let without_value = headers.filter(|(name, value)| header(value) == (true, None) && !is_stored(name));
    let mut missing: Vec<String> = without_value.map(|(name, _)| format!("headers.{name}.value")).collect();
    let auth = desired.get("auth").filter(|auth| !auth.is_null());
    if let Some(auth) = auth.filter(|auth| auth_secret(auth).is_none())
        && !stored.is_some_and(|stored| has_auth(stored, auth))
    {
        let kinds = AUTH_KINDS.iter().filter(|(kind, _, _)| auth.get(kind).is_some());
        missing.extend(kinds.map(|(kind, _, secret)| format!("auth.{kind}.{secret}")));
    }
    missing
}

/// Returns the body of the PUT. With [`Secrets::Keep`], it has only the secrets that the stored subscription lacks.
pub(crate) fn body(
    tenant: Option<&str>,
    desired: &Map<String, Value>,
    stored: Option<&Value>,
    secrets: Secrets,
) -> Map<String, Value> {
    let mut body = desired.clone();
    if let Some(tenant) = tenant {
        body.insert("tenant".to_owned(), tenant.into());
    }
    let (Some(stored), Secrets::Keep) = (stored, secrets) else { return body };
    body.remove("secret");
    if stored["public_key"].is_string() {
        body.remove("signing_key");
    }
    for (name, value) in body.get_mut("headers").and_then(Value::as_object_mut).into_iter().flatten() {
        if header(value).0 && has_secret_header(stored, name) {
            *value = json!({"secret": true});
        }
    }
    if let Some(auth) = body.get_mut("auth")
        && has_auth(stored, auth)
    {
        *auth = public_auth(Some(auth));
    }
    body
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(value: Value) -> Map<String, Value> {
        let Value::Object(members) = value else { panic!("not an object: {value}") };
        members
    }

    /// A subscription with defaults, as the server shows it.
    fn shown() -> Value {
        json!({
            "id": 7, "uid": "a", "tenant": null, "name": null, "description": null, "metadata": {},
            "event_types": ["a.b"], "event_type": "a.b", "filter": null, "callback_url": "https://h.example/",
            "active": true, "verified": true, "verification": null, "max_retry_limit": null, "timeout": null,
            "signatures": ["standard"], "public_key": null, "headers": {}, "auth": null, "envelope": "raw",
            "created_at": "2026-01-31T12:00:00Z", "updated_at": "2026-01-31T12:00:00Z"
        })
    }

    fn with(mut base: Value, changes: Value) -> Value {
        let members = base.as_object_mut().expect("an object");
        members.extend(map(changes));
        base
    }

    #[test]
    fn equal_meanings_are_not_changes() {
        let least = json!({"callback_url": "https://h.example", "event_types": ["a.b"]});
        for (desired, stored) in [
            (json!({}), json!({})),
            (json!({"description": "", "name": null, "metadata": {}, "headers": {}}), json!({})),
            (json!({"timeout": "60s"}), json!({"timeout": "1m"})),
            (json!({"event_types": ["b", "a"]}), json!({"event_types": ["a", "b"]})),
            (json!({"headers": {"X-A": "1"}}), json!({"headers": {"x-a": {"value": "1", "secret": false}}})),
            (
                json!({"headers": {"X-A": {"value": "1", "secret": true}}}),
                json!({"headers": {"x-a": {"secret": true}}}),
            ),
            (json!({"auth": {"bearer": {"token": "t"}}}), json!({"auth": {"bearer": {}}})),
            (
                json!({"signatures": [{"hmac": {"header": "X"}}]}),
                json!({"signatures": [{"hmac": {"header": "X", "timestamp_header": null}}]}),
            ),
            (json!({"secret": "whsec_a"}), json!({})),
        ] {
            let desired = map(with(least.clone(), desired));
            assert_eq!(changed(&desired, &with(shown(), stored.clone())), [""; 0], "{desired:?} {stored}");
        }
    }

    #[test]
    fn differences_are_named_in_order() {
        let desired = map(json!({
            "callback_url": "https://other.example/", "event_types": ["a.*"], "active": false, "envelope": "standard",
            "filter": {"exact": {"region": "eu"}}, "timeout": "5s", "auth": {"basic": {"username": "u"}},
            "headers": {"X-A": "1"}, "signatures": [{"preset": "svix"}], "metadata": {"a": "b"}, "name": "n",
            "description": "d", "max_retry_limit": 3
        }));
        assert_eq!(changed(&desired, &shown()), FIELDS);
        // A header that becomes secret is a change.
        let secret = map(json!({
            "callback_url": "https://h.example/", "event_types": ["a.b"],
            "headers": {"x-a": {"value": "1", "secret": true}}
        }));
        assert_eq!(changed(&secret, &with(shown(), json!({"headers": {"x-a": "1"}}))), ["headers"]);
    }

    #[test]
    fn stored_secrets_are_kept_or_written() {
        let desired = map(json!({
            "callback_url": "https://h.example/", "event_types": ["a"], "secret": "whsec_a", "signing_key": "whsk_a",
            "headers": {"X-Old": {"value": "1", "secret": true}, "X-New": {"value": "2", "secret": true}, "X": "3"},
            "auth": {"basic": {"username": "u", "password": "p"}}
        }));
        let stored = json!({
            "public_key": null, "headers": {"x-old": {"secret": true}}, "auth": {"basic": {"username": "u"}}
        });
        let kept = body(Some("t"), &desired, Some(&stored), Secrets::Keep);
        assert_eq!(
            Value::from(kept),
            json!({
                "tenant": "t", "callback_url": "https://h.example/", "event_types": ["a"], "signing_key": "whsk_a",
                "headers": {"X-Old": {"secret": true}, "X-New": {"value": "2", "secret": true}, "X": "3"},
                "auth": {"basic": {"username": "u"}}
            })
        );
        let other =
            with(stored.clone(), json!({"auth": {"basic": {"username": "v"}}, "public_key": "whpk_a"}));
        let kept = body(None, &desired, Some(&other), Secrets::Keep);
        assert_eq!(kept["auth"]["basic"]["password"], "p");
        assert!(!kept.contains_key("signing_key") && !kept.contains_key("tenant"), "{kept:?}");
        assert_eq!(body(None, &desired, Some(&stored), Secrets::Write), desired);
        assert_eq!(body(None, &desired, None, Secrets::Keep), desired);
        assert!(names_secrets(&desired) && !names_secrets(&map(stored)));
    }

    #[test]
    fn fields_that_are_not_described_are_completed() {
        let described =
            map(json!({"event_types": ["b"], "active": false, "headers": {"X-A": "2"}, "secret": "s"}));
        let added = json!({
            "filter": {"exact": {"channel": "eu"}}, "headers": {"x-a": "1", "authorization": {"secret": true}},
            "auth": {"bearer": {}}
        });
        let stored = with(shown(), added.clone());
        let completed = completed(&described, &stored);
        assert_eq!(changed(&completed, &stored), ["event_types", "active", "headers"]);
        assert_eq!(completed["headers"], json!({"X-A": "2", "authorization": {"secret": true}}));
        for field in ["filter", "auth"] {
            assert_eq!(completed[field], added[field], "{field}");
        }
        assert_eq!((&completed["secret"], completed.get("timeout")), (&"s".into(), None));
        assert_eq!(missing_secrets(&completed, Some(&stored)), [""; 0]);
    }

    #[test]
    fn secrets_that_nobody_has_are_missing() {
        let exported = map(json!({"headers": {"X-A": {"secret": true}, "X": "3"}, "auth": {"bearer": {}}}));
        assert_eq!(missing_secrets(&exported, None), ["headers.X-A.value", "auth.bearer.token"]);
        let stored = json!({"headers": {"x-a": {"secret": true}}, "auth": {"bearer": {}}});
        assert_eq!(missing_secrets(&exported, Some(&stored)), [""; 0]);
        assert_eq!(missing_secrets(&exported, Some(&shown())), ["headers.X-A.value", "auth.bearer.token"]);
        let complete = map(
            json!({"headers": {"X-A": {"value": "", "secret": true}}, "auth": {"bearer": {"token": "t"}}}),
        );
        assert_eq!(missing_secrets(&complete, None), [""; 0]);
    }
}
