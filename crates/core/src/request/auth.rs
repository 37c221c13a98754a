//! How Posthaste authenticates itself to a receiver in addition to the signature. The secret is part of
//! [`Credentials`].

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::headers::{is_name, is_reserved, is_value};
use super::{
    AUTH_SECRET_BYTES_MAX, AUTH_TEXT_BYTES_MAX, Credentials, HEADER_NAME_CHARS_MAX, HEADER_VALUE_BYTES_MAX,
    RequestError, pem,
};
use crate::json_object::{JsonObject, is_null, quoted, text_of};
use crate::subscription::{CallbackUrl, SubscriptionError};

const AUTHORIZATION: &str = "authorization";

/// The method of authentication without its secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Auth {
    /// HTTP Basic (RFC 7617). The secret is the password.
    Basic { username: String },
    /// A bearer token (RFC 6750), which is the secret.
    Bearer,
    /// A header of the receiver's choice. The secret is its value.
    ApiKey { header: String },
    /// A bearer token fetched from a token server (RFC 6749, section 4.4). The secret is the client secret.
    Oauth2ClientCredentials {
        token_url: CallbackUrl,
        client_id: String,
        scope: Option<String>,
        audience: Option<String>,
    },
    /// A TLS client certificate, as PEM. The secret is the private key.
    Mtls { certificate: String },
}

impl Auth {
    /// Parses the stored public part.
    pub fn from_store(json: &str) -> Result<Self, RequestError> {
        // Whether http is allowed was decided when the URL was accepted.
        Ok(AuthInput::parse(json, true)?.auth)
    }

    /// Returns the public part as JSON, such as `{"basic":{"username":"posthaste"}}`.
    pub fn to_json(&self) -> String {
        let members = match self {
            Self::Basic { username } => json!({ "username": username }),
            Self::Bearer => json!({}),
            Self::ApiKey { header } => json!({ "header": header }),
            Self::Oauth2ClientCredentials { token_url, client_id, scope, audience } => {
                let mut members = Map::new();
                if let Some(audience) = audience {
                    members.insert("audience".to_owned(), json!(audience));
                }
                members.insert("client_id".to_owned(), json!(client_id));
                if let Some(scope) = scope {
                    members.insert("scope".to_owned(), json!(scope));
                }
                members.insert("token_url".to_owned(), json!(token_url.as_str()));
                Value::Object(members)
            }
            Self::Mtls { certificate } => json!({ "certificate": certificate }),
        };
        json!({ self.kind(): members }).to_string()
    }

    /// Returns the name of the method in JSON.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Basic { .. } => "basic",
            Self::Bearer => "bearer",
            Self::ApiKey { .. } => "api_key",
            Self::Oauth2ClientCredentials { .. } => "oauth2_client_credentials",
            Self::Mtls { .. } => "mtls",
        }
    }

    /// Returns the name of the member that contains the secret in a request.
    pub const fn secret_member(&self) -> &'static str {
        match self {
            Self::Basic { .. } => "password",
            Self::Bearer => "token",
            Self::ApiKey { .. } => "value",
            Self::Oauth2ClientCredentials { .. } => "client_secret",
            Self::Mtls { .. } => "key",
        }
    }

    /// Returns the name of the header that authenticates a request, or `None` if the connection does.
    pub fn header_name(&self) -> Option<&str> {
        match self {
            Self::Basic { .. } | Self::Bearer | Self::Oauth2ClientCredentials { .. } => Some(AUTHORIZATION),
            Self::ApiKey { header } => Some(header),
            Self::Mtls { .. } => None,
        }
    }

    /// Returns the name and the value of the header that authenticates a request, or `None` if the header cannot be
    /// built from the secret alone: for OAuth 2 a token has to be fetched first, for mTLS there is no header.
    pub fn header(&self, secret: &str) -> Option<(String, String)> {
        match self {
            Self::Basic { username } => {
                let value = format!("Basic {}", STANDARD.encode(format!("{username}:{secret}")));
                Some((AUTHORIZATION.to_owned(), value))
            }
            Self::Bearer => Some((AUTHORIZATION.to_owned(), format!("Bearer {secret}"))),
            Self::ApiKey { header } => Some((header.clone(), secret.to_owned())),
            Self::Oauth2ClientCredentials { .. } | Self::Mtls { .. } => None,
        }
    }
}

/// A method of authentication as submitted. The secret may be absent, which keeps the stored one.
#[derive(Clone, PartialEq, Eq)]
pub struct AuthInput {
    auth: Auth,
    secret: Option<String>,
}

impl AuthInput {
    /// Parses a JSON object with one member that names the method, such as `{"bearer": {"token": "…"}}`.
    pub fn parse(json: &str, allow_http: bool) -> Result<Self, RequestError> {
        let JsonObject(methods) = JsonObject::parse(json).map_err(RequestError::AuthObject)?;
        let (name, value) = match &methods[..] {
            [(name, value)] => (name.as_str(), *value),
            [] => return Err(RequestError::AuthKind("none".to_owned())),
            [_, _, ..] => return Err(RequestError::AuthKind(format!("{} members", methods.len()))),
        };
        match name {
            "basic" => basic(value),
            "bearer" => bearer(value),
            "api_key" => api_key(value),
            "oauth2_client_credentials" => oauth2(value, allow_http),
            "mtls" => mtls(value),
            other => Err(RequestError::AuthKind(quoted(other))),
        }
    }

    /// Returns the public part and the secret: the new secret, else the stored one.
    ///
    /// A stored secret is kept only for the same method. For OAuth 2 the token server must also be the same, because
    /// a stored secret must not be sent to another server after an edit of the URL by a person who does not know the
    /// secret. The other members may change: they do not decide where the secret is sent. A certificate, for example,
    /// is renewed for the same private key.
    ///
    /// # Errors
    ///
    /// Returns an error that names the missing secret.
    pub fn merge(
        self,
        stored: Option<&Auth>,
        credentials: &Credentials,
    ) -> Result<(Auth, String), RequestError> {
        let Self { auth, secret } = self;
        if let Some(secret) = secret {
            return Ok((auth, secret));
        }
        let same_kind = stored.filter(|stored| stored.kind() == auth.kind());
        let (Some(stored), Some(secret)) = (same_kind, &credentials.auth) else {
            return Err(RequestError::AuthSecretMissing { kind: auth.kind(), member: auth.secret_member() });
        };
        if token_url(stored) != token_url(&auth) {
            return Err(RequestError::AuthSecretOfOtherServer);
        }
        Ok((auth, secret.clone()))
    }
}

#[cfg(test)]
impl AuthInput {
    pub(super) fn into_auth(self) -> Auth {
        self.auth
    }
}

/// Omits the secret.
impl fmt::Debug for AuthInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let secret = self.secret.as_ref().map(|_| "…");
        f.debug_struct("AuthInput").field("auth", &self.auth).field("secret", &secret).finish()
    }
}

const fn token_url(auth: &Auth) -> Option<&CallbackUrl> {
    match auth {
        Auth::Oauth2ClientCredentials { token_url, .. } => Some(token_url),
        Auth::Basic { .. } | Auth::Bearer | Auth::ApiKey { .. } | Auth::Mtls { .. } => None,
    }
}

/// The members of a method, as text. A member that is `null` is absent.
struct Members {
    kind: &'static str,
    texts: Vec<(&'static str, String)>,
}

impl Members {
    fn parse(
        kind: &'static str,
        names: &'static [&'static str],
        value: &RawValue,
    ) -> Result<Self, RequestError> {
        let object = JsonObject::parse(value.get());
        let JsonObject(given) = object.map_err(|error| RequestError::AuthMembers { kind, error })?;
        let mut texts = Vec::new();
        for (name, value) in given {
            let Some(member) = names.iter().copied().find(|known| *known == name) else {
                return Err(RequestError::AuthUnknownMember { kind, name: quoted(&name) });
            };
            if is_null(value) {
                continue;
            }
            let rule = || RequestError::AuthMember { kind, member, rule: "a string".to_owned() };
            texts.push((member, text_of(value).ok_or_else(rule)?));
        }
        Ok(Self { kind, texts })
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.texts.iter().find(|(member, _)| *member == name).map(|(_, text)| text.as_str())
    }

    /// Returns a member if it is present, or an error if it does not satisfy the rule.
    fn optional(
        &self,
        member: &'static str,
        is_valid: impl Fn(&str) -> bool,
        rule: impl FnOnce() -> String,
    ) -> Result<Option<String>, RequestError> {
        match self.text(member) {
            Some(text) if !is_valid(text) => {
                Err(RequestError::AuthMember { kind: self.kind, member, rule: rule() })
            }
            text => Ok(text.map(str::to_owned)),
        }
    }

    fn required(
        &self,
        member: &'static str,
        is_valid: impl Fn(&str) -> bool,
        rule: impl FnOnce() -> String,
    ) -> Result<String, RequestError> {
        let text = self.optional(member, is_valid, rule)?;
        text.ok_or(RequestError::AuthRequired { kind: self.kind, member })
    }
}

fn is_plain(text: &str, bytes_max: usize) -> bool {
    (1..=bytes_max).contains(&text.len()) && !text.chars().any(char::is_control)
}

fn plain_rule(bytes_max: usize) -> String {
    format!("1 to {bytes_max} bytes without control characters")
}

fn basic(value: &RawValue) -> Result<AuthInput, RequestError> {
    let members = Members::parse("basic", &["username", "password"], value)?;
    let is_username = |text: &str| is_plain(text, AUTH_TEXT_BYTES_MAX) && !text.contains(':');
    let username = members.required("username", is_username, || {
        format!("1 to {AUTH_TEXT_BYTES_MAX} bytes without control characters and without a colon")
    })?;
    // Some receivers expect a key as the username and an empty password.
    let is_password = |text: &str| text.is_empty() || is_plain(text, AUTH_SECRET_BYTES_MAX);
    let secret = members.optional("password", is_password, || {
        format!("at most {AUTH_SECRET_BYTES_MAX} bytes without control characters")
    })?;
    Ok(AuthInput { auth: Auth::Basic { username }, secret })
}

fn bearer(value: &RawValue) -> Result<AuthInput, RequestError> {
    let members = Members::parse("bearer", &["token"], value)?;
    let is_token = |text: &str| {
        (1..=AUTH_SECRET_BYTES_MAX).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic())
    };
    let secret = members.optional("token", is_token, || {
        format!("1 to {AUTH_SECRET_BYTES_MAX} visible ASCII characters without spaces")
    })?;
    Ok(AuthInput { auth: Auth::Bearer, secret })
}

fn api_key(value: &RawValue) -> Result<AuthInput, RequestError> {
    let members = Members::parse("api_key", &["header", "value"], value)?;
    let header = members.required("header", |text| is_name(text) && !is_reserved(text), || {
        format!(
            "a header name of 1 to {HEADER_NAME_CHARS_MAX} characters that neither Posthaste nor the connection sets"
        )
    })?;
    let secret = members.optional("value", |text| !text.is_empty() && is_value(text), || {
        format!(
            "1 to {HEADER_VALUE_BYTES_MAX} visible ASCII characters and spaces, without a space at the beginning or \
             the end"
        )
    })?;
    Ok(AuthInput { auth: Auth::ApiKey { header }, secret })
}

fn oauth2(value: &RawValue, allow_http: bool) -> Result<AuthInput, RequestError> {
    let kind = "oauth2_client_credentials";
    let names = &["token_url", "client_id", "client_secret", "scope", "audience"];
    let members = Members::parse(kind, names, value)?;
    let text = members.required("token_url", |_| true, String::new)?;
    let token_url = CallbackUrl::parse(&text, allow_http).map_err(|error| RequestError::AuthMember {
        kind,
        member: "token_url",
        rule: url_rule(&error),
    })?;
    let is_text = |text: &str| is_plain(text, AUTH_TEXT_BYTES_MAX);
    let client_id = members.required("client_id", is_text, || plain_rule(AUTH_TEXT_BYTES_MAX))?;
    let audience = members.optional("audience", is_text, || plain_rule(AUTH_TEXT_BYTES_MAX))?;
    // The syntax of RFC 6749, section 3.3.
    let is_scope = |text: &str| {
        let token = |part: &str| {
            !part.is_empty() && part.bytes().all(|b| b.is_ascii_graphic() && !b"\"\\".contains(&b))
        };
        text.len() <= AUTH_TEXT_BYTES_MAX && text.split(' ').all(token)
    };
    let scope = members.optional("scope", is_scope, || {
        format!(
            "words of visible ASCII characters without \" and \\, separated by one space, at most \
             {AUTH_TEXT_BYTES_MAX} bytes"
        )
    })?;
    let is_secret = |text: &str| is_plain(text, AUTH_SECRET_BYTES_MAX);
    let secret = members.optional("client_secret", is_secret, || plain_rule(AUTH_SECRET_BYTES_MAX))?;
    Ok(AuthInput { auth: Auth::Oauth2ClientCredentials { token_url, client_id, scope, audience }, secret })
}

/// Returns what a token URL must be. [`CallbackUrl`] reports its errors for `callback_url`.
fn url_rule(error: &SubscriptionError) -> String {
    match error {
        SubscriptionError::UserInfo => {
            "a URL without a user name or a password: use client_id and client_secret".to_owned()
        }
        SubscriptionError::Fragment => "a URL without a fragment (the part after #)".to_owned(),
        SubscriptionError::NotAUrl(reason) => format!("an absolute URL with a host: {reason}"),
        SubscriptionError::Scheme(scheme) => {
            format!("an https URL (http needs POSTHASTE_ALLOW_HTTP=true), not {}", quoted(scheme))
        }
        SubscriptionError::UrlTooLong | SubscriptionError::Description => {
            format!("at most {} bytes long", crate::subscription::CALLBACK_URL_BYTES_MAX)
        }
    }
}

fn mtls(value: &RawValue) -> Result<AuthInput, RequestError> {
    let kind = "mtls";
    let members = Members::parse(kind, &["certificate", "key"], value)?;
    let wrong = |member| move |rule| RequestError::AuthMember { kind, member, rule };
    let certificate = members.text("certificate");
    let certificate = certificate.ok_or(RequestError::AuthRequired { kind, member: "certificate" })?;
    let certificate = pem::certificates(certificate).map_err(wrong("certificate"))?;
    let secret = members.text("key").map(pem::private_key).transpose().map_err(wrong("key"))?;
    Ok(AuthInput { auth: Auth::Mtls { certificate }, secret })
}
