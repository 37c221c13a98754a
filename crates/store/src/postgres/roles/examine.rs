//! Reads rows together with related rows, each page from one snapshot. `explain` shows them, and `doctor` checks them.

use crate::postgres::conn::session::{Session, TransactionMode};
use crate::postgres::conn::value::{Json, count, get, id_or_none, instant, word};
use crate::postgres::roles::events::{EVENT, stored_event};
use crate::postgres::roles::order_row::order_status;
use crate::postgres::roles::reader::{attempt, delivery};
use crate::remote::Fault;
use crate::stored::{patterns_of, read_attributes, read_past_filter};
use posthaste_core::conservation::{EventFacts, OrderFacts, Receipt, SagaFacts};
use posthaste_core::event::EventType;
use posthaste_core::history::SubscriptionChange;
use posthaste_core::job::JobStatus;
use posthaste_core::order::OrderStatus;
use posthaste_core::pattern::EventTypePatterns;
use posthaste_core::ports::{
    CHANGES_MAX, EXPLAINED_MAX, Examine, Examined, ExplainedDelivery, ExplainedEvent, SAGAS_MAX,
};
use posthaste_core::saga::SagaStatus;
use posthaste_core::tenant::Tenant;
use posthaste_core::{DeadLetterId, EventId, JobId, OrderId, SagaId, SubscriptionId};
use std::collections::{BTreeSet, HashMap};
use tokio_postgres::Row;

pub(crate) async fn explain(mut session: Session, id: EventId) -> Result<Option<ExplainedEvent>, Fault> {
    let found = session.begin(TransactionMode::Snapshot, &EVENT, &[&id.get()]).await?;
    let event = found.first().map(stored_event).transpose()?;
    let explained = match event {
        None => None,
        Some(event) => {
            let queued = session.go_on(include_str!("../sql/insight/is_queued.sql"), &[&id.get()]).await?;
            let (deliveries, more_deliveries) = explained_deliveries(&mut session, id).await?;
            let (changes, more_changes) =
                changes(&mut session, &patterns_of([(event.tenant.as_ref(), &event.event_type)])).await?;
            let is_queued = !queued.is_empty();
            Some(ExplainedEvent { event, is_queued, deliveries, more_deliveries, changes, more_changes })
        }
    };
    session.roll_back().await?;
    Ok(explained)
}

async fn explained_deliveries(
    session: &mut Session,
    id: EventId,
) -> Result<(Vec<ExplainedDelivery>, bool), Fault> {
    let rows_max = i64::from(EXPLAINED_MAX) + 1;
    let sql = include_str!("../sql/insight/explained_deliveries.sql");
    let rows = session.go_on(sql, &[&id.get(), &rows_max]).await?;
    let more = rows.len() > EXPLAINED_MAX as usize;
    let rows = rows.get(..EXPLAINED_MAX as usize).unwrap_or(&rows);
    let sagas: Vec<i64> = rows.iter().map(|row| get(row, 0)).collect::<Result<_, Fault>>()?;
    let found = session.go_on(include_str!("../sql/insight/explained_attempts.sql"), &[&sagas]).await?;
    let mut attempts: HashMap<i64, Vec<_>> = HashMap::new();
    for row in &found {
        attempts.entry(get(row, "saga_id")?).or_default().push(attempt(row)?);
    }
    let explained = |row: &Row| {
        let letter = id_or_none(row, "letter_id", DeadLetterId::from_store)?;
        let again = id_or_none(row, "requeued_as", SagaId::from_store)?;
        let delivery = delivery(row)?;
        let attempts = attempts.remove(&delivery.saga.id.get()).unwrap_or_default();
        Ok(ExplainedDelivery { delivery, attempts, dead_letter: letter.map(|letter| (letter, again)) })
    };
    Ok((rows.iter().map(explained).collect::<Result<_, Fault>>()?, more))
}

/// Returns the changes of every subscription that has ever had one of the patterns, each with its tenant.
async fn changes(
    session: &mut Session,
    patterns: &BTreeSet<(String, String)>,
) -> Result<(Vec<SubscriptionChange>, bool), Fault> {
    let rows_max = i64::from(CHANGES_MAX) + 1;
    let sql = include_str!("../sql/insight/changes_of_patterns.sql");
    let (tenants, patterns): (Vec<&str>, Vec<&str>) =
        patterns.iter().map(|(tenant, pattern)| (tenant.as_str(), pattern.as_str())).unzip();
    let rows = session.go_on(sql, &[&tenants, &patterns, &rows_max]).await?;
    let changed = |row: &Row| {
        let id: i64 = get(row, "subscription_id")?;
        Ok(SubscriptionChange {
            subscription_id: SubscriptionId::from_store(id),
            tenant: get::<Option<String>>(row, "tenant")?.map(Tenant::from_store),
            event_types: EventTypePatterns::from_store(get(row, "event_types")?),
            filter: get::<Option<&str>>(row, "filter")?.map(|text| read_past_filter(id, text)),
            active: get(row, "active")?,
            verified: get(row, "verified")?,
            is_deleted: get(row, "is_deleted")?,
            changed_at: instant(row, "changed_at")?,
        })
    };
    let changes = rows.iter().map(changed).collect::<Result<_, Fault>>()?;
    Ok((changes, rows.len() > CHANGES_MAX as usize))
}

pub(crate) async fn examine(mut session: Session, page: Examine) -> Result<Examined, Fault> {
    let last =
        session.begin(TransactionMode::Snapshot, include_str!("../sql/insight/last_event.sql"), &[]).await?;
    let last_event = last.first().map(|row| get(row, 0)).transpose()?.map(EventId::from_store);
    let mut events = events(&mut session, page).await?;
    let next_event = page.next(events.len(), events.last().map(|event| event.id.get()));
    let sagas = loop {
        let sagas = sagas(&mut session, &events).await?;
        if !page.newest || sagas.len() <= SAGAS_MAX as usize || events.len() < 2 {
            break sagas;
        }
        // Too many sagas: keep the newer half of the events, each with all its sagas.
        events.drain(..events.len() / 2);
    };
    let orders = orders(&mut session, page).await?;
    let next_order = page.next(orders.len(), orders.last().map(|order| order.id.get()));
    let mut examined =
        Examined { events, sagas, orders, next_event, next_order, last_event, ..Examined::default() };
    examined.keep_whole_events();
    let kinds = examined.events.iter().map(|event| (event.tenant.as_ref(), &event.event_type));
    let (changes, more) = changes(&mut session, &patterns_of(kinds)).await?;
    session.roll_back().await?;
    examined.changes = changes;
    examined.more_changes |= more;
    Ok(examined)
}

/// Returns a page of events in id order.
async fn events(session: &mut Session, page: Examine) -> Result<Vec<EventFacts>, Fault> {
    let mut rows = match (page.newest, page.events_after) {
        (true, _) => session.go_on(include_str!("../sql/insight/examine_newest_events.sql"), &[]).await?,
        (false, Some(after)) => {
            session.go_on(include_str!("../sql/insight/examine_events.sql"), &[&after]).await?
        }
        (false, None) => Vec::new(),
    };
    if page.newest {
        rows.reverse();
    }
    let event = |row: &Row| {
        Ok(EventFacts {
            id: EventId::from_store(get(row, "id")?),
            event_type: EventType::from_store(get(row, "event_type")?),
            tenant: get::<Option<String>>(row, "tenant")?.map(Tenant::from_store),
            attributes: read_attributes(get::<Option<Json<'_>>>(row, "attributes")?.map(|json| json.0)),
            created_at: instant(row, "created_at")?,
            is_queued: get(row, "is_queued")?,
        })
    };
    rows.iter().map(event).collect()
}

async fn sagas(session: &mut Session, events: &[EventFacts]) -> Result<Vec<SagaFacts>, Fault> {
    let (Some(first), Some(last)) = (events.first(), events.last()) else { return Ok(Vec::new()) };
    let rows_max = i64::from(SAGAS_MAX) + 1;
    let sql = include_str!("../sql/insight/examine_sagas.sql");
    let rows = session.go_on(sql, &[&first.id.get(), &last.id.get(), &rows_max]).await?;
    let saga = |row: &Row| {
        Ok(SagaFacts {
            id: SagaId::from_store(get(row, "id")?),
            event_id: EventId::from_store(get(row, "event_id")?),
            subscription_id: SubscriptionId::from_store(get(row, "subscription_id")?),
            status: word(row, "status", SagaStatus::parse)?,
            attempt_count: count(row, "attempt_count")?,
            requeued_from: id_or_none(row, "requeued_from", DeadLetterId::from_store)?,
            created_at: instant(row, "created_at")?,
            current_job: id_or_none(row, "current_job_id", JobId::from_store)?,
            current_job_status: get::<Option<&str>>(row, "current_job_status")?.and_then(JobStatus::parse),
            is_in_inbox: get(row, "is_in_inbox")?,
            active_job: id_or_none(row, "active_job_id", JobId::from_store)?,
            has_dead_letter: get(row, "has_dead_letter")?,
        })
    };
    rows.iter().map(saga).collect()
}

async fn orders(session: &mut Session, page: Examine) -> Result<Vec<OrderFacts>, Fault> {
    let rows = match (page.newest, page.orders_after) {
        (true, _) => session.go_on(include_str!("../sql/insight/examine_newest_orders.sql"), &[]).await?,
        (false, Some(after)) => {
            session.go_on(include_str!("../sql/insight/examine_orders.sql"), &[&after]).await?
        }
        (false, None) => Vec::new(),
    };
    rows.iter().map(order).collect()
}

fn order(row: &Row) -> Result<OrderFacts, Fault> {
    let receipt = |result_digest: &str, broker_order_id: &str| {
        Ok::<_, Fault>(Receipt {
            result_digest: get(row, result_digest)?,
            broker_order_id: get(row, broker_order_id)?,
        })
    };
    let ledger = match get::<Option<String>>(row, "ledger_request_digest")? {
        Some(digest) => Some((digest, receipt("ledger_result_digest", "ledger_broker_order_id")?)),
        None => None,
    };
    let audit = match get::<Option<&str>>(row, "audit_status")? {
        Some(status) => {
            Some((order_status(status)?, count(row, "audit_retry_count")?, get(row, "audit_last_error")?))
        }
        None => None,
    };
    Ok(OrderFacts {
        id: OrderId::from_store(get(row, "id")?),
        idempotency_key: get(row, "idempotency_key")?,
        status: word(row, "status", OrderStatus::parse)?,
        retry_count: count(row, "retry_count")?,
        last_error: get(row, "last_error")?,
        request_digest: get(row, "request_digest")?,
        receipt: receipt("result_digest", "broker_order_id")?,
        ledger,
        audit,
    })
}
