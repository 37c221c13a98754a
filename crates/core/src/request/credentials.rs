//! The secrets of a subscription's requests. The API and the rotation write them, the store keeps them sealed as one
//! text, and the worker reads them to send a request.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::time::Timestamp;

/// An Ed25519 key as it is stored, in the format `whsk_…`.
#[derive(Clone, PartialEq, Eq)]
pub struct StoredKey {
    pub key: String,
    /// The time until which the key signs requests, or `None` for the current key.
    pub expires_at: Option<Timestamp>,
}

/// The secrets of a subscription except the signing secrets.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Credentials {
    /// The values of secret headers by name in lower case.
    pub headers: BTreeMap<String, String>,
    /// The secret of `auth`: the password, token, value, client secret or private key.
    pub auth: Option<String>,
    /// The Ed25519 keys, newest first.
    pub signing_keys: Vec<StoredKey>,
}

/// An error from reading stored credentials. It does not contain them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CredentialsError {
    #[error("the stored credentials are not a JSON object")]
    NotAnObject,
    #[error("the member {0} of the stored credentials is invalid")]
    Member(&'static str),
}

impl Credentials {
    pub fn is_empty(&self) -> bool {
        let Self { headers, auth, signing_keys } = self;
        headers.is_empty() && auth.is_none() && signing_keys.is_empty()
    }

    /// Returns the JSON object that is sealed and stored. A member without a value is omitted.
    pub fn to_json(&self) -> String {
        let Self { headers, auth, signing_keys } = self;
        let mut members = Map::new();
        if let Some(secret) = auth {
            members.insert("auth".to_owned(), Value::from(secret.as_str()));
        }
        if !headers.is_empty() {
            let headers = headers.iter().map(|(name, value)| (name.clone(), Value::from(value.as_str())));
            members.insert("headers".to_owned(), Value::Object(headers.collect()));
        }
        if !signing_keys.is_empty() {
            let keys = signing_keys.iter().map(StoredKey::to_value);
            members.insert("signing_keys".to_owned(), Value::Array(keys.collect()));
        }
        Value::Object(members).to_string()
    }

    /// Parses the stored JSON object. Unknown members are ignored, so that an older version can read credentials of a
    /// newer one.
    pub fn from_json(text: &str) -> Result<Self, CredentialsError> {
        // The error of the parser is dropped, because it may quote a secret.
        let Ok(Value::Object(mut members)) = serde_json::from_str(text) else {
            return Err(CredentialsError::NotAnObject);
        };
        let signing_keys: Vec<Value> = member(&mut members, "signing_keys")?.unwrap_or_default();
        let signing_keys: Option<Vec<_>> = signing_keys.iter().map(StoredKey::from_value).collect();
        Ok(Self {
            headers: member(&mut members, "headers")?.unwrap_or_default(),
            auth: member(&mut members, "auth")?,
            signing_keys: signing_keys.ok_or(CredentialsError::Member("signing_keys"))?,
        })
    }
}

/// Returns a member, or `None` if it is absent or null.
fn member<T: DeserializeOwned>(
    members: &mut Map<String, Value>,
    name: &'static str,
) -> Result<Option<T>, CredentialsError> {
    let value = members.remove(name).unwrap_or(Value::Null);
    serde_json::from_value(value).map_err(|_| CredentialsError::Member(name))
}

impl StoredKey {
    fn to_value(&self) -> Value {
        match self.expires_at {
            Some(at) => json!({ "expires_at_us": at.micros(), "key": self.key }),
            None => json!({ "key": self.key }),
        }
    }

    fn from_value(value: &Value) -> Option<Self> {
        let key = value.get("key")?.as_str()?.to_owned();
        let expires_at = match value.get("expires_at_us") {
            None | Some(Value::Null) => None,
            Some(micros) => Some(Timestamp::from_micros(micros.as_i64()?)),
        };
        Some(Self { key, expires_at })
    }
}

/// Omits the key.
impl fmt::Debug for StoredKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoredKey").field("expires_at", &self.expires_at).finish_non_exhaustive()
    }
}

/// Omits the secrets and prints the names of the headers.
impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("headers", &self.headers.keys())
            .field("auth", &self.auth.as_ref().map(|_| "…"))
            .field("signing_keys", &self.signing_keys)
            .finish()
    }
}
