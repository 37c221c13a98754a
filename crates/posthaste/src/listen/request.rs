//! Checks the signature of a received request, recognizes challenges and formats the line that is printed.

use bytes::Bytes;
use http::HeaderMap;
use posthaste_core::Timestamp;
use posthaste_core::signature::{Ed25519PublicKey, SigningSecret, verify, verify_ed25519};
use serde_json::{Value, json};
use std::fmt;
use std::time::Duration;

/// The maximum clock skew between sender and receiver.
const TOLERANCE: Duration = Duration::from_secs(300);
/// The event type of a verification challenge.
const CHALLENGE: &str = "posthaste.verification";

#[derive(Debug)]
pub(super) struct Received {
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

/// The keys with which requests are verified. A request is genuine if one of them verifies it.
#[derive(Debug, Clone, Default)]
pub(super) struct TrustedKeys {
    pub(super) secrets: Vec<SigningSecret>,
    pub(super) public_keys: Vec<Ed25519PublicKey>,
}

/// The signature that verified a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verifier {
    /// HMAC-SHA256 with a secret: an entry `v1`.
    Secret,
    /// Ed25519 with a public key: an entry `v1a`.
    PublicKey,
}

/// The result of checking a signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Checked {
    /// The signature was not checked, because no key is configured.
    Unchecked,
    Verified(Verifier),
    NotVerified(String),
}

impl fmt::Display for Checked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unchecked => f.write_str("not checked"),
            Self::Verified(Verifier::Secret) => f.write_str("verified"),
            Self::Verified(Verifier::PublicKey) => f.write_str("verified (ed25519)"),
            Self::NotVerified(why) => write!(f, "NOT VERIFIED: {why}"),
        }
    }
}

impl Checked {
    /// Returns whether the request may be accepted.
    pub(super) const fn is_trusted(&self) -> bool {
        match self {
            Self::Unchecked | Self::Verified(_) => true,
            Self::NotVerified(_) => false,
        }
    }
}

pub(super) fn event_type(headers: &HeaderMap) -> String {
    shown(headers, "posthaste-event-type")
}

/// Returns the value of a header for display, or a dash if it is missing or not visible ASCII.
fn shown(headers: &HeaderMap, name: &str) -> String {
    // `to_str` accepts only visible ASCII, so no control sequence reaches the terminal.
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or("-").to_owned()
}

impl Received {
    fn text(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// Checks whether a signature was created with one of `keys`.
    pub(super) fn check(&self, keys: &TrustedKeys, now: Timestamp) -> Checked {
        if keys.secrets.is_empty() && keys.public_keys.is_empty() {
            return Checked::Unchecked;
        }
        let missing = |name: &str| Checked::NotVerified(format!("header {name} missing or invalid"));
        let Some(id) = self.text("webhook-id") else { return missing("webhook-id") };
        let timestamp_s = self.text("webhook-timestamp").and_then(|text| text.parse().ok());
        let Some(timestamp_s) = timestamp_s else { return missing("webhook-timestamp") };
        let Some(signatures) = self.text("webhook-signature") else { return missing("webhook-signature") };
        let by_public_key = || {
            verify_ed25519(&keys.public_keys, id, timestamp_s, &self.body, signatures, TOLERANCE, now)
                .map(|()| Verifier::PublicKey)
        };
        let secrets: Vec<&SigningSecret> = keys.secrets.iter().collect();
        let by_secret = || {
            verify(&secrets, id, timestamp_s, &self.body, signatures, TOLERANCE, now)
                .map(|()| Verifier::Secret)
        };
        match by_secret().or_else(|_| by_public_key()) {
            Ok(verifier) => Checked::Verified(verifier),
            Err(error) => Checked::NotVerified(error.to_string()),
        }
    }

    /// Returns the response body for a challenge, or `None` if the request is not a challenge.
    pub(super) fn challenge(&self) -> Option<String> {
        if self.text("posthaste-event-type") != Some(CHALLENGE) {
            return None;
        }
        let body: Value = serde_json::from_slice(&self.body).ok()?;
        let challenge = body.get("challenge")?.as_str()?;
        Some(json!({ "challenge": challenge }).to_string())
    }

    /// Returns the JSON object that is printed for this request.
    pub(super) fn json(&self, checked: &Checked, status: u16) -> Value {
        json!({
            "webhook_id": self.text("webhook-id"),
            "event_type": self.text("posthaste-event-type"),
            "attempt": self.text("posthaste-attempt").and_then(|text| text.parse::<u32>().ok()),
            "signature": checked.to_string(),
            "bytes": self.body.len(),
            "status": status,
        })
    }

    /// Returns the line that is printed for this request.
    pub(super) fn line(&self, checked: &Checked, status: u16) -> String {
        let [id, kind, attempt] = ["webhook-id", "posthaste-event-type", "posthaste-attempt"]
            .map(|name| shown(&self.headers, name));
        let bytes = self.body.len();
        format!("{id}  {kind}  attempt {attempt}  {checked}  {bytes} bytes  -> {status}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use posthaste_core::signature::{Ed25519Key, Keys, Message, Signatures, sign, sign_standard};

    fn secrets(secrets: &[&SigningSecret]) -> TrustedKeys {
        let secrets = secrets.iter().map(|&secret| secret.clone()).collect();
        TrustedKeys { secrets, public_keys: Vec::new() }
    }

    fn received(headers: &[(&'static str, &str)], body: &'static str) -> Received {
        let headers = headers
            .iter()
            .map(|(name, value)| (http::HeaderName::from_static(name), value.parse().expect("a header")));
        Received { headers: headers.collect(), body: Bytes::from(body) }
    }

    #[test]
    fn signature_is_checked_if_there_is_a_secret() {
        let (ours, other) = (SigningSecret::from_random([7; 32]), SigningSecret::from_random([8; 32]));
        let now = Timestamp::from_micros(1_000_000_000);
        let signature = sign_standard(std::slice::from_ref(&ours), "msg_1_2", 1_000, b"{}");
        let headers = [
            ("webhook-id", "msg_1_2"),
            ("webhook-timestamp", "1000"),
            ("webhook-signature", signature.as_str()),
        ];
        let good = received(&headers, "{}");
        assert_eq!(good.check(&TrustedKeys::default(), now), Checked::Unchecked);
        let verified = Checked::Verified(Verifier::Secret);
        assert_eq!(good.check(&secrets(&[&other, &ours]), now), verified);
        let line = good.line(&verified, 200);
        assert_eq!(line, "msg_1_2  -  attempt -  verified  2 bytes  -> 200");
        let object = json!({
            "webhook_id": "msg_1_2", "event_type": null, "attempt": null, "signature": "verified", "bytes": 2,
            "status": 200
        });
        assert_eq!(good.json(&verified, 200), object);
        for (bad, secret) in [
            (received(&headers, "{}"), &other),
            (received(&headers, "{ }"), &ours),
            (received(&headers[..2], "{}"), &ours),
            (received(&headers[1..], "{}"), &ours),
        ] {
            assert!(!bad.check(&secrets(&[secret]), now).is_trusted(), "{bad:?}");
        }
    }

    #[test]
    fn public_key_verifies_the_signature_of_its_private_key() {
        let [ours, other] = [7, 8].map(|byte| Ed25519Key::from_seed([byte; 32]));
        let public = |key: &Ed25519Key| Ed25519PublicKey::parse(&key.public_key()).expect("a key");
        let secret = SigningSecret::from_random([7; 32]);
        let signatures = Signatures::parse(r#"["standard","standard_ed25519"]"#).expect("signatures");
        let keys = Keys { secrets: std::slice::from_ref(&secret), ed25519: std::slice::from_ref(&ours) };
        let message = Message { id: "msg_1", timestamp_s: 1_000, event_type: "a", body: b"{}" };
        let signed = sign(&signatures, &keys, &message);
        let [(_, signature)] = &signed[..] else { panic!("{signed:?}") };
        let headers = [
            ("webhook-id", "msg_1"),
            ("webhook-timestamp", "1000"),
            ("webhook-signature", signature.as_str()),
        ];
        let now = Timestamp::from_micros(1_000_000_000);
        let trusted = |key: &Ed25519Key| TrustedKeys { public_keys: vec![public(key)], ..secrets(&[]) };
        let by_key = Checked::Verified(Verifier::PublicKey);
        assert_eq!(received(&headers, "{}").check(&trusted(&ours), now), by_key);
        assert_eq!(by_key.to_string(), "verified (ed25519)");
        assert!(!received(&headers, "{}").check(&trusted(&other), now).is_trusted());
        assert!(!received(&headers, "{ }").check(&trusted(&ours), now).is_trusted());
        let both = TrustedKeys { public_keys: vec![public(&other)], ..secrets(&[&secret]) };
        assert_eq!(received(&headers, "{}").check(&both, now), Checked::Verified(Verifier::Secret));
    }

    #[test]
    fn only_challenges_are_echoed() {
        let kind = ("posthaste-event-type", CHALLENGE);
        let body = r#"{"type":"posthaste.verification","challenge":"c1"}"#;
        assert_eq!(received(&[kind], body).challenge().as_deref(), Some(r#"{"challenge":"c1"}"#));
        assert_eq!(received(&[], body).challenge(), None);
        assert_eq!(received(&[kind], "{}").challenge(), None);
        assert_eq!(received(&[kind], "c1").challenge(), None);
    }
}
