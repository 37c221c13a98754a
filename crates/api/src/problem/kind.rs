//! The kinds of problems, each with its `type`, status and title. Clients may rely on the `type`.

use serde::{Serialize, Serializer};

/// What precedes the name of a kind in the `type` of a problem.
const TYPE_PREFIX: &str = "tag:posthaste,2026:problem/";

macro_rules! kinds {
    ($($(#[doc = $meaning:literal])* $variant:ident = $status:literal $name:literal $title:literal,)*) => {
        /// The kind of a problem.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum ProblemKind {
            $($(#[doc = $meaning])* $variant,)*
        }

        impl ProblemKind {
            /// Every kind, by status.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// Returns the last part of the `type`.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// Returns the HTTP status.
            pub const fn status(self) -> u16 {
                match self { $(Self::$variant => $status,)* }
            }

            /// Returns the title.
            pub const fn title(self) -> &'static str {
                match self { $(Self::$variant => $title,)* }
            }

            /// Returns what the kind means, in a sentence.
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$variant => concat!($($meaning),*),)* }
            }
        }
    };
}

kinds! {
    /// The request is not valid HTTP, JSON or UTF-8, or a required header is missing or wrong.
    MalformedRequest = 400 "malformed-request" "Malformed request",
    /// There is no API key, or it is unknown or revoked.
    Unauthorized = 401 "unauthorized" "Unauthorized",
    /// The API key has a role that does not allow this call.
    Forbidden = 403 "forbidden" "Forbidden",
    /// The resource or the path does not exist.
    NotFound = 404 "not-found" "Not found",
    /// The path exists and does not support this method.
    MethodNotAllowed = 405 "method-not-allowed" "Method not allowed",
    /// The body was not received in time.
    RequestTimeout = 408 "request-timeout" "Request timeout",
    /// The state of the resource does not allow this call.
    Conflict = 409 "conflict" "Conflict",
    /// The body, the payload or the array exceeds its limit.
    ContentTooLarge = 413 "content-too-large" "Content too large",
    /// The content type is not accepted, or the body is compressed.
    UnsupportedMediaType = 415 "unsupported-media-type" "Unsupported media type",
    /// The request is well-formed, and one or more values are not valid; `errors` lists them.
    ValidationFailed = 422 "validation-failed" "Validation failed",
    /// The client address has presented too many unknown API keys.
    TooManyRequests = 429 "too-many-requests" "Too many requests",
    /// A fault of the server. The log has the cause under the `x-request-id` of the response.
    InternalError = 500 "internal-error" "Internal server error",
    /// The database cannot be reached or used.
    StoreUnavailable = 503 "store-unavailable" "Store unavailable",
    /// Another transaction holds a lock that the request needs.
    StoreBusy = 503 "store-busy" "Store busy",
    /// The database has no free space.
    StoreFull = 503 "store-full" "Store full",
    /// The queue of requests to be stored is full.
    QueueFull = 503 "queue-full" "Queue full",
    /// A limit on concurrent requests or on their memory is reached.
    ServerBusy = 503 "server-busy" "Server busy",
    /// The request may have been stored or not. A repetition with the same external id or idempotency key is safe.
    OutcomeUnknown = 503 "outcome-unknown" "Outcome unknown",
    /// The server is not ready (`/readyz`).
    NotReady = 503 "not-ready" "Not ready",
    /// Orders are refused because no broker is configured.
    BrokerNotConfigured = 503 "broker-not-configured" "Broker not configured",
}

impl ProblemKind {
    /// Returns the kind for a status that the router or the server chose.
    pub(super) const fn of_status(status: u16) -> Self {
        match status {
            401 => Self::Unauthorized,
            403 => Self::Forbidden,
            404 => Self::NotFound,
            405 => Self::MethodNotAllowed,
            408 => Self::RequestTimeout,
            409 => Self::Conflict,
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
