//! Validates submitted orders: an [`Order`] is always valid. The API parses it, the intake stores it, and the
//! outbox worker sends its canonical JSON to the broker.

use std::fmt;

use serde_json::{Map, Value};

use super::strict_json::{self, Flaw};
use crate::digest::{Digest, canonical, digest_of};
use crate::json::{JsonError, JsonText};

/// The maximum size of a submitted order, in bytes.
pub const ORDER_BYTES_MAX: usize = 256 * 1024;

/// The maximum length of an idempotency key, in characters.
pub const IDEMPOTENCY_KEY_CHARS_MAX: usize = 200;

/// The maximum quantity: 2^53. A double represents every integer up to this value exactly.
pub const QTY_MAX: f64 = 9_007_199_254_740_992.0;

const SYMBOL_CHARS_MAX: usize = 64;
const INTENT_CHARS_MAX: usize = 32;
const TRACE_ID_CHARS_MAX: usize = 200;

/// The caller's key for an order. An order is executed once per key. The key is sent in a header, unquoted or
/// as a quoted string, so it contains no characters that require escaping.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IdempotencyKey(String);

/// An error from parsing an idempotency key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "an idempotency key must be 1 to {IDEMPOTENCY_KEY_CHARS_MAX} visible ASCII characters other than \" and \\"
)]
pub struct BadIdempotencyKey;

impl IdempotencyKey {
    pub fn parse(text: impl Into<String>) -> Result<Self, BadIdempotencyKey> {
        let text = text.into();
        let fits = (1..=IDEMPOTENCY_KEY_CHARS_MAX).contains(&text.len());
        let plain = text.bytes().all(|b| b.is_ascii_graphic() && b != b'"' && b != b'\\');
        if fits && plain { Ok(Self(text)) } else { Err(BadIdempotencyKey) }
    }

    /// Parses an `Idempotency-Key` header, either unquoted or as a quoted string.
    pub fn from_header(header: &[u8]) -> Result<Self, BadIdempotencyKey> {
        let text = std::str::from_utf8(header).map_err(|_| BadIdempotencyKey)?;
        let text = text.trim_matches([' ', '\t']);
        let quoted = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
        Self::parse(quoted.unwrap_or(text))
    }

    /// Creates a key from stored text, without validation.
    pub const fn from_store(text: String) -> Self {
        Self(text)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for IdempotencyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// An error from validating an order.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OrderError {
    #[error(transparent)]
    Json(#[from] JsonError),
    #[error("an order must be a JSON object")]
    NotAnObject,
    #[error("keys must be unique within an object, got {key:?} twice")]
    DuplicateKey { key: String },
    #[error("strings must not contain U+0000")]
    Nul,
    #[error("strings must not contain a lone surrogate")]
    LoneSurrogate,
    #[error("numbers must be exact as a double, got {number}; send it as a string or rounded")]
    InexactNumber { number: String },
    #[error("{field} is missing")]
    Missing { field: &'static str },
    #[error("{field} must be {expected}")]
    Wrong { field: &'static str, expected: &'static str },
}

impl OrderError {
    /// Returns whether the body is not valid JSON, as opposed to valid JSON with invalid content.
    pub const fn is_syntax(&self) -> bool {
        match self {
            Self::Json(JsonError::NotUtf8 { .. } | JsonError::Invalid { .. }) => true,
            Self::Json(JsonError::TooDeep { .. } | JsonError::TooLong { .. })
            | Self::NotAnObject
            | Self::DuplicateKey { .. }
            | Self::Nul
            | Self::LoneSurrogate
            | Self::InexactNumber { .. }
            | Self::Missing { .. }
            | Self::Wrong { .. } => false,
        }
    }
}

impl From<Flaw> for OrderError {
    fn from(flaw: Flaw) -> Self {
        match flaw {
            Flaw::DuplicateKey(key) => Self::DuplicateKey { key },
            Flaw::Nul => Self::Nul,
            Flaw::LoneSurrogate => Self::LoneSurrogate,
            Flaw::InexactNumber(number) => Self::InexactNumber { number },
            Flaw::Malformed => {
                let reason = "malformed text".to_owned();
                Self::Json(JsonError::Invalid { line: 1, column: 1, reason })
            }
        }
    }
}

/// A valid order.
#[derive(Clone, PartialEq)]
pub struct Order {
    pub key: IdempotencyKey,
    /// The whole order, including unknown fields, as canonical JSON. This text is covered by the digest,
    /// stored, and sent to the broker.
    pub canonical: String,
    pub digest: Digest,
    pub trace_id: Option<String>,
    pub symbol: String,
    pub intent: String,
    pub qty: f64,
    pub limit_price: Option<f64>,
}

/// Omits the content of the order, because it must not be logged.
impl fmt::Debug for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Order").field("key", &self.key).field("digest", &self.digest).finish_non_exhaustive()
    }
}

impl Order {
    /// Parses and validates an order from the body of a request.
    pub fn parse(bytes: &[u8]) -> Result<Self, OrderError> {
        let text = JsonText::parse(bytes, ORDER_BYTES_MAX)?;
        let value = strict_json::read(&text)?;
        let Value::Object(fields) = &value else { return Err(OrderError::NotAnObject) };
        let key = key(fields)?;
        let symbol = symbol(fields)?;
        let intent = intent(fields)?;
        let qty = qty(fields)?;
        let limit_price = limit_price(fields)?;
        let trace_id = trace_id(fields)?;
        check_meta(fields)?;
        // Cannot fail, because every number is a finite double and every key is unique.
        let canonical = canonical(&value).map_err(|_| Flaw::Malformed)?;
        let digest = digest_of(canonical.as_bytes());
        Ok(Self { key, canonical, digest, trace_id, symbol, intent, qty, limit_price })
    }
}

type Fields = Map<String, Value>;

fn required<'a>(fields: &'a Fields, field: &'static str) -> Result<&'a Value, OrderError> {
    fields.get(field).ok_or(OrderError::Missing { field })
}

fn key(fields: &Fields) -> Result<IdempotencyKey, OrderError> {
    let field = "idempotency_key";
    let expected = "a string of 1 to 200 visible ASCII characters other than \" and \\";
    let text = required(fields, field)?.as_str();
    text.and_then(|text| IdempotencyKey::parse(text).ok()).ok_or(OrderError::Wrong { field, expected })
}

fn symbol(fields: &Fields) -> Result<String, OrderError> {
    let field = "symbol";
    let is_fit = |text: &&str| {
        matches!(text.len(), 1..=SYMBOL_CHARS_MAX) && text.bytes().all(|b| b.is_ascii_graphic())
    };
    let text = required(fields, field)?.as_str().filter(is_fit);
    let expected = "a string of 1 to 64 visible ASCII characters";
    text.map(str::to_owned).ok_or(OrderError::Wrong { field, expected })
}

fn intent(fields: &Fields) -> Result<String, OrderError> {
    let field = "intent";
    let is_fit = |text: &&str| {
        text.starts_with(|c: char| c.is_ascii_uppercase())
            && text.len() <= INTENT_CHARS_MAX
            && text.bytes().all(|b| b.is_ascii_uppercase() || b == b'_')
    };
    let text = required(fields, field)?.as_str().filter(is_fit);
    let expected = "a string of at most 32 upper-case letters and _, such as BUY";
    text.map(str::to_owned).ok_or(OrderError::Wrong { field, expected })
}

fn qty(fields: &Fields) -> Result<f64, OrderError> {
    let field = "qty";
    let number = required(fields, field)?.as_f64().filter(|qty| *qty > 0.0 && *qty <= QTY_MAX);
    number.ok_or(OrderError::Wrong { field, expected: "a number above 0 and at most 9007199254740992" })
}

fn limit_price(fields: &Fields) -> Result<Option<f64>, OrderError> {
    let field = "limit_price";
    match fields.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => match value.as_f64().filter(|price| *price > 0.0) {
            Some(price) => Ok(Some(price)),
            None => Err(OrderError::Wrong { field, expected: "a number above 0, null or absent" }),
        },
    }
}

fn trace_id(fields: &Fields) -> Result<Option<String>, OrderError> {
    let field = "trace_id";
    match fields.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) if text.chars().count() <= TRACE_ID_CHARS_MAX => Ok(Some(text.clone())),
        Some(_) => {
            Err(OrderError::Wrong { field, expected: "a string of at most 200 characters, null or absent" })
        }
    }
}

fn check_meta(fields: &Fields) -> Result<(), OrderError> {
    match fields.get("meta") {
        None | Some(Value::Null | Value::Object(_)) => Ok(()),
        Some(_) => Err(OrderError::Wrong { field: "meta", expected: "an object, null or absent" }),
    }
}

#[cfg(test)]
mod tests;
