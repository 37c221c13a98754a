//! The outcome of an attempt to send an order to the broker. The broker client classifies responses with
//! [`classify_answer`]; [`crate::order::step`] and [`crate::lane::Lane::after`] use the outcome.

use std::time::Duration;

use serde_json::Value;

use crate::digest::{Digest, digest_of};
use crate::json::JsonText;
use crate::order::IdempotencyKey;
use crate::outcome::ErrorCode;
use crate::retry::parse_retry_after;
use crate::time::Timestamp;

/// The maximum size of a broker's response, in bytes.
pub const ANSWER_BYTES_MAX: usize = 65_536;

/// The maximum length of a broker's order id, in characters. A longer id is not stored.
pub const BROKER_ORDER_ID_CHARS_MAX: usize = 200;

/// The default text in a broker's response that indicates that the order was already executed.
pub const PROCESSED_MARKER: &str = "already processed";

pub const NETWORK_TIMEOUT: ErrorCode = ErrorCode::known("NETWORK_TIMEOUT");
pub const BROKER_5XX: ErrorCode = ErrorCode::known("BROKER_5XX");
pub const RATE_LIMITED: ErrorCode = ErrorCode::known("RATE_LIMITED");
pub const BAD_REQUEST: ErrorCode = ErrorCode::known("BAD_REQUEST");
pub const UNAUTHORIZED: ErrorCode = ErrorCode::known("UNAUTHORIZED");
pub const CONFLICT_PROCESSED: ErrorCode = ErrorCode::known("CONFLICT_PROCESSED");
pub const UNKNOWN: ErrorCode = ErrorCode::known("UNKNOWN");

/// The outcome of one attempt to send an order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BrokerOutcome {
    /// 2xx: the broker accepted the order.
    Accepted(Receipt),
    /// 409 with evidence that the order was executed in an earlier attempt.
    AlreadyProcessed(Receipt),
    /// 429: the order was not executed, and the rate must be reduced.
    RateLimited { retry_after: Option<Duration> },
    /// 5xx: the order may have been executed.
    ServerError { status: u16, retry_after: Option<Duration> },
    /// 408: the broker or an upstream server timed out. The order may have been executed.
    AnsweredTimeout,
    /// An ambiguous status, such as 3xx or 409 without evidence. The order may have been executed.
    Unclear { status: u16 },
    /// 401 or 403: the credentials were refused and the order was not executed.
    Unauthorized { status: u16 },
    /// Any other 4xx status: the order itself was refused.
    BadRequest { status: u16 },
    /// There was no valid response.
    NoAnswer(BrokerFault),
}

/// The parts of a response that are stored with a settled order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receipt {
    pub broker_order_id: Option<String>,
    /// The digest of the response's bytes.
    pub result_digest: Digest,
    /// The response, if it is JSON that both engines can store.
    pub result_json: Option<JsonText>,
    /// A note on an unexpected response, for the audit.
    pub note: Option<&'static str>,
}

/// The reason why there was no valid response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BrokerFault {
    /// The connection was refused or the host was unreachable. Nothing was sent.
    ConnectFailed,
    DnsFailed,
    TlsFailed,
    /// The address policy refused the address.
    BlockedAddress,
    /// The deadline passed. `bytes_written` indicates whether any part of the request was sent.
    TimedOut {
        bytes_written: bool,
    },
    /// The connection was lost. `bytes_written` indicates whether any part of the request was sent.
    Reset {
        bytes_written: bool,
    },
    /// The response is not valid HTTP or is too long.
    Unreadable,
}

impl BrokerFault {
    /// Returns whether the broker may have received and executed the order.
    pub const fn may_have_executed(self) -> bool {
        match self {
            Self::ConnectFailed | Self::DnsFailed | Self::TlsFailed | Self::BlockedAddress => false,
            Self::TimedOut { bytes_written } | Self::Reset { bytes_written } => bytes_written,
            Self::Unreadable => true,
        }
    }

    pub const fn code(self) -> ErrorCode {
        match self {
            Self::ConnectFailed
            | Self::DnsFailed
            | Self::TlsFailed
            | Self::BlockedAddress
            | Self::TimedOut { .. }
            | Self::Reset { .. } => NETWORK_TIMEOUT,
            Self::Unreadable => UNKNOWN,
        }
    }

    /// Returns the exact cause for the audit, because several causes have the same error code.
    pub const fn note(self) -> &'static str {
        match self {
            Self::ConnectFailed => "no connection to the broker",
            Self::DnsFailed => "the broker's host name did not resolve",
            Self::TlsFailed => "the TLS handshake with the broker failed",
            Self::BlockedAddress => "the address policy refuses the broker's address",
            Self::TimedOut { bytes_written: false } => "the deadline passed before anything was sent",
            Self::TimedOut { bytes_written: true } => "the deadline passed after the order was sent",
            Self::Reset { bytes_written: false } => "the connection broke before anything was sent",
            Self::Reset { bytes_written: true } => "the connection broke after the order was sent",
            Self::Unreadable => "the broker's response is not valid HTTP or too long",
        }
    }
}

impl BrokerOutcome {
    /// Returns the error code for `last_error`, or `None` if the order was accepted.
    pub const fn code(&self) -> Option<ErrorCode> {
        match self {
            Self::Accepted(_) => None,
            Self::AlreadyProcessed(_) => Some(CONFLICT_PROCESSED),
            Self::RateLimited { .. } => Some(RATE_LIMITED),
            Self::ServerError { .. } => Some(BROKER_5XX),
            Self::AnsweredTimeout => Some(NETWORK_TIMEOUT),
            Self::Unclear { .. } => Some(UNKNOWN),
            Self::Unauthorized { .. } => Some(UNAUTHORIZED),
            Self::BadRequest { .. } => Some(BAD_REQUEST),
            Self::NoAnswer(fault) => Some(fault.code()),
        }
    }

    /// Returns whether the order may have been executed although it was not accepted.
    pub const fn may_have_executed(&self) -> bool {
        match self {
            Self::ServerError { .. } | Self::AnsweredTimeout | Self::Unclear { .. } => true,
            Self::NoAnswer(fault) => fault.may_have_executed(),
            Self::Accepted(_)
            | Self::AlreadyProcessed(_)
            | Self::RateLimited { .. }
            | Self::Unauthorized { .. }
            | Self::BadRequest { .. } => false,
        }
    }

    /// Returns the delay that the broker requested with `Retry-After`.
    pub const fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::RateLimited { retry_after } | Self::ServerError { retry_after, .. } => *retry_after,
            Self::Accepted(_)
            | Self::AlreadyProcessed(_)
            | Self::AnsweredTimeout
            | Self::Unclear { .. }
            | Self::Unauthorized { .. }
            | Self::BadRequest { .. }
            | Self::NoAnswer(_) => None,
        }
    }

    /// Returns a note for the audit, in addition to the error code.
    pub fn note(&self) -> Option<String> {
        match self {
            Self::Accepted(receipt) | Self::AlreadyProcessed(receipt) => receipt.note.map(str::to_owned),
            Self::ServerError { status, .. }
            | Self::Unauthorized { status }
            | Self::BadRequest { status } => Some(format!("the broker returned {status}")),
            Self::Unclear { status: 409 } => {
                Some("the broker returned 409 without evidence that it has this order".to_owned())
            }
            Self::Unclear { status } => Some(format!("the broker returned {status}")),
            Self::AnsweredTimeout => Some("the broker returned 408".to_owned()),
            Self::RateLimited { .. } => None,
            Self::NoAnswer(fault) => Some(fault.note().to_owned()),
        }
    }
}

/// Classifies the broker's response. `marker` is the text that indicates that the order was already processed.
pub fn classify_answer(
    status: u16,
    body: &[u8],
    key: &IdempotencyKey,
    marker: &str,
    retry_after_header: Option<&[u8]>,
    now: Timestamp,
) -> BrokerOutcome {
    let retry_after = || retry_after_header.and_then(|header| parse_retry_after(header, now));
    match status {
        200..=299 => BrokerOutcome::Accepted(receipt(body, key)),
        401 | 403 => BrokerOutcome::Unauthorized { status },
        408 => BrokerOutcome::AnsweredTimeout,
        409 if is_evidence(body, key, marker) => BrokerOutcome::AlreadyProcessed(receipt(body, key)),
        409 => BrokerOutcome::Unclear { status },
        429 => BrokerOutcome::RateLimited { retry_after: retry_after() },
        400..=499 => BrokerOutcome::BadRequest { status },
        503 => BrokerOutcome::ServerError { status, retry_after: retry_after() },
        500..=599 => BrokerOutcome::ServerError { status, retry_after: None },
        _ => BrokerOutcome::Unclear { status },
    }
}

/// Returns whether a 409 response proves that this order was executed, as opposed to being in progress or
/// refused for another reason. A false positive loses an order, whereas a false negative costs one retry.
/// Therefore the key must be the value of the field `idempotency_key`; a key within other text is not accepted.
fn is_evidence(body: &[u8], key: &IdempotencyKey, marker: &str) -> bool {
    let Some(mut answer) = read_object(body) else { return false };
    // The key is removed before the search, so that a key that contains the marker is not evidence.
    let named = answer.remove("idempotency_key");
    if named.as_ref().and_then(Value::as_str) != Some(key.as_str()) {
        return false;
    }
    let marker = marker.trim().to_lowercase();
    let says_so = |text: &str| text.to_lowercase().contains(&marker);
    order_id(&answer).is_some() || (!marker.is_empty() && any_text(&Value::Object(answer), &says_so))
}

fn receipt(body: &[u8], key: &IdempotencyKey) -> Receipt {
    let result_digest = digest_of(body);
    let Some(answer) = read_object(body) else {
        let note = Some("the broker's response is not a JSON object");
        return Receipt { broker_order_id: None, result_digest, result_json: None, note };
    };
    let note = match answer.get("idempotency_key") {
        Some(Value::String(named)) if named == key.as_str() => None,
        Some(_) => Some("the broker's response has another idempotency_key"),
        None => Some("the broker's response has no idempotency_key"),
    };
    let broker_order_id = order_id(&answer);
    // U+0000 is valid in a JSON response, but a JSONB column cannot store it.
    let has_nul = any_text(&Value::Object(answer), &|text| text.contains('\0'));
    let result_json = if has_nul { None } else { JsonText::parse(body, ANSWER_BYTES_MAX).ok() };
    Receipt { broker_order_id, result_digest, result_json, note }
}

type Object = serde_json::Map<String, Value>;

fn read_object(body: &[u8]) -> Option<Object> {
    match serde_json::from_slice(body) {
        Ok(Value::Object(object)) => Some(object),
        Ok(Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_)) | Err(_) => {
            None
        }
    }
}

/// Returns the broker's order id, a string or a number, if it can be stored.
fn order_id(answer: &Object) -> Option<String> {
    let id = match answer.get("broker_order_id")? {
        Value::String(id) => id.clone(),
        Value::Number(id) => id.to_string(),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => return None,
    };
    let fits = (1..=BROKER_ORDER_ID_CHARS_MAX).contains(&id.chars().count());
    (fits && !id.chars().any(char::is_control)).then_some(id)
}

/// Returns whether `test` returns `true` for any string or object key in the value. The recursion depth is
/// limited by the parser.
fn any_text(value: &Value, test: &dyn Fn(&str) -> bool) -> bool {
    match value {
        Value::String(text) => test(text),
        Value::Array(items) => items.iter().any(|item| any_text(item, test)),
        Value::Object(members) => members.iter().any(|(key, item)| test(key) || any_text(item, test)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

#[cfg(test)]
mod tests;
