//! Role event_ingest_writer: takes events in, each external id once.

use super::StoreResult;
use crate::event::{ExternalEventId, NewEvent};
use crate::ids::EventId;
use crate::time::Timestamp;
use std::collections::HashMap;

/// The events of one caller's request: all of them are stored, or none.
pub type IngestRequest = Vec<NewEvent>;

/// What became of one event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ingested {
    New(EventId),
    /// An event of that external id was there; this is its id.
    Duplicate(EventId),
}

/// An external id that stands for two contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Conflict {
    /// The place in the request of the event that was refused.
    pub place: usize,
    /// The event that has the external id. `None` if it is an earlier event of the same request.
    pub first: Option<EventId>,
}

/// Returns the place of the first event that has the external id of an earlier one, and another content.
pub fn find_own_conflict(request: &[NewEvent]) -> Option<usize> {
    if request.len() < 2 {
        return None;
    }
    let mut first_of: HashMap<&ExternalEventId, &NewEvent> = HashMap::new();
    request.iter().position(|event| match &event.external_event_id {
        Some(external_id) => !first_of.entry(external_id).or_insert(event).has_content_of(event),
        None => false,
    })
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
    /// An external id identifies one content, and one of the request belongs to another: nothing was stored.
    Conflict(Conflict),
}

pub trait IngestStore: Send + Sync + 'static {
    /// Stores the requests of many callers at once; one that is blocked, refused or in conflict stops no other.
    fn insert_events(
        &self,
        requests: Vec<IngestRequest>,
        now: Timestamp,
    ) -> impl Future<Output = StoreResult<Vec<RequestOutcome>>> + Send;
}
