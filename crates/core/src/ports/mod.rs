//! What each role may ask of a store: one trait a role, with that role's verbs and no others. The
//! stores implement them, the services are handed exactly one.
//!
//! Rules that hold for every verb: it is one transaction, it moves sets, it is bounded by its
//! arguments, and the time it goes by is an argument. Work that nobody may do yet, or that somebody
//! else is doing, is left out of the answer and is no error.

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
    Survey, SurveyRequest, Upkeep, Waiting, WriteAheadLog,
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
pub use stores::{ClockSample, Stores};
pub use subscriptions::{SubscriptionStore, Verification};
pub use worker::{Claim, ClaimedJob, JobReport, Report, Target, WorkerStore};

/// The cause below a store's error, kept for whoever reads the log.
pub type Cause = Box<dyn std::error::Error + Send + Sync>;

/// Why a store did not do what it was asked. The variant says what the caller may do about it.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Nothing was done. The same call may be made again, later.
    #[error("the store could not be reached while {doing}; nothing was done")]
    Unavailable { doing: &'static str, source: Cause },
    /// The connection broke after the commit was asked for: it may have been done, or not.
    #[error("the connection broke while {doing}: it may have been done or not, look before repeating it")]
    OutcomeUnknown { doing: &'static str, source: Cause },
    /// Somebody else's open transaction holds what this needs. Nothing was done.
    #[error("another transaction holds what {doing} needs: try again in a moment")]
    Busy { doing: &'static str, source: Cause },
    /// There is no room left. Nothing was done.
    #[error("the store has no room left while {doing}: free some space, the work goes on by itself")]
    Full { doing: &'static str, source: Cause },
    /// A rule or a right of the database forbids it. Nothing was done; Posthaste never asks for it.
    #[error("the database refused {doing}")]
    Refused { doing: &'static str, source: Cause },
    /// A row holds what Posthaste never wrote.
    #[error("a stored row cannot be read while {doing}: {reason}")]
    Unreadable { doing: &'static str, reason: String },
    /// The store cannot be used as it is; somebody must change something.
    #[error("{what}")]
    Unusable { what: String },
}

impl StoreError {
    /// Whether nothing was done and the same call may be made again.
    pub const fn is_passing(&self) -> bool {
        match self {
            Self::Unavailable { .. } | Self::Busy { .. } | Self::Full { .. } => true,
            Self::OutcomeUnknown { .. }
            | Self::Refused { .. }
            | Self::Unreadable { .. }
            | Self::Unusable { .. } => false,
        }
    }

    /// The same error for a second hearer; of the causes only the text, of all of them.
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

/// An error with its causes, on one line.
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
    fn whoever_hears_it_second_hears_all_causes() {
        let cause = Layer { text: "permission denied for table events", source: None };
        let source = Layer { text: "db error", source: Some(Box::new(cause)) };
        let error = StoreError::Refused { doing: "storing events", source: Box::new(source) };
        let expected = "the database refused storing events: db error: permission denied for table events";
        assert_eq!(chain(&error), expected);
        assert_eq!(chain(&error.flattened()), expected);
    }
}
