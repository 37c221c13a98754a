//! A sign-in, kept by the browser: a signed cookie that names a key by its hash and says when it ends. No
//! process remembers anything, so any of them can answer. The key itself is looked up at every request: one
//! that was revoked is out within a second. What the cookie holds opens no door of the API.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use http::HeaderMap;
use http::header::COOKIE;
use posthaste_core::Timestamp;
use posthaste_core::ports::KeyHash;
use sha2::Sha256;
use std::fmt;
use std::time::Duration;
use subtle::ConstantTimeEq as _;

pub(crate) const NAME: &str = "posthaste_session";
/// How long a sign-in lasts.
pub(crate) const LASTS: Duration = Duration::from_secs(12 * 3_600);
const NONCE_BYTES: usize = 16;
const MAC_BYTES: usize = 32;

/// Signs sessions: made from `POSTHASTE_SECRET_KEY`, so that all processes take each other's; without one it is
/// drawn at the start, and a sign-in ends with its process.
pub(crate) struct SessionKey([u8; 32]);

impl fmt::Debug for SessionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionKey(…)")
    }
}

impl SessionKey {
    pub(crate) fn new(shared: Option<[u8; 32]>, random: fn(&mut [u8])) -> Self {
        Self(shared.unwrap_or_else(|| {
            let mut drawn = [0; 32];
            random(&mut drawn);
            drawn
        }))
    }

    fn sign(&self, purpose: &[u8], text: &[u8]) -> [u8; MAC_BYTES] {
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(&self.0) else { unreachable!("any length will do") };
        mac.update(purpose);
        mac.update(text);
        mac.finalize().into_bytes().into()
    }
}

/// Who signed in, until when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Session {
    pub(crate) key_hash: KeyHash,
    ends_at: Timestamp,
    nonce: [u8; NONCE_BYTES],
}

impl Session {
    pub(crate) fn begin(key_hash: KeyHash, nonce: [u8; NONCE_BYTES], now: Timestamp) -> Self {
        Self { key_hash, ends_at: now.after(LASTS), nonce }
    }

    /// The value of the cookie.
    pub(crate) fn seal(&self, key: &SessionKey) -> String {
        let mut bytes = self.key_hash.0.to_vec();
        bytes.extend_from_slice(&self.ends_at.micros().to_be_bytes());
        bytes.extend_from_slice(&self.nonce);
        let mac = key.sign(b"session", &bytes);
        bytes.extend_from_slice(&mac);
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// The session of a cookie, if it is ours and has not ended.
    pub(crate) fn open(key: &SessionKey, text: &str, now: Timestamp) -> Option<Self> {
        let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
        let (signed, mac) = bytes.split_at_checked(bytes.len().checked_sub(MAC_BYTES)?)?;
        if !bool::from(key.sign(b"session", signed).ct_eq(mac)) {
            return None;
        }
        let (hash, rest) = signed.split_first_chunk::<32>()?;
        let (ends_at, nonce) = rest.split_first_chunk::<8>()?;
        let ends_at = Timestamp::from_micros(i64::from_be_bytes(*ends_at));
        let nonce = nonce.try_into().ok()?;
        (now < ends_at).then_some(Self { key_hash: KeyHash(*hash), ends_at, nonce })
    }

    /// What every form of this session carries, and no other site can know.
    pub(crate) fn form_token(&self, key: &SessionKey) -> String {
        URL_SAFE_NO_PAD.encode(key.sign(b"form", &self.nonce))
    }
}

/// The cookie of ours in a request.
pub(crate) fn cookie(headers: &HeaderMap) -> Option<&str> {
    let texts = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    texts.flat_map(|text| text.split(';')).find_map(|pair| {
        let (name, value) = pair.trim().split_once('=')?;
        (name == NAME).then_some(value)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_lasts_its_time_and_bears_no_change() {
        let key = SessionKey::new(None, |bytes| bytes.fill(7));
        let now = Timestamp::from_micros(1_000);
        let session = Session::begin(KeyHash([3; 32]), [5; 16], now);
        let sealed = session.seal(&key);
        let open = |text: &str, at| Session::open(&key, text, at);
        assert_eq!(open(&sealed, now), Some(session.clone()));
        assert_eq!(open(&sealed, now.after(LASTS - Duration::from_micros(1))), Some(session.clone()));
        assert_eq!(open(&sealed, now.after(LASTS)), None);
        for place in 0..sealed.len() - 1 {
            let other = if sealed.as_bytes()[place] == b'A' { "B" } else { "A" };
            let mut changed = sealed.clone();
            changed.replace_range(place..=place, other);
            assert_eq!(open(&changed, now), None, "place {place}");
        }
        for bad in ["", "x", &sealed[1..], &sealed[..40]] {
            assert_eq!(open(bad, now), None, "{bad}");
        }
        let others = SessionKey::new(Some([8; 32]), |_| {});
        assert_eq!(Session::open(&others, &sealed, now), None);
        assert_ne!(session.form_token(&key), session.form_token(&others));
        assert_ne!(session.form_token(&key), sealed);
    }
}
