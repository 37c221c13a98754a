//! The keys that encrypt signing secrets, and their cipher, AES-256-GCM.

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use posthaste_core::subscription::SecretPlace;
use std::fmt;
use std::sync::Arc;

const KEY_BYTES: usize = 32;
const KEY_HEX_CHARS: usize = KEY_BYTES * 2;
/// The number of bytes of a digest that are the id of a key.
const ID_BYTES: usize = 4;
/// The maximum number of keys. A rotation needs two.
const KEYS_MAX: usize = 16;

/// An error for text that is not a valid list of keys. It does not contain the text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadSealingKeys {
    #[error("every key must be 64 hexadecimal characters or the base64 of 32 bytes")]
    NotAKey,
    #[error("the key {id} is given twice")]
    Duplicate { id: String },
    #[error("at most {KEYS_MAX} keys may be given")]
    TooMany,
}

/// The forms of an encrypted secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// `v1:`, which can be decrypted in every row and column.
    Bare,
    /// `v2:`, which can be decrypted only in its place.
    Placed,
}

impl Form {
    const ALL: [Self; 2] = [Self::Bare, Self::Placed];

    const fn prefix(self) -> &'static str {
        match self {
            Self::Bare => "v1:",
            Self::Placed => "v2:",
        }
    }

    /// Returns the form of a stored text and the rest of the text, or `None` if it is not encrypted.
    pub(super) fn split(text: &str) -> Option<(Self, &str)> {
        Self::ALL.into_iter().find_map(|form| Some((form, text.strip_prefix(form.prefix())?)))
    }
}

/// The keys that encrypt and decrypt signing secrets: the first one encrypts, and all of them decrypt. There is at
/// least one, and their ids differ.
#[derive(Debug, Clone)]
pub struct SealingKeys {
    first: SealingKey,
    others: Vec<SealingKey>,
}

impl SealingKeys {
    /// Parses keys that are separated by commas.
    pub fn parse(text: &str) -> Result<Self, BadSealingKeys> {
        let mut keys: Vec<SealingKey> = Vec::new();
        for part in text.split(',') {
            let key = SealingKey::parse(part.trim()).ok_or(BadSealingKeys::NotAKey)?;
            if keys.iter().any(|other| other.id == key.id) {
                return Err(BadSealingKeys::Duplicate { id: key.id });
            }
            if keys.len() == KEYS_MAX {
                return Err(BadSealingKeys::TooMany);
            }
            keys.push(key);
        }
        let mut keys = keys.into_iter();
        let first = keys.next().ok_or(BadSealingKeys::NotAKey)?;
        Ok(Self { first, others: keys.collect() })
    }

    pub(super) const fn first(&self) -> &SealingKey {
        &self.first
    }

    fn all(&self) -> impl Iterator<Item = &SealingKey> {
        std::iter::once(&self.first).chain(&self.others)
    }

    pub(super) fn find(&self, id: &str) -> Option<&SealingKey> {
        self.all().find(|key| key.id == id)
    }

    /// Returns the ids of the keys, which are not secret, for messages.
    pub fn ids(&self) -> String {
        self.all().map(SealingKey::id).collect::<Vec<_>>().join(", ")
    }
}

/// A key that encrypts signing secrets. Its bytes cannot be read back.
#[derive(Clone)]
pub(super) struct SealingKey {
    cipher: Arc<LessSafeKey>,
    /// The first 8 hexadecimal digits of the SHA-256 digest of the key.
    id: String,
}

impl SealingKey {
    fn parse(text: &str) -> Option<Self> {
        let bytes = if text.len() == KEY_HEX_CHARS { decode_hex(text) } else { STANDARD.decode(text).ok() };
        let bytes = bytes.filter(|bytes| bytes.len() == KEY_BYTES)?;
        let cipher = UnboundKey::new(&AES_256_GCM, &bytes).ok()?;
        let id = digest(&SHA256, &bytes)
            .as_ref()
            .iter()
            .take(ID_BYTES)
            .map(|byte| format!("{byte:02x}"))
            .collect();
        Some(Self { cipher: Arc::new(LessSafeKey::new(cipher)), id })
    }

    /// Returns the id of the key, which is part of every secret encrypted with it. The id is not secret.
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// Returns the beginning of every stored secret of this form that is encrypted with this key.
    pub(super) fn prefix(&self, form: Form) -> String {
        format!("{}{}:", form.prefix(), self.id)
    }

    /// Returns the authenticated data of a secret. It contains the prefix, which therefore cannot be replaced.
    fn authenticated(&self, form: Form, place: SecretPlace) -> String {
        let prefix = self.prefix(form);
        match form {
            Form::Bare => prefix,
            Form::Placed => format!("{prefix}{}:{}", place.column.name(), place.secret_ref),
        }
    }

    #[expect(
        clippy::expect_used,
        reason = "the cipher fails only for messages of 64 GiB; a secret has at most 94 bytes"
    )]
    pub(super) fn seal(&self, mut text: Vec<u8>, place: SecretPlace, nonce: [u8; NONCE_LEN]) -> String {
        let authenticated = self.authenticated(Form::Placed, place);
        self.cipher
            .seal_in_place_append_tag(
                Nonce::assume_unique_for_key(nonce),
                Aad::from(authenticated.as_bytes()),
                &mut text,
            )
            .expect("a short message can be encrypted");
        let mut whole = nonce.to_vec();
        whole.append(&mut text);
        self.prefix(Form::Placed) + &STANDARD.encode(whole)
    }

    /// Decrypts the base64 text of a stored secret, or returns `None` if it is not authentic.
    pub(super) fn open(&self, form: Form, encoded: &str, place: SecretPlace) -> Option<Vec<u8>> {
        let mut whole = STANDARD.decode(encoded).ok()?;
        let (nonce, text) = whole.split_first_chunk_mut::<NONCE_LEN>()?;
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let authenticated = self.authenticated(form, place);
        let opened = self.cipher.open_in_place(nonce, Aad::from(authenticated.as_bytes()), text);
        opened.ok().map(|opened| opened.to_vec())
    }
}

impl fmt::Debug for SealingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SealingKey(…)")
    }
}

/// Returns whether a text has the format of a key id.
pub(super) fn is_key_id(text: &str) -> bool {
    decode_hex(text).is_some_and(|id| id.len() == ID_BYTES)
}

fn decode_hex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u32>> = text.chars().map(|digit| digit.to_digit(16)).collect();
    let (pairs, rest) = digits.as_deref()?.as_chunks::<2>();
    let bytes = pairs.iter().map(|[high, low]| u8::try_from(high * 16 + low).ok());
    if rest.is_empty() { bytes.collect() } else { None }
}
