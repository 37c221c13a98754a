//! Verifies the signature of a webhook with the crate standardwebhooks.

use http::HeaderMap;
use standardwebhooks::Webhook;

pub fn verify(secret: &str, headers: &HeaderMap, body: &[u8]) -> bool {
    Webhook::new(secret).is_ok_and(|webhook| webhook.verify(body, headers).is_ok())
}
