//! Signatures of outgoing requests: Standard Webhooks 1.0, the formats of other senders, and custom HMAC headers. The
//! worker signs every delivery in the formats of its subscription; `posthaste listen` and the tests verify the
//! signatures of Standard Webhooks.

mod ed25519;
mod formats;
pub(crate) mod mac;
mod presets;
mod secret;
mod templates;
#[cfg(test)]
mod tests;

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use subtle::{Choice, ConstantTimeEq as _};

pub use ed25519::{BadPublicKey, BadSigningKey, Ed25519Key, Ed25519PublicKey, fingerprint};
pub use formats::{
    CustomHmac, Format, FormatError, HEADER_NAME_CHARS_MAX, SIGNATURES_BYTES_MAX, SIGNATURES_MAX, Signatures,
    SignaturesError,
};
pub use mac::{Algorithm, Encoding};
pub use presets::Preset;
pub use secret::{
    BadSecret, SECRET_BYTES_MAX, SECRET_BYTES_MIN, STANDARD_KEY_BYTES_MAX, STANDARD_KEY_BYTES_MIN,
    SigningSecret,
};
pub use templates::{ContentTemplate, TEMPLATE_CHARS_MAX, TemplateError, ValueTemplate};

use crate::time::Timestamp;

/// The header of Standard Webhooks that contains the signatures.
const WEBHOOK_SIGNATURE: &str = "webhook-signature";
const VERSION: &str = "v1,";

/// The request that is signed.
#[derive(Debug, Clone, Copy)]
pub struct Message<'a> {
    /// The `webhook-id`.
    pub id: &'a str,
    /// The time of the attempt, in seconds since 1970-01-01.
    pub timestamp_s: i64,
    pub event_type: &'a str,
    /// The exact bytes that are sent.
    pub body: &'a [u8],
}

/// The keys of a subscription that are valid now, the newest first.
#[derive(Debug, Clone, Copy, Default)]
pub struct Keys<'a> {
    pub secrets: &'a [SigningSecret],
    pub ed25519: &'a [Ed25519Key],
}

impl<'a> Message<'a> {
    fn signed_by_standard(&self) -> StandardContent<'a> {
        StandardContent { id: self.id, timestamp: self.timestamp_s.to_string(), body: self.body }
    }
}

/// The content that Standard Webhooks signs: `{id}.{timestamp}.{body}`.
struct StandardContent<'a> {
    id: &'a str,
    timestamp: String,
    body: &'a [u8],
}

impl StandardContent<'_> {
    fn pieces(&self) -> [&[u8]; 5] {
        [self.id.as_bytes(), b".", self.timestamp.as_bytes(), b".", self.body]
    }
}

/// Returns the headers of all formats, as name and value, without `webhook-id` and `webhook-timestamp`, which every
/// request has.
///
/// A format with a list of signatures has one for each key, so that a receiver can use either key during a rotation.
/// A format with one signature uses the newest secret. A key that a format cannot use is skipped; a format without a
/// usable key adds no header. [`SigningSecret::check_for`] finds such secrets when they are submitted.
pub fn sign(signatures: &Signatures, keys: &Keys<'_>, message: &Message<'_>) -> Vec<(String, String)> {
    let formats = signatures.formats();
    let mut entries = Vec::new();
    if formats.contains(&Format::Standard) {
        entries.extend(standard_entries(keys.secrets, message));
    }
    if formats.contains(&Format::StandardEd25519) {
        entries.extend(keys.ed25519.iter().filter_map(|key| key.entry(message)));
    }
    let mut headers = Vec::new();
    if !entries.is_empty() {
        headers.push((WEBHOOK_SIGNATURE.to_owned(), entries.join(" ")));
    }
    for format in formats {
        match format {
            Format::Standard | Format::StandardEd25519 => {}
            Format::Preset(preset) => headers.extend(preset.sign(keys, message)),
            Format::Hmac(custom) => headers.extend(custom.sign(keys, message)),
        }
    }
    headers
}

/// Returns the `webhook-signature` header of Standard Webhooks, with one signature for each secret.
pub fn sign_standard(secrets: &[SigningSecret], id: &str, timestamp_s: i64, body: &[u8]) -> String {
    let message = Message { id, timestamp_s, event_type: "", body };
    let headers = sign(&Signatures::default(), &Keys { secrets, ed25519: &[] }, &message);
    headers.into_iter().map(|(_, value)| value).collect()
}

/// Returns one entry of the `webhook-signature` header for each secret that has a key of Standard Webhooks.
fn standard_entries(secrets: &[SigningSecret], message: &Message<'_>) -> Vec<String> {
    let content = message.signed_by_standard();
    secrets.iter().filter_map(|secret| standard_entry(secret, &content)).collect()
}

fn standard_entry(secret: &SigningSecret, content: &StandardContent<'_>) -> Option<String> {
    let key = secret.standard_key().ok()?;
    let mut entry = VERSION.to_owned();
    STANDARD.encode_string(mac::hmac_sha256(key, &content.pieces()), &mut entry);
    Some(entry)
}

/// The reason why a message could not be verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotAuthentic {
    #[error("the timestamp is older than the tolerance allows, perhaps a replay")]
    TooOld,
    #[error("the timestamp is further in the future than the tolerance allows")]
    TooNew,
    #[error("no signature in the header matches the message and a key")]
    NoMatch,
}

/// Verifies the HMAC signature and the timestamp of a message of Standard Webhooks. Every signature is compared with
/// that of every secret in constant time, so that the duration does not reveal partial matches.
///
/// # Errors
///
/// Returns an error if the timestamp is outside the tolerance or no signature matches.
pub fn verify(
    secrets: &[&SigningSecret],
    webhook_id: &str,
    timestamp_s: i64,
    body: &[u8],
    signatures: &str,
    tolerance: Duration,
    now: Timestamp,
) -> Result<(), NotAuthentic> {
    check_time(timestamp_s, tolerance, now)?;
    let content = StandardContent { id: webhook_id, timestamp: timestamp_s.to_string(), body };
    let mut fits = Choice::from(0);
    for expected in secrets.iter().filter_map(|secret| standard_entry(secret, &content)) {
        for given in signatures.split(' ') {
            fits |= given.as_bytes().ct_eq(expected.as_bytes());
        }
    }
    if bool::from(fits) { Ok(()) } else { Err(NotAuthentic::NoMatch) }
}

/// Verifies the Ed25519 signature (`v1a`) and the timestamp of a message of Standard Webhooks.
///
/// # Errors
///
/// Returns an error if the timestamp is outside the tolerance or no signature matches.
pub fn verify_ed25519(
    public_keys: &[Ed25519PublicKey],
    webhook_id: &str,
    timestamp_s: i64,
    body: &[u8],
    signatures: &str,
    tolerance: Duration,
    now: Timestamp,
) -> Result<(), NotAuthentic> {
    check_time(timestamp_s, tolerance, now)?;
    let content = StandardContent { id: webhook_id, timestamp: timestamp_s.to_string(), body };
    let content = content.pieces().concat();
    let mut entries = signatures.split(' ');
    if entries.any(|entry| public_keys.iter().any(|key| key.verifies(entry, &content))) {
        Ok(())
    } else {
        Err(NotAuthentic::NoMatch)
    }
}

fn check_time(timestamp_s: i64, tolerance: Duration, now: Timestamp) -> Result<(), NotAuthentic> {
    let tolerance_s = i64::try_from(tolerance.as_secs()).unwrap_or(i64::MAX);
    let now_s = now.micros().div_euclid(1_000_000);
    if timestamp_s < now_s.saturating_sub(tolerance_s) {
        Err(NotAuthentic::TooOld)
    } else if timestamp_s > now_s.saturating_add(tolerance_s) {
        Err(NotAuthentic::TooNew)
    } else {
        Ok(())
    }
}
