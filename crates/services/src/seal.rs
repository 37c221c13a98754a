//! Encryption of signing secrets at rest. The API encrypts a secret when it is created or rotated; the worker
//! decrypts it to sign requests. The key is `POSTHASTE_SECRET_KEY`; the nonce is an argument.
//!
//! Without a key, a secret is stored in plain text, `whsec_…`. With a key, it is encrypted with AES-256-GCM
//! and stored as `v1:<key id>:<base64 of nonce, ciphertext and tag>`. The key id distinguishes a wrong key
//! from damaged data, and identifies the missing key without revealing it.

use std::fmt;
use std::sync::Arc;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use posthaste_core::signature::{BadSecret, SigningSecret};
use posthaste_core::subscription::SealedSecret;

const KEY_BYTES: usize = 32;
const KEY_HEX_CHARS: usize = KEY_BYTES * 2;
const VERSION_PREFIX: &str = "v1:";

/// The error returned for text that is not a valid sealing key. It does not contain the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "a sealing key must be 64 hexadecimal characters or the base64 of 32 bytes; generate one with: openssl rand -hex 32"
)]
pub struct BadSealingKey;

/// The key that encrypts signing secrets. Its bytes cannot be read back.
#[derive(Clone)]
pub struct SealingKey {
    cipher: Arc<LessSafeKey>,
    /// The first 8 hexadecimal digits of the SHA-256 digest of the key.
    id: String,
}

impl SealingKey {
    pub fn parse(text: &str) -> Result<Self, BadSealingKey> {
        let bytes = if text.len() == KEY_HEX_CHARS { decode_hex(text) } else { STANDARD.decode(text).ok() };
        let bytes = bytes.filter(|bytes| bytes.len() == KEY_BYTES).ok_or(BadSealingKey)?;
        let cipher = UnboundKey::new(&AES_256_GCM, &bytes).map_err(|_| BadSealingKey)?;
        let id = digest(&SHA256, &bytes).as_ref().iter().take(4).map(|byte| format!("{byte:02x}")).collect();
        Ok(Self { cipher: Arc::new(LessSafeKey::new(cipher)), id })
    }

    /// Returns the id of the key, which is part of every secret encrypted with it. The id is not secret.
    pub fn id(&self) -> &str {
        &self.id
    }
}

impl fmt::Debug for SealingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SealingKey(…)")
    }
}

/// The reason why a stored secret cannot be decrypted. It does not contain the secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnsealError {
    #[error("the secret is encrypted with key {sealed_with}, but POSTHASTE_SECRET_KEY is not set")]
    NoKey { sealed_with: String },
    #[error("the secret is encrypted with key {sealed_with}, but POSTHASTE_SECRET_KEY is key {ours}")]
    OtherKey { sealed_with: String, ours: String },
    #[error("the encrypted secret is damaged or was tampered with")]
    Damaged,
    #[error("the stored value is not a signing secret")]
    NotASecret(#[source] BadSecret),
}

/// A cipher for signing secrets. Without a key, it stores them in plain text.
#[derive(Debug, Clone)]
pub struct SecretSealer {
    key: Option<SealingKey>,
}

impl SecretSealer {
    pub const fn new(key: Option<SealingKey>) -> Self {
        Self { key }
    }

    /// Returns the stored form of a secret. The nonce must be random: using a nonce twice with the same key
    /// compromises both secrets.
    pub fn seal(&self, secret: &SigningSecret, nonce: [u8; NONCE_LEN]) -> SealedSecret {
        match &self.key {
            None => SealedSecret::new(secret.reveal()),
            Some(key) => SealedSecret::new(key.seal(secret.reveal().into_bytes(), nonce)),
        }
    }

    /// Decrypts a stored secret. Also accepts a secret that was stored in plain text before a key was
    /// configured.
    pub fn open(&self, sealed: &SealedSecret) -> Result<SigningSecret, UnsealError> {
        let Some(rest) = sealed.expose().strip_prefix(VERSION_PREFIX) else {
            return SigningSecret::parse(sealed.expose()).map_err(UnsealError::NotASecret);
        };
        let (sealed_with, encoded) = rest.split_once(':').ok_or(UnsealError::Damaged)?;
        // Errors contain the id, so its format is checked first.
        if decode_hex(sealed_with).is_none_or(|id| id.len() != 4) {
            return Err(UnsealError::Damaged);
        }
        match &self.key {
            None => Err(UnsealError::NoKey { sealed_with: sealed_with.to_owned() }),
            Some(key) if key.id != sealed_with => {
                Err(UnsealError::OtherKey { sealed_with: sealed_with.to_owned(), ours: key.id.clone() })
            }
            Some(key) => key.open(encoded),
        }
    }
}

impl SealingKey {
    /// Returns the prefix of the stored form. It is part of the authenticated data, so it cannot be replaced.
    fn prefix(&self) -> String {
        format!("{VERSION_PREFIX}{}:", self.id)
    }

    #[expect(
        clippy::expect_used,
        reason = "the cipher fails only for messages of 64 GiB; a secret has at most 94 bytes"
    )]
    fn seal(&self, mut text: Vec<u8>, nonce: [u8; NONCE_LEN]) -> String {
        let prefix = self.prefix();
        self.cipher
            .seal_in_place_append_tag(
                Nonce::assume_unique_for_key(nonce),
                Aad::from(prefix.as_bytes()),
                &mut text,
            )
            .expect("a short message can be encrypted");
        let mut whole = nonce.to_vec();
        whole.append(&mut text);
        prefix + &STANDARD.encode(whole)
    }

    fn open(&self, encoded: &str) -> Result<SigningSecret, UnsealError> {
        let mut whole = STANDARD.decode(encoded).map_err(|_| UnsealError::Damaged)?;
        let (nonce, text) = whole.split_first_chunk_mut::<NONCE_LEN>().ok_or(UnsealError::Damaged)?;
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let opened = self.cipher.open_in_place(nonce, Aad::from(self.prefix().as_bytes()), text);
        let opened = opened.map_err(|_| UnsealError::Damaged)?;
        let text = std::str::from_utf8(opened).map_err(|_| UnsealError::Damaged)?;
        SigningSecret::parse(text).map_err(UnsealError::NotASecret)
    }
}

fn decode_hex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u32>> = text.chars().map(|digit| digit.to_digit(16)).collect();
    let (pairs, rest) = digits.as_deref()?.as_chunks::<2>();
    let bytes = pairs.iter().map(|[high, low]| u8::try_from(high * 16 + low).ok());
    if rest.is_empty() { bytes.collect() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONCE: [u8; NONCE_LEN] = [7; NONCE_LEN];

    fn key(byte: u8) -> SealingKey {
        SealingKey::parse(&format!("{byte:02x}").repeat(32)).unwrap()
    }

    fn sealer(byte: u8) -> SecretSealer {
        SecretSealer::new(Some(key(byte)))
    }

    fn secret() -> SigningSecret {
        SigningSecret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap()
    }

    #[test]
    fn keys_are_hexadecimal_or_base64() {
        let base64 = STANDARD.encode([0xab; 32]);
        for text in [&"ab".repeat(32), &"AB".repeat(32), &base64] {
            assert_eq!(SealingKey::parse(text).map(|key| key.id), Ok(key(0xab).id), "{text}");
        }
        let short = STANDARD.encode([0xab; 31]);
        let long = STANDARD.encode([0xab; 33]);
        for text in ["", "secret", &"ab".repeat(31), &"xy".repeat(32), &"é".repeat(32), &short, &long] {
            assert_eq!(SealingKey::parse(text).err(), Some(BadSealingKey), "{text}");
        }
    }

    #[test]
    fn sealed_secret_can_be_opened() {
        for bytes in [24, 32, 64] {
            let text = format!("whsec_{}", STANDARD.encode(vec![9_u8; bytes]));
            let secret = SigningSecret::parse(&text).unwrap();
            for sealer in [SecretSealer::new(None), sealer(1)] {
                assert_eq!(sealer.open(&sealer.seal(&secret, NONCE)), Ok(secret.clone()), "{bytes} bytes");
            }
        }
    }

    #[test]
    fn stored_form_is_stable() {
        let plain = SecretSealer::new(None).seal(&secret(), NONCE);
        assert_eq!(plain.expose(), secret().reveal());
        // The id was computed with `sha256sum`, the ciphertext with another implementation of AES-GCM.
        let sealed = sealer(1).seal(&secret(), NONCE);
        let expected = concat!(
            "v1:72cd6e84:BwcHBwcHBwcHBwcH+puZwWzx/MdSyz1Cnocsk9bb1a4OPl8d",
            "M2t/7bxdPZ8ASI7jkqrk5VO8rW/VILAQgx772hJ9"
        );
        assert_eq!(sealed.expose(), expected);
        // A different nonce results in a different ciphertext.
        assert_ne!(sealed, sealer(1).seal(&secret(), [8; NONCE_LEN]));
    }

    #[test]
    fn plain_secrets_open_with_a_key() {
        let plain = SecretSealer::new(None).seal(&secret(), NONCE);
        assert_eq!(sealer(1).open(&plain), Ok(secret()));
    }

    #[test]
    fn error_names_the_missing_or_wrong_key() {
        let sealed = sealer(1).seal(&secret(), NONCE);
        let sealed_with = key(1).id().to_owned();
        assert_eq!(
            SecretSealer::new(None).open(&sealed),
            Err(UnsealError::NoKey { sealed_with: sealed_with.clone() })
        );
        let ours = key(2).id().to_owned();
        assert_eq!(sealer(2).open(&sealed), Err(UnsealError::OtherKey { sealed_with, ours }));
    }

    #[test]
    fn every_changed_character_is_detected() {
        let sealed = sealer(1).seal(&secret(), NONCE);
        let text = sealed.expose();
        for at in 0..text.len() {
            let other = if text.as_bytes()[at] == b'A' { "B" } else { "A" };
            let tampered = format!("{}{other}{}", &text[..at], &text[at + 1..]);
            assert!(sealer(1).open(&SealedSecret::new(&tampered)).is_err(), "{tampered}");
        }
        for at in 0..text.len() {
            assert!(sealer(1).open(&SealedSecret::new(&text[..at])).is_err(), "cut at {at}");
        }
    }

    #[test]
    fn malformed_secret_is_refused() {
        for text in ["v1:", "v1::", "v1:72cd6e84:", "v1:72cd6e84:AAAA", "v1:whsec_AAAA:AAAA", "v1:é:A"] {
            assert_eq!(sealer(1).open(&SealedSecret::new(text)), Err(UnsealError::Damaged), "{text}");
        }
        for text in ["", "hush", "v2:72cd6e84:AAAA"] {
            let expected = Err(UnsealError::NotASecret(BadSecret::NoPrefix));
            assert_eq!(sealer(1).open(&SealedSecret::new(text)), expected, "{text}");
        }
    }

    #[test]
    fn debug_output_contains_no_key_or_secret() {
        let sealed = sealer(1).seal(&secret(), NONCE);
        let opened = SecretSealer::new(None).open(&sealed);
        let shown = format!("{:?} {:?} {:?} {opened:?}", key(1), sealer(1), sealed);
        assert!(!shown.contains("0101"), "{shown}");
        assert!(!shown.contains("BwcH"), "{shown}");
        assert!(shown.starts_with("SealingKey(…) SecretSealer { key: Some(SealingKey(…)) }"), "{shown}");
    }
}
