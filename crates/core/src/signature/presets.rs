//! The signature formats of other senders, which existing receivers verify. A subscription names a preset; [`sign`]
//! adds its headers to each request.
//!
//! [`sign`]: super::sign

use sha2::{Digest as _, Sha256};

use super::mac::{Encoding, hex, hmac_sha256};
use super::{Keys, Message, SigningSecret, standard_entries};

/// A signature format of another sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preset {
    Svix,
    Github,
    Stripe,
    Shopify,
    Slack,
}

impl Preset {
    pub(super) fn parse(name: &str) -> Option<Self> {
        [Self::Svix, Self::Github, Self::Stripe, Self::Shopify, Self::Slack]
            .into_iter()
            .find(|preset| preset.name() == name)
    }

    /// Returns the name of the preset in a subscription.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Svix => "svix",
            Self::Github => "github",
            Self::Stripe => "stripe",
            Self::Shopify => "shopify",
            Self::Slack => "slack",
        }
    }

    /// Returns the names of all headers that the preset adds.
    pub const fn headers(self) -> &'static [&'static str] {
        match self {
            Self::Svix => &["svix-id", "svix-timestamp", "svix-signature"],
            Self::Github => &["X-Hub-Signature-256", "X-GitHub-Event", "X-GitHub-Delivery"],
            Self::Stripe => &["Stripe-Signature"],
            Self::Shopify => &["X-Shopify-Hmac-Sha256", "X-Shopify-Topic", "X-Shopify-Webhook-Id"],
            Self::Slack => &["X-Slack-Signature", "X-Slack-Request-Timestamp"],
        }
    }

    /// Returns the headers in the order of [`headers`](Self::headers), or none if there is no secret that the
    /// format can use.
    pub(super) fn sign(self, keys: &Keys<'_>, message: &Message<'_>) -> Vec<(String, String)> {
        let values = self.values(keys.secrets, message).unwrap_or_default();
        let names = self.headers().iter().map(|name| (*name).to_owned());
        names.zip(values).collect()
    }

    fn values(self, secrets: &[SigningSecret], message: &Message<'_>) -> Option<Vec<String>> {
        let timestamp = message.timestamp_s.to_string();
        let newest = secrets.first()?;
        match self {
            Self::Svix => {
                let entries = standard_entries(secrets, message);
                (!entries.is_empty()).then(|| vec![message.id.to_owned(), timestamp, entries.join(" ")])
            }
            Self::Github => {
                let mac = hmac_sha256(newest.text_key(), &[message.body]);
                let event = message.event_type.to_owned();
                Some(vec![format!("sha256={}", hex(&mac)), event, uuid_of(message.id)])
            }
            Self::Stripe => {
                let signed = [timestamp.as_bytes(), b".", message.body];
                let entry =
                    |secret: &SigningSecret| format!(",v1={}", hex(&hmac_sha256(secret.text_key(), &signed)));
                let entries: String = secrets.iter().map(entry).collect();
                Some(vec![format!("t={timestamp}{entries}")])
            }
            Self::Shopify => {
                let mac = hmac_sha256(newest.text_key(), &[message.body]);
                let topic = message.event_type.to_owned();
                Some(vec![Encoding::Base64.encode(&mac), topic, message.id.to_owned()])
            }
            Self::Slack => {
                let signed = [b"v0:", timestamp.as_bytes(), b":", message.body];
                let mac = hmac_sha256(newest.text_key(), &signed);
                Some(vec![format!("v0={}", hex(&mac)), timestamp])
            }
        }
    }
}

/// Returns a UUID that depends only on the message id: the first 128 bits of its SHA-256, with the version 8 and the
/// variant of RFC 9562.
fn uuid_of(message_id: &str) -> String {
    const VERSION: u128 = 0xf << 76;
    const VARIANT: u128 = 0b11 << 62;
    let hash: [u8; 32] = Sha256::digest(message_id).into();
    let bits = hash.iter().take(16).fold(0_u128, |bits, byte| bits << 8 | u128::from(*byte));
    let bits = bits & !VERSION & !VARIANT | 8 << 76 | 0b10 << 62;
    let group = |shift: u32, digits: u32| bits >> shift & ((1 << (digits * 4)) - 1);
    let (time, mid, version) = (group(96, 8), group(80, 4), group(64, 4));
    let (variant, node) = (group(48, 4), group(0, 12));
    format!("{time:08x}-{mid:04x}-{version:04x}-{variant:04x}-{node:012x}")
}
