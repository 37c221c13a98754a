//! The secret that Posthaste shares with a receiver, as text. Operators supply it or the server generates it; the
//! signature format, not the text, determines the key that is derived from it.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use subtle::ConstantTimeEq as _;

use super::Signatures;

/// The minimum length of a secret, in bytes of its text. It is also the minimum length of a key that is the text
/// itself.
pub const SECRET_BYTES_MIN: usize = 8;
/// The maximum length of a secret, in bytes of its text.
pub const SECRET_BYTES_MAX: usize = 256;
/// The minimum length of a key of Standard Webhooks, in bytes after decoding.
pub const STANDARD_KEY_BYTES_MIN: usize = 24;
/// The maximum length of a key of Standard Webhooks, in bytes after decoding. The standard specifies 64; keys
/// of other senders, which receivers keep after a migration, can be longer.
pub const STANDARD_KEY_BYTES_MAX: usize = 75;

const SECRET_PREFIX: &str = "whsec_";
/// The beginnings of encrypted secrets in the database, which no secret may have.
const ENCRYPTED_PREFIXES: [&str; 2] = ["v1:", "v2:"];

/// The secret shared between Posthaste and a receiver.
#[derive(Clone)]
pub struct SigningSecret {
    text: String,
    /// The key of Standard Webhooks. It is decoded once, because one secret signs many requests.
    standard_key: Result<Vec<u8>, BadSecret>,
}

/// An error for a secret that is invalid, or that a signature format cannot use. It does not contain the secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadSecret {
    #[error("secret must have {SECRET_BYTES_MIN} to {SECRET_BYTES_MAX} bytes, got {0}")]
    Length(usize),
    #[error("secret must not contain control characters such as line breaks")]
    Control,
    #[error("secret must not start with v1: or v2:, which mark encrypted secrets")]
    Encrypted,
    #[error(
        "secret must be padded base64 after an optional {SECRET_PREFIX}, because the signature formats standard and \
         svix decode it"
    )]
    NotBase64,
    #[error(
        "secret must be base64 of {STANDARD_KEY_BYTES_MIN} to {STANDARD_KEY_BYTES_MAX} bytes for the signature \
         formats standard and svix, got {0} bytes"
    )]
    KeyLength(usize),
}

impl SigningSecret {
    /// Creates a secret from random bytes. Every signature format can use it.
    pub fn from_random(bytes: [u8; 32]) -> Self {
        Self::of(format!("{SECRET_PREFIX}{}", STANDARD.encode(bytes)))
    }

    /// Validates the text of a secret. Whether a format can use it is checked by [`check_for`](Self::check_for).
    ///
    /// # Errors
    ///
    /// Returns an error if the text is too short or too long, contains control characters, or begins like an
    /// encrypted secret.
    pub fn parse(text: &str) -> Result<Self, BadSecret> {
        if !(SECRET_BYTES_MIN..=SECRET_BYTES_MAX).contains(&text.len()) {
            return Err(BadSecret::Length(text.len()));
        }
        if text.chars().any(char::is_control) {
            return Err(BadSecret::Control);
        }
        if ENCRYPTED_PREFIXES.iter().any(|prefix| text.starts_with(prefix)) {
            return Err(BadSecret::Encrypted);
        }
        Ok(Self::of(text.to_owned()))
    }

    fn of(text: String) -> Self {
        let standard_key = decode_standard(&text);
        Self { text, standard_key }
    }

    /// Checks that each of the formats can derive its key from this secret.
    ///
    /// # Errors
    ///
    /// Returns an error if a format decodes the secret and it is not base64 of a suitable length.
    pub fn check_for(&self, signatures: &Signatures) -> Result<(), BadSecret> {
        if signatures.decodes_secret() { self.standard_key().map(drop) } else { Ok(()) }
    }

    /// Returns the secret as plain text.
    pub fn reveal(&self) -> String {
        self.text.clone()
    }

    /// Returns the key of Standard Webhooks: the base64 after an optional prefix.
    pub(super) fn standard_key(&self) -> Result<&[u8], BadSecret> {
        self.standard_key.as_deref().map_err(|error| *error)
    }

    /// Returns the key of the formats that use the text of the secret, including any prefix.
    pub(super) fn text_key(&self) -> &[u8] {
        self.text.as_bytes()
    }
}

fn decode_standard(text: &str) -> Result<Vec<u8>, BadSecret> {
    let encoded = text.strip_prefix(SECRET_PREFIX).unwrap_or(text);
    let key = STANDARD.decode(encoded).map_err(|_| BadSecret::NotBase64)?;
    if (STANDARD_KEY_BYTES_MIN..=STANDARD_KEY_BYTES_MAX).contains(&key.len()) {
        Ok(key)
    } else {
        Err(BadSecret::KeyLength(key.len()))
    }
}

impl fmt::Debug for SigningSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningSecret(…)")
    }
}

impl PartialEq for SigningSecret {
    fn eq(&self, other: &Self) -> bool {
        self.text.as_bytes().ct_eq(other.text.as_bytes()).into()
    }
}

impl Eq for SigningSecret {}
