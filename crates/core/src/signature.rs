//! Signatures according to Standard Webhooks 1.0. The worker signs every delivery; `posthaste listen` and the
//! tests verify the signatures.

use std::fmt;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use subtle::{Choice, ConstantTimeEq as _};

use crate::ids::{EventId, SubscriptionId};
use crate::time::Timestamp;

/// The minimum length of a signing secret, in bytes, as specified by the standard.
pub const SECRET_BYTES_MIN: usize = 24;
/// The maximum length of a signing secret, in bytes, as specified by the standard.
pub const SECRET_BYTES_MAX: usize = 64;

const SECRET_PREFIX: &str = "whsec_";
const VERSION: &str = "v1";

/// The secret key shared between Posthaste and a receiver.
#[derive(Clone)]
pub struct SigningSecret(Vec<u8>);

/// An error from parsing a signing secret. It does not contain the secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadSecret {
    #[error("a signing secret must start with {SECRET_PREFIX}")]
    NoPrefix,
    #[error("a signing secret must be padded base64 after {SECRET_PREFIX}")]
    NotBase64,
    #[error("a signing secret must have {SECRET_BYTES_MIN} to {SECRET_BYTES_MAX} bytes")]
    Length,
}

impl SigningSecret {
    /// Creates a secret from random bytes.
    pub fn from_random(bytes: [u8; 32]) -> Self {
        Self(bytes.to_vec())
    }

    /// Parses a secret in the format that [`SigningSecret::reveal`] returns.
    pub fn parse(text: &str) -> Result<Self, BadSecret> {
        let encoded = text.strip_prefix(SECRET_PREFIX).ok_or(BadSecret::NoPrefix)?;
        let bytes = STANDARD.decode(encoded).map_err(|_| BadSecret::NotBase64)?;
        if (SECRET_BYTES_MIN..=SECRET_BYTES_MAX).contains(&bytes.len()) {
            Ok(Self(bytes))
        } else {
            Err(BadSecret::Length)
        }
    }

    /// Returns the secret as plain text in the format `whsec_…`.
    pub fn reveal(&self) -> String {
        format!("{SECRET_PREFIX}{}", STANDARD.encode(&self.0))
    }

    /// Creates the HMAC for this secret. A secret is never longer than a SHA-256 block, and HMAC pads the key
    /// to a block with zeros. Padding the key here avoids a fallible constructor.
    fn hmac(&self) -> Hmac<Sha256> {
        let mut block = [0; SECRET_BYTES_MAX];
        for (slot, byte) in block.iter_mut().zip(&self.0) {
            *slot = *byte;
        }
        Hmac::new(&block.into())
    }
}

impl fmt::Debug for SigningSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningSecret(…)")
    }
}

impl PartialEq for SigningSecret {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Eq for SigningSecret {}

/// Returns the `webhook-id` of a delivery. It is the same for every attempt and after a requeue, so that a
/// receiver can detect duplicates.
pub fn webhook_id(event: EventId, subscription: SubscriptionId) -> String {
    format!("msg_{event}_{subscription}")
}

/// Returns the `webhook-signature` header. It contains one signature for each secret, so that a receiver can
/// use either secret during a rotation.
pub fn sign(secrets: &[&SigningSecret], webhook_id: &str, timestamp_s: i64, body: &[u8]) -> String {
    let entries: Vec<String> =
        secrets.iter().map(|secret| entry(secret, webhook_id, timestamp_s, body)).collect();
    entries.join(" ")
}

fn entry(secret: &SigningSecret, webhook_id: &str, timestamp_s: i64, body: &[u8]) -> String {
    let mac = secret
        .hmac()
        .chain_update(webhook_id)
        .chain_update(".")
        .chain_update(timestamp_s.to_string())
        .chain_update(".")
        .chain_update(body)
        .finalize()
        .into_bytes();
    let mut entry = [VERSION, ","].concat();
    STANDARD.encode_string(mac, &mut entry);
    entry
}

/// The reason why a message could not be verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotAuthentic {
    #[error("the timestamp is older than the tolerance allows, perhaps a replay")]
    TooOld,
    #[error("the timestamp is further in the future than the tolerance allows")]
    TooNew,
    #[error("no signature in the header matches the message and a secret")]
    NoMatch,
}

/// Verifies the signature and the timestamp of a message. Every signature is compared with that of every secret
/// in constant time, so that the duration does not reveal partial matches.
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
    let tolerance_s = i64::try_from(tolerance.as_secs()).unwrap_or(i64::MAX);
    let now_s = now.micros().div_euclid(1_000_000);
    if timestamp_s < now_s.saturating_sub(tolerance_s) {
        return Err(NotAuthentic::TooOld);
    }
    if timestamp_s > now_s.saturating_add(tolerance_s) {
        return Err(NotAuthentic::TooNew);
    }
    let mut fits = Choice::from(0);
    for secret in secrets {
        let expected = entry(secret, webhook_id, timestamp_s, body);
        for given in signatures.split(' ') {
            fits |= given.as_bytes().ct_eq(expected.as_bytes());
        }
    }
    if bool::from(fits) { Ok(()) } else { Err(NotAuthentic::NoMatch) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use standardwebhooks::Webhook;

    use super::*;

    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    const MINUTES_5: Duration = Duration::from_secs(300);

    fn secret(text: &str) -> SigningSecret {
        SigningSecret::parse(text).unwrap()
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_micros(seconds * 1_000_000)
    }

    #[test]
    fn published_test_vectors_match() {
        let rows = [
            (
                SECRET,
                "msg_p5jXN8AQM9LWM0D4loKWxJek",
                1_614_265_330,
                r#"{"test": 2432232314}"#,
                "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
            ),
            (
                "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD",
                "msg_27UH4WbU6Z5A5EzD8u03UvzRbpk",
                1_649_367_553,
                r#"{"email":"test@example.com","username":"test_user"}"#,
                "v1,tZ1I4/hDygAJgO5TYxiSd6Sd0kDW6hPenDe+bTa3Kkw=",
            ),
        ];
        for (key, id, timestamp_s, body, expected) in rows {
            assert_eq!(sign(&[&secret(key)], id, timestamp_s, body.as_bytes()), expected);
        }
    }

    #[test]
    fn each_valid_secret_signs_and_either_verifies() {
        let (old, new, other) =
            (secret(SECRET), SigningSecret::from_random([7; 32]), SigningSecret::from_random([8; 32]));
        let header = sign(&[&new, &old], "msg_1_2", 1000, b"{}");
        assert_eq!(header.split(' ').count(), 2);
        let check = |secrets: &[&SigningSecret], header: &str| {
            verify(secrets, "msg_1_2", 1000, b"{}", header, MINUTES_5, at(1000))
        };
        assert_eq!(check(&[&old], &header), Ok(()));
        assert_eq!(check(&[&new], &header), Ok(()));
        assert_eq!(check(&[&other, &new], &header), Ok(()));
        assert_eq!(check(&[&other], &header), Err(NotAuthentic::NoMatch));
        assert_eq!(check(&[], &header), Err(NotAuthentic::NoMatch));
        assert_eq!(check(&[&old], ""), Err(NotAuthentic::NoMatch));
        assert_eq!(check(&[&old], "v1, v2,x"), Err(NotAuthentic::NoMatch));
        assert_eq!(sign(&[], "msg_1_2", 1000, b"{}"), "");
        // Signatures with unknown versions are ignored.
        assert_eq!(check(&[&old], &format!("v1a,x {header} v2,y")), Ok(()));
    }

    #[test]
    fn any_change_of_the_message_is_detected() {
        let key = secret(SECRET);
        let header = sign(&[&key], "msg_1_2", 1000, b"{\"a\":1}");
        let rows: &[(&str, i64, &[u8])] = &[
            ("msg_1_3", 1000, b"{\"a\":1}"),
            ("msg_1_2", 1001, b"{\"a\":1}"),
            ("msg_1_2", 1000, b"{\"a\":2}"),
            ("msg_1_2", 1000, b"{\"a\":1} "),
        ];
        for (id, timestamp_s, body) in rows {
            let verified = verify(&[&key], id, *timestamp_s, body, &header, MINUTES_5, at(1000));
            assert_eq!(verified, Err(NotAuthentic::NoMatch), "{id} {timestamp_s}");
        }
    }

    #[test]
    fn tolerance_applies_to_past_and_future() {
        let key = secret(SECRET);
        let rows = [
            (1000, 1300, Ok(())),
            (1000, 1301, Err(NotAuthentic::TooOld)),
            (1300, 1000, Ok(())),
            (1301, 1000, Err(NotAuthentic::TooNew)),
            (i64::MIN, 0, Err(NotAuthentic::TooOld)),
            (i64::MAX, 0, Err(NotAuthentic::TooNew)),
        ];
        for (timestamp_s, now_s, expected) in rows {
            let header = sign(&[&key], "msg_1_2", timestamp_s, b"{}");
            let verified = verify(&[&key], "msg_1_2", timestamp_s, b"{}", &header, MINUTES_5, at(now_s));
            assert_eq!(verified, expected, "{timestamp_s} seen at {now_s}");
        }
        let header = sign(&[&key], "msg_1_2", i64::MIN, b"{}");
        assert_eq!(verify(&[&key], "msg_1_2", i64::MIN, b"{}", &header, Duration::MAX, at(-1)), Ok(()));
    }

    #[test]
    fn secrets_are_24_to_64_bytes_in_base64() {
        let encoded = |bytes: usize| format!("whsec_{}", STANDARD.encode(vec![5; bytes]));
        for bytes in [24, 32, 64] {
            assert_eq!(secret(&encoded(bytes)).reveal(), encoded(bytes));
        }
        let rows = [
            (encoded(23), BadSecret::Length),
            (encoded(65), BadSecret::Length),
            ("whsec_".to_owned(), BadSecret::Length),
            (String::new(), BadSecret::NoPrefix),
            ("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".to_owned(), BadSecret::NoPrefix),
            ("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaS".to_owned(), BadSecret::NotBase64),
            ("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLa_-".to_owned(), BadSecret::NotBase64),
            (format!("{SECRET}\n"), BadSecret::NotBase64),
        ];
        for (text, expected) in rows {
            assert_eq!(SigningSecret::parse(&text), Err(expected), "{text:?}");
        }
        assert_eq!(format!("{:?}", secret(SECRET)), "SigningSecret(…)");
    }

    #[test]
    fn webhook_id_contains_event_and_subscription() {
        assert_eq!(webhook_id(EventId::from_store(41), SubscriptionId::from_store(7)), "msg_41_7");
    }

    proptest! {
        #[test]
        fn signature_equals_that_of_the_reference_crate_and_verifies(
            key in proptest::collection::vec(any::<u8>(), SECRET_BYTES_MIN..=SECRET_BYTES_MAX),
            id in "[ -~]{1,40}",
            timestamp_s in -62_000_000_000_i64..253_000_000_000,
            body in ".{0,200}",
        ) {
            let ours = SigningSecret(key);
            let theirs = Webhook::new(&ours.reveal()).unwrap();
            let header = sign(&[&ours], &id, timestamp_s, body.as_bytes());
            let reference = theirs.sign(&id, timestamp_s, body.as_bytes()).unwrap();
            prop_assert_eq!(&header, &reference);
            let now = at(timestamp_s);
            prop_assert_eq!(verify(&[&ours], &id, timestamp_s, body.as_bytes(), &reference, MINUTES_5, now), Ok(()));
        }

        #[test]
        fn any_header_is_verified_without_panic(
            header in ".{0,100}",
            timestamp_s in any::<i64>(),
            body in proptest::collection::vec(any::<u8>(), 0..50),
        ) {
            let key = secret(SECRET);
            prop_assert!(verify(&[&key], "msg_1_2", timestamp_s, &body, &header, MINUTES_5, at(0)).is_err());
        }
    }
}
