//! Role event_ingest_writer: takes events in, each external id once.

use super::StoreResult;
use crate::event::NewEvent;
use crate::ids::EventId;
use crate::time::Timestamp;

/// The events of one caller's request: all of them are stored, or none.
pub type IngestRequest = Vec<NewEvent>;

/// What became of one event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ingested {
    New(EventId),
    /// An event of that external id was there; this is its id.
    Duplicate(EventId),
}

/// What became of one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestOutcome {
    /// Stored durably; one entry for each event, in order.
    Stored(Vec<Ingested>),
    /// Somebody's open transaction holds one of its external ids: nothing was stored.
    Blocked,
    /// The database refuses this request alone, whatever else was in the batch.
    Refused(String),
}

pub trait IngestStore: Send + Sync + 'static {
    /// Stores the requests of many callers at once; one that is blocked or refused stops no other.
    fn insert_events(
        &self,
        requests: Vec<IngestRequest>,
        now: Timestamp,
    ) -> impl Future<Output = StoreResult<Vec<RequestOutcome>>> + Send;
}
