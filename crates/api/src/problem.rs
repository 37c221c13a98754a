//! Error responses as problem details (RFC 9457). Errors of handlers and of the store become a [`Problem`]. The cause
//! of a server error is logged and never sent to the client.

use axum::response::{IntoResponse, Response};
use http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, StatusCode};
use posthaste_core::ports::{StoreError, chain};
use posthaste_services::batcher::BatchError;
use serde::Serialize;
use std::error::Error;
use std::fmt;
use utoipa::ToSchema;

pub use kind::ProblemKind;

mod kind;

/// The media type of a [`Problem`].
pub const MEDIA_TYPE: &str = "application/problem+json";
/// The `Retry-After` value of a 503 response, in seconds.
pub const RETRY_AFTER_S: u32 = 1;
/// The maximum number of errors listed in a problem.
pub(crate) const ERRORS_MAX: usize = 20;

/// Problem details (RFC 9457).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[schema(example = json!({
    "type": "tag:posthaste,2026:problem/validation-failed", "title": "Validation failed", "status": 422,
    "detail": "[0].event_type is required", "field": "[0].event_type",
    "errors": [
        {"detail": "[0].event_type is required", "pointer": "#/0/event_type"},
        {"detail": "[2].paylod is not a known field: leave it out, or check its spelling", "pointer": "#/2/paylod"}
    ]
}))]
pub struct Problem {
    /// A URI that identifies the kind of problem. It cannot be dereferenced.
    #[serde(rename = "type")]
    #[schema(value_type = String, format = "uri")]
    pub kind: ProblemKind,
    /// The HTTP status of the response.
    pub status: u16,
    /// The name of the kind of problem.
    pub title: &'static str,
    /// A description of the error and of the accepted values. If there are several errors, the first one.
    pub detail: String,
    /// The field, parameter or header of the first error. Fields of array elements have an index, such as
    /// `[0].event_type`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// The errors in the request; at most 20.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 20)]
    pub errors: Vec<RequestError>,
    /// The value of the `Retry-After` header, in seconds.
    #[serde(skip)]
    pub retry_after_s: Option<u32>,
    /// The cause, for the log only.
    #[serde(skip)]
    pub cause: Option<Box<str>>,
}

/// One error in a request. Exactly one of `pointer`, `parameter` and `header` is present.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct RequestError {
    /// A description of the error and of the accepted values.
    detail: String,
    /// The location in the body, as a JSON pointer in URI fragment form (RFC 6901).
    #[serde(skip_serializing_if = "Option::is_none")]
    pointer: Option<String>,
    /// The name of the path or query parameter.
    #[serde(skip_serializing_if = "Option::is_none")]
    parameter: Option<String>,
    /// The name of the header.
    #[serde(skip_serializing_if = "Option::is_none")]
    header: Option<String>,
}

impl RequestError {
    /// Creates an error at a location in the body, given by its keys and indexes.
    pub(crate) fn in_body(path: &[&str], detail: impl Into<String>) -> Self {
        let pointer = Some(path.iter().fold("#".to_owned(), |pointer, key| pointer + "/" + &escaped(key)));
        Self { detail: detail.into(), pointer, parameter: None, header: None }
    }

    /// Creates an error in a path or query parameter.
    pub(crate) fn in_parameter(name: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { detail: detail.into(), pointer: None, parameter: Some(name.into()), header: None }
    }

    /// Creates an error in a header.
    pub(crate) fn in_header(name: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { detail: detail.into(), pointer: None, parameter: None, header: Some(name.into()) }
    }
}

/// Escapes a key for a JSON pointer, and percent-encodes characters that a URI fragment does not allow.
fn escaped(key: &str) -> String {
    let mut escaped = String::new();
    for byte in key.replace('~', "~0").replace('/', "~1").bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => escaped.push(byte.into()),
            _ => escaped.push_str(&format!("%{byte:02X}")),
        }
    }
    escaped
}

/// The cause of a problem, passed to the log line of the request as a response extension.
#[derive(Debug, Clone)]
pub(crate) struct LoggedCause(pub(crate) Box<str>);

impl Problem {
    /// Creates a problem with the status and title of its kind.
    pub(crate) fn of(kind: ProblemKind, detail: impl Into<String>) -> Self {
        Self {
            kind,
            status: kind.status(),
            title: kind.title(),
            detail: detail.into(),
            field: None,
            errors: Vec::new(),
            retry_after_s: None,
            cause: None,
        }
    }

    /// Creates a problem with a custom title, for dashboard pages.
    pub(crate) fn new(status: u16, title: &'static str, detail: impl Into<String>) -> Self {
        Self { status, title, ..Self::of(ProblemKind::of_status(status), detail) }
    }

    /// Sets the error and the name of the field, parameter or header.
    #[must_use]
    pub(crate) fn at(mut self, field: impl Into<String>, error: RequestError) -> Self {
        self.field = Some(field.into());
        self.errors = vec![error];
        self
    }

    pub(crate) fn malformed(detail: impl Into<String>) -> Self {
        Self::of(ProblemKind::MalformedRequest, detail)
    }

    pub(crate) fn not_found(what: &str) -> Self {
        Self::of(ProblemKind::NotFound, format!("this {what} does not exist"))
    }

    pub(crate) fn conflict(detail: impl Into<String>) -> Self {
        Self::of(ProblemKind::Conflict, detail)
    }

    pub(crate) fn too_large(detail: impl Into<String>) -> Self {
        Self::of(ProblemKind::ContentTooLarge, detail)
    }

    pub(crate) fn unsupported(detail: impl Into<String>) -> Self {
        Self::of(ProblemKind::UnsupportedMediaType, detail)
    }

    /// Creates a problem for an internal error. The cause is only logged.
    pub(crate) fn broken(detail: &str, cause: &dyn fmt::Display) -> Self {
        Self { cause: Some(cause.to_string().into()), ..Self::of(ProblemKind::InternalError, detail) }
    }

    /// Creates a problem for an invalid field of the body.
    pub(crate) fn invalid(field: &str, detail: impl Into<String>) -> Self {
        let detail = detail.into();
        let error = RequestError::in_body(&[field], detail.clone());
        Self::of(ProblemKind::ValidationFailed, detail).at(field, error)
    }

    /// Creates a problem for a body that is invalid as a whole.
    pub(crate) fn invalid_body(detail: impl Into<String>) -> Self {
        let detail = detail.into();
        let error = RequestError::in_body(&[], detail.clone());
        Self::of(ProblemKind::ValidationFailed, detail).at("body", error)
    }

    /// Creates a problem for an invalid path or query parameter.
    pub(crate) fn invalid_parameter(name: &str, detail: impl Into<String>) -> Self {
        let detail = detail.into();
        let error = RequestError::in_parameter(name, detail.clone());
        Self::of(ProblemKind::ValidationFailed, detail).at(name, error)
    }

    /// Creates a problem for an invalid header.
    pub(crate) fn invalid_header(name: &str, detail: impl Into<String>) -> Self {
        let detail = detail.into();
        let error = RequestError::in_header(name, detail.clone());
        Self::of(ProblemKind::ValidationFailed, detail).at(name, error)
    }

    /// Adds the errors of another problem, up to [`ERRORS_MAX`], if both are of the kind `ValidationFailed`.
    pub(crate) fn merge(&mut self, other: Self) {
        if self.kind == ProblemKind::ValidationFailed && other.kind == self.kind {
            self.errors.extend(other.errors);
            self.errors.truncate(ERRORS_MAX);
        }
    }

    /// Creates a problem with status 503 for a request that had no effect and may be retried.
    pub(crate) fn try_again(kind: ProblemKind, detail: impl Into<String>) -> Self {
        Self { retry_after_s: Some(RETRY_AFTER_S), ..Self::of(kind, detail) }
    }

    /// Creates a problem for a status set by the router or the server.
    pub(crate) fn of_status(status: StatusCode) -> Self {
        let kind = ProblemKind::of_status(status.as_u16());
        let detail = "the request cannot be processed in this form";
        Self { status: status.as_u16(), ..Self::of(kind, detail) }
    }
}

/// Collects the validation errors of one request.
#[derive(Debug, Default)]
pub(crate) struct ValidationErrors(Option<Problem>);

impl ValidationErrors {
    pub(crate) fn add(&mut self, problem: Problem) {
        match &mut self.0 {
            Some(first) => first.merge(problem),
            None => self.0 = Some(problem),
        }
    }

    /// Returns the value of a result, or records its error and returns `None`.
    pub(crate) fn check<T>(&mut self, result: Result<T, Problem>) -> Option<T> {
        result.map_err(|problem| self.add(problem)).ok()
    }

    /// Returns whether no more errors can be listed.
    pub(crate) fn is_full(&self) -> bool {
        self.0.as_ref().is_some_and(|first| {
            first.kind != ProblemKind::ValidationFailed || first.errors.len() >= ERRORS_MAX
        })
    }

    /// Returns `Ok` if no error was recorded.
    ///
    /// # Errors
    ///
    /// Returns a problem that lists all recorded errors.
    pub(crate) fn into_result(self) -> Result<(), Problem> {
        self.0.map_or(Ok(()), Err)
    }
}

/// Converts a store error to a problem with a fixed text. The original message may contain hosts, logins and data, and
/// the client may have no key, so it becomes the cause, which is only logged.
impl From<&StoreError> for Problem {
    fn from(error: &StoreError) -> Self {
        let (kind, detail) = match error {
            // An idempotent call whose outcome is unknown is reported like this too, so the text promises nothing.
            StoreError::Unavailable { doing, .. } => (
                ProblemKind::StoreUnavailable,
                format!("the database cannot be reached while {doing}: send the same request again"),
            ),
            StoreError::Busy { doing, .. } => (
                ProblemKind::StoreBusy,
                format!(
                    "another transaction holds a lock that {doing} needs: nothing was changed, try again"
                ),
            ),
            StoreError::Full { doing, .. } => (
                ProblemKind::StoreFull,
                format!("the database has no free space while {doing}: nothing was changed, try again later"),
            ),
            StoreError::OutcomeUnknown { doing, .. } => (
                ProblemKind::OutcomeUnknown,
                format!(
                    "the connection to the database failed while {doing}: check the outcome before repeating it"
                ),
            ),
            StoreError::Unusable { .. } => (ProblemKind::StoreUnavailable, UNUSABLE.to_owned()),
            StoreError::Unreadable { .. } => (ProblemKind::InternalError, UNREADABLE.to_owned()),
            StoreError::Refused { .. } => (ProblemKind::InternalError, REFUSED.to_owned()),
        };
        let cause = match error {
            // These errors have no source; their own text is the cause.
            StoreError::Unusable { .. } | StoreError::Unreadable { .. } => Some(error.to_string()),
            StoreError::Unavailable { .. }
            | StoreError::Busy { .. }
            | StoreError::Full { .. }
            | StoreError::OutcomeUnknown { .. }
            | StoreError::Refused { .. } => error.source().map(chain),
        };
        let retry_after_s = (kind.status() == 503).then_some(RETRY_AFTER_S);
        Self { retry_after_s, cause: cause.map(String::into_boxed_str), ..Self::of(kind, detail) }
    }
}

const UNUSABLE: &str = "the database cannot be used in its present state: the server's log has the cause";
const UNREADABLE: &str = "a stored row cannot be read: the server's log has the cause";
const REFUSED: &str = "the database refused a statement: the server's log has the cause";

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        Self::from(&error)
    }
}

impl From<BatchError> for Problem {
    fn from(error: BatchError) -> Self {
        match error {
            BatchError::Full => Self::try_again(
                ProblemKind::QueueFull,
                "the queue of requests is full: try again in a moment",
            ),
            BatchError::Gone => Self::try_again(
                ProblemKind::OutcomeUnknown,
                "the server is shutting down: send the events again; with an external_event_id each is stored once",
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
mod tests;
