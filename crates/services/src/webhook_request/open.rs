//! Decrypts the secrets of a subscription for its requests: signing secrets, Ed25519 keys, secret headers and the
//! secret of the authentication.

use posthaste_core::Timestamp;
use posthaste_core::outcome::Failure;
use posthaste_core::request::{Auth, Credentials, HeaderValue, RequestError, StoredKey};
use posthaste_core::signature::{BadSecret, BadSigningKey, Ed25519Key, SigningSecret};

use super::{CustomHeader, OpenedRequest, RequestParts};
use crate::oauth2::{AccessToken, ClientCredentials};
use crate::seal::{SecretSealer, UnsealError};
use crate::sender::{ClientIdentity, IdentityError, Sender};

/// The reason why the requests of a subscription cannot be built. It contains no secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    #[error(transparent)]
    Sealed(#[from] UnsealError),
    #[error("the stored secret does not fit the signature formats")]
    Secret(#[source] BadSecret),
    #[error("the stored signing key is invalid")]
    SigningKey(#[source] BadSigningKey),
    #[error("the stored credentials contain no signing key, which standard_ed25519 needs")]
    NoSigningKey,
    #[error("the stored credentials do not contain the value of a secret header")]
    Header(#[source] RequestError),
    #[error("the stored credentials do not contain the {0} of auth")]
    NoAuthSecret(&'static str),
    #[error("the client certificate cannot be used")]
    Certificate(#[source] IdentityError),
}

impl OpenError {
    /// Returns the failure to report for an attempt.
    pub const fn failure(&self) -> Failure {
        match self {
            Self::Certificate(_) => Failure::CredentialsInvalid,
            Self::Sealed(_)
            | Self::Secret(_)
            | Self::SigningKey(_)
            | Self::NoSigningKey
            | Self::Header(_)
            | Self::NoAuthSecret(_) => Failure::SecretUnreadable,
        }
    }
}

/// The authentication of a subscription's requests, with its secret.
#[derive(Clone)]
pub(super) enum OpenedAuth {
    None,
    Header { name: String, value: String },
    Token(TokenCredentials),
    Certificate(ClientIdentity),
}

/// The credentials for fetching an access token.
#[derive(Clone)]
pub(super) struct TokenCredentials {
    token_url: String,
    client_id: String,
    client_secret: String,
    scope: Option<String>,
    audience: Option<String>,
}

impl TokenCredentials {
    pub(super) fn client(&self) -> ClientCredentials<'_> {
        ClientCredentials {
            token_url: &self.token_url,
            client_id: &self.client_id,
            client_secret: &self.client_secret,
            scope: self.scope.as_deref(),
            audience: self.audience.as_deref(),
        }
    }
}

/// The header that contains an access token.
pub(super) const AUTHORIZATION: &str = "authorization";

impl OpenedAuth {
    /// Returns the name and the value of the header that authenticates a request.
    pub(super) fn header<'a>(&'a self, token: Option<&'a AccessToken>) -> Option<(&'a str, &'a str)> {
        match self {
            Self::Header { name, value } => Some((name, value)),
            Self::Token(_) => token.map(|token| (AUTHORIZATION, token.authorization())),
            Self::None | Self::Certificate(_) => None,
        }
    }

    fn open(auth: Option<&Auth>, credentials: &Credentials, sender: &Sender) -> Result<Self, OpenError> {
        let Some(auth) = auth else { return Ok(Self::None) };
        let secret = credentials.auth.as_deref().ok_or(OpenError::NoAuthSecret(auth.secret_member()))?;
        if let Some((name, value)) = auth.header(secret) {
            return Ok(Self::Header { name, value });
        }
        Ok(match auth {
            Auth::Basic { .. } | Auth::Bearer | Auth::ApiKey { .. } => Self::None,
            Auth::Oauth2ClientCredentials { token_url, client_id, scope, audience } => {
                Self::Token(TokenCredentials {
                    token_url: token_url.as_str().to_owned(),
                    client_id: client_id.clone(),
                    client_secret: secret.to_owned(),
                    scope: scope.clone(),
                    audience: audience.clone(),
                })
            }
            Auth::Mtls { certificate } => {
                Self::Certificate(sender.identity(certificate, secret).map_err(OpenError::Certificate)?)
            }
        })
    }
}

impl OpenedRequest {
    /// Decrypts the secrets that are valid at `now`. Client certificates are parsed by `sender`, which caches them.
    ///
    /// # Errors
    ///
    /// Returns an error if a secret cannot be decrypted, is missing, or cannot be used. A request without its signature
    /// or authentication is never built.
    pub fn open(
        parts: RequestParts<'_>,
        sealer: &SecretSealer,
        sender: &Sender,
        now: Timestamp,
    ) -> Result<Self, OpenError> {
        let credentials = sealer.open_credentials(parts.secrets)?;
        Ok(Self {
            signatures: parts.signatures.clone(),
            secrets: open_secrets(parts, sealer, now)?,
            ed25519: open_keys(parts, &credentials.signing_keys, now)?,
            headers: open_headers(parts, &credentials)?,
            auth: OpenedAuth::open(parts.auth, &credentials, sender)?,
            envelope: parts.envelope,
        })
    }
}

fn open_secrets(
    parts: RequestParts<'_>,
    sealer: &SecretSealer,
    now: Timestamp,
) -> Result<Vec<SigningSecret>, OpenError> {
    if !parts.signatures.uses_secret() {
        return Ok(Vec::new());
    }
    let live = parts.secrets.live(now);
    let opened: Result<Vec<_>, UnsealError> =
        live.map(|(place, sealed)| sealer.open(sealed, place)).collect();
    let opened = opened?;
    if let Some(newest) = opened.first() {
        newest.check_for(parts.signatures).map_err(OpenError::Secret)?;
    }
    Ok(opened)
}

fn open_keys(
    parts: RequestParts<'_>,
    stored: &[StoredKey],
    now: Timestamp,
) -> Result<Vec<Ed25519Key>, OpenError> {
    if !parts.signatures.uses_ed25519() {
        return Ok(Vec::new());
    }
    let is_live = |key: &&StoredKey| key.expires_at.is_none_or(|until| now < until);
    let live = stored.iter().filter(is_live).map(|key| Ed25519Key::parse(&key.key));
    let keys = live.collect::<Result<Vec<_>, _>>().map_err(OpenError::SigningKey)?;
    if keys.is_empty() { Err(OpenError::NoSigningKey) } else { Ok(keys) }
}

fn open_headers(parts: RequestParts<'_>, credentials: &Credentials) -> Result<Vec<CustomHeader>, OpenError> {
    let values = parts.headers.with_secrets(credentials).map_err(OpenError::Header)?;
    let is_secret = parts.headers.iter().map(|(_, value)| matches!(value, HeaderValue::Secret));
    let header = |((name, value), is_secret)| CustomHeader { name, value, is_secret };
    Ok(values.into_iter().zip(is_secret).map(header).collect())
}
