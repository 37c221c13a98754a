//! Verifies the signature of a webhook with the crates base64, hmac and sha2.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use std::time::SystemTime;

pub fn verify(secret: &str, id: &str, timestamp: &str, signatures: &str, body: &[u8]) -> bool {
    let now = SystemTime::UNIX_EPOCH.elapsed().map_or(0, |elapsed| elapsed.as_secs());
    let is_recent = timestamp.parse().is_ok_and(|sent: u64| now.abs_diff(sent) <= 300);
    let key = STANDARD.decode(secret.strip_prefix("whsec_").unwrap_or(secret)).unwrap_or_default();
    let Ok(mac) = Hmac::<Sha256>::new_from_slice(&key) else { return false };
    let mac = mac.chain_update(format!("{id}.{timestamp}.")).chain_update(body);
    let is_genuine = |entry: &str| {
        let given = entry.strip_prefix("v1,").and_then(|text| STANDARD.decode(text).ok());
        given.is_some_and(|given| mac.clone().verify_slice(&given).is_ok()) // in constant time
    };
    key.len() >= 24 && is_recent && signatures.split(' ').any(is_genuine)
}
