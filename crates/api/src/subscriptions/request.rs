//! How requests to a receiver are made: signatures, headers, authentication and the keys of both. Applies the requested
//! values to the stored ones and checks the result as a whole. The secrets are stored as [`Credentials`], encrypted.

use super::rotation::{OVERLAP, rotated_keys};
use crate::problem::Problem;
use crate::state::ApiState;
use posthaste_core::ports::Stores;
use posthaste_core::request::{
    self, Auth, AuthInput, Credentials, HeaderValue, RequestError, RequestHeaders, RequestHeadersInput,
};
use posthaste_core::signature::{Ed25519Key, Signatures};
use posthaste_core::subscription::{CallbackUrl, SealedSecret, Secrets, Subscription};
use posthaste_core::{SecretRef, Timestamp};
use std::collections::BTreeMap;
use url::Url;

/// The requested values. A value that is `None` is unchanged.
#[derive(Debug, Clone, Default)]
pub(super) struct RequestEdit {
    pub(super) signatures: Option<Signatures>,
    pub(super) headers: Option<RequestHeadersInput>,
    pub(super) auth: Option<Option<AuthInput>>,
    pub(super) signing_key: Option<Ed25519Key>,
}

impl RequestEdit {
    pub(super) const fn is_empty(&self) -> bool {
        let Self { signatures, headers, auth, signing_key } = self;
        signatures.is_none() && headers.is_none() && auth.is_none() && signing_key.is_none()
    }
}

/// The values of a subscription with their secrets.
#[derive(Debug, Clone, Default)]
pub(super) struct RequestSettings {
    pub(super) signatures: Signatures,
    pub(super) headers: RequestHeaders,
    pub(super) auth: Option<Auth>,
    pub(super) public_key: Option<String>,
    pub(super) credentials: Credentials,
}

/// Whether stored secrets may be sent to the URL of a subscription after a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StoredSecrets {
    Usable,
    /// The URL has another scheme, host or port. A stored secret must not be sent there, because the caller need not
    /// know it.
    OtherHost,
}

impl StoredSecrets {
    pub(super) fn after(before: &CallbackUrl, after: Option<&CallbackUrl>) -> Self {
        let origin = |url: &CallbackUrl| Url::parse(url.as_str()).ok().map(|url| url.origin());
        match after {
            Some(after) if origin(before) != origin(after) => Self::OtherHost,
            Some(_) | None => Self::Usable,
        }
    }
}

impl RequestSettings {
    /// Returns the stored values of a subscription.
    ///
    /// # Errors
    ///
    /// Returns a problem with status 409 if the credentials cannot be decrypted.
    pub(super) fn of<S: Stores>(
        api: &ApiState<S>,
        subscription: &Subscription,
        secrets: &Secrets,
    ) -> Result<Self, Problem> {
        let credentials = api.outgoing.sealer.open_credentials(secrets).map_err(|error| {
            Problem::conflict(format!(
                "the stored credentials of the subscription cannot be decrypted ({error}): correct POSTHASTE_SECRET_KEY"
            ))
        })?;
        Ok(Self {
            signatures: subscription.signatures.clone(),
            headers: subscription.headers.clone(),
            auth: subscription.auth.clone(),
            public_key: subscription.public_key.clone(),
            credentials,
        })
    }

    /// Returns the values after a change. A key is created if the signatures need one and there is none.
    ///
    /// # Errors
    ///
    /// Returns a problem with status 422 if a value is not allowed, or if a secret is missing.
    pub(super) fn edited<S: Stores>(
        self,
        api: &ApiState<S>,
        edit: RequestEdit,
        stored: StoredSecrets,
        now: Timestamp,
    ) -> Result<Self, Problem> {
        let (headers, header_secrets) = self.edited_headers(edit.headers, stored)?;
        let (auth, auth_secret) = self.edited_auth(api, edit.auth, stored)?;
        let signatures = edit.signatures.unwrap_or(self.signatures);
        request::check(&headers, auth.as_ref(), &signatures.header_names())
            .map_err(|error| invalid(&error))?;
        let (mut public_key, mut signing_keys) = (self.public_key, self.credentials.signing_keys);
        let generated = || signatures.uses_ed25519().then(|| Ed25519Key::from_seed(api.draw()));
        let new_key = match (edit.signing_key, &public_key) {
            (Some(key), Some(current)) => Some(key).filter(|key| key.public_key() != *current),
            (key @ Some(_), None) => key,
            (None, Some(_)) => None,
            (None, None) => generated(),
        };
        if let Some(key) = new_key {
            signing_keys = rotated_keys(signing_keys, &key, OVERLAP, now);
            public_key = Some(key.public_key());
        }
        let credentials = Credentials { headers: header_secrets, auth: auth_secret, signing_keys };
        Ok(Self { signatures, headers, auth, public_key, credentials })
    }

    fn edited_headers(
        &self,
        edit: Option<RequestHeadersInput>,
        stored: StoredSecrets,
    ) -> Result<(RequestHeaders, BTreeMap<String, String>), Problem> {
        let Some(input) = edit else {
            let secret = self.headers.iter().find(|(_, value)| **value == HeaderValue::Secret);
            return match (stored, secret) {
                (StoredSecrets::OtherHost, Some((name, _))) => Err(other_host("headers", name)),
                (StoredSecrets::OtherHost | StoredSecrets::Usable, _) => {
                    Ok((self.headers.clone(), self.credentials.headers.clone()))
                }
            };
        };
        match stored {
            StoredSecrets::Usable => input.merge(&self.credentials).map_err(|error| invalid(&error)),
            StoredSecrets::OtherHost => input.merge(&Credentials::default()).map_err(|error| {
                if let RequestError::HeaderSecretMissing(name) = &error
                    && self.credentials.headers.contains_key(&name.to_ascii_lowercase())
                {
                    return other_host("headers", name);
                }
                invalid(&error)
            }),
        }
    }

    fn edited_auth<S: Stores>(
        &self,
        api: &ApiState<S>,
        edit: Option<Option<AuthInput>>,
        stored: StoredSecrets,
    ) -> Result<(Option<Auth>, Option<String>), Problem> {
        let input = match edit {
            Some(Some(input)) => input,
            Some(None) => return Ok((None, None)),
            None => {
                return match (stored, &self.auth) {
                    (StoredSecrets::OtherHost, Some(auth)) => Err(other_host("auth", auth.secret_member())),
                    (StoredSecrets::OtherHost | StoredSecrets::Usable, _) => {
                        Ok((self.auth.clone(), self.credentials.auth.clone()))
                    }
                };
            }
        };
        let merged = match stored {
            StoredSecrets::Usable => {
                input.merge(self.auth.as_ref(), &self.credentials).map_err(|error| invalid(&error))
            }
            StoredSecrets::OtherHost => input.merge(None, &Credentials::default()).map_err(|error| {
                if let RequestError::AuthSecretMissing { kind, member } = &error
                    && self.auth.as_ref().is_some_and(|auth| auth.kind() == *kind)
                {
                    return other_host("auth", member);
                }
                invalid(&error)
            }),
        };
        let (auth, secret) = merged?;
        if let Auth::Oauth2ClientCredentials { token_url, .. } = &auth {
            check_token_url(api, token_url)?;
        }
        Ok((Some(auth), Some(secret)))
    }

    /// Returns the stored form of the credentials, or `None` if there are none.
    pub(super) fn sealed<S: Stores>(&self, api: &ApiState<S>, secret_ref: SecretRef) -> Option<SealedSecret> {
        let seal = || api.outgoing.sealer.seal_credentials(&self.credentials, secret_ref, api.draw());
        (!self.credentials.is_empty()).then(seal)
    }
}

/// Checks that the live secrets of a subscription can be used by other signature formats.
///
/// # Errors
///
/// Returns a problem with status 422 if a format cannot use a secret, or 409 if one cannot be decrypted.
pub(super) fn check_live_secrets<S: Stores>(
    api: &ApiState<S>,
    signatures: &Signatures,
    secrets: &Secrets,
    now: Timestamp,
) -> Result<(), Problem> {
    for (place, sealed) in secrets.live(now) {
        let secret = api.outgoing.sealer.open(sealed, place).map_err(|error| {
            Problem::conflict(format!(
                "a secret of the subscription cannot be decrypted ({error}): correct POSTHASTE_SECRET_KEY"
            ))
        })?;
        secret.check_for(signatures).map_err(|error| {
            let detail = format!(
                "signatures cannot use a secret of the subscription ({error}): replace it first with rotate-secret and \
                 an overlap_s of 0"
            );
            Problem::invalid("signatures", detail)
        })?;
    }
    Ok(())
}

/// Checks the URL of a token server like a callback URL.
fn check_token_url<S: Stores>(api: &ApiState<S>, url: &CallbackUrl) -> Result<(), Problem> {
    let checked = api.outgoing.sender.check_url(url.as_str());
    checked.map(drop).map_err(|error| {
        let detail = format!("auth.oauth2_client_credentials.token_url is not allowed: {error}");
        Problem::invalid("auth", detail)
    })
}

fn invalid(error: &RequestError) -> Problem {
    Problem::invalid(error.field(), error.to_string())
}

fn other_host(field: &str, name: &str) -> Problem {
    let detail = format!(
        "{field} contains the stored secret {name}, which is never sent to another host: send {field} again with its \
         secret values, or remove them, because callback_url has another scheme, host or port"
    );
    Problem::invalid(field, detail)
}
