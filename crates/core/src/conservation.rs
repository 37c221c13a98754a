//! The consistency rules of stored rows, for `doctor`. The input is one snapshot of the database; the output
//! is what is wrong with it.

use crate::event::EventType;
use crate::history::{SubscriptionChange, Verdict, routed_between, verdict};
use crate::ids::{DeadLetterId, EventId, JobId, OrderId, SagaId, SubscriptionId};
use crate::job::JobStatus;
use crate::order::OrderStatus;
use crate::saga::SagaStatus;
use crate::time::Timestamp;
use std::collections::{BTreeMap, BTreeSet};

/// An event without its payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventFacts {
    pub id: EventId,
    pub event_type: EventType,
    pub created_at: Timestamp,
    /// Whether it waits for the router.
    pub is_queued: bool,
}

/// A saga with the rows that belong to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SagaFacts {
    pub id: SagaId,
    pub event_id: EventId,
    pub subscription_id: SubscriptionId,
    pub status: SagaStatus,
    pub attempt_count: u32,
    pub requeued_from: Option<DeadLetterId>,
    pub created_at: Timestamp,
    pub current_job: Option<JobId>,
    /// The state of the current job, if that job exists and belongs to this saga.
    pub current_job_status: Option<JobStatus>,
    /// Whether the result of the current job waits to be applied.
    pub is_in_inbox: bool,
    /// The Pending or Leased job of this saga.
    pub active_job: Option<JobId>,
    pub has_dead_letter: bool,
}

/// An order with the rows that belong to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrderFacts {
    pub id: OrderId,
    pub idempotency_key: String,
    pub status: OrderStatus,
    pub retry_count: u32,
    pub last_error: Option<String>,
    pub receipt: Receipt,
    pub request_digest: String,
    /// The row of the ledger. It may have been purged once the order has ended.
    pub ledger: Option<(String, Receipt)>,
    /// The last row of the audit: status, retry count, error.
    pub audit: Option<(OrderStatus, u32, Option<String>)>,
}

/// What the broker returned for an order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Receipt {
    pub result_digest: Option<String>,
    pub broker_order_id: Option<String>,
}

/// Returns what is wrong with a saga, or `None` if its rows are consistent with its state.
pub fn saga_fault(saga: &SagaFacts) -> Option<&'static str> {
    match saga.status {
        SagaStatus::Pending | SagaStatus::PendingRetry if saga.active_job.is_some() => {
            Some("it waits for its next attempt and has an active job")
        }
        SagaStatus::Pending if saga.attempt_count != 0 => {
            Some("it is Pending and its attempt_count is not 0")
        }
        SagaStatus::PendingRetry if saga.attempt_count == 0 => {
            Some("it is PendingRetry and its attempt_count is 0")
        }
        SagaStatus::Pending | SagaStatus::PendingRetry => unfinished_letter(saga),
        SagaStatus::InProgress => in_progress_fault(saga).or_else(|| unfinished_letter(saga)),
        SagaStatus::Completed | SagaStatus::DeadLettered if saga.active_job.is_some() => {
            Some("it has ended and has an active job")
        }
        SagaStatus::Completed => unfinished_letter(saga),
        SagaStatus::DeadLettered if !saga.has_dead_letter => {
            Some("it is DeadLettered and has no dead letter")
        }
        SagaStatus::DeadLettered => None,
    }
}

const fn unfinished_letter(saga: &SagaFacts) -> Option<&'static str> {
    if saga.has_dead_letter { Some("it is not DeadLettered and has a dead letter") } else { None }
}

fn in_progress_fault(saga: &SagaFacts) -> Option<&'static str> {
    if saga.active_job.is_some_and(|active| Some(active) != saga.current_job) {
        return Some("its active job is not its current job");
    }
    match saga.current_job_status {
        None => Some("it is InProgress and its job does not exist"),
        Some(JobStatus::Pending | JobStatus::Leased) => None,
        Some(JobStatus::Completed | JobStatus::Failed) if saga.is_in_inbox => None,
        Some(JobStatus::Completed | JobStatus::Failed) => {
            Some("its job has finished and its result is not queued")
        }
    }
}

/// Returns what is wrong with an order, or `None` if ledger and audit agree with it.
pub fn order_fault(order: &OrderFacts) -> Option<&'static str> {
    match &order.audit {
        None => return Some("it has no audit"),
        Some((status, retry_count, last_error)) => {
            if *status != order.status || *retry_count != order.retry_count || *last_error != order.last_error
            {
                return Some("the last row of its audit differs from the order");
            }
        }
    }
    match &order.ledger {
        None if order.status.is_terminal() => None,
        None => Some("it has not ended and has no row in the ledger"),
        Some((digest, _)) if *digest != order.request_digest => {
            Some("the ledger has the digest of another request")
        }
        Some((_, receipt)) if !receipt.agrees_with(&order.receipt) => {
            Some("the result in the ledger differs from the order's")
        }
        Some(_) => None,
    }
}

impl Receipt {
    /// Returns whether the ledger's receipt agrees with the order's. The ledger stores a receipt only with a
    /// result; the broker's id of an order without a result is stored in the order alone.
    fn agrees_with(&self, of_order: &Self) -> bool {
        self.result_digest == of_order.result_digest
            && (self.result_digest.is_none() || self.broker_order_id == of_order.broker_order_id)
    }
}

/// The result of the conservation check for the routed events of a page.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Conservation {
    /// Pairs of event and subscription that must have a saga, and have one.
    pub kept: u64,
    /// Pairs without a saga whose subscription changed around the time of routing.
    pub undecidable: u64,
    /// Pairs that must have a saga, and have none.
    pub lost: Vec<(EventId, SubscriptionId)>,
}

/// Compares routed events with the sagas that they must have. `changes` contains every subscription that ever
/// had one of the types, each with its changes from oldest to newest.
pub fn conserve(
    events: &[EventFacts],
    sagas: &[SagaFacts],
    changes: &BTreeMap<SubscriptionId, Vec<SubscriptionChange>>,
    now: Timestamp,
) -> Conservation {
    let mut routed: BTreeMap<EventId, Vec<&SagaFacts>> = BTreeMap::new();
    for saga in sagas.iter().filter(|saga| saga.requeued_from.is_none()) {
        routed.entry(saga.event_id).or_default().push(saga);
    }
    let mut by_type: BTreeMap<&str, Vec<SubscriptionId>> = BTreeMap::new();
    for (id, changes) in changes {
        let types: BTreeSet<&str> = changes.iter().map(|change| change.event_type.as_str()).collect();
        types.into_iter().for_each(|name| by_type.entry(name).or_default().push(*id));
    }
    let mut found = Conservation::default();
    for event in events.iter().filter(|event| !event.is_queued) {
        let made = routed.get(&event.id).map(Vec::as_slice).unwrap_or_default();
        let first = made.iter().map(|saga| saga.created_at).min();
        let (from, to) = routed_between(event.created_at, first, now);
        let have: BTreeSet<SubscriptionId> = made.iter().map(|saga| saga.subscription_id).collect();
        for id in by_type.get(event.event_type.as_str()).into_iter().flatten() {
            let changes = changes.get(id).map(Vec::as_slice).unwrap_or_default();
            match verdict(changes, &event.event_type, from, to) {
                Verdict::Matched | Verdict::Unsure if have.contains(id) => found.kept += 1,
                Verdict::Matched => found.lost.push((event.id, *id)),
                Verdict::Unsure => found.undecidable += 1,
                Verdict::Not(_) => {}
            }
        }
    }
    found
}

#[cfg(test)]
mod tests;
