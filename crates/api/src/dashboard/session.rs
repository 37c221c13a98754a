//! The session token of the dashboard. The browser keeps a random token in a cookie. The store keeps its hash with the
//! hash of the API key, so all processes on one database share sessions. The key is looked up for every request, so
//! revoking it ends its sessions within a second. The token is not valid as an API key.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::HeaderMap;
use http::header::COOKIE;
use posthaste_core::ports::SessionHash;
use sha2::{Digest as _, Sha256};
use std::fmt;

pub(crate) const NAME: &str = "posthaste_session";
const TOKEN_BYTES: usize = 32;
/// The domain separator that makes the form token differ from the stored hash.
const FORM_PURPOSE: &[u8] = b"posthaste form";

/// The secret token of one session.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct SessionToken([u8; TOKEN_BYTES]);

impl fmt::Debug for SessionToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionToken(…)")
    }
}

impl SessionToken {
    /// Creates a token from random bytes.
    pub(crate) const fn new(random: [u8; TOKEN_BYTES]) -> Self {
        Self(random)
    }

    /// Returns the token in the session cookie, or `None` if the cookie is missing or malformed.
    pub(crate) fn of(headers: &HeaderMap) -> Option<Self> {
        URL_SAFE_NO_PAD.decode(cookie(headers)?).ok()?.try_into().ok().map(Self)
    }

    /// Returns the value of the session cookie.
    pub(crate) fn cookie_value(self) -> String {
        URL_SAFE_NO_PAD.encode(self.0)
    }

    pub(crate) fn hash(self) -> SessionHash {
        SessionHash(Sha256::digest(self.0).into())
    }

    /// Returns the CSRF token for the forms of this session. Other sites cannot know it.
    pub(crate) fn form_token(self) -> String {
        URL_SAFE_NO_PAD.encode(Sha256::new().chain_update(FORM_PURPOSE).chain_update(self.0).finalize())
    }
}

/// Returns the value of the session cookie in a request, or `None` if there is none.
fn cookie(headers: &HeaderMap) -> Option<&str> {
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
    fn only_a_well_formed_session_cookie_is_accepted() {
        let token = SessionToken::new([7; 32]);
        let value = token.cookie_value();
        for (cookie, expected) in [
            (format!("{NAME}={value}"), Some(token)),
            (format!("a=b; {NAME}={value}; c=d"), Some(token)),
            (format!("{NAME}={value}A"), None),
            (format!("{NAME}={}", &value[1..]), None),
            (format!("{NAME}="), None),
            (format!("other={value}"), None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(COOKIE, cookie.parse().expect("a header"));
            assert_eq!(SessionToken::of(&headers), expected, "{cookie}");
        }
        assert_eq!(SessionToken::of(&HeaderMap::new()), None);
    }

    #[test]
    fn form_token_and_stored_hash_do_not_reveal_the_token() {
        let (token, other) = (SessionToken::new([7; 32]), SessionToken::new([8; 32]));
        assert_ne!(token.form_token(), other.form_token());
        assert_ne!(token.form_token(), token.cookie_value());
        assert_ne!(token.form_token(), URL_SAFE_NO_PAD.encode(token.hash().0));
        assert_eq!(format!("{token:?}"), "SessionToken(…)");
    }
}
