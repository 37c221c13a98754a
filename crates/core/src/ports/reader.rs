//! Port of the role viewer: read-only access to everything except secrets and key hashes.

use super::{DeadLetterFilter, LaneStanding, OrderRecord, StoreResult};
use crate::attributes::Attributes;
use crate::audit::{OperatorAuditEntry, OperatorAuditFilter};
use crate::event::{CorrelationId, EventType, ExternalEventId, TraceParent, TraceState};
use crate::identity::{SubscriptionName, Uid};
use crate::ids::{AuditId, DeadLetterId, EventId, JobId, SagaId, SubscriptionId};
use crate::job::JobStatus;
use crate::json::JsonText;
use crate::metadata::Metadata;
use crate::order::{IdempotencyKey, OrderStatus};
use crate::outcome::ErrorCode;
use crate::saga::{Saga, SagaStatus};
use crate::subscription::{Standing, Subscription};
use crate::tenant::Tenant;
use crate::time::Timestamp;
use std::time::Duration;

/// The maximum number of rows read for one page, including rows that do not match the filter.
pub const EXAMINED_MAX: u32 = 10_000;

/// The maximum total size of the payloads in one page, in bytes. A page ends before the item that would exceed
/// the maximum, but contains at least one item. The value is 16 times the default payload limit of 256 KiB.
pub const PAGE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// The maximum number of requeued deliveries counted in one call.
pub const FATES_MAX: u32 = 500;

/// A request for one page of a list. Lists are ordered by id, newest first unless documented otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageRequest {
    /// The cursor at which the previous page ended, or `None` for the first page.
    pub after: Option<i64>,
    pub items_max: u32,
    /// The maximum number of rows to read while searching for matches. At most [`EXAMINED_MAX`].
    pub examined_max: u32,
}

impl PageRequest {
    /// Returns the request for the first page of a list.
    pub const fn first(items_max: u32) -> Self {
        Self { after: None, items_max, examined_max: EXAMINED_MAX }
    }

    /// Returns this request, starting after the cursor `after`.
    #[must_use]
    pub const fn behind(self, after: Option<i64>) -> Self {
        Self { after, ..self }
    }

    /// Returns this request, limited to reading `examined_max` rows.
    #[must_use]
    pub const fn looking_at(self, examined_max: u32) -> Self {
        Self { examined_max, ..self }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page<T> {
    pub items: Vec<T>,
    /// The cursor for the next page, or `None` if this is the last page.
    pub next: Option<i64>,
}

impl<T> Page<T> {
    /// Creates a page from rows that were read with a limit of `items_max + 1`.
    pub fn of_one_more(mut rows: Vec<T>, items_max: u32, id: fn(&T) -> i64) -> Self {
        let more = rows.len() > items_max as usize;
        rows.truncate(items_max as usize);
        let next = rows.last().filter(|_| more).map(id);
        Self { items: rows, next }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredEvent {
    pub id: EventId,
    pub external_event_id: Option<ExternalEventId>,
    pub event_type: EventType,
    pub payload: JsonText,
    pub correlation_id: Option<CorrelationId>,
    pub traceparent: Option<TraceParent>,
    pub tracestate: Option<TraceState>,
    pub tenant: Option<Tenant>,
    pub attributes: Attributes,
    pub created_at: Timestamp,
}

/// An event without its payload, which may be large.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventHead {
    pub id: EventId,
    pub external_event_id: Option<ExternalEventId>,
    pub event_type: EventType,
    pub correlation_id: Option<CorrelationId>,
    pub traceparent: Option<TraceParent>,
    pub tracestate: Option<TraceState>,
    pub tenant: Option<Tenant>,
    pub attributes: Attributes,
    pub created_at: Timestamp,
}

impl EventHead {
    #[must_use]
    pub fn with_payload(self, payload: JsonText) -> StoredEvent {
        StoredEvent {
            id: self.id,
            external_event_id: self.external_event_id,
            event_type: self.event_type,
            payload,
            correlation_id: self.correlation_id,
            traceparent: self.traceparent,
            tracestate: self.tracestate,
            tenant: self.tenant,
            attributes: self.attributes,
            created_at: self.created_at,
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EventFilter {
    pub tenant: Option<Tenant>,
    pub event_type: Option<EventType>,
    pub external_event_id: Option<ExternalEventId>,
    /// Selects events accepted at this time or later. If `since` or `until` is set, the list is ordered by time
    /// instead of id.
    pub since: Option<Timestamp>,
    /// Selects events accepted before this time.
    pub until: Option<Timestamp>,
}

impl EventFilter {
    /// Returns the bounds of a page in time order: the exclusive maximum id at the latest time, the earliest
    /// time and the latest time. `reached` is the id and time of the last event on the previous page.
    pub fn time_bounds(&self, reached: Option<(i64, Timestamp)>) -> (i64, Timestamp, Timestamp) {
        let from = self.since.unwrap_or(Timestamp::MIN);
        let to = self.until.map_or(Timestamp::MAX, |until| until.before(Duration::from_micros(1)));
        match reached {
            Some((id, at)) if at <= to => (id, from, at),
            Some(_) | None => (i64::MAX, from, to),
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SubscriptionFilter {
    pub tenant: Option<Tenant>,
    pub uid: Option<Uid>,
    pub name: Option<SubscriptionName>,
    /// Selects subscriptions that have all of these pairs in their metadata.
    pub metadata: Metadata,
    /// Selects subscriptions with a pattern that matches this type.
    pub event_type: Option<EventType>,
    pub standing: Option<Standing>,
}

impl SubscriptionFilter {
    pub fn matches(&self, subscription: &Subscription) -> bool {
        let standing = Standing::of(subscription.active, subscription.verified);
        (self.tenant.is_none() || self.tenant == subscription.tenant)
            && (self.uid.is_none() || self.uid == subscription.uid)
            && (self.name.is_none() || self.name == subscription.name)
            && self.metadata.iter().all(|(key, value)| subscription.metadata.get(key) == Some(value))
            && self.event_type.as_ref().is_none_or(|wanted| subscription.event_types.find(wanted).is_some())
            && self.standing.is_none_or(|wanted| wanted == standing)
    }
}

/// A saga with the type and the tenant of its event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    pub saga: Saga,
    pub event_type: EventType,
    pub tenant: Option<Tenant>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeliveryFilter {
    /// Selects deliveries of events of this tenant.
    pub tenant: Option<Tenant>,
    pub status: Option<SagaStatus>,
    pub subscription_id: Option<SubscriptionId>,
    pub event_id: Option<EventId>,
    pub event_type: Option<EventType>,
    pub error_code: Option<ErrorCode>,
    /// Selects deliveries created at this time or later.
    pub since: Option<Timestamp>,
    /// Selects deliveries created before this time.
    pub until: Option<Timestamp>,
}

/// One attempt of a delivery, read from its job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    pub job_id: JobId,
    pub status: JobStatus,
    pub attempt_at: Timestamp,
    pub response_status: Option<u16>,
    pub error_code: Option<ErrorCode>,
    pub duration_ms: Option<u32>,
    pub worker_id: Option<String>,
    pub lease_resets: u32,
}

/// A dead letter without its payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetterHead {
    pub id: DeadLetterId,
    /// The tenant of the event.
    pub tenant: Option<Tenant>,
    pub saga_id: SagaId,
    pub event_id: EventId,
    pub subscription_id: SubscriptionId,
    pub final_error_code: Option<ErrorCode>,
    pub failed_at: Timestamp,
    pub requeued_as: Option<SagaId>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetter {
    pub head: DeadLetterHead,
    pub payload_snapshot: JsonText,
}

/// The relation of a delivery to others by requeues: its predecessor and its successor.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Lineage {
    /// The dead letter from which this delivery was requeued, and the original delivery of that dead letter.
    pub made_from: Option<(DeadLetterId, SagaId)>,
    /// The dead letter of this delivery, if it was dead-lettered.
    pub dead_letter_id: Option<DeadLetterId>,
    /// The delivery that was requeued from `dead_letter_id`.
    pub requeued_as: Option<SagaId>,
}

/// A filter for deliveries that were requeued at `since` or later from the dead letters `first` to `last`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequeuedRange {
    pub first: DeadLetterId,
    pub last: DeadLetterId,
    pub since: Timestamp,
    pub subscription_id: Option<SubscriptionId>,
    pub event_type: Option<EventType>,
}

/// The number of requeued deliveries in each state. At most [`FATES_MAX`] are counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RequeuedFates {
    pub delivered: u32,
    /// The number of deliveries that are not finished.
    pub waiting: u32,
    pub given_up: u32,
    /// The last dead letter that was read, or `None` if there are no more to read.
    pub reached: Option<DeadLetterId>,
}

/// One state transition of an order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditEntry {
    pub id: AuditId,
    pub status_from: Option<OrderStatus>,
    pub status_to: OrderStatus,
    pub retry_count: u32,
    pub last_error: Option<String>,
    pub idempotency_key: IdempotencyKey,
    pub trace_id: Option<String>,
    pub broker_order_id: Option<String>,
    pub worker_id: Option<String>,
    pub note: Option<String>,
    pub created_at: Timestamp,
}

pub trait ReaderStore: Send + Sync + 'static {
    fn event(&self, id: EventId) -> impl Future<Output = StoreResult<Option<StoredEvent>>> + Send;

    /// Returns events with their payloads, at most [`PAGE_BYTES_MAX`] of payloads per page.
    fn events(
        &self,
        filter: EventFilter,
        page: PageRequest,
    ) -> impl Future<Output = StoreResult<Page<StoredEvent>>> + Send;

    /// Returns the same events as [`events`](Self::events), without reading their payloads.
    fn event_heads(
        &self,
        filter: EventFilter,
        page: PageRequest,
    ) -> impl Future<Output = StoreResult<Page<EventHead>>> + Send;

    fn subscription(
        &self,
        id: SubscriptionId,
    ) -> impl Future<Output = StoreResult<Option<Subscription>>> + Send;

    /// Returns subscriptions that are not deleted.
    fn subscriptions(
        &self,
        filter: SubscriptionFilter,
        page: PageRequest,
    ) -> impl Future<Output = StoreResult<Page<Subscription>>> + Send;

    /// Returns the current public key with a fingerprint, or `None` if no subscription has it.
    fn find_public_key(
        &self,
        fingerprint: String,
    ) -> impl Future<Output = StoreResult<Option<String>>> + Send;

    fn delivery(
        &self,
        id: SagaId,
    ) -> impl Future<Output = StoreResult<Option<(Delivery, Vec<Attempt>)>>> + Send;

    fn deliveries(
        &self,
        filter: DeliveryFilter,
        page: PageRequest,
    ) -> impl Future<Output = StoreResult<Page<Delivery>>> + Send;

    fn dead_letter(&self, id: DeadLetterId) -> impl Future<Output = StoreResult<Option<DeadLetter>>> + Send;

    /// Returns dead letters with their payloads, at most [`PAGE_BYTES_MAX`] of payloads per page.
    fn dead_letters(
        &self,
        filter: DeadLetterFilter,
        page: PageRequest,
    ) -> impl Future<Output = StoreResult<Page<DeadLetter>>> + Send;

    /// Returns the same dead letters as [`dead_letters`](Self::dead_letters), without reading their payloads.
    fn dead_letter_heads(
        &self,
        filter: DeadLetterFilter,
        page: PageRequest,
    ) -> impl Future<Output = StoreResult<Page<DeadLetterHead>>> + Send;

    /// Returns the lineage of a delivery. All fields are `None` if the delivery does not exist.
    fn lineage(&self, id: SagaId) -> impl Future<Output = StoreResult<Lineage>> + Send;

    fn count_requeued(&self, range: RequeuedRange)
    -> impl Future<Output = StoreResult<RequeuedFates>> + Send;

    fn order(&self, key: IdempotencyKey) -> impl Future<Output = StoreResult<Option<OrderRecord>>> + Send;

    /// Returns orders, newest first, without the broker's responses.
    fn orders(
        &self,
        status: Option<OrderStatus>,
        page: PageRequest,
    ) -> impl Future<Output = StoreResult<Page<OrderRecord>>> + Send;

    /// Returns the state transitions of an order, oldest first.
    fn order_audit(
        &self,
        key: IdempotencyKey,
        page: PageRequest,
    ) -> impl Future<Output = StoreResult<Page<AuditEntry>>> + Send;

    /// Returns the last `entries_max` state transitions of an order, newest first. An order that was retried as
    /// the probe of a paused lane can have a large number of transitions.
    fn newest_order_audit(
        &self,
        key: IdempotencyKey,
        entries_max: u32,
    ) -> impl Future<Output = StoreResult<Vec<AuditEntry>>> + Send;

    /// Returns changes made by people, newest first.
    fn operator_audit(
        &self,
        filter: OperatorAuditFilter,
        page: PageRequest,
    ) -> impl Future<Output = StoreResult<Page<OperatorAuditEntry>>> + Send;

    /// Returns the state of the lane to the broker, and the number of orders in flight.
    fn lane(&self) -> impl Future<Output = StoreResult<LaneStanding>> + Send;
}
