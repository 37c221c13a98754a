//! The kinds of problems, each with its `type`, status and title. Clients may rely on `type`.

use serde::{Serialize, Serializer};

/// The prefix of `type`, followed by the name of the kind.
const TYPE_PREFIX: &str = "tag:posthaste,2026:problem/";

macro_rules! kinds {
    ($($(#[doc = $meaning:literal])* $variant:ident = $status:literal $name:literal $title:literal,)*) => {
        /// The kind of a problem.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum ProblemKind {
            $($(#[doc = $meaning])* $variant,)*
        }

        impl ProblemKind {
            /// All kinds, ordered by status.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// Returns the name, which is the last part of `type`.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// Returns the HTTP status of the kind.
            pub const fn status(self) -> u16 {
                match self { $(Self::$variant => $status,)* }
            }

            /// Returns the title of the kind.
            pub const fn title(self) -> &'static str {
                match self { $(Self::$variant => $title,)* }
            }

            /// Returns a description of the kind in one sentence.
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$variant => concat!($($meaning),*),)* }
            }
        }
    };
}

kinds! {
    /// The request is not valid HTTP, JSON or UTF-8, or a required header is missing or wrong.
    MalformedRequest = 400 "malformed-request" "Malformed request",
    /// The API key is missing, unknown or revoked.
    Unauthorized = 401 "unauthorized" "Unauthorized",
    /// The role of the API key does not allow this operation.
    Forbidden = 403 "forbidden" "Forbidden",
    /// The resource or the path does not exist.
    NotFound = 404 "not-found" "Not found",
    /// The path exists but does not support this method.
    MethodNotAllowed = 405 "method-not-allowed" "Method not allowed",
    /// The body was not received in time.
    RequestTimeout = 408 "request-timeout" "Request timeout",
    /// The state of the resource does not allow this operation.
    Conflict = 409 "conflict" "Conflict",
    /// The resource is not in the state that `If-Match` or `If-None-Match` requires.
    PreconditionFailed = 412 "precondition-failed" "Precondition failed",
    /// The body, the payload or the array exceeds its limit.
    ContentTooLarge = 413 "content-too-large" "Content too large",
    /// The content type is not accepted, or the body is compressed.
    UnsupportedMediaType = 415 "unsupported-media-type" "Unsupported media type",
    /// The request is well-formed, but one or more values are invalid; `errors` lists them.
    ValidationFailed = 422 "validation-failed" "Validation failed",
    /// The client address has presented too many unknown API keys.
    TooManyRequests = 429 "too-many-requests" "Too many requests",
    /// An internal error. The log contains the cause under the `x-request-id` of the response.
    InternalError = 500 "internal-error" "Internal server error",
    /// The database cannot be reached or used.
    StoreUnavailable = 503 "store-unavailable" "Store unavailable",
    /// Another transaction holds a lock that the request needs.
    StoreBusy = 503 "store-busy" "Store busy",
    /// The database has no free space.
    StoreFull = 503 "store-full" "Store full",
    /// The queue of requests waiting to be stored is full.
    QueueFull = 503 "queue-full" "Queue full",
    /// A limit on concurrent requests or on their memory is reached.
    ServerBusy = 503 "server-busy" "Server busy",
    /// The request may or may not have been stored. A retry with the same external id or idempotency key is safe.
    OutcomeUnknown = 503 "outcome-unknown" "Outcome unknown",
    /// The server is not ready (`/readyz`).
    NotReady = 503 "not-ready" "Not ready",
    /// Orders are rejected because no broker is configured.
    BrokerNotConfigured = 503 "broker-not-configured" "Broker not configured",
}

impl ProblemKind {
    /// Returns the kind for a status set by the router or the server.
    pub(super) const fn of_status(status: u16) -> Self {
        match status {
            401 => Self::Unauthorized,
            403 => Self::Forbidden,
            404 => Self::NotFound,
            405 => Self::MethodNotAllowed,
            408 => Self::RequestTimeout,
            409 => Self::Conflict,
            412 => Self::PreconditionFailed,
            413 => Self::ContentTooLarge,
            415 => Self::UnsupportedMediaType,
            422 => Self::ValidationFailed,
            429 => Self::TooManyRequests,
            503 => Self::ServerBusy,
            500..=599 => Self::InternalError,
            _ => Self::MalformedRequest,
        }
    }
}

impl Serialize for ProblemKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{TYPE_PREFIX}{}", self.name()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_and_titles_are_unique() {
        let names: BTreeSet<&str> = ProblemKind::ALL.iter().map(|kind| kind.name()).collect();
        let titles: BTreeSet<&str> = ProblemKind::ALL.iter().map(|kind| kind.title()).collect();
        assert_eq!((names.len(), titles.len()), (ProblemKind::ALL.len(), ProblemKind::ALL.len()));
    }

    #[test]
    fn a_status_has_a_kind_of_that_status() {
        for kind in ProblemKind::ALL {
            assert_eq!(ProblemKind::of_status(kind.status()).status(), kind.status(), "{kind:?}");
        }
    }
}
