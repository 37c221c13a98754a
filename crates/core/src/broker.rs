//! What a broker's answer, or its silence, means for an order. [`classify_answer`] is the one table of
//! outcomes: the adapter feeds it, [`crate::order::step`] and [`crate::lane::Lane::after`] act on it.

use std::time::Duration;

use serde_json::Value;

use crate::digest::{Digest, digest_of};
use crate::json::JsonText;
use crate::order::IdempotencyKey;
use crate::outcome::ErrorCode;
use crate::retry::parse_retry_after;
use crate::time::Timestamp;

/// The most of a broker's answer that is read.
pub const ANSWER_BYTES_MAX: usize = 65_536;

/// The longest order id of a broker that is kept, in characters.
pub const BROKER_ORDER_ID_CHARS_MAX: usize = 200;

/// The words by which a broker says that it has executed this very order before.
pub const PROCESSED_MARKER: &str = "already processed";

pub const NETWORK_TIMEOUT: ErrorCode = ErrorCode::known("NETWORK_TIMEOUT");
pub const BROKER_5XX: ErrorCode = ErrorCode::known("BROKER_5XX");
pub const RATE_LIMITED: ErrorCode = ErrorCode::known("RATE_LIMITED");
pub const BAD_REQUEST: ErrorCode = ErrorCode::known("BAD_REQUEST");
pub const UNAUTHORIZED: ErrorCode = ErrorCode::known("UNAUTHORIZED");
pub const CONFLICT_PROCESSED: ErrorCode = ErrorCode::known("CONFLICT_PROCESSED");
pub const UNKNOWN: ErrorCode = ErrorCode::known("UNKNOWN");

/// What came of sending one order once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BrokerOutcome {
    /// 2xx: the broker has it.
    Accepted(Receipt),
    /// 409 with evidence that an earlier send of this order was executed.
    AlreadyProcessed(Receipt),
    /// 429: not executed, and we are to slow down.
    RateLimited { retry_after: Option<Duration> },
    /// 5xx: perhaps executed.
    ServerError { status: u16, retry_after: Option<Duration> },
    /// 408: the broker waited for us, or for something behind it; perhaps executed.
    AnsweredTimeout,
    /// A status that says neither yes nor no, such as 3xx, or 409 without evidence: perhaps executed.
    Unclear { status: u16 },
    /// 401 or 403: our credentials were refused, and the order not looked at.
    Unauthorized { status: u16 },
    /// Any other 4xx: the order was refused for what it is.
    BadRequest { status: u16 },
    /// No answer that could be read.
    NoAnswer(BrokerFault),
}

/// What is kept of an answer that settles an order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receipt {
    pub broker_order_id: Option<String>,
    /// Over the bytes as they came.
    pub result_digest: Digest,
    /// The answer, if it is JSON that both engines can keep.
    pub result_json: Option<JsonText>,
    /// What is odd about the answer, for the audit.
    pub note: Option<&'static str>,
}

/// Why there was no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BrokerFault {
    /// Refused or unreachable: nothing was sent.
    ConnectFailed,
    DnsFailed,
    TlsFailed,
    /// The address policy does not let us connect there.
    BlockedAddress,
    /// The deadline passed; `bytes_written` tells whether any of the request had gone out.
    TimedOut {
        bytes_written: bool,
    },
    /// The connection broke off.
    Reset {
        bytes_written: bool,
    },
    /// What came back is not HTTP, or more of it than we read.
    Unreadable,
}

impl BrokerFault {
    /// Whether the broker may have had the whole order. It cannot have executed what never left.
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

    /// The code covers many causes; the audit names the one.
    pub const fn note(self) -> &'static str {
        match self {
            Self::ConnectFailed => "no connection to the broker",
            Self::DnsFailed => "the broker's name did not resolve",
            Self::TlsFailed => "no TLS session with the broker",
            Self::BlockedAddress => "the address policy refuses the broker's address",
            Self::TimedOut { bytes_written: false } => "the deadline passed before anything was sent",
            Self::TimedOut { bytes_written: true } => "the deadline passed after the order was sent",
            Self::Reset { bytes_written: false } => "the connection broke before anything was sent",
            Self::Reset { bytes_written: true } => "the connection broke after the order was sent",
            Self::Unreadable => "the broker's answer is not HTTP that we read",
        }
    }
}

impl BrokerOutcome {
    /// The code for `last_error`; a plain acceptance has none.
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

    /// Whether this send, of which no acceptance is known, may nevertheless have been executed.
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

    /// How long the broker asks us to wait.
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

    /// What the audit should say beside the code.
    pub fn note(&self) -> Option<String> {
        match self {
            Self::Accepted(receipt) | Self::AlreadyProcessed(receipt) => receipt.note.map(str::to_owned),
            Self::ServerError { status, .. }
            | Self::Unauthorized { status }
            | Self::BadRequest { status } => Some(format!("the broker answered {status}")),
            Self::Unclear { status: 409 } => {
                Some("the broker answered 409 without evidence that it has this order".to_owned())
            }
            Self::Unclear { status } => Some(format!("the broker answered {status}")),
            Self::AnsweredTimeout => Some("the broker answered 408".to_owned()),
            Self::RateLimited { .. } => None,
            Self::NoAnswer(fault) => Some(fault.note().to_owned()),
        }
    }
}

/// Judges an answer. `body` is what was read of it, `marker` the broker's words for "done before".
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

/// Whether a 409 shows that this very order was executed, rather than that it is under way or that
/// something else is wrong. To believe it wrongly loses an order, to doubt it wrongly costs a retry: so
/// we doubt, and the key counts only as a field of its own, where it cannot be a part of other text.
fn is_evidence(body: &[u8], key: &IdempotencyKey, marker: &str) -> bool {
    let Some(mut answer) = read_object(body) else { return false };
    // Taken out, so that a key that contains the marker does not speak for the broker.
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
        let note = Some("the broker's answer is not a JSON object");
        return Receipt { broker_order_id: None, result_digest, result_json: None, note };
    };
    let note = match answer.get("idempotency_key") {
        Some(Value::String(named)) if named == key.as_str() => None,
        Some(_) => Some("the broker's answer names another idempotency_key"),
        None => Some("the broker's answer names no idempotency_key"),
    };
    let broker_order_id = order_id(&answer);
    // Valid in an answer, but not in a JSONB column.
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

/// The broker's id of the order, if it is one that a column can hold. Some brokers number theirs.
fn order_id(answer: &Object) -> Option<String> {
    let id = match answer.get("broker_order_id")? {
        Value::String(id) => id.clone(),
        Value::Number(id) => id.to_string(),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => return None,
    };
    let fits = (1..=BROKER_ORDER_ID_CHARS_MAX).contains(&id.chars().count());
    (fits && !id.chars().any(char::is_control)).then_some(id)
}

/// Whether any text in the value, keys too, passes the test. As deep as the parser let it be.
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
