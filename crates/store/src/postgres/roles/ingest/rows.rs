//! The insertion order of events in a group, and the mapping from inserted rows to events.

use crate::remote::Fault;
use posthaste_core::EventId;
use posthaste_core::event::NewEvent;
use posthaste_core::ports::{Conflict, Ingested};
use std::collections::HashMap;

pub(super) fn is_unnamed(event: &NewEvent) -> bool {
    event.external_event_id.is_none()
}

/// The ids of the rows that a statement inserted or found.
#[derive(Default)]
pub(super) struct Ids {
    /// The ids of rows without an external id, in ascending order, which is their insertion order.
    pub(super) unnamed: Vec<i64>,
    pub(super) new: HashMap<String, i64>,
    pub(super) known: HashMap<String, Known>,
}

/// An event that is already stored.
#[derive(Debug, Clone, Copy)]
pub(super) struct Known {
    pub(super) id: i64,
    /// Whether the stored event has the same type and payload as the new event.
    pub(super) is_same: bool,
}

impl Known {
    /// Returns the conflict for the event at `place` in its request, or `None` if the contents are equal.
    pub(super) fn conflict(self, place: usize) -> Option<Conflict> {
        (!self.is_same).then(|| Conflict { place, first: Some(EventId::from_store(self.id)) })
    }
}

impl Ids {
    /// Adds the results of comparing `events` with stored events.
    pub(super) fn extend(&mut self, events: &[&NewEvent], found: Vec<Option<Known>>) {
        let names =
            events.iter().map(|event| event.external_event_id.as_ref().map(|name| name.as_str().to_owned()));
        self.known.extend(names.zip(found).filter_map(|(name, known)| Some((name?, known?))));
    }
}

/// The result for one event: new or duplicate, or the id of the stored event that has the same external id but
/// different content.
pub(super) type Answer = Result<Ingested, EventId>;

/// The insertion order of a group: events without an external id in input order, then each external id once, sorted, so
/// that two batches cannot deadlock. All events with the same external id in a group have the same content.
pub(super) struct Rows {
    pub(super) order: Vec<usize>,
}

impl Rows {
    pub(super) fn arrange(events: &[&NewEvent]) -> Self {
        let mut order: Vec<usize> = (0..events.len()).filter(|&i| is_unnamed(events[i])).collect();
        let mut named: Vec<usize> = (0..events.len()).filter(|&i| !is_unnamed(events[i])).collect();
        named.sort_by_key(|&i| (&events[i].external_event_id, i));
        named.dedup_by_key(|i| &events[*i].external_event_id);
        order.extend(named);
        Self { order }
    }

    /// Returns the events with an external id that were not inserted, because they are already stored.
    pub(super) fn missing<'e>(&self, events: &[&'e NewEvent], ids: &Ids) -> Vec<&'e NewEvent> {
        let is_missing = |event: &&NewEvent| match &event.external_event_id {
            Some(name) => !ids.new.contains_key(name.as_str()),
            None => false,
        };
        self.order.iter().map(|&i| events[i]).filter(is_missing).collect()
    }

    /// Returns one result per event, in input order. If several events have the same new external id, the first is new
    /// and the others are duplicates.
    pub(super) fn answers(&self, events: &[&NewEvent], ids: &Ids) -> Result<Vec<Answer>, Fault> {
        let mut unnamed = ids.unnamed.iter();
        let mut first_of: HashMap<&str, usize> = HashMap::new();
        let mut answers = Vec::with_capacity(events.len());
        for (index, event) in events.iter().enumerate() {
            let Some(name) = event.external_event_id.as_ref().map(|name| name.as_str()) else {
                let id = unnamed.next().ok_or_else(|| lost_row("without an external id"))?;
                answers.push(Ok(Ingested::New(EventId::from_store(*id))));
                continue;
            };
            let first = *first_of.entry(name).or_insert(index);
            let answer = match (ids.new.get(name), ids.known.get(name)) {
                (Some(id), _) if first == index => Ok(Ingested::New(EventId::from_store(*id))),
                (Some(id), _) | (None, Some(Known { id, is_same: true })) => {
                    Ok(Ingested::Duplicate(EventId::from_store(*id)))
                }
                (None, Some(Known { id, is_same: false })) => Err(EventId::from_store(*id)),
                (None, None) => return Err(lost_row(name)),
            };
            answers.push(answer);
        }
        Ok(answers)
    }
}

fn lost_row(name: &str) -> Fault {
    Fault::Unreadable(format!("the event {name:?} was neither stored nor found"))
}
