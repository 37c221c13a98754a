//! The Ed25519 keys of Standard Webhooks. The worker signs with the private key of a subscription; receivers and
//! `posthaste listen` verify with its public key. Random bytes for a new key are an argument.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ed25519_dalek::ed25519::signature::MultipartSigner as _;
use ed25519_dalek::{
    KEYPAIR_LENGTH, PUBLIC_KEY_LENGTH, SECRET_KEY_LENGTH, Signature, SigningKey, VerifyingKey,
};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use super::Message;

const PRIVATE_PREFIX: &str = "whsk_";
const PUBLIC_PREFIX: &str = "whpk_";
/// The version of a signature in the `webhook-signature` header, with its separator.
const VERSION: &str = "v1a,";
/// The length of a fingerprint: 132 bits in base64url.
const FINGERPRINT_CHARS: usize = 22;

/// A private key with its public key.
#[derive(Clone)]
pub struct Ed25519Key(SigningKey);

/// An error from parsing a private key. It does not contain the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadSigningKey {
    #[error("signing_key must start with {PRIVATE_PREFIX}")]
    NoPrefix,
    #[error("signing_key must be padded base64 after {PRIVATE_PREFIX}")]
    NotBase64,
    #[error(
        "signing_key must be base64 of 32 bytes (the seed) or 64 bytes (the seed, then the public key), got {0} bytes"
    )]
    Length(usize),
    #[error("signing_key must end with the public key that belongs to its first 32 bytes")]
    OtherPublicKey,
}

impl Ed25519Key {
    /// Creates a key pair from 32 random bytes.
    pub fn from_seed(seed: [u8; SECRET_KEY_LENGTH]) -> Self {
        Self(SigningKey::from_bytes(&seed))
    }

    /// Parses a private key: `whsk_` and base64 of the seed, or of the seed and the public key.
    ///
    /// # Errors
    ///
    /// Returns an error if the text has another form or the public key does not belong to the seed.
    pub fn parse(text: &str) -> Result<Self, BadSigningKey> {
        let encoded = text.strip_prefix(PRIVATE_PREFIX).ok_or(BadSigningKey::NoPrefix)?;
        let bytes = STANDARD.decode(encoded).map_err(|_| BadSigningKey::NotBase64)?;
        let (seed, public) = bytes.split_first_chunk().ok_or(BadSigningKey::Length(bytes.len()))?;
        if !public.is_empty() && bytes.len() != KEYPAIR_LENGTH {
            return Err(BadSigningKey::Length(bytes.len()));
        }
        let key = Self::from_seed(*seed);
        if public.is_empty() || public == key.0.verifying_key().as_bytes() {
            Ok(key)
        } else {
            Err(BadSigningKey::OtherPublicKey)
        }
    }

    /// Returns the private key as plain text: `whsk_` and base64 of 64 bytes, the form that Svix reads.
    pub fn reveal(&self) -> String {
        format!("{PRIVATE_PREFIX}{}", STANDARD.encode(self.0.to_keypair_bytes()))
    }

    /// Returns the public key as text, `whpk_…`.
    pub fn public_key(&self) -> String {
        Ed25519PublicKey(self.0.verifying_key()).to_string()
    }

    /// Returns one entry of the `webhook-signature` header.
    pub(super) fn entry(&self, message: &Message<'_>) -> Option<String> {
        let signed = message.signed_by_standard();
        let signature = self.0.try_multipart_sign(&signed.pieces()).ok()?;
        Some(format!("{VERSION}{}", STANDARD.encode(signature.to_bytes())))
    }
}

impl fmt::Debug for Ed25519Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Ed25519Key(…)")
    }
}

impl PartialEq for Ed25519Key {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Eq for Ed25519Key {}

/// The public key of a subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ed25519PublicKey(VerifyingKey);

/// An error from parsing a public key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadPublicKey {
    #[error("a public key must start with {PUBLIC_PREFIX}")]
    NoPrefix,
    #[error("a public key must be padded base64 of 32 bytes after {PUBLIC_PREFIX}")]
    NotBase64,
    #[error("a public key must be a point of the curve Ed25519")]
    NotAPoint,
}

impl Ed25519PublicKey {
    /// Parses a public key, `whpk_` and base64 of 32 bytes.
    ///
    /// # Errors
    ///
    /// Returns an error if the text has another form or the bytes are not a public key.
    pub fn parse(text: &str) -> Result<Self, BadPublicKey> {
        let encoded = text.strip_prefix(PUBLIC_PREFIX).ok_or(BadPublicKey::NoPrefix)?;
        let bytes = STANDARD.decode(encoded).map_err(|_| BadPublicKey::NotBase64)?;
        let bytes = <[u8; PUBLIC_KEY_LENGTH]>::try_from(bytes).map_err(|_| BadPublicKey::NotBase64)?;
        VerifyingKey::from_bytes(&bytes).map(Self).map_err(|_| BadPublicKey::NotAPoint)
    }

    /// Returns the name under which the key is published: the first 22 characters of the base64url SHA-256 of its
    /// 32 bytes.
    pub fn fingerprint(&self) -> String {
        let hash = URL_SAFE_NO_PAD.encode(Sha256::digest(self.0.as_bytes()));
        hash.chars().take(FINGERPRINT_CHARS).collect()
    }

    /// Returns whether one entry of a `webhook-signature` header is a signature of the content by this key.
    pub(super) fn verifies(&self, entry: &str, content: &[u8]) -> bool {
        let signature = entry
            .strip_prefix(VERSION)
            .and_then(|encoded| STANDARD.decode(encoded).ok())
            .and_then(|bytes| Signature::from_slice(&bytes).ok());
        signature.is_some_and(|signature| self.0.verify_strict(content, &signature).is_ok())
    }
}

impl fmt::Display for Ed25519PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PUBLIC_PREFIX}{}", STANDARD.encode(self.0.as_bytes()))
    }
}

/// Returns the fingerprint of a public key in its text form, `whpk_…`.
///
/// # Errors
///
/// Returns an error if the text is not a public key.
pub fn fingerprint(public_key: &str) -> Result<String, BadPublicKey> {
    Ed25519PublicKey::parse(public_key).map(|key| key.fingerprint())
}
