//! The customer's part of a request to a receiver: [`headers`](RequestHeaders), [`auth`](Auth) and the secrets of both
//! ([`Credentials`]). The API parses them from JSON; the store keeps the public part as JSON and the secrets as one
//! sealed text; the worker sends them.
//!
//! A request that changes a subscription may omit a secret, which keeps the stored one. `merge` decides whether it is
//! kept. No error and no debug output contains a secret.

mod auth;
mod credentials;
mod error;
mod headers;
mod pem;

#[cfg(test)]
mod tests;

pub use auth::{Auth, AuthInput};
pub use credentials::{Credentials, CredentialsError, StoredKey};
pub use error::RequestError;
pub use headers::{HeaderValue, RequestHeaders, RequestHeadersInput};

/// The maximum number of headers of a subscription.
pub const HEADERS_MAX: usize = 20;
/// The maximum length of a header name, in ASCII characters.
pub const HEADER_NAME_CHARS_MAX: usize = 100;
/// The maximum length of a header value, in bytes.
pub const HEADER_VALUE_BYTES_MAX: usize = 4_096;
/// The maximum length of a password, a token or a client secret, in bytes.
pub const AUTH_SECRET_BYTES_MAX: usize = 4_096;
/// The maximum length of a username, a client id, a scope or an audience, in bytes.
pub const AUTH_TEXT_BYTES_MAX: usize = 1_024;
/// The maximum length of a client certificate with its chain, in bytes of PEM.
pub const CERTIFICATE_BYTES_MAX: usize = 16 * 1_024;
/// The maximum length of the private key of a client certificate, in bytes of PEM.
pub const PRIVATE_KEY_BYTES_MAX: usize = 8 * 1_024;

/// Checks that no header is sent twice: by `headers`, by `auth` and by the signatures.
///
/// # Errors
///
/// Returns an error that names the header that must be removed or renamed.
pub fn check(
    headers: &RequestHeaders,
    auth: Option<&Auth>,
    signature_headers: &[String],
) -> Result<(), RequestError> {
    let is_signature = |name: &str| signature_headers.iter().any(|header| header.eq_ignore_ascii_case(name));
    let auth_header = auth.and_then(Auth::header_name);
    if let Some(Auth::ApiKey { header }) = auth
        && is_signature(header)
    {
        return Err(RequestError::ApiKeyHeaderOfSignature(header.clone()));
    }
    for (name, _) in headers.iter() {
        if is_signature(name) {
            return Err(RequestError::HeaderOfSignature(name.to_owned()));
        }
        if auth_header.is_some_and(|header| header.eq_ignore_ascii_case(name)) {
            return Err(RequestError::HeaderOfAuth(name.to_owned()));
        }
    }
    Ok(())
}
