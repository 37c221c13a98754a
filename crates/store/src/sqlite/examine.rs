//! Rows with what there is beside them, each page of one moment: for `explain`, which tells them to
//! people, and for `doctor`, which judges them.

use std::collections::BTreeSet;
use std::rc::Rc;

use posthaste_core::conservation::{EventFacts, OrderFacts, Receipt, SagaFacts};
use posthaste_core::event::EventType;
use posthaste_core::history::SubscriptionChange;
use posthaste_core::job::JobStatus;
use posthaste_core::order::OrderStatus;
use posthaste_core::ports::{
    CHANGES_MAX, EXAMINED_MAX, EXPLAINED_MAX, Examine, Examined, ExplainedDelivery, ExplainedEvent, SAGAS_MAX,
};
use posthaste_core::saga::SagaStatus;
use posthaste_core::{DeadLetterId, EventId, JobId, OrderId, SagaId, SubscriptionId};
use rusqlite::types::Value;
use rusqlite::vtab::array::Array;
use rusqlite::{Row, params};

use super::error::Answer;
use super::reader::{all, one, read_attempt, read_delivery};
use super::rows;
use super::session::Session;
use super::worker::stored_event;

const EVENT: &str = include_str!("sql/reader/event.sql");
const IS_QUEUED: &str = include_str!("sql/insight/is_queued.sql");
const EXPLAINED_DELIVERIES: &str = include_str!("sql/insight/explained_deliveries.sql");
const EXPLAINED_ATTEMPTS: &str = include_str!("sql/insight/explained_attempts.sql");
const CHANGES_OF_TYPES: &str = include_str!("sql/insight/changes_of_types.sql");
const LAST_EVENT: &str = include_str!("sql/insight/last_event.sql");
const EXAMINE_EVENTS: &str = include_str!("sql/insight/examine_events.sql");
const EXAMINE_NEWEST_EVENTS: &str = include_str!("sql/insight/examine_newest_events.sql");
const EXAMINE_SAGAS: &str = include_str!("sql/insight/examine_sagas.sql");
const EXAMINE_ORDERS: &str = include_str!("sql/insight/examine_orders.sql");
const EXAMINE_NEWEST_ORDERS: &str = include_str!("sql/insight/examine_newest_orders.sql");

pub(super) fn explain(session: &Session<'_>, id: EventId) -> Answer<Option<ExplainedEvent>> {
    let Some(event) = one(session, EVENT, [id.get()], |row| Ok(stored_event(row)?))? else {
        return Ok(None);
    };
    let is_queued = one(session, IS_QUEUED, [id.get()], |_| Ok(()))?.is_some();
    let rows_max = EXPLAINED_MAX + 1;
    let mut deliveries = all(session, EXPLAINED_DELIVERIES, params![id.get(), rows_max], |row| {
        let letter = row.get::<_, Option<i64>>(12)?.map(DeadLetterId::from_store);
        let again = row.get::<_, Option<i64>>(13)?.map(SagaId::from_store);
        let delivery = read_delivery(row)?;
        let attempts = all(session, EXPLAINED_ATTEMPTS, [delivery.saga.id.get()], read_attempt)?;
        Ok(ExplainedDelivery { delivery, attempts, dead_letter: letter.map(|letter| (letter, again)) })
    })?;
    let more_deliveries = deliveries.len() > EXPLAINED_MAX as usize;
    deliveries.truncate(EXPLAINED_MAX as usize);
    let (changes, more_changes) = changes(session, [event.event_type.as_str()])?;
    Ok(Some(ExplainedEvent { event, is_queued, deliveries, more_deliveries, changes, more_changes }))
}

fn changes<'t>(
    session: &Session<'_>,
    types: impl IntoIterator<Item = &'t str>,
) -> Answer<(Vec<SubscriptionChange>, bool)> {
    let types: Array = Rc::new(types.into_iter().map(|name| Value::Text(name.to_owned())).collect());
    let found = all(session, CHANGES_OF_TYPES, params![types, CHANGES_MAX + 1], |row| {
        Ok(SubscriptionChange {
            subscription_id: SubscriptionId::from_store(row.get(0)?),
            event_type: EventType::from_store(row.get(1)?),
            active: row.get(2)?,
            verified: row.get(3)?,
            is_deleted: row.get(4)?,
            changed_at: rows::time(row, 5)?,
        })
    })?;
    let more = found.len() > CHANGES_MAX as usize;
    Ok((found, more))
}

pub(super) fn examine(session: &Session<'_>, page: Examine) -> Answer<Examined> {
    let last_event = one(session, LAST_EVENT, [], |row| Ok(EventId::from_store(row.get(0)?)))?;
    let mut events = events(session, page)?;
    let next_event = full_page(page, events.len(), events.last().map(|event| event.id.get()));
    let sagas = loop {
        let sagas = sagas(session, &events)?;
        if !page.newest || sagas.len() <= SAGAS_MAX as usize || events.len() < 2 {
            break sagas;
        }
        // The newest ones are asked for: fewer of them, with all of their sagas.
        events.drain(..events.len() / 2);
    };
    let orders = orders(session, page)?;
    let next_order = full_page(page, orders.len(), orders.last().map(|order| order.id.get()));
    let mut examined = Examined {
        events,
        sagas,
        changes: Vec::new(),
        more_changes: false,
        orders,
        next_event,
        next_order,
        last_event,
    };
    examined.keep_whole_events();
    let types: BTreeSet<&str> = examined.events.iter().map(|event| event.event_type.as_str()).collect();
    let (changes, more) = changes(session, types)?;
    examined.changes = changes;
    examined.more_changes |= more;
    Ok(examined)
}

/// Where the next page begins, if this one was full.
fn full_page(page: Examine, rows: usize, last: Option<i64>) -> Option<i64> {
    last.filter(|_| !page.newest && rows >= EXAMINED_MAX as usize)
}

/// In the order of their ids.
fn events(session: &Session<'_>, page: Examine) -> Answer<Vec<EventFacts>> {
    let read = |row: &Row<'_>| {
        Ok(EventFacts {
            id: EventId::from_store(row.get(0)?),
            event_type: EventType::from_store(row.get(1)?),
            created_at: rows::time(row, 2)?,
            is_queued: row.get(3)?,
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
    let job = |row: &Row<'_>, column| row.get::<_, Option<i64>>(column).map(|id| id.map(JobId::from_store));
    all(session, EXAMINE_SAGAS, params![first.id.get(), last.id.get(), SAGAS_MAX + 1], |row| {
        Ok(SagaFacts {
            id: SagaId::from_store(row.get(0)?),
            event_id: EventId::from_store(row.get(1)?),
            subscription_id: SubscriptionId::from_store(row.get(2)?),
            status: rows::word(row, 3, SagaStatus::parse)?,
            attempt_count: row.get(4)?,
            requeued_from: row.get::<_, Option<i64>>(5)?.map(DeadLetterId::from_store),
            created_at: rows::time(row, 6)?,
            current_job: job(row, 7)?,
            current_job_status: row.get::<_, Option<String>>(8)?.as_deref().and_then(JobStatus::parse),
            is_in_inbox: row.get(9)?,
            active_job: job(row, 10)?,
            has_dead_letter: row.get(11)?,
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
    let receipt = |first| {
        Ok::<_, rusqlite::Error>(Receipt {
            result_digest: row.get(first)?,
            broker_order_id: row.get(first + 1)?,
        })
    };
    let ledger = match row.get::<_, Option<String>>(8)? {
        Some(digest) => Some((digest, receipt(9)?)),
        None => None,
    };
    let audit = match row.get::<_, Option<String>>(11)? {
        Some(_) => Some((rows::word(row, 11, OrderStatus::parse)?, row.get(12)?, row.get(13)?)),
        None => None,
    };
    Ok(OrderFacts {
        id: OrderId::from_store(row.get(0)?),
        idempotency_key: row.get(1)?,
        status: rows::word(row, 2, OrderStatus::parse)?,
        retry_count: row.get(3)?,
        last_error: row.get(4)?,
        request_digest: row.get(5)?,
        receipt: receipt(6)?,
        ledger,
        audit,
    })
}
