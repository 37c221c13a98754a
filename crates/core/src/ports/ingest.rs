//! Port of the role event_ingest_writer: stores events, each external id once.

use super::StoreResult;
use crate::event::{ExternalEventId, NewEvent};
use crate::ids::EventId;
use crate::time::Timestamp;
use std::collections::HashMap;

/// The events of one request: all of them are stored, or none.
pub type IngestRequest = Vec<NewEvent>;

/// The result of storing one event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ingested {
    New(EventId),
    /// An event with that external id was already stored, with this id.
    Duplicate(EventId),
}

/// An external id that was used for two different contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Conflict {
    /// The index in the request of the event that was refused.
    pub place: usize,
    /// The event that has the external id. `None` if it is an earlier event of the same request.
    pub first: Option<EventId>,
}

/// Returns the index of the first event that has the external id of an earlier one but other content.
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

/// The result of one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestOutcome {
    /// Stored durably; one entry per event, in order.
    Stored(Vec<Ingested>),
    /// An open transaction of another session holds one of its external ids: nothing was stored.
    Blocked,
    /// The database refused this request; other requests of the batch are not affected.
    Refused(String),
    /// An external id of the request already identifies other content: nothing was stored.
    Conflict(Conflict),
}

pub trait IngestStore: Send + Sync + 'static {
    /// Stores the requests of many callers in one batch. A request that is blocked, refused or in conflict
    /// does not affect the others.
    fn insert_events(
        &self,
        requests: Vec<IngestRequest>,
        now: Timestamp,
    ) -> impl Future<Output = StoreResult<Vec<RequestOutcome>>> + Send;
}
