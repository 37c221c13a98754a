//! The customer's own headers of a request. The values of secret headers are part of [`Credentials`].

use std::collections::BTreeMap;
use std::fmt;

use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::{Credentials, HEADER_NAME_CHARS_MAX, HEADER_VALUE_BYTES_MAX, HEADERS_MAX, RequestError};
use crate::json_object::{JsonObject, is_null, quoted, text_of};

/// Names that a customer must not set: Posthaste sets them, or they control the connection.
const RESERVED: [&str; 15] = [
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "expect",
    "host",
    "keep-alive",
    "te",
    "traceparent",
    "tracestate",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "user-agent",
    "webhook-request-origin",
];

/// Prefixes of reserved names.
const RESERVED_PREFIXES: [&str; 5] = ["ce-", "posthaste-", "proxy-", "svix-", "webhook-"];

/// The public part of a header's value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HeaderValue {
    Plain(String),
    /// The value is stored in [`Credentials::headers`].
    Secret,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Header {
    name: String,
    value: HeaderValue,
}

/// The headers of a subscription without the values of secret headers. The names are distinct regardless of case.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RequestHeaders(BTreeMap<String, Header>);

impl RequestHeaders {
    /// Parses the stored public part. Reserved names are accepted, because a later version may reserve more names.
    pub fn from_store(json: &str) -> Result<Self, RequestError> {
        let mut headers = BTreeMap::new();
        for (name, value) in members(json)? {
            check_name(&name)?;
            let value = match parse_value(&name, value)? {
                Input::Plain(text) => HeaderValue::Plain(text),
                Input::Secret(_) => HeaderValue::Secret,
            };
            headers.insert(name.to_ascii_lowercase(), Header { name, value });
        }
        Ok(Self(headers))
    }

    /// Returns the public part as a JSON object, sorted by name: `{"X-Team":"billing","X-Token":{"secret":true}}`.
    pub fn to_json(&self) -> String {
        let members = self.iter().map(|(name, value)| {
            let value = match value {
                HeaderValue::Plain(text) => Value::from(text.as_str()),
                HeaderValue::Secret => json!({ "secret": true }),
            };
            (name.to_owned(), value)
        });
        Value::Object(members.collect::<Map<_, _>>()).to_string()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the headers, sorted by name regardless of case.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &HeaderValue)> {
        self.0.values().map(|header| (header.name.as_str(), &header.value))
    }

    /// Returns the names and values to send.
    ///
    /// # Errors
    ///
    /// Returns an error if the credentials do not contain the value of a secret header.
    pub fn with_secrets(&self, credentials: &Credentials) -> Result<Vec<(String, String)>, RequestError> {
        let resolve = |(key, Header { name, value }): (&String, &Header)| {
            let value = match value {
                HeaderValue::Plain(text) => text,
                HeaderValue::Secret => credentials
                    .headers
                    .get(key)
                    .ok_or_else(|| RequestError::HeaderSecretMissing(name.clone()))?,
            };
            Ok((name.clone(), value.clone()))
        };
        self.0.iter().map(resolve).collect()
    }
}

#[derive(Clone, PartialEq, Eq)]
enum Input {
    Plain(String),
    /// A secret value, or `None` to keep the stored one.
    Secret(Option<String>),
}

/// Headers as submitted, with the values of secret headers.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct RequestHeadersInput(BTreeMap<String, (String, Input)>);

impl RequestHeadersInput {
    /// Parses a JSON object from a name to `"value"`, `{"value": "…", "secret": true}` or `{"secret": true}`.
    pub fn parse(json: &str) -> Result<Self, RequestError> {
        let members = members(json)?;
        if members.len() > HEADERS_MAX {
            return Err(RequestError::TooManyHeaders(members.len()));
        }
        let mut headers = BTreeMap::new();
        for (name, value) in members {
            check_name(&name)?;
            if is_reserved(&name) {
                return Err(RequestError::HeaderReserved(name));
            }
            let value = parse_value(&name, value)?;
            let entry = (name.clone(), value);
            if headers.insert(name.to_ascii_lowercase(), entry).is_some() {
                return Err(RequestError::DuplicateHeader(name));
            }
        }
        Ok(Self(headers))
    }

    /// Splits the headers into the public part and the secret values by name in lower case. A secret header without a
    /// value keeps the stored value of the same name. Stored values of other headers are dropped.
    ///
    /// # Errors
    ///
    /// Returns an error with the name of a secret header that has neither a new nor a stored value.
    pub fn merge(
        self,
        stored: &Credentials,
    ) -> Result<(RequestHeaders, BTreeMap<String, String>), RequestError> {
        let (mut headers, mut secrets) = (BTreeMap::new(), BTreeMap::new());
        for (key, (name, input)) in self.0 {
            let value = match input {
                Input::Plain(text) => HeaderValue::Plain(text),
                Input::Secret(new) => {
                    let Some(secret) = new.or_else(|| stored.headers.get(&key).cloned()) else {
                        return Err(RequestError::HeaderSecretMissing(name));
                    };
                    secrets.insert(key.clone(), secret);
                    HeaderValue::Secret
                }
            };
            headers.insert(key, Header { name, value });
        }
        Ok((RequestHeaders(headers), secrets))
    }
}

/// Omits the values, because any of them may be a secret.
impl fmt::Debug for RequestHeadersInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RequestHeadersInput").field(&self.0.keys()).finish()
    }
}

fn members(json: &str) -> Result<Vec<(String, &RawValue)>, RequestError> {
    Ok(JsonObject::parse(json).map_err(RequestError::HeadersObject)?.0)
}

/// Checks that a name is a token of RFC 9110.
fn check_name(name: &str) -> Result<(), RequestError> {
    if is_name(name) { Ok(()) } else { Err(RequestError::HeaderName(quoted(name))) }
}

pub(super) fn is_name(name: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    (1..=HEADER_NAME_CHARS_MAX).contains(&name.len()) && name.bytes().all(allowed)
}

pub(super) fn is_reserved(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    RESERVED.contains(&name.as_str()) || RESERVED_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// Returns whether text can be a header value. Receivers remove spaces at both ends, so a value with such spaces would
/// not arrive as it was sent.
pub(super) fn is_value(text: &str) -> bool {
    let visible = text.bytes().all(|b| b == b' ' || b.is_ascii_graphic());
    visible && text.len() <= HEADER_VALUE_BYTES_MAX && text.trim_matches(' ').len() == text.len()
}

fn parse_value(name: &str, value: &RawValue) -> Result<Input, RequestError> {
    let (text, secret) = parse_form(value).ok_or_else(|| RequestError::HeaderForm(name.to_owned()))?;
    match text {
        Some(text) if !is_value(&text) => Err(RequestError::HeaderValue(name.to_owned())),
        Some(text) if secret && text.is_empty() => Err(RequestError::EmptySecretHeader(name.to_owned())),
        Some(text) if secret => Ok(Input::Secret(Some(text))),
        Some(text) => Ok(Input::Plain(text)),
        None if secret => Ok(Input::Secret(None)),
        None => Err(RequestError::HeaderForm(name.to_owned())),
    }
}

/// Returns the value and whether it is secret, or `None` if the JSON has another form.
fn parse_form(value: &RawValue) -> Option<(Option<String>, bool)> {
    if let Some(text) = text_of(value) {
        return Some((Some(text), false));
    }
    let (mut text, mut secret) = (None, false);
    for (member, value) in JsonObject::parse(value.get()).ok()?.0 {
        match member.as_str() {
            "value" if is_null(value) => {}
            "value" => text = Some(text_of(value)?),
            "secret" => secret = serde_json::from_str(value.get()).ok()?,
            _ => return None,
        }
    }
    Some((text, secret))
}
