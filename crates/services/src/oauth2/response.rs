//! Reads the response of a token endpoint (RFC 6749, section 5). Pure: a response in, a token or an error out.

use std::time::Duration;

use posthaste_core::outcome::{AttemptOutcome, Failure};
use serde_json::Value;

use super::{AccessToken, RESPONSE_BYTES_MAX, TokenError};
use crate::sender::Exchange;

/// The maximum length of an access token, in bytes. The receiver's limit for all headers is usually 8 KiB.
pub(super) const TOKEN_BYTES_MAX: usize = 8 * 1024;
/// The maximum length of an error code that is repeated in our message, in bytes.
const ERROR_CODE_BYTES_MAX: usize = 64;
/// The time for which a token without a lifetime is kept.
const DEFAULT_KEEP: Duration = Duration::from_secs(5 * 60);
/// A longer lifetime is treated as this one.
const LIFETIME_MAX: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// The time before its expiry at which a token is replaced.
const RENEW_BEFORE: Duration = Duration::from_secs(60);

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) token: AccessToken,
    /// The time for which the token is used.
    pub(super) keep: Duration,
}

/// Reads a response that was received within `deadline`.
pub(super) fn read(exchange: &Exchange, deadline: Duration) -> Result<Token, TokenError> {
    match exchange.outcome {
        AttemptOutcome::Failed { status: None, failure: Failure::Timeout, .. } => Err(TokenError::Hung),
        AttemptOutcome::Failed { status: None, failure, .. } => Err(TokenError::NoResponse(failure)),
        AttemptOutcome::Failed { status: Some(status), .. } => {
            Err(TokenError::Refused { status, error: error_code(&exchange.body) })
        }
        AttemptOutcome::Delivered { .. } if exchange.body_complete => parse(&exchange.body),
        AttemptOutcome::Delivered { .. } if exchange.body.len() >= RESPONSE_BYTES_MAX => {
            Err(TokenError::TooLong)
        }
        AttemptOutcome::Delivered { .. } if exchange.duration >= deadline => Err(TokenError::Hung),
        AttemptOutcome::Delivered { .. } => Err(TokenError::BrokenOff),
    }
}

/// Returns the error code of a refusal, such as `invalid_client`, if it is one.
fn error_code(body: &[u8]) -> Option<String> {
    let body: Value = serde_json::from_slice(body).ok()?;
    let code = body.get("error")?.as_str()?;
    let is_code = code.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
    (is_code && (1..=ERROR_CODE_BYTES_MAX).contains(&code.len())).then(|| code.to_owned())
}

fn parse(body: &[u8]) -> Result<Token, TokenError> {
    let body = body.trim_ascii();
    if body.starts_with(b"<") {
        return Err(TokenError::Html);
    }
    let body: Value = serde_json::from_slice(body).map_err(|_| TokenError::NotJson)?;
    let body = body.as_object().ok_or(TokenError::NotJson)?;
    let token = body.get("access_token").filter(|token| !token.is_null()).ok_or(TokenError::NoToken)?;
    let token = token.as_str().filter(|token| is_token(token)).ok_or(TokenError::BadToken)?;
    let kind = body.get("token_type").and_then(Value::as_str).unwrap_or_default();
    if !kind.eq_ignore_ascii_case("bearer") {
        return Err(TokenError::NotBearer);
    }
    let lifetime = lifetime(body.get("expires_in").unwrap_or(&Value::Null))?;
    let token = AccessToken(format!("Bearer {token}").into());
    Ok(Token { token, keep: lifetime.map_or(DEFAULT_KEEP, keep) })
}

fn is_token(token: &str) -> bool {
    (1..=TOKEN_BYTES_MAX).contains(&token.len()) && token.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Returns the lifetime in seconds, without fractions. A number in quotes, which some servers send, is accepted.
fn lifetime(expires_in: &Value) -> Result<Option<Duration>, TokenError> {
    let seconds = match expires_in {
        Value::Null => return Ok(None),
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.parse().ok(),
        Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    };
    match seconds {
        Some(seconds) if seconds >= 0.0 => {
            let seconds = seconds.min(LIFETIME_MAX.as_secs_f64());
            Ok(Some(Duration::from_secs_f64(seconds.trunc())))
        }
        Some(_) | None => Err(TokenError::BadLifetime),
    }
}

/// Returns the time for which a token is used: until a minute before it expires, but at least for half of its
/// lifetime, because otherwise a token with a lifetime of a minute would be fetched for each delivery.
fn keep(lifetime: Duration) -> Duration {
    lifetime.saturating_sub(RENEW_BEFORE).max(lifetime / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(body: &str) -> Result<u64, TokenError> {
        parse(body.as_bytes()).map(|token| token.keep.as_secs())
    }

    #[test]
    fn lifetime_is_validated_and_shortened() {
        let rows = [
            ("3600", Ok(3540)),
            ("121", Ok(61)),
            ("120", Ok(60)),
            ("30", Ok(15)),
            ("1", Ok(0)),
            ("0", Ok(0)),
            ("-0", Ok(0)),
            ("3600.9", Ok(3540)),
            ("3.6e3", Ok(3540)),
            ("\"3600\"", Ok(3540)),
            ("2592000", Ok(2_591_940)),
            ("2592001", Ok(2_591_940)),
            ("1e300", Ok(2_591_940)),
            ("18446744073709551616", Ok(2_591_940)),
            ("null", Ok(300)),
            ("-1", Err(TokenError::BadLifetime)),
            ("-0.5", Err(TokenError::BadLifetime)),
            ("-1e300", Err(TokenError::BadLifetime)),
            ("\"-1\"", Err(TokenError::BadLifetime)),
            ("\"soon\"", Err(TokenError::BadLifetime)),
            ("\"NaN\"", Err(TokenError::BadLifetime)),
            ("\"\"", Err(TokenError::BadLifetime)),
            ("true", Err(TokenError::BadLifetime)),
            ("[3600]", Err(TokenError::BadLifetime)),
            ("{}", Err(TokenError::BadLifetime)),
        ];
        for (expires_in, expected) in rows {
            let body = format!(r#"{{"access_token":"t","token_type":"Bearer","expires_in":{expires_in}}}"#);
            assert_eq!(seconds(&body), expected, "{expires_in}");
        }
        assert_eq!(seconds(r#"{"access_token":"t","token_type":"bearer"}"#), Ok(300));
    }

    #[test]
    fn each_invalid_response_has_its_own_error() {
        let long = "x".repeat(TOKEN_BYTES_MAX + 1);
        let with = |token: &str| format!(r#"{{"access_token":{token},"token_type":"bearer"}}"#);
        let rows = [
            (String::new(), TokenError::NotJson),
            (" <!DOCTYPE html><html></html>".to_owned(), TokenError::Html),
            ("access_token=t&token_type=bearer".to_owned(), TokenError::NotJson),
            ("[]".to_owned(), TokenError::NotJson),
            (r#"{"access_token":"t""#.to_owned(), TokenError::NotJson),
            ("[".repeat(1000), TokenError::NotJson),
            ("{}".to_owned(), TokenError::NoToken),
            (with("null"), TokenError::NoToken),
            (with("7"), TokenError::BadToken),
            (with("\"\""), TokenError::BadToken),
            (with("\"a b\""), TokenError::BadToken),
            (with(r#""a\r\nx-evil: 1""#), TokenError::BadToken),
            (with("\"é\""), TokenError::BadToken),
            (with(&format!("\"{long}\"")), TokenError::BadToken),
            (r#"{"access_token":"t"}"#.to_owned(), TokenError::NotBearer),
            (r#"{"access_token":"t","token_type":"mac"}"#.to_owned(), TokenError::NotBearer),
            (r#"{"access_token":"t","token_type":1}"#.to_owned(), TokenError::NotBearer),
        ];
        for (body, expected) in rows {
            assert_eq!(parse(body.as_bytes()).err(), Some(expected), "{body:.60}");
        }
        let longest = with(&format!("\"{}\"", "x".repeat(TOKEN_BYTES_MAX)));
        assert!(parse(longest.as_bytes()).is_ok());
        let token = parse(br#" {"access_token":"a.b-c","token_type":"BEARER","more":1} "#).expect("a token");
        assert_eq!(token.token.authorization(), "Bearer a.b-c");
    }

    #[test]
    fn only_a_plain_error_code_is_repeated() {
        let rows = [
            (r#"{"error":"invalid_client"}"#, Some("invalid_client")),
            (r#"{"error":"<script>"}"#, None),
            (r#"{"error":""}"#, None),
            (r#"{"error":{"code":1}}"#, None),
            ("<html>", None),
        ];
        for (body, expected) in rows {
            assert_eq!(error_code(body.as_bytes()).as_deref(), expected, "{body}");
        }
        let refused = TokenError::Refused { status: 401, error: Some("invalid_client".to_owned()) };
        assert_eq!(refused.to_string(), "the token endpoint returned status 401 (invalid_client)");
        let silent = TokenError::Refused { status: 302, error: None };
        assert_eq!(silent.to_string(), "the token endpoint returned status 302");
    }
}
