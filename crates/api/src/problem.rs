//! Answers that say what went wrong and what to do, as RFC 9457 has it. Every error of a store becomes
//! one here; its cause stays in the log.

use axum::response::{IntoResponse, Response};
use http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, StatusCode};
use posthaste_core::ports::{StoreError, chain};
use posthaste_services::batcher::BatchError;
use serde::Serialize;
use std::error::Error;
use std::fmt;
use utoipa::ToSchema;

/// The media type of a [`Problem`].
pub const MEDIA_TYPE: &str = "application/problem+json";
/// How long a caller is asked to wait when the store is away or busy.
pub const RETRY_AFTER_S: u32 = 1;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[schema(example = json!({
    "status": 422, "title": "Not valid", "detail": "event_type is missing", "field": "event_type"
}))]
pub struct Problem {
    pub status: u16,
    pub title: &'static str,
    pub detail: String,
    /// The field, parameter or header that is wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// The `Retry-After` header, where trying again may help.
    #[serde(skip)]
    pub retry_after_s: Option<u32>,
    /// What lies behind it: for the log, never for the caller.
    #[serde(skip)]
    pub cause: Option<String>,
}

/// A cause on its way to the log line of its request.
#[derive(Debug, Clone)]
pub(crate) struct LoggedCause(pub(crate) String);

impl Problem {
    pub fn new(status: u16, title: &'static str, detail: impl Into<String>) -> Self {
        Self { status, title, detail: detail.into(), field: None, retry_after_s: None, cause: None }
    }

    pub(crate) fn unreadable(detail: impl Into<String>) -> Self {
        Self::new(400, "The request cannot be read", detail)
    }

    pub(crate) fn not_found(what: &str) -> Self {
        Self::new(404, "Not found", format!("there is no such {what}"))
    }

    pub(crate) fn conflict(detail: impl Into<String>) -> Self {
        Self::new(409, "Not possible as things stand", detail)
    }

    pub(crate) fn too_large(detail: impl Into<String>) -> Self {
        Self::new(413, "Too large", detail)
    }

    pub(crate) fn unsupported(detail: impl Into<String>) -> Self {
        Self::new(415, "Not supported", detail)
    }

    /// A fault of ours. The cause is for the log.
    pub(crate) fn broken(detail: &str, cause: &dyn fmt::Display) -> Self {
        Self { cause: Some(cause.to_string()), ..Self::new(500, "Something broke", detail) }
    }

    /// What can be read and is wrong.
    pub(crate) fn invalid(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { field: Some(field.into()), ..Self::new(422, "Not valid", detail) }
    }

    /// Nothing was done; the same request may be made again.
    pub(crate) fn try_again(title: &'static str, detail: impl Into<String>) -> Self {
        Self { retry_after_s: Some(RETRY_AFTER_S), ..Self::new(503, title, detail) }
    }

    /// A status that nobody explained.
    pub(crate) fn of_status(status: StatusCode) -> Self {
        let title = status.canonical_reason().unwrap_or("The request failed");
        Self::new(status.as_u16(), title, "the request cannot be answered as it is")
    }
}

/// Every text is fixed: what the database said may name hosts, logins and rows, and the caller may have no key. It
/// goes to the log, as the cause.
impl From<&StoreError> for Problem {
    fn from(error: &StoreError) -> Self {
        let (status, title, detail) = match error {
            StoreError::Unavailable { .. } => (503, "The store is away", error.to_string()),
            StoreError::Busy { .. } => (503, "The store is busy", error.to_string()),
            StoreError::Full { .. } => (503, "The store is full", error.to_string()),
            StoreError::OutcomeUnknown { .. } => {
                (503, "It is not known whether this was stored", error.to_string())
            }
            StoreError::Unusable { .. } => (503, "The store is away", UNUSABLE.to_owned()),
            StoreError::Unreadable { .. } => (500, "The store could not do this", UNREADABLE.to_owned()),
            StoreError::Refused { .. } => (500, "The store could not do this", error.to_string()),
        };
        let cause = match error {
            // The text of the others consists of what was being done, and their source says why it failed.
            StoreError::Unusable { .. } | StoreError::Unreadable { .. } => Some(error.to_string()),
            StoreError::Unavailable { .. }
            | StoreError::Busy { .. }
            | StoreError::Full { .. }
            | StoreError::OutcomeUnknown { .. }
            | StoreError::Refused { .. } => error.source().map(chain),
        };
        let retry_after_s = (status == 503).then_some(RETRY_AFTER_S);
        Self { retry_after_s, cause, ..Self::new(status, title, detail) }
    }
}

const UNUSABLE: &str = "the database cannot be used as it is: the server's log has the cause";
const UNREADABLE: &str = "a stored row cannot be read: the server's log has the cause";

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        Self::from(&error)
    }
}

impl From<BatchError> for Problem {
    fn from(error: BatchError) -> Self {
        match error {
            BatchError::Full => Self::try_again("Too much waits already", "try again in a moment"),
            BatchError::Gone => Self::try_again(
                "It is not known whether this was stored",
                "the server is stopping; send it again, with an external_event_id it is stored once",
            ),
            BatchError::Failed(error) => Self::from(&*error),
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let text = serde_json::to_vec(&self).unwrap_or_default();
        let mut response = (status, text).into_response();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
        if let Some(seconds) = self.retry_after_s {
            headers.insert(RETRY_AFTER, seconds.into());
        }
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Some(cause) = self.cause {
            response.extensions_mut().insert(LoggedCause(cause));
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_that_is_away_asks_to_come_back_and_hides_the_cause() {
        let cause = "connection to 10.0.0.7 refused".into();
        let error = StoreError::Unavailable { doing: "storing events", source: cause };
        let problem = Problem::from(&error);
        assert_eq!((problem.status, problem.retry_after_s), (503, Some(1)));
        assert_eq!(problem.cause.as_deref(), Some("connection to 10.0.0.7 refused"));
        let text = serde_json::to_string(&problem).expect("JSON");
        assert!(text.contains("storing events") && !text.contains("10.0.0.7"), "{text}");
    }

    #[test]
    fn what_the_database_said_stays_in_the_log() {
        let text = "no pg_hba.conf entry for host \"10.0.0.7\", user \"keys\"";
        let unusable = StoreError::Unusable { what: text.to_owned() };
        let unreadable = StoreError::Unreadable { doing: "listing keys", reason: text.to_owned() };
        for (error, status) in [(unusable, 503), (unreadable, 500)] {
            let problem = Problem::from(&error);
            assert_eq!((problem.status, problem.retry_after_s), (status, (status == 503).then_some(1)));
            assert!(problem.cause.as_deref().is_some_and(|cause| cause.contains(text)), "{problem:?}");
            let shown = serde_json::to_string(&problem).expect("JSON");
            assert!(!shown.contains("pg_hba") && !shown.contains("10.0.0.7"), "{shown}");
        }
    }

    #[test]
    fn a_refusal_is_our_fault_and_not_worth_repeating() {
        let error = StoreError::Refused { doing: "moving sagas", source: "trigger".into() };
        let problem = Problem::from(&error);
        assert_eq!((problem.status, problem.retry_after_s), (500, None));
    }
}
