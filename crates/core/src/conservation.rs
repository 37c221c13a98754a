//! Consistency checks of stored rows, for `posthaste doctor`. The input is read from one snapshot of the
//! database; the output describes the inconsistencies.

use crate::attributes::Attributes;
use crate::event::EventType;
use crate::history::{SubscriptionChange, Verdict, routed_between, verdict};
use crate::ids::{DeadLetterId, EventId, JobId, OrderId, SagaId, SubscriptionId};
use crate::job::JobStatus;
use crate::order::OrderStatus;
use crate::pattern::probes;
use crate::route;
use crate::saga::SagaStatus;
use crate::tenant::Tenant;
use crate::time::Timestamp;
use std::collections::{BTreeMap, BTreeSet};

/// An event without its payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventFacts {
    pub id: EventId,
    pub tenant: Option<Tenant>,
    pub event_type: EventType,
    pub attributes: Attributes,
    pub created_at: Timestamp,
    /// Whether the event is waiting for the router.
    pub is_queued: bool,
}

impl EventFacts {
    /// Returns the part of the event that routing depends on.
    pub fn routed(&self) -> route::EventFacts<'_> {
        let Self { event_type, tenant, attributes, .. } = self;
        route::EventFacts { event_type, tenant: tenant.as_ref(), attributes }
    }
}

/// A saga and the state of its related rows.
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
    /// The status of the current job, or `None` if the job does not exist or belongs to another saga.
    pub current_job_status: Option<JobStatus>,
    /// Whether the result of the current job is waiting to be applied.
    pub is_in_inbox: bool,
    /// The Pending or Leased job of this saga, if there is one.
    pub active_job: Option<JobId>,
    pub has_dead_letter: bool,
}

/// An order and the state of its related rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrderFacts {
    pub id: OrderId,
    pub idempotency_key: String,
    pub status: OrderStatus,
    pub retry_count: u32,
    pub last_error: Option<String>,
    pub receipt: Receipt,
    pub request_digest: String,
    /// The request digest and the receipt in the ledger. `None` if the row does not exist, for example because
    /// it was purged.
    pub ledger: Option<(String, Receipt)>,
    /// The status, retry count and error in the last audit row of the order.
    pub audit: Option<(OrderStatus, u32, Option<String>)>,
}

/// The digest and the order id from the broker's response.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Receipt {
    pub result_digest: Option<String>,
    pub broker_order_id: Option<String>,
}

/// Returns a description of the first inconsistency of a saga, or `None` if it is consistent.
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

/// Returns a description of the first inconsistency between an order and its ledger or audit rows, or `None` if
/// they are consistent.
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
    /// Returns whether this receipt, from the ledger, agrees with the receipt of the order. The ledger contains
    /// a receipt only if there is a result. Without a result, the broker's order id is stored only in the
    /// order.
    fn agrees_with(&self, of_order: &Self) -> bool {
        self.result_digest == of_order.result_digest
            && (self.result_digest.is_none() || self.broker_order_id == of_order.broker_order_id)
    }
}

/// The result of the conservation check for one page of events.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Conservation {
    /// The number of pairs of event and subscription that must have a saga and have one.
    pub kept: u64,
    /// The number of pairs without a saga whose subscription changed around the time of routing.
    pub undecidable: u64,
    /// The pairs that must have a saga but do not have one.
    pub lost: Vec<(EventId, SubscriptionId)>,
}

/// Checks that routed events have the sagas that they must have. `changes` contains the changes to every
/// subscription that ever had the tenant of one of the events and a pattern that matches its type, oldest first for
/// each subscription.
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
    let mut by_pattern: BTreeMap<(Option<&Tenant>, &str), BTreeSet<SubscriptionId>> = BTreeMap::new();
    for change in changes.values().flatten() {
        for pattern in change.event_types.as_slice() {
            let key = (change.tenant.as_ref(), pattern.as_str());
            by_pattern.entry(key).or_default().insert(change.subscription_id);
        }
    }
    let mut found = Conservation::default();
    for event in events.iter().filter(|event| !event.is_queued) {
        let made = routed.get(&event.id).map(Vec::as_slice).unwrap_or_default();
        let first = made.iter().map(|saga| saga.created_at).min();
        let (from, to) = routed_between(event.created_at, first, now);
        let have: BTreeSet<SubscriptionId> = made.iter().map(|saga| saga.subscription_id).collect();
        let probes = probes(&event.event_type);
        let sets = probes.iter().filter_map(|probe| by_pattern.get(&(event.tenant.as_ref(), probe.as_str())));
        let candidates: BTreeSet<&SubscriptionId> = sets.flatten().collect();
        for id in candidates {
            let changes = changes.get(id).map(Vec::as_slice).unwrap_or_default();
            match verdict(changes, event.routed(), from, to) {
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
