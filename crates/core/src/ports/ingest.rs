//! Port of the role event_ingest_writer: stores events, at most one for each external id.

use super::StoreResult;
use crate::event::{ExternalEventId, NewEvent};
use crate::ids::EventId;
use crate::time::Timestamp;
use std::collections::HashMap;

/// The events of one request, which are stored atomically: either all of them or none.
pub type IngestRequest = Vec<NewEvent>;

/// The result of storing one event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ingested {
    New(EventId),
    /// An event with the same external id was already stored. Contains its id.
    Duplicate(EventId),
}

/// An external id that was used for events with different content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Conflict {
    /// The index of the refused event in the request.
    pub place: usize,
    /// The stored event with the same external id, or `None` if it is an earlier event in the same request.
    pub first: Option<EventId>,
}

/// Returns the index of the first event that has the same external id as an earlier event in the request but
/// different content.
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
    /// All events were stored durably. Contains one entry per event, in order.
    Stored(Vec<Ingested>),
    /// An open transaction in another session has inserted one of the external ids. No event was stored.
    Blocked,
    /// The database refused this request. Other requests in the batch are not affected.
    Refused(String),
    /// An external id in the request is already used for different content. No event was stored.
    Conflict(Conflict),
}

pub trait IngestStore: Send + Sync + 'static {
    /// Stores the requests of several callers in one batch. Returns the outcomes in the order of `requests`. A
    /// request that is blocked, refused or in conflict does not affect other requests.
    fn insert_events(
        &self,
        requests: Vec<IngestRequest>,
        now: Timestamp,
    ) -> impl Future<Output = StoreResult<Vec<RequestOutcome>>> + Send;
}
