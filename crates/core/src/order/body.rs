//! The order as a caller submits it, checked at the wall: inside, an [`Order`] is always valid. Made
//! by the intake, stored by the outbox writer; the broker gets its canonical text.

use std::fmt;

use serde_json::{Map, Value};

use super::strict_json::{self, Flaw};
use crate::digest::{Digest, canonical, digest_of};
use crate::json::{JsonError, JsonText};

/// The largest order, in bytes as submitted.
pub const ORDER_BYTES_MAX: usize = 256 * 1024;

/// The longest idempotency key, in characters.
pub const IDEMPOTENCY_KEY_CHARS_MAX: usize = 200;

/// The largest quantity: up to here a double tells all whole numbers apart.
pub const QTY_MAX: f64 = 9_007_199_254_740_992.0;

const SYMBOL_CHARS_MAX: usize = 64;
const INTENT_CHARS_MAX: usize = 32;
const TRACE_ID_CHARS_MAX: usize = 200;

/// The caller's name for an order, under which it is executed once. It travels as a header, bare or
/// quoted, so it holds nothing that would need escaping there.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IdempotencyKey(String);

/// Text that is not an idempotency key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "an idempotency key is 1 to {IDEMPOTENCY_KEY_CHARS_MAX} visible ASCII characters other than \" and \\"
)]
pub struct BadIdempotencyKey;

impl IdempotencyKey {
    pub fn parse(text: impl Into<String>) -> Result<Self, BadIdempotencyKey> {
        let text = text.into();
        let fits = (1..=IDEMPOTENCY_KEY_CHARS_MAX).contains(&text.len());
        let plain = text.bytes().all(|b| b.is_ascii_graphic() && b != b'"' && b != b'\\');
        if fits && plain { Ok(Self(text)) } else { Err(BadIdempotencyKey) }
    }

    /// Reads an `Idempotency-Key` header, which people send both as a quoted string and bare.
    pub fn from_header(header: &[u8]) -> Result<Self, BadIdempotencyKey> {
        let text = std::str::from_utf8(header).map_err(|_| BadIdempotencyKey)?;
        let text = text.trim_matches([' ', '\t']);
        let quoted = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
        Self::parse(quoted.unwrap_or(text))
    }

    /// Takes a key that a store kept.
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

/// Which rule an order breaks.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OrderError {
    #[error(transparent)]
    Json(#[from] JsonError),
    #[error("an order is a JSON object")]
    NotAnObject,
    #[error("the key {key:?} occurs twice in one object")]
    DuplicateKey { key: String },
    #[error("a text contains U+0000, which the store cannot keep")]
    Nul,
    #[error("a text contains half of a surrogate pair, which is no character")]
    LoneSurrogate,
    #[error("the number {number} would not keep its value as a double; send it as text or rounded")]
    InexactNumber { number: String },
    #[error("{field} is missing")]
    Missing { field: &'static str },
    #[error("{field} must be {expected}")]
    Wrong { field: &'static str, expected: &'static str },
}

impl OrderError {
    /// Whether the body could not be read at all, as opposed to being read and wrong.
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
                let reason = "the text cannot be read".to_owned();
                Self::Json(JsonError::Invalid { line: 1, column: 1, reason })
            }
        }
    }
}

/// An order that keeps every rule.
#[derive(Clone, PartialEq)]
pub struct Order {
    pub key: IdempotencyKey,
    /// The whole order, fields we do not know included, in the one form that the digest covers, the
    /// store keeps and the broker gets.
    pub canonical: String,
    pub digest: Digest,
    pub trace_id: Option<String>,
    pub symbol: String,
    pub intent: String,
    pub qty: f64,
    pub limit_price: Option<f64>,
}

/// What somebody trades is not for the logs.
impl fmt::Debug for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Order").field("key", &self.key).field("digest", &self.digest).finish_non_exhaustive()
    }
}

impl Order {
    /// Reads an order from a request's body.
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
        // Every number is a finite double and every key is unique: nothing is left to fail on.
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
    let expected = "a text of 1 to 200 visible ASCII characters other than \" and \\";
    let text = required(fields, field)?.as_str();
    text.and_then(|text| IdempotencyKey::parse(text).ok()).ok_or(OrderError::Wrong { field, expected })
}

fn symbol(fields: &Fields) -> Result<String, OrderError> {
    let field = "symbol";
    let is_fit = |text: &&str| {
        matches!(text.len(), 1..=SYMBOL_CHARS_MAX) && text.bytes().all(|b| b.is_ascii_graphic())
    };
    let text = required(fields, field)?.as_str().filter(is_fit);
    let expected = "a text of 1 to 64 visible ASCII characters";
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
    let expected = "a word of at most 32 capital letters and _, such as BUY";
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
            Err(OrderError::Wrong { field, expected: "a text of at most 200 characters, null or absent" })
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
