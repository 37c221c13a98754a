//! Encryption of signing secrets at rest. The API encrypts a secret when it is created or rotated; the worker
//! decrypts it to sign requests. The keys are those of `POSTHASTE_SECRET_KEY`; nonces are arguments.
//!
//! Without a key, a secret is stored in plain text, `whsec_…`. With keys, it is encrypted with AES-256-GCM under the
//! first one and stored as `v2:<key id>:<base64 of nonce, ciphertext and tag>`. The authenticated data contains the
//! name of the column and the `secret_ref` of the row, so the text cannot be decrypted in another place. The key id
//! selects the key, distinguishes a missing key from damaged data, and names the missing key without revealing it.
//!
//! Secrets in an earlier form, `v1:…` without the place or in plain text, are decrypted until they are encrypted again
//! with [`SecretSealer::reseal`].

mod key;

pub use key::{BadSealingKeys, SealingKeys};

use aws_lc_rs::aead::NONCE_LEN;
use key::{Form, is_key_id};
use posthaste_core::SubscriptionId;
use posthaste_core::Timestamp;
use posthaste_core::ports::ResealedSecrets;
use posthaste_core::signature::{BadSecret, SigningSecret};
use posthaste_core::subscription::{SealedSecret, SecretColumn, SecretPlace, Secrets};

/// The reason why a stored secret cannot be decrypted. It does not contain the secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnsealError {
    #[error("the secret is encrypted with key {sealed_with}, but POSTHASTE_SECRET_KEY is not set")]
    NoKey { sealed_with: String },
    #[error("the secret is encrypted with key {sealed_with}, but POSTHASTE_SECRET_KEY contains only {ours}")]
    OtherKey { sealed_with: String, ours: String },
    #[error(
        "the secret is stored in plain text, which POSTHASTE_SECRETS=sealed refuses: set it to any, run `posthaste \
         reseal`, and set it to sealed again"
    )]
    Plain,
    #[error(
        "the encrypted secret is damaged, was tampered with, or was moved from another subscription or column"
    )]
    Damaged,
    #[error("the stored value is not a signing secret")]
    NotASecret(#[source] BadSecret),
}

impl UnsealError {
    /// Returns the id of the key that would decrypt the secret, if that key is missing.
    pub fn missing_key(&self) -> Option<&str> {
        match self {
            Self::NoKey { sealed_with } | Self::OtherKey { sealed_with, .. } => Some(sealed_with),
            Self::Plain | Self::Damaged | Self::NotASecret(_) => None,
        }
    }
}

/// Whether secrets that are stored in plain text may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlainSecrets {
    Accepted,
    Refused,
}

/// A cipher for signing secrets. Without keys, it stores them in plain text.
#[derive(Debug, Clone)]
pub struct SecretSealer {
    keys: Option<SealingKeys>,
    plain: PlainSecrets,
}

impl SecretSealer {
    pub const fn new(keys: Option<SealingKeys>, plain: PlainSecrets) -> Self {
        Self { keys, plain }
    }

    /// Returns the id of the key that encrypts secrets, or `None` if they are stored in plain text.
    pub fn key_id(&self) -> Option<&str> {
        self.keys.as_ref().map(|keys| keys.first().id())
    }

    /// Returns the stored form of a secret for one place. The nonce must be random: using a nonce twice with the same
    /// key compromises both secrets.
    pub fn seal(&self, secret: &SigningSecret, place: SecretPlace, nonce: [u8; NONCE_LEN]) -> SealedSecret {
        SealedSecret::new(match &self.keys {
            None => secret.reveal(),
            Some(keys) => keys.first().seal(secret.reveal().into_bytes(), place, nonce),
        })
    }

    /// Decrypts a secret that is stored in `place`.
    pub fn open(&self, sealed: &SealedSecret, place: SecretPlace) -> Result<SigningSecret, UnsealError> {
        let Some((form, rest)) = Form::split(sealed.expose()) else {
            let secret = SigningSecret::parse(sealed.expose()).map_err(UnsealError::NotASecret)?;
            return match self.plain {
                PlainSecrets::Accepted => Ok(secret),
                PlainSecrets::Refused => Err(UnsealError::Plain),
            };
        };
        let (sealed_with, encoded) = rest.split_once(':').ok_or(UnsealError::Damaged)?;
        // Errors contain the id, so its format is checked first.
        if !is_key_id(sealed_with) {
            return Err(UnsealError::Damaged);
        }
        let Some(keys) = &self.keys else {
            return Err(UnsealError::NoKey { sealed_with: sealed_with.to_owned() });
        };
        let Some(key) = keys.find(sealed_with) else {
            return Err(UnsealError::OtherKey { sealed_with: sealed_with.to_owned(), ours: keys.ids() });
        };
        let opened = key.open(form, encoded, place).ok_or(UnsealError::Damaged)?;
        let text = std::str::from_utf8(&opened).map_err(|_| UnsealError::Damaged)?;
        SigningSecret::parse(text).map_err(UnsealError::NotASecret)
    }

    /// Encrypts the secrets of a subscription again, in the newest form with the first key. Returns `None` if they are
    /// stored like that already, or if there is no key. A previous secret that has expired is never used again: it is
    /// removed instead of encrypted, and need not be decrypted.
    ///
    /// # Errors
    ///
    /// Returns an error if a secret that is in use cannot be decrypted.
    pub fn reseal(
        &self,
        id: SubscriptionId,
        secrets: &Secrets,
        now: Timestamp,
        mut draw_nonce: impl FnMut() -> [u8; NONCE_LEN],
    ) -> Result<Option<ResealedSecrets>, UnsealError> {
        let mut reseal = |sealed: &SealedSecret, column: SecretColumn| {
            let secret = self.open(sealed, secrets.place(column))?;
            let newest = if self.is_newest(sealed) {
                sealed.clone()
            } else {
                self.seal(&secret, secrets.place(column), draw_nonce())
            };
            Ok::<_, UnsealError>(newest)
        };
        let current = reseal(&secrets.current, SecretColumn::Current)?;
        let previous = match (secrets.live_previous(now), &secrets.previous) {
            (Some(live), _) => Some(reseal(live, SecretColumn::Previous)?),
            (None, Some((expired, _))) => Some(expired.clone()).filter(|expired| self.is_newest(expired)),
            (None, None) => None,
        };
        let is_same = current == secrets.current
            && previous.as_ref() == secrets.previous.as_ref().map(|(secret, _)| secret);
        Ok((!is_same).then(|| ResealedSecrets { id, before: secrets.clone(), current, previous }))
    }

    /// Returns whether a stored secret has the newest form and is encrypted with the first key. Without keys, every
    /// form counts as the newest one.
    fn is_newest(&self, sealed: &SealedSecret) -> bool {
        self.keys.as_ref().is_none_or(|keys| sealed.expose().starts_with(&keys.first().prefix(Form::Placed)))
    }
}

#[cfg(test)]
mod tests;
