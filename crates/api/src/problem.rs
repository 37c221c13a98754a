//! Answers that say what went wrong and what to do, as RFC 9457 has it. Every error of a store becomes
//! one here; its cause stays in the log.

use posthaste_core::ports::StoreError;
use serde::Serialize;

/// The media type of a [`Problem`].
pub const MEDIA_TYPE: &str = "application/problem+json";
/// How long a caller is asked to wait when the store is away or busy.
pub const RETRY_AFTER_S: u32 = 1;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    pub status: u16,
    pub title: &'static str,
    pub detail: String,
    /// The `Retry-After` header, where trying again may help.
    #[serde(skip)]
    pub retry_after_s: Option<u32>,
}

impl From<&StoreError> for Problem {
    fn from(error: &StoreError) -> Self {
        let (status, title, retry_after_s) = match error {
            StoreError::Unavailable { .. } => (503, "The store is away", Some(RETRY_AFTER_S)),
            StoreError::Busy { .. } => (503, "The store is busy", Some(RETRY_AFTER_S)),
            StoreError::Full { .. } => (503, "The store is full", Some(RETRY_AFTER_S)),
            StoreError::OutcomeUnknown { .. } => {
                (503, "It is not known whether this was stored", Some(RETRY_AFTER_S))
            }
            StoreError::Refused { .. } | StoreError::Unreadable { .. } | StoreError::Unusable { .. } => {
                (500, "The store could not do this", None)
            }
        };
        Self { status, title, detail: error.to_string(), retry_after_s }
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
        let text = serde_json::to_string(&problem).expect("JSON");
        assert!(text.contains("storing events") && !text.contains("10.0.0.7"), "{text}");
    }

    #[test]
    fn a_refusal_is_our_fault_and_not_worth_repeating() {
        let error = StoreError::Refused { doing: "moving sagas", source: "trigger".into() };
        let problem = Problem::from(&error);
        assert_eq!((problem.status, problem.retry_after_s), (500, None));
    }
}
