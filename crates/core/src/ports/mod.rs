//! The ports: traits with the operations that each database role may call. Both stores implement them, and a
//! service gets only the port of its role.
//!
//! The work of every operation is bounded, and the current time is an argument. An operation is one
//! transaction, except for `insert_events`, `route_events` and `apply_job_results`, which may use several. Rows
//! that are not ready, or that another process has locked, are omitted from the result and are not an error.

mod announce;
mod cleaner;
mod dead_letter;
mod ingest;
mod insight;
mod key;
mod orchestrator;
mod outbox;
mod presence;
mod reader;
mod router;
mod server;
mod stores;
mod subscriptions;
mod worker;

pub use announce::{AnnounceStore, Announcement, ListenStore, Stage};
pub use cleaner::{CleanerStore, LeaseTake, ResetLease};
pub use dead_letter::{DeadLetterFilter, DeadLetterStore, Requeue};
pub use ingest::{Conflict, IngestRequest, IngestStore, Ingested, RequestOutcome, find_own_conflict};
pub use insight::{
    CHANGES_MAX, COUNTED_MAX, DeadTuples, EXPLAINED_MAX, EngineFacts, Examine, Examined, ExplainedDelivery,
    ExplainedEvent, InsightStore, Observed, OldTransaction, RollupWidth, SAGAS_MAX, SubscriptionHealth,
    SubscriptionTimeout, Survey, SurveyRequest, Upkeep, Waiting, WriteAheadLog,
};
pub use key::{
    ApiKey, FailedSignIns, KeyHash, KeyRole, KeyStore, SESSION_LENGTH, SESSIONS_PER_KEY_MAX, SessionHash,
};
pub use orchestrator::{
    Admitted, AdmittedJob, AppliedResult, DeadLetteredSaga, DueSince, DueSubscriptions, OrchestratorStore,
    Quota, RecentlyDue, RestartedWaits, ResultTake, WaitPage,
};
pub use outbox::{
    ClaimedOrder, ClaimedOrders, LaneStanding, NextOrders, OrderRecord, OrderReport, OutboxClaim,
    OutboxIntakeStore, OutboxWorkerStore, Settled, Submission,
};
pub use presence::{HealthSum, PresenceStore, ProcessSeen, Rollup};
pub use reader::{
    Attempt, AuditEntry, DeadLetter, DeadLetterHead, Delivery, DeliveryFilter, EXAMINED_MAX, EventFilter,
    EventHead, FATES_MAX, Lineage, PAGE_BYTES_MAX, Page, PageRequest, ReaderStore, RequeuedFates,
    RequeuedRange, StoredEvent, SubscriptionFilter,
};
pub use router::{RouteTake, Routed, RouterStore};
pub use server::{
    ConnectedServer, ConnectionLimits, Durability, IdAge, STANDBYS_MAX, ServerFacts, Standby, TlsSession,
    Verified,
};
pub use stores::{ClockSample, Stores};
pub use subscriptions::{
    Created, ResealedSecrets, Rotated, SecretRotation, SigningKeyRotation, SubscriptionStore, Updated,
    Verification,
};
pub use worker::{Claim, ClaimedJob, JobReport, Report, Target, WorkerStore};

/// The underlying error of a [`StoreError`], for the log.
pub type Cause = Box<dyn std::error::Error + Send + Sync>;

/// An error from a store. The variant determines whether the caller may retry.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The store cannot be reached. No change was made. The call may be retried later.
    #[error("store unavailable while {doing}, no change was made")]
    Unavailable { doing: &'static str, source: Cause },
    /// The connection was lost after the commit was requested, so the transaction may or may not have been
    /// committed.
    #[error("connection lost while {doing}, the outcome is unknown: check before repeating it")]
    OutcomeUnknown { doing: &'static str, source: Cause },
    /// An open transaction in another session holds a required lock. No change was made.
    #[error("another transaction holds a lock needed for {doing}, no change was made: try again in a moment")]
    Busy { doing: &'static str, source: Cause },
    /// There is no space left for the database. No change was made.
    #[error(
        "no space left in the store while {doing}, no change was made: free some space, and work resumes"
    )]
    Full { doing: &'static str, source: Cause },
    /// The change violates a constraint, or the database role lacks a privilege. No change was made. Posthaste
    /// never requests such a change in normal operation.
    #[error("the database refused {doing}")]
    Refused { doing: &'static str, source: Cause },
    /// A row contains a value that Posthaste never writes.
    #[error("invalid row in the store while {doing}: {reason}")]
    Unreadable { doing: &'static str, reason: String },
    /// The store cannot be used until an operator fixes the problem.
    #[error("{what}")]
    Unusable { what: String },
}

impl StoreError {
    /// Returns whether the error is transient: no change was made, and the call may be retried.
    pub const fn is_passing(&self) -> bool {
        match self {
            Self::Unavailable { .. } | Self::Busy { .. } | Self::Full { .. } => true,
            Self::OutcomeUnknown { .. }
            | Self::Refused { .. }
            | Self::Unreadable { .. }
            | Self::Unusable { .. } => false,
        }
    }

    /// Returns a copy of the error whose source chain is flattened into one string.
    #[must_use]
    pub fn flattened(&self) -> Self {
        let text = |source: &Cause| chain(&**source).into();
        match self {
            Self::Unavailable { doing, source } => Self::Unavailable { doing, source: text(source) },
            Self::OutcomeUnknown { doing, source } => Self::OutcomeUnknown { doing, source: text(source) },
            Self::Busy { doing, source } => Self::Busy { doing, source: text(source) },
            Self::Full { doing, source } => Self::Full { doing, source: text(source) },
            Self::Refused { doing, source } => Self::Refused { doing, source: text(source) },
            Self::Unreadable { doing, reason } => Self::Unreadable { doing, reason: reason.clone() },
            Self::Unusable { what } => Self::Unusable { what: what.clone() },
        }
    }
}

/// Returns the messages of an error and all its sources, joined by colons.
pub fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

pub type StoreResult<T> = Result<T, StoreError>;

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{text}")]
    struct Layer {
        text: &'static str,
        source: Option<Box<Self>>,
    }

    #[test]
    fn flattened_error_keeps_the_text_of_all_sources() {
        let cause = Layer { text: "permission denied for table events", source: None };
        let source = Layer { text: "db error", source: Some(Box::new(cause)) };
        let error = StoreError::Refused { doing: "storing events", source: Box::new(source) };
        let expected = "the database refused storing events: db error: permission denied for table events";
        assert_eq!(chain(&error), expected);
        assert_eq!(chain(&error.flattened()), expected);
    }
}
