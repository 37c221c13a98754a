//! The outcome of an attempt to deliver an event, and its error code. The worker creates the outcome from the
//! HTTP exchange and stores it in the job, where the orchestrator reads it.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use crate::retry::parse_retry_after;
use crate::time::Timestamp;

/// The maximum length of an error code, in characters.
pub const ERROR_CODE_CHARS_MAX: usize = 100;

/// The reason for a failed attempt: a stable, machine-readable code such as `HTTP_503`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ErrorCode(Cow<'static, str>);

/// An error from parsing an error code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an error code must be 1 to {ERROR_CODE_CHARS_MAX} characters of A-Z, 0-9 and _")]
pub struct BadErrorCode;

impl ErrorCode {
    pub fn parse(code: impl Into<String>) -> Result<Self, BadErrorCode> {
        let code = code.into();
        let fits = (1..=ERROR_CODE_CHARS_MAX).contains(&code.len());
        let plain = code.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_');
        if fits && plain { Ok(Self(Cow::Owned(code))) } else { Err(BadErrorCode) }
    }

    /// Creates a code from stored text, without validation.
    pub const fn from_store(code: String) -> Self {
        Self(Cow::Owned(code))
    }

    /// Creates a code from a constant. Tests validate each constant with [`ErrorCode::parse`].
    pub(crate) const fn known(code: &'static str) -> Self {
        Self(Cow::Borrowed(code))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the value of [`Failure::answered`] for the failure that has this code.
    pub fn answered(&self) -> Option<bool> {
        match self.as_str() {
            TIMEOUT | CONNECT_FAILED | AUTH_FAILED => Some(false),
            code => {
                let status = code.strip_prefix(HTTP_PREFIX)?;
                (!status.is_empty() && status.bytes().all(|b| b.is_ascii_digit())).then_some(true)
            }
        }
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

const HTTP_PREFIX: &str = "HTTP_";
const TIMEOUT: &str = "TIMEOUT";
const CONNECT_FAILED: &str = "CONNECT_FAILED";
const AUTH_FAILED: &str = "AUTH_FAILED";

/// The reason for a failed attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Failure {
    /// An HTTP response with a status other than 2xx.
    Http(u16),
    /// The request did not complete within its timeout.
    Timeout,
    /// The connection could not be established, or was lost before the response.
    ConnectFailed,
    DnsFailed,
    TlsFailed,
    /// The address policy refused the address.
    BlockedAddress,
    /// The response is not valid HTTP, or its header section is too long.
    ResponseInvalid,
    /// The callback URL is not verified. Nothing was sent.
    NotVerified,
    /// The lease of the job expired too many times. The cleaner reports this failure.
    LeaseExpired,
    /// The event does not exist.
    EventGone,
    /// The subscription does not exist or was deleted.
    SubscriptionGone,
    /// The signing secret cannot be decrypted with the configured key.
    SecretUnreadable,
    /// The stored callback URL is invalid according to the current rules.
    UrlInvalid,
    /// The access token for the request could not be obtained. Nothing was sent to the receiver.
    AuthFailed,
    /// The stored credentials of the request, such as a client certificate, cannot be used. Nothing was sent.
    CredentialsInvalid,
}

impl Failure {
    /// All failures, with one example status for `Http`.
    pub const ALL: [Self; 15] = [
        Self::Http(503),
        Self::Timeout,
        Self::ConnectFailed,
        Self::DnsFailed,
        Self::TlsFailed,
        Self::BlockedAddress,
        Self::ResponseInvalid,
        Self::NotVerified,
        Self::LeaseExpired,
        Self::EventGone,
        Self::SubscriptionGone,
        Self::SecretUnreadable,
        Self::UrlInvalid,
        Self::AuthFailed,
        Self::CredentialsInvalid,
    ];

    pub fn code(self) -> ErrorCode {
        let word = match self {
            Self::Http(status) => return ErrorCode(Cow::Owned(format!("{HTTP_PREFIX}{status}"))),
            Self::Timeout => TIMEOUT,
            Self::ConnectFailed => CONNECT_FAILED,
            Self::DnsFailed => "DNS_FAILED",
            Self::TlsFailed => "TLS_FAILED",
            Self::BlockedAddress => "BLOCKED_ADDRESS",
            Self::ResponseInvalid => "RESPONSE_INVALID",
            Self::NotVerified => "NOT_VERIFIED",
            Self::LeaseExpired => "LEASE_EXPIRED",
            Self::EventGone => "EVENT_GONE",
            Self::SubscriptionGone => "SUBSCRIPTION_GONE",
            Self::SecretUnreadable => "SECRET_UNREADABLE",
            Self::UrlInvalid => "URL_INVALID",
            Self::AuthFailed => AUTH_FAILED,
            Self::CredentialsInvalid => "CREDENTIALS_INVALID",
        };
        ErrorCode::known(word)
    }

    /// Returns `Some(true)` if the receiver sent an HTTP response, including an HTTP error, `Some(false)` if it
    /// did not respond, or `None` if the failure is unrelated to the load on the receiver. A missing access
    /// token counts as no response: attempts that wait for a slow token endpoint occupy slots like those that
    /// wait for a slow receiver.
    pub const fn answered(self) -> Option<bool> {
        match self {
            Self::Http(_) => Some(true),
            Self::Timeout | Self::ConnectFailed | Self::AuthFailed => Some(false),
            Self::DnsFailed
            | Self::TlsFailed
            | Self::BlockedAddress
            | Self::ResponseInvalid
            | Self::NotVerified
            | Self::LeaseExpired
            | Self::EventGone
            | Self::SubscriptionGone
            | Self::SecretUnreadable
            | Self::UrlInvalid
            | Self::CredentialsInvalid => None,
        }
    }
}

/// The outcome of one attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttemptOutcome {
    Delivered { status: u16 },
    Failed { failure: Failure, status: Option<u16>, retry_after: Option<Duration> },
}

impl AttemptOutcome {
    /// Creates a failed outcome without a response.
    pub const fn failed(failure: Failure) -> Self {
        Self::Failed { failure, status: None, retry_after: None }
    }

    /// Returns the HTTP status, or `None` if there was no response.
    pub const fn status(&self) -> Option<u16> {
        match self {
            Self::Delivered { status } => Some(*status),
            Self::Failed { status, .. } => *status,
        }
    }

    /// Returns the error code, or `None` for a successful delivery.
    pub fn code(&self) -> Option<ErrorCode> {
        match self {
            Self::Delivered { .. } => None,
            Self::Failed { failure, .. } => Some(failure.code()),
        }
    }

    /// Returns the delay that the receiver requested, in seconds, rounded up so that the retry is not too
    /// early.
    pub fn retry_after_s(&self) -> Option<u32> {
        match self {
            Self::Delivered { .. } | Self::Failed { retry_after: None, .. } => None,
            Self::Failed { retry_after: Some(wait), .. } => {
                let seconds = wait.as_secs().saturating_add(u64::from(wait.subsec_nanos() > 0));
                Some(u32::try_from(seconds).unwrap_or(u32::MAX))
            }
        }
    }

    /// Returns the value of [`Failure::answered`], or `Some(true)` for a successful delivery.
    pub const fn answered(&self) -> Option<bool> {
        match self {
            Self::Delivered { .. } => Some(true),
            Self::Failed { failure, .. } => failure.answered(),
        }
    }
}

/// Classifies a response by its status. `Retry-After` is used only with 429 and 503; it has a different meaning
/// with other statuses, such as redirects.
pub fn classify(status: u16, retry_after_header: Option<&[u8]>, now: Timestamp) -> AttemptOutcome {
    let retry_after = match status {
        200..=299 => return AttemptOutcome::Delivered { status },
        429 | 503 => retry_after_header.and_then(|header| parse_retry_after(header, now)),
        _ => None,
    };
    AttemptOutcome::Failed { failure: Failure::Http(status), status: Some(status), retry_after }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_failure_has_a_code_and_shows_whether_the_receiver_responded() {
        let rows = [
            (Failure::Http(503), "HTTP_503", Some(true)),
            (Failure::Http(0), "HTTP_0", Some(true)),
            (Failure::Http(u16::MAX), "HTTP_65535", Some(true)),
            (Failure::Timeout, "TIMEOUT", Some(false)),
            (Failure::ConnectFailed, "CONNECT_FAILED", Some(false)),
            (Failure::DnsFailed, "DNS_FAILED", None),
            (Failure::TlsFailed, "TLS_FAILED", None),
            (Failure::BlockedAddress, "BLOCKED_ADDRESS", None),
            (Failure::ResponseInvalid, "RESPONSE_INVALID", None),
            (Failure::NotVerified, "NOT_VERIFIED", None),
            (Failure::LeaseExpired, "LEASE_EXPIRED", None),
            (Failure::EventGone, "EVENT_GONE", None),
            (Failure::SubscriptionGone, "SUBSCRIPTION_GONE", None),
            (Failure::SecretUnreadable, "SECRET_UNREADABLE", None),
            (Failure::UrlInvalid, "URL_INVALID", None),
            (Failure::AuthFailed, "AUTH_FAILED", Some(false)),
            (Failure::CredentialsInvalid, "CREDENTIALS_INVALID", None),
        ];
        assert!(Failure::ALL.iter().all(|failure| rows.iter().any(|(listed, ..)| listed == failure)));
        for (failure, code, answered) in rows {
            assert_eq!(failure.code().as_str(), code);
            assert_eq!(ErrorCode::parse(code), Ok(failure.code()));
            assert_eq!(failure.answered(), answered, "{code}");
            assert_eq!(ErrorCode::from_store(code.into()).answered(), answered, "{code}, stored");
            assert_eq!(AttemptOutcome::failed(failure).answered(), answered, "{code}, as an outcome");
        }
    }

    #[test]
    fn error_code_is_validated() {
        for good in ["A", "HTTP_503", "_", "7", &"X".repeat(100)] {
            assert_eq!(ErrorCode::parse(good).map(|code| code.to_string()), Ok(good.to_owned()));
        }
        for bad in ["", "http_503", "HTTP 503", "HTTP-503", "É", "A\0", &"X".repeat(101)] {
            assert_eq!(ErrorCode::parse(bad), Err(BadErrorCode), "{bad:?}");
        }
    }

    #[test]
    fn malformed_http_codes_say_nothing_about_the_receiver() {
        for code in ["HTTP_", "HTTP_X", "HTTP_5_3", "HTTP", "TIMEOUTS", ""] {
            assert_eq!(ErrorCode::from_store(code.into()).answered(), None, "{code}");
        }
    }

    #[test]
    fn outcome_depends_on_the_status() {
        let failed = |status, retry_after: Option<u64>| AttemptOutcome::Failed {
            failure: Failure::Http(status),
            status: Some(status),
            retry_after: retry_after.map(Duration::from_secs),
        };
        let delivered = |status| AttemptOutcome::Delivered { status };
        let rows: &[(u16, Option<&[u8]>, AttemptOutcome)] = &[
            (200, None, delivered(200)),
            (204, Some(b"60"), delivered(204)),
            (299, None, delivered(299)),
            (199, None, failed(199, None)),
            (300, None, failed(300, None)),
            (301, Some(b"60"), failed(301, None)),
            (404, None, failed(404, None)),
            (410, Some(b"60"), failed(410, None)),
            (429, None, failed(429, None)),
            (429, Some(b"60"), failed(429, Some(60))),
            (429, Some(b"soon"), failed(429, None)),
            (500, Some(b"60"), failed(500, None)),
            (503, Some(b" 99999 "), failed(503, Some(3600))),
            (503, Some(b"Thu, 01 Jan 1970 00:01:40 GMT"), failed(503, Some(100))),
            (999, None, failed(999, None)),
        ];
        for (status, header, expected) in rows {
            let outcome = classify(*status, *header, Timestamp::from_micros(0));
            assert_eq!(outcome, *expected, "{status} {header:?}");
            assert_eq!(outcome.status(), Some(*status));
            assert_eq!(outcome.answered(), Some(true));
            assert_eq!(outcome.code().is_none(), (200..300).contains(status));
        }
    }
}
