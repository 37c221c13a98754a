//! Encryption of secrets at rest: signing secrets, and the credentials of requests. The API encrypts a secret when it
//! is created or rotated; the worker decrypts it to sign requests. The keys are those of `POSTHASTE_SECRET_KEY`; nonces
//! are arguments.
//!
//! Without a key, a secret is stored in plain text: `whsec_…`, or `plain:…` for other texts. With keys, it is
//! encrypted with AES-256-GCM under the first one and stored as `v2:<key id>:<base64 of nonce, ciphertext and tag>`.
//! The authenticated data contains the name of the column and the `secret_ref` of the row, so the text cannot be
//! decrypted in another place. The key id selects the key, distinguishes a missing key from damaged data, and names
//! the missing key without revealing it.
//!
//! Secrets in an earlier form, `v1:…` without the place or in plain text, are decrypted until they are encrypted again
//! with [`SecretSealer::reseal`].

mod key;

pub use key::{BadSealingKeys, SealingKeys};

use aws_lc_rs::aead::NONCE_LEN;
use key::{Form, is_key_id};
use posthaste_core::ports::ResealedSecrets;
use posthaste_core::request::{Credentials, CredentialsError};
use posthaste_core::signature::{BadSecret, SigningSecret};
use posthaste_core::subscription::{ExpiringSecret, SealedSecret, SecretColumn, SecretPlace, Secrets};
use posthaste_core::{SecretRef, SubscriptionId, Timestamp};

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
    #[error("the stored value does not contain credentials")]
    NotCredentials(#[source] CredentialsError),
}

impl UnsealError {
    /// Returns the id of the key that would decrypt the secret, if that key is missing.
    pub fn missing_key(&self) -> Option<&str> {
        match self {
            Self::NoKey { sealed_with } | Self::OtherKey { sealed_with, .. } => Some(sealed_with),
            Self::Plain | Self::Damaged | Self::NotASecret(_) | Self::NotCredentials(_) => None,
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
        self.seal_text(secret.reveal(), place, nonce)
    }

    /// Returns the stored form of credentials. See [`seal`](Self::seal) for the nonce.
    pub fn seal_credentials(
        &self,
        credentials: &Credentials,
        secret_ref: SecretRef,
        nonce: [u8; NONCE_LEN],
    ) -> SealedSecret {
        let place = SecretPlace { secret_ref, column: SecretColumn::Credentials };
        self.seal_text(credentials.to_json(), place, nonce)
    }

    fn seal_text(&self, text: String, place: SecretPlace, nonce: [u8; NONCE_LEN]) -> SealedSecret {
        SealedSecret::new(match &self.keys {
            None => plain_form(text),
            Some(keys) => keys.first().seal(text.into_bytes(), place, nonce),
        })
    }

    /// Decrypts a signing secret that is stored in `place`.
    pub fn open(&self, sealed: &SealedSecret, place: SecretPlace) -> Result<SigningSecret, UnsealError> {
        SigningSecret::parse(&self.open_text(sealed, place)?).map_err(UnsealError::NotASecret)
    }

    /// Decrypts the credentials of a subscription. They are empty if it has none.
    pub fn open_credentials(&self, secrets: &Secrets) -> Result<Credentials, UnsealError> {
        let Some(sealed) = &secrets.credentials else { return Ok(Credentials::default()) };
        let text = self.open_text(sealed, secrets.place(SecretColumn::Credentials))?;
        Credentials::from_json(&text).map_err(UnsealError::NotCredentials)
    }

    fn open_text(&self, sealed: &SealedSecret, place: SecretPlace) -> Result<String, UnsealError> {
        let Some((form, rest)) = Form::split(sealed.expose()) else {
            let text = read_plain(sealed.expose()).ok_or(UnsealError::Damaged)?;
            return match self.plain {
                PlainSecrets::Accepted => Ok(text.to_owned()),
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
        String::from_utf8(opened).map_err(|_| UnsealError::Damaged)
    }

    /// Encrypts the secrets of a subscription again, in the newest form with the first key. Returns `None` if they are
    /// stored like that already, or if there is no key. A replaced secret that has expired is never used again: it is
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
            let text = self.open_text(sealed, secrets.place(column))?;
            let newest = if self.is_newest(sealed) {
                sealed.clone()
            } else {
                self.seal_text(text, secrets.place(column), draw_nonce())
            };
            Ok::<_, UnsealError>(newest)
        };
        let current = reseal(&secrets.current, SecretColumn::Current)?;
        let credentials = secrets.credentials.as_ref();
        let credentials = credentials.map(|sealed| reseal(sealed, SecretColumn::Credentials)).transpose()?;
        let mut replaced = |secret: &Option<ExpiringSecret>, column: SecretColumn| match secret {
            Some((live, until)) if now < *until => reseal(live, column).map(Some),
            Some((expired, _)) => Ok(Some(expired.clone()).filter(|expired| self.is_newest(expired))),
            None => Ok(None),
        };
        let previous = replaced(&secrets.previous, SecretColumn::Previous)?;
        let older = replaced(&secrets.older, SecretColumn::Older)?;
        let stored = |secret: &Option<ExpiringSecret>| secret.as_ref().map(|(secret, _)| secret.clone());
        let is_same = current == secrets.current
            && previous == stored(&secrets.previous)
            && older == stored(&secrets.older)
            && credentials == secrets.credentials;
        let before = secrets.clone();
        Ok((!is_same).then_some(ResealedSecrets { id, before, current, previous, older, credentials }))
    }

    /// Returns whether a stored secret has the newest form and is encrypted with the first key. Without keys, every
    /// form counts as the newest one.
    fn is_newest(&self, sealed: &SealedSecret) -> bool {
        self.keys.as_ref().is_none_or(|keys| sealed.expose().starts_with(&keys.first().prefix(Form::Placed)))
    }
}

/// The beginning of a stored text that is not encrypted, unless the text shows that itself: a secret of Standard
/// Webhooks (`whsec_…`), or credentials (`{…}`). Without the mark, a damaged encrypted text would be used as a secret.
const PLAIN_MARK: &str = "plain:";

fn shows_itself(text: &str) -> bool {
    text.starts_with("whsec_") || text.starts_with('{')
}

/// Returns the form in which a text is stored without encryption.
fn plain_form(text: String) -> String {
    if shows_itself(&text) { text } else { format!("{PLAIN_MARK}{text}") }
}

/// Returns the text that was stored without encryption, or `None` if the stored form is another one.
fn read_plain(stored: &str) -> Option<&str> {
    stored.strip_prefix(PLAIN_MARK).or_else(|| shows_itself(stored).then_some(stored))
}

#[cfg(test)]
mod tests;
