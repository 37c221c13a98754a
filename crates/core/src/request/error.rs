//! The errors of [`request`](super), addressed to the caller who sent the subscription. They contain names, never
//! values.

use super::{HEADER_NAME_CHARS_MAX, HEADER_VALUE_BYTES_MAX, HEADERS_MAX};
use crate::json_object::ObjectError;

/// An error for invalid `headers` or an invalid `auth`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    #[error("headers {0}")]
    HeadersObject(ObjectError),
    #[error("headers must have at most {HEADERS_MAX} entries, got {0}")]
    TooManyHeaders(usize),
    #[error(
        "headers: a name must be 1 to {HEADER_NAME_CHARS_MAX} characters of A-Z a-z 0-9 ! # $ % & ' * + - . ^ _ ` | ~, \
         got {0}"
    )]
    HeaderName(String),
    #[error("headers must not contain {0}: Posthaste or the connection sets this header")]
    HeaderReserved(String),
    #[error("headers must not contain {0} twice (names ignore case)")]
    DuplicateHeader(String),
    #[error("headers must not contain {0}, which auth sets: remove one of them")]
    HeaderOfAuth(String),
    #[error("headers must not contain {0}, which signatures set: remove one of them")]
    HeaderOfSignature(String),
    #[error(
        "headers.{0} must be a string, {{\"value\": \"…\", \"secret\": true}}, or {{\"secret\": true}} to keep the \
         stored value"
    )]
    HeaderForm(String),
    #[error(
        "headers.{0} must be at most {HEADER_VALUE_BYTES_MAX} visible ASCII characters and spaces, without a space at \
         the beginning or the end"
    )]
    HeaderValue(String),
    #[error("headers.{0} is secret and must not be empty")]
    EmptySecretHeader(String),
    #[error("headers.{0}.value is required: no secret value is stored for this header")]
    HeaderSecretMissing(String),

    #[error("auth {0}")]
    AuthObject(ObjectError),
    #[error(
        "auth must have exactly one member: basic, bearer, api_key, oauth2_client_credentials or mtls, got {0}"
    )]
    AuthKind(String),
    #[error("auth.{kind} {error}")]
    AuthMembers { kind: &'static str, error: ObjectError },
    #[error("auth.{kind} must not contain {name}")]
    AuthUnknownMember { kind: &'static str, name: String },
    #[error("auth.{kind}.{member} is required")]
    AuthRequired { kind: &'static str, member: &'static str },
    #[error("auth.{kind}.{member} must be {rule}")]
    AuthMember { kind: &'static str, member: &'static str, rule: String },
    #[error("auth.api_key.header must not be {0}, which signatures set")]
    ApiKeyHeaderOfSignature(String),
    #[error("auth.{kind}.{member} is required: no secret is stored for auth.{kind}")]
    AuthSecretMissing { kind: &'static str, member: &'static str },
    #[error(
        "auth.oauth2_client_credentials.client_secret is required, because token_url changed: a stored secret is never \
         sent to another token server"
    )]
    AuthSecretOfOtherServer,
}

impl RequestError {
    /// Returns the field of the subscription that has to be corrected.
    pub const fn field(&self) -> &'static str {
        match self {
            Self::HeadersObject(_)
            | Self::TooManyHeaders(_)
            | Self::HeaderName(_)
            | Self::HeaderReserved(_)
            | Self::DuplicateHeader(_)
            | Self::HeaderOfAuth(_)
            | Self::HeaderOfSignature(_)
            | Self::HeaderForm(_)
            | Self::HeaderValue(_)
            | Self::EmptySecretHeader(_)
            | Self::HeaderSecretMissing(_) => "headers",
            Self::AuthObject(_)
            | Self::AuthKind(_)
            | Self::AuthMembers { .. }
            | Self::AuthUnknownMember { .. }
            | Self::AuthRequired { .. }
            | Self::AuthMember { .. }
            | Self::ApiKeyHeaderOfSignature(_)
            | Self::AuthSecretMissing { .. }
            | Self::AuthSecretOfOtherServer => "auth",
        }
    }
}
