//! The inputs for authentication to the receiver: the method, and the members of each method. Converts them to the JSON
//! of the API and back. An empty secret keeps the stored one.

use super::object;
use serde_json::Value;

/// A method of authentication.
#[derive(Debug)]
pub(in super::super) struct Method {
    pub(in super::super) kind: &'static str,
    pub(in super::super) label: &'static str,
    pub(in super::super) members: &'static [Member],
}

/// An input of a method.
#[derive(Debug)]
pub(in super::super) struct Member {
    /// The name of the input.
    pub(in super::super) input: &'static str,
    /// The name in the JSON of the API.
    name: &'static str,
    pub(in super::super) label: &'static str,
    pub(in super::super) shape: Shape,
}

/// The kind of an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Shape {
    Text,
    Lines,
    Secret,
    SecretLines,
}

impl Member {
    pub(in super::super) const fn is_secret(&self) -> bool {
        matches!(self.shape, Shape::Secret | Shape::SecretLines)
    }

    pub(in super::super) const fn has_lines(&self) -> bool {
        matches!(self.shape, Shape::Lines | Shape::SecretLines)
    }
}

const fn member(input: &'static str, name: &'static str, label: &'static str, shape: Shape) -> Member {
    Member { input, name, label, shape }
}

pub(super) static METHODS: [Method; 5] = [
    Method {
        kind: "basic",
        label: "Basic (user name and password)",
        members: &[
            member("auth_basic_username", "username", "User name", Shape::Text),
            member("auth_basic_password", "password", "Password", Shape::Secret),
        ],
    },
    Method {
        kind: "bearer",
        label: "Bearer token",
        members: &[member("auth_bearer_token", "token", "Token", Shape::Secret)],
    },
    Method {
        kind: "api_key",
        label: "API key in a header",
        members: &[
            member("auth_api_key_header", "header", "Header", Shape::Text),
            member("auth_api_key_value", "value", "Key", Shape::Secret),
        ],
    },
    Method {
        kind: "oauth2_client_credentials",
        label: "OAuth 2 client credentials",
        members: &[
            member("auth_oauth2_token_url", "token_url", "Token URL", Shape::Text),
            member("auth_oauth2_client_id", "client_id", "Client id", Shape::Text),
            member("auth_oauth2_client_secret", "client_secret", "Client secret", Shape::Secret),
            member("auth_oauth2_scope", "scope", "Scope (optional)", Shape::Text),
            member("auth_oauth2_audience", "audience", "Audience (optional)", Shape::Text),
        ],
    },
    Method {
        kind: "mtls",
        label: "Client certificate (mTLS)",
        members: &[
            member("auth_mtls_certificate", "certificate", "Certificate and chain (PEM)", Shape::Lines),
            member("auth_mtls_key", "key", "Private key (PEM)", Shape::SecretLines),
        ],
    },
];

/// Returns the label of a method, or its name if it is unknown.
pub(in super::super) fn label_of(kind: &str) -> &str {
    METHODS.iter().find(|method| method.kind == kind).map_or(kind, |method| method.label)
}

pub(super) fn input_names() -> impl Iterator<Item = String> {
    METHODS.iter().flat_map(|method| method.members).map(|member| member.input.to_owned())
}

/// Returns the name of the method, or an empty string if there is none.
pub(super) fn kind_of(auth: &Value) -> &str {
    auth.as_object().and_then(|object| object.keys().next()).map_or("", String::as_str)
}

/// Returns the values of the inputs of a stored method, which has no secrets.
pub(super) fn values_of(auth: &Value) -> Vec<(String, String)> {
    let kind = kind_of(auth);
    let members = METHODS.iter().filter(|method| method.kind == kind).flat_map(|method| method.members);
    let text = |member: &Member| auth[kind][member.name].as_str().unwrap_or_default().to_owned();
    members.map(|member| (member.input.to_owned(), text(member))).collect()
}

/// Returns the JSON of the method with the values of its inputs, or `None` if there is no method.
pub(super) fn json_of<'a>(kind: &str, value: impl Fn(&str) -> &'a str) -> Option<String> {
    if kind.is_empty() {
        return None;
    }
    let members = METHODS.iter().filter(|method| method.kind == kind).flat_map(|method| method.members);
    let filled = members.filter_map(|member| {
        let text = value(member.input);
        // Spaces may be part of a secret.
        let text = if member.is_secret() { text } else { text.trim() };
        (!text.is_empty()).then(|| (member.name, Value::from(text).to_string()))
    });
    // The API rejects an unknown kind.
    Some(object(&[(kind, object(&filled.collect::<Vec<_>>()))]))
}
