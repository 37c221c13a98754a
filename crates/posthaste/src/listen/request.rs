//! One request that came to the receiver: whose it is, what it says, and the line that tells of it.

use bytes::Bytes;
use http::HeaderMap;
use posthaste_core::Timestamp;
use posthaste_core::signature::{SigningSecret, verify};
use serde_json::{Value, json};
use std::time::Duration;

/// How far the clocks of sender and receiver may be apart.
const TOLERANCE: Duration = Duration::from_secs(300);
const CHALLENGE: &str = "posthaste.verification";

#[derive(Debug)]
pub(super) struct Received {
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

/// What the signature is worth.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Checked {
    /// There is no secret to look with.
    Unchecked,
    Verified,
    NotVerified(String),
}

impl Checked {
    pub(super) const fn is_trusted(&self) -> bool {
        match self {
            Self::Unchecked | Self::Verified => true,
            Self::NotVerified(_) => false,
        }
    }
}

pub(super) fn event_type(headers: &HeaderMap) -> String {
    shown(headers, "posthaste-event-type")
}

/// A header for people; a dash when there is none.
fn shown(headers: &HeaderMap, name: &str) -> String {
    // Only visible ASCII can be had from a header as text: nothing here moves a terminal's cursor.
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or("-").to_owned()
}

impl Received {
    fn text(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    pub(super) fn check(&self, secrets: &[SigningSecret], now: Timestamp) -> Checked {
        if secrets.is_empty() {
            return Checked::Unchecked;
        }
        let missing = |name: &str| Checked::NotVerified(format!("no usable header {name}"));
        let Some(id) = self.text("webhook-id") else { return missing("webhook-id") };
        let timestamp_s = self.text("webhook-timestamp").and_then(|text| text.parse().ok());
        let Some(timestamp_s) = timestamp_s else { return missing("webhook-timestamp") };
        let Some(signatures) = self.text("webhook-signature") else { return missing("webhook-signature") };
        let secrets: Vec<&SigningSecret> = secrets.iter().collect();
        match verify(&secrets, id, timestamp_s, &self.body, signatures, TOLERANCE, now) {
            Ok(()) => Checked::Verified,
            Err(error) => Checked::NotVerified(error.to_string()),
        }
    }

    /// The answer that a challenge asks for; nothing if this is none.
    pub(super) fn challenge(&self) -> Option<String> {
        if self.text("posthaste-event-type") != Some(CHALLENGE) {
            return None;
        }
        let body: Value = serde_json::from_slice(&self.body).ok()?;
        let challenge = body.get("challenge")?.as_str()?;
        Some(json!({ "challenge": challenge }).to_string())
    }

    pub(super) fn line(&self, checked: &Checked, status: u16) -> String {
        let checked = match checked {
            Checked::Unchecked => "not checked".to_owned(),
            Checked::Verified => "verified".to_owned(),
            Checked::NotVerified(why) => format!("NOT VERIFIED: {why}"),
        };
        let [id, kind, attempt] = ["webhook-id", "posthaste-event-type", "posthaste-attempt"]
            .map(|name| shown(&self.headers, name));
        let bytes = self.body.len();
        format!("{id}  {kind}  attempt {attempt}  {checked}  {bytes} bytes  -> {status}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use posthaste_core::signature::sign;

    fn received(headers: &[(&'static str, &str)], body: &'static str) -> Received {
        let headers = headers
            .iter()
            .map(|(name, value)| (http::HeaderName::from_static(name), value.parse().expect("a header")));
        Received { headers: headers.collect(), body: Bytes::from(body) }
    }

    #[test]
    fn a_signature_counts_when_there_is_a_secret() {
        let (ours, other) = (SigningSecret::from_random([7; 32]), SigningSecret::from_random([8; 32]));
        let now = Timestamp::from_micros(1_000_000_000);
        let signature = sign(&[&ours], "msg_1_2", 1_000, b"{}");
        let headers = [
            ("webhook-id", "msg_1_2"),
            ("webhook-timestamp", "1000"),
            ("webhook-signature", signature.as_str()),
        ];
        let good = received(&headers, "{}");
        assert_eq!(good.check(&[], now), Checked::Unchecked);
        assert_eq!(good.check(&[other.clone(), ours.clone()], now), Checked::Verified);
        let line = good.line(&Checked::Verified, 200);
        assert_eq!(line, "msg_1_2  -  attempt -  verified  2 bytes  -> 200");
        for (bad, secret) in [
            (received(&headers, "{}"), &other),
            (received(&headers, "{ }"), &ours),
            (received(&headers[..2], "{}"), &ours),
            (received(&headers[1..], "{}"), &ours),
        ] {
            assert!(!bad.check(std::slice::from_ref(secret), now).is_trusted(), "{bad:?}");
        }
    }

    #[test]
    fn only_a_challenge_is_echoed() {
        let kind = ("posthaste-event-type", CHALLENGE);
        let body = r#"{"type":"posthaste.verification","challenge":"c1"}"#;
        assert_eq!(received(&[kind], body).challenge().as_deref(), Some(r#"{"challenge":"c1"}"#));
        assert_eq!(received(&[], body).challenge(), None);
        assert_eq!(received(&[kind], "{}").challenge(), None);
        assert_eq!(received(&[kind], "c1").challenge(), None);
    }
}
