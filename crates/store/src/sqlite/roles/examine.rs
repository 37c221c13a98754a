//! Reads rows together with related rows, each page from one snapshot. `explain` shows them, and `doctor` checks them.

use std::collections::BTreeSet;

use posthaste_core::conservation::{EventFacts, OrderFacts, Receipt, SagaFacts};
use posthaste_core::event::EventType;
use posthaste_core::history::SubscriptionChange;
use posthaste_core::job::JobStatus;
use posthaste_core::order::OrderStatus;
use posthaste_core::ports::{
    CHANGES_MAX, EXPLAINED_MAX, Examine, Examined, ExplainedDelivery, ExplainedEvent, SAGAS_MAX,
};
use posthaste_core::saga::SagaStatus;
use posthaste_core::tenant::Tenant;
use posthaste_core::{DeadLetterId, EventId, JobId, OrderId, SagaId, SubscriptionId};
use rusqlite::{Row, params};

use crate::sqlite::conn::error::Answer;
use crate::sqlite::conn::session::Session;
use crate::sqlite::conn::value::{self, get};
use crate::sqlite::roles::events::{EVENT, stored_event};
use crate::sqlite::roles::reader::{all, one, read_attempt, read_delivery};
use crate::sqlite::roles::subscriptions::read_event_types;
use crate::stored::{patterns_of, read_attributes, read_past_filter};

const IS_QUEUED: &str = include_str!("../sql/insight/is_queued.sql");
const EXPLAINED_DELIVERIES: &str = include_str!("../sql/insight/explained_deliveries.sql");
const EXPLAINED_ATTEMPTS: &str = include_str!("../sql/insight/explained_attempts.sql");
const CHANGES_OF_PATTERNS: &str = include_str!("../sql/insight/changes_of_patterns.sql");
const LAST_EVENT: &str = include_str!("../sql/insight/last_event.sql");
const EXAMINE_EVENTS: &str = include_str!("../sql/insight/examine_events.sql");
const EXAMINE_NEWEST_EVENTS: &str = include_str!("../sql/insight/examine_newest_events.sql");
const EXAMINE_SAGAS: &str = include_str!("../sql/insight/examine_sagas.sql");
const EXAMINE_ORDERS: &str = include_str!("../sql/insight/examine_orders.sql");
const EXAMINE_NEWEST_ORDERS: &str = include_str!("../sql/insight/examine_newest_orders.sql");

pub(crate) fn explain(session: &Session<'_>, id: EventId) -> Answer<Option<ExplainedEvent>> {
    let Some(event) = one(session, &EVENT, [id.get()], |row| Ok(stored_event(row)?))? else {
        return Ok(None);
    };
    let is_queued = one(session, IS_QUEUED, [id.get()], |_| Ok(()))?.is_some();
    let rows_max = EXPLAINED_MAX + 1;
    let mut deliveries = all(session, EXPLAINED_DELIVERIES, params![id.get(), rows_max], |row| {
        let letter = value::maybe_id(row, "letter_id", DeadLetterId::from_store)?;
        let again = value::maybe_id(row, "requeued_as", SagaId::from_store)?;
        let delivery = read_delivery(row)?;
        let attempts = all(session, EXPLAINED_ATTEMPTS, [delivery.saga.id.get()], read_attempt)?;
        Ok(ExplainedDelivery { delivery, attempts, dead_letter: letter.map(|letter| (letter, again)) })
    })?;
    let more_deliveries = deliveries.len() > EXPLAINED_MAX as usize;
    deliveries.truncate(EXPLAINED_MAX as usize);
    let patterns = patterns_of([(event.tenant.as_ref(), &event.event_type)]);
    let (changes, more_changes) = changes(session, &patterns)?;
    Ok(Some(ExplainedEvent { event, is_queued, deliveries, more_deliveries, changes, more_changes }))
}

/// Returns the changes of every subscription that has ever had one of the patterns, each with its tenant.
fn changes(
    session: &Session<'_>,
    patterns: &BTreeSet<(String, String)>,
) -> Answer<(Vec<SubscriptionChange>, bool)> {
    let asked = serde_json::json!(patterns).to_string();
    let found = all(session, CHANGES_OF_PATTERNS, params![asked, CHANGES_MAX + 1], |row| {
        let id: i64 = get(row, "subscription_id")?;
        Ok(SubscriptionChange {
            subscription_id: SubscriptionId::from_store(id),
            tenant: get::<Option<String>>(row, "tenant")?.map(Tenant::from_store),
            event_types: read_event_types(row, id)?,
            filter: get::<Option<String>>(row, "filter")?.map(|text| read_past_filter(id, &text)),
            active: get(row, "active")?,
            verified: get(row, "verified")?,
            is_deleted: get(row, "is_deleted")?,
            changed_at: value::time(row, "changed_at")?,
        })
    })?;
    let more = found.len() > CHANGES_MAX as usize;
    Ok((found, more))
}

pub(crate) fn examine(session: &Session<'_>, page: Examine) -> Answer<Examined> {
    let last_event = one(session, LAST_EVENT, [], |row| Ok(EventId::from_store(row.get(0)?)))?;
    let mut events = events(session, page)?;
    let next_event = page.next(events.len(), events.last().map(|event| event.id.get()));
    let sagas = loop {
        let sagas = sagas(session, &events)?;
        if !page.newest || sagas.len() <= SAGAS_MAX as usize || events.len() < 2 {
            break sagas;
        }
        // Too many sagas: keep the newer half of the events, each with all its sagas.
        events.drain(..events.len() / 2);
    };
    let orders = orders(session, page)?;
    let next_order = page.next(orders.len(), orders.last().map(|order| order.id.get()));
    let mut examined =
        Examined { events, sagas, orders, next_event, next_order, last_event, ..Examined::default() };
    examined.keep_whole_events();
    let kinds = examined.events.iter().map(|event| (event.tenant.as_ref(), &event.event_type));
    let (changes, more) = changes(session, &patterns_of(kinds))?;
    examined.changes = changes;
    examined.more_changes |= more;
    Ok(examined)
}

/// Returns a page of events in id order.
fn events(session: &Session<'_>, page: Examine) -> Answer<Vec<EventFacts>> {
    let read = |row: &Row<'_>| {
        Ok(EventFacts {
            id: EventId::from_store(get(row, "id")?),
            event_type: EventType::from_store(get(row, "event_type")?),
            tenant: get::<Option<String>>(row, "tenant")?.map(Tenant::from_store),
            attributes: read_attributes(get::<Option<String>>(row, "attributes")?.as_deref()),
            created_at: value::time(row, "created_at")?,
            is_queued: get(row, "is_queued")?,
        })
    };
    match (page.newest, page.events_after) {
        (true, _) => {
            let mut events = all(session, EXAMINE_NEWEST_EVENTS, [], read)?;
            events.reverse();
            Ok(events)
        }
        (false, Some(after)) => all(session, EXAMINE_EVENTS, [after], read),
        (false, None) => Ok(Vec::new()),
    }
}

fn sagas(session: &Session<'_>, events: &[EventFacts]) -> Answer<Vec<SagaFacts>> {
    let (Some(first), Some(last)) = (events.first(), events.last()) else { return Ok(Vec::new()) };
    all(session, EXAMINE_SAGAS, params![first.id.get(), last.id.get(), SAGAS_MAX + 1], |row| {
        Ok(SagaFacts {
            id: SagaId::from_store(get(row, "id")?),
            event_id: EventId::from_store(get(row, "event_id")?),
            subscription_id: SubscriptionId::from_store(get(row, "subscription_id")?),
            status: value::word(row, "status", SagaStatus::parse)?,
            attempt_count: get(row, "attempt_count")?,
            requeued_from: value::maybe_id(row, "requeued_from", DeadLetterId::from_store)?,
            created_at: value::time(row, "created_at")?,
            current_job: value::maybe_id(row, "current_job_id", JobId::from_store)?,
            current_job_status: get::<Option<String>>(row, "current_job_status")?
                .as_deref()
                .and_then(JobStatus::parse),
            is_in_inbox: get(row, "is_in_inbox")?,
            active_job: value::maybe_id(row, "active_job_id", JobId::from_store)?,
            has_dead_letter: get(row, "has_dead_letter")?,
        })
    })
}

fn orders(session: &Session<'_>, page: Examine) -> Answer<Vec<OrderFacts>> {
    match (page.newest, page.orders_after) {
        (true, _) => all(session, EXAMINE_NEWEST_ORDERS, [], read_order),
        (false, Some(after)) => all(session, EXAMINE_ORDERS, [after], read_order),
        (false, None) => Ok(Vec::new()),
    }
}

fn read_order(row: &Row<'_>) -> Answer<OrderFacts> {
    let receipt = |result_digest, broker_order_id| {
        Ok::<_, rusqlite::Error>(Receipt {
            result_digest: get(row, result_digest)?,
            broker_order_id: get(row, broker_order_id)?,
        })
    };
    let ledger = match get::<Option<String>>(row, "ledger_request_digest")? {
        Some(digest) => Some((digest, receipt("ledger_result_digest", "ledger_broker_order_id")?)),
        None => None,
    };
    let audit = match value::maybe_word(row, "audit_status", OrderStatus::parse)? {
        Some(status) => Some((status, get(row, "audit_retry_count")?, get(row, "audit_last_error")?)),
        None => None,
    };
    Ok(OrderFacts {
        id: OrderId::from_store(get(row, "id")?),
        idempotency_key: get(row, "idempotency_key")?,
        status: value::word(row, "status", OrderStatus::parse)?,
        retry_count: get(row, "retry_count")?,
        last_error: get(row, "last_error")?,
        request_digest: get(row, "request_digest")?,
        receipt: receipt("result_digest", "broker_order_id")?,
        ledger,
        audit,
    })
}
