//! Reads all data except secrets and key hashes, for the API and the dashboard. Lists examine a bounded number of rows
//! in id order, see [`page`].

use posthaste_core::audit::{OperatorAuditEntry, OperatorAuditFilter};
use posthaste_core::event::EventType;
use posthaste_core::job::JobStatus;
use posthaste_core::json::JsonText;
use posthaste_core::order::{IdempotencyKey, OrderStatus};
use posthaste_core::ports::{
    Attempt, AuditEntry, DeadLetter, DeadLetterFilter, DeadLetterHead, Delivery, DeliveryFilter, EventFilter,
    EventHead, LaneStanding, Lineage, OrderRecord, PAGE_BYTES_MAX, Page, PageRequest, ReaderStore,
    RequeuedFates, RequeuedRange, StoreResult, StoredEvent, SubscriptionFilter,
};
use posthaste_core::saga::Saga;
use posthaste_core::subscription::Subscription;
use posthaste_core::tenant::Tenant;
use posthaste_core::{AuditId, DeadLetterId, EventId, JobId, SagaId, SubscriptionId, Timestamp};
use rusqlite::{Params, Row, params};

use crate::columns::{SqlText, sql};
use crate::grants::DbRole;
use crate::sqlite::SqliteStore;
use crate::sqlite::conn::error::Answer;
use crate::sqlite::conn::session::Session;
use crate::sqlite::conn::value::{self, get};
use crate::sqlite::roles::audit;
use crate::sqlite::roles::events;
use crate::sqlite::roles::lane_row;
use crate::sqlite::roles::letters;
use crate::sqlite::roles::orchestrator::StateColumns;
use crate::sqlite::roles::order_row::read_order;
use crate::sqlite::roles::page;
use crate::sqlite::roles::subscriptions::read_subscription;

static SUBSCRIPTION: SqlText = sql!("../sql/reader/subscription.sql");
const FIND_PUBLIC_KEY: &str = include_str!("../sql/reader/find_public_key.sql");
static SUBSCRIPTIONS: SqlText = sql!("../sql/reader/subscriptions.sql");
const DELIVERY: &str = include_str!("../sql/reader/delivery.sql");
const ATTEMPTS: &str = include_str!("../sql/reader/attempts.sql");
const DELIVERIES: &str = include_str!("../sql/reader/deliveries.sql");
const DELIVERIES_OF_STATUS: &str = include_str!("../sql/reader/deliveries_of_status.sql");
const DELIVERIES_OF_EVENT: &str = include_str!("../sql/reader/deliveries_of_event.sql");
const ORDER: &str = include_str!("../sql/reader/order.sql");
const ORDERS: &str = include_str!("../sql/reader/orders.sql");
const ORDER_AUDIT: &str = include_str!("../sql/reader/order_audit.sql");
const NEWEST_ORDER_AUDIT: &str = include_str!("../sql/reader/newest_order_audit.sql");

const ROLE: DbRole = DbRole::Viewer;

/// The SQLite implementation of [`ReaderStore`], with the rights of the role `viewer`.
#[derive(Debug, Clone)]
pub struct SqliteReader(pub(crate) SqliteStore);

impl ReaderStore for SqliteReader {
    async fn event(&self, id: EventId) -> StoreResult<Option<StoredEvent>> {
        self.0.read(ROLE, "reading an event", move |session| events::one_event(session, id)).await
    }

    async fn events(&self, filter: EventFilter, page: PageRequest) -> StoreResult<Page<StoredEvent>> {
        self.0.read(ROLE, "listing events", move |session| events::list_events(session, &filter, page)).await
    }

    async fn event_heads(&self, filter: EventFilter, page: PageRequest) -> StoreResult<Page<EventHead>> {
        self.0.read(ROLE, "listing events", move |session| events::heads(session, &filter, page)).await
    }

    async fn subscription(&self, id: SubscriptionId) -> StoreResult<Option<Subscription>> {
        self.0
            .read(ROLE, "reading a subscription", move |session| {
                one(session, &SUBSCRIPTION, [id.get()], read_subscription)
            })
            .await
    }

    async fn find_public_key(&self, fingerprint: String) -> StoreResult<Option<String>> {
        self.0
            .read(ROLE, "looking up a public key", move |session| {
                one(session, FIND_PUBLIC_KEY, [fingerprint], |row| Ok(get(row, "public_key")?))
            })
            .await
    }

    async fn subscriptions(
        &self,
        filter: SubscriptionFilter,
        page: PageRequest,
    ) -> StoreResult<Page<Subscription>> {
        self.0.read(ROLE, "listing subscriptions", move |session| subscriptions(session, &filter, page)).await
    }

    async fn delivery(&self, id: SagaId) -> StoreResult<Option<(Delivery, Vec<Attempt>)>> {
        self.0
            .read(ROLE, "reading a delivery", move |session| {
                let Some(delivery) = one(session, DELIVERY, [id.get()], read_delivery)? else {
                    return Ok(None);
                };
                Ok(Some((delivery, all(session, ATTEMPTS, [id.get()], read_attempt)?)))
            })
            .await
    }

    async fn deliveries(&self, filter: DeliveryFilter, page: PageRequest) -> StoreResult<Page<Delivery>> {
        self.0.read(ROLE, "listing deliveries", move |session| deliveries(session, &filter, page)).await
    }

    async fn dead_letter(&self, id: DeadLetterId) -> StoreResult<Option<DeadLetter>> {
        self.0.read(ROLE, "reading a dead letter", move |session| letters::one_letter(session, id)).await
    }

    async fn dead_letters(
        &self,
        filter: DeadLetterFilter,
        page: PageRequest,
    ) -> StoreResult<Page<DeadLetter>> {
        self.0
            .read(ROLE, "listing dead letters", move |session| letters::list_letters(session, &filter, page))
            .await
    }

    async fn dead_letter_heads(
        &self,
        filter: DeadLetterFilter,
        page: PageRequest,
    ) -> StoreResult<Page<DeadLetterHead>> {
        self.0.read(ROLE, "listing dead letters", move |session| letters::heads(session, &filter, page)).await
    }

    async fn lineage(&self, id: SagaId) -> StoreResult<Lineage> {
        self.0.read(ROLE, "reading a lineage", move |session| letters::lineage(session, id)).await
    }

    async fn count_requeued(&self, range: RequeuedRange) -> StoreResult<RequeuedFates> {
        self.0
            .read(ROLE, "counting requeued deliveries", move |session| {
                letters::count_requeued(session, &range)
            })
            .await
    }

    async fn order(&self, key: IdempotencyKey) -> StoreResult<Option<OrderRecord>> {
        self.0
            .read(ROLE, "reading an order", move |session| one(session, ORDER, [key.as_str()], read_order))
            .await
    }

    async fn orders(&self, status: Option<OrderStatus>, page: PageRequest) -> StoreResult<Page<OrderRecord>> {
        self.0
            .read(ROLE, "listing orders", move |session| {
                list(session, ORDERS, params![page::below(page), page::rows_max(page)], page, |row| {
                    let found = value::word(row, "status", OrderStatus::parse)?;
                    if status.is_some_and(|wanted| wanted != found) {
                        Ok(None)
                    } else {
                        read_order(row).map(Some)
                    }
                })
            })
            .await
    }

    async fn order_audit(&self, key: IdempotencyKey, page: PageRequest) -> StoreResult<Page<AuditEntry>> {
        let (after, rows_max) = (page.after.unwrap_or_default(), i64::from(page.items_max) + 1);
        self.0
            .read(ROLE, "reading an audit", move |session| {
                let entries = all(session, ORDER_AUDIT, params![key.as_str(), after, rows_max], read_audit)?;
                Ok(Page::of_one_more(entries, page.items_max, |entry| entry.id.get()))
            })
            .await
    }

    async fn newest_order_audit(
        &self,
        key: IdempotencyKey,
        entries_max: u32,
    ) -> StoreResult<Vec<AuditEntry>> {
        self.0
            .read(ROLE, "reading an audit", move |session| {
                all(session, NEWEST_ORDER_AUDIT, params![key.as_str(), entries_max], read_audit)
            })
            .await
    }

    async fn operator_audit(
        &self,
        filter: OperatorAuditFilter,
        page: PageRequest,
    ) -> StoreResult<Page<OperatorAuditEntry>> {
        self.0
            .read(ROLE, "reading the operator audit", move |session| {
                audit::list_audit(session, &filter, page)
            })
            .await
    }

    async fn lane(&self) -> StoreResult<LaneStanding> {
        self.0.read(ROLE, "reading the lane", lane_row::view).await
    }
}

pub(crate) fn within(found: Timestamp, since: Option<Timestamp>, until: Option<Timestamp>) -> bool {
    since.is_none_or(|since| found >= since) && until.is_none_or(|until| found < until)
}

fn subscriptions(
    session: &Session<'_>,
    filter: &SubscriptionFilter,
    page: PageRequest,
) -> Answer<Page<Subscription>> {
    let (below, rows_max) = (page::below(page), page::rows_max(page));
    let read = |row: &Row<'_>| {
        let found = read_subscription(row)?;
        Ok((found.deleted_at.is_none() && filter.matches(&found)).then_some(found))
    };
    list(session, &SUBSCRIPTIONS, params![below, rows_max], page, read)
}

fn deliveries(session: &Session<'_>, filter: &DeliveryFilter, page: PageRequest) -> Answer<Page<Delivery>> {
    let (below, rows_max) = (page::below(page), page::rows_max(page));
    let read = |row: &Row<'_>| {
        let found = read_delivery(row)?;
        let matches = filter.event_id.is_none_or(|wanted| wanted == found.saga.event_id)
            && filter.subscription_id.is_none_or(|wanted| wanted == found.saga.subscription_id)
            && filter.status.is_none_or(|wanted| wanted == found.saga.state.status)
            && filter.event_type.as_ref().is_none_or(|wanted| *wanted == found.event_type)
            && (filter.tenant.is_none() || filter.tenant == found.tenant)
            && (filter.error_code.is_none() || filter.error_code == found.saga.state.final_error_code)
            && within(found.saga.created_at, filter.since, filter.until);
        Ok(matches.then_some(found))
    };
    match (filter.event_id, filter.status) {
        (Some(id), _) => list(session, DELIVERIES_OF_EVENT, params![below, rows_max, id.get()], page, read),
        (None, Some(status)) => {
            list(session, DELIVERIES_OF_STATUS, params![below, rows_max, status.as_str()], page, read)
        }
        (None, None) => list(session, DELIVERIES, params![below, rows_max], page, read),
    }
}

pub(crate) fn one<T>(
    session: &Session<'_>,
    sql: &'static str,
    values: impl Params,
    read: impl FnOnce(&Row<'_>) -> Answer<T>,
) -> Answer<Option<T>> {
    let mut statement = session.statement(sql)?;
    let mut found = statement.query(values)?;
    found.next()?.map(read).transpose()
}

pub(crate) fn all<T>(
    session: &Session<'_>,
    sql: &'static str,
    values: impl Params,
    read: impl Fn(&Row<'_>) -> Answer<T>,
) -> Answer<Vec<T>> {
    let mut items = Vec::new();
    let mut statement = session.statement(sql)?;
    let mut found = statement.query(values)?;
    while let Some(row) = found.next()? {
        items.push(read(row)?);
    }
    Ok(items)
}

pub(crate) fn list<T>(
    session: &Session<'_>,
    sql: &'static str,
    values: impl Params,
    page: PageRequest,
    read: impl Fn(&Row<'_>) -> Answer<Option<T>>,
) -> Answer<Page<T>> {
    let mut statement = session.statement(sql)?;
    page::fill(statement.query(values)?, page, read)
}

/// Adds the payloads to a page, reading them one by one. The page ends before the payload with which the total size
/// would exceed [`PAGE_BYTES_MAX`], but contains at least one. Items whose rows were deleted are omitted.
pub(crate) fn with_payloads<T, U>(
    session: &Session<'_>,
    sql: &'static str,
    page: Page<T>,
    id: fn(&T) -> i64,
    join: fn(T, JsonText) -> U,
) -> Answer<Page<U>> {
    let mut items = Vec::with_capacity(page.items.len());
    let (mut bytes, mut last) = (0, None);
    for head in page.items {
        let id = id(&head);
        let Some(payload) = one(session, sql, [id], |row| Ok(row.get::<_, String>(0)?))? else { continue };
        bytes += payload.len();
        if bytes > PAGE_BYTES_MAX && !items.is_empty() {
            return Ok(Page { items, next: last });
        }
        last = Some(id);
        items.push(join(head, JsonText::from_store(payload)));
    }
    Ok(Page { items, next: page.next })
}

pub(crate) fn read_delivery(row: &Row<'_>) -> Answer<Delivery> {
    let saga = Saga {
        id: SagaId::from_store(get(row, "id")?),
        event_id: EventId::from_store(get(row, "event_id")?),
        subscription_id: SubscriptionId::from_store(get(row, "subscription_id")?),
        state: StateColumns::of(row.as_ref())?.read(row)?,
        requeued_from: value::maybe_id(row, "requeued_from", DeadLetterId::from_store)?,
        created_at: value::time(row, "created_at")?,
        updated_at: value::time(row, "updated_at")?,
    };
    let tenant = get::<Option<String>>(row, "tenant")?.map(Tenant::from_store);
    Ok(Delivery { saga, event_type: EventType::from_store(get(row, "event_type")?), tenant })
}

pub(crate) fn read_attempt(row: &Row<'_>) -> Answer<Attempt> {
    Ok(Attempt {
        job_id: JobId::from_store(get(row, "id")?),
        status: value::word(row, "status", JobStatus::parse)?,
        attempt_at: value::time(row, "attempt_at")?,
        response_status: get(row, "response_status")?,
        error_code: value::error_code(row, "error_code")?,
        duration_ms: get(row, "duration_ms")?,
        worker_id: get(row, "worker_id")?,
        lease_resets: get(row, "lease_resets")?,
    })
}

fn read_audit(row: &Row<'_>) -> Answer<AuditEntry> {
    Ok(AuditEntry {
        id: AuditId::from_store(get(row, "id")?),
        status_from: value::maybe_word(row, "status_from", OrderStatus::parse)?,
        status_to: value::word(row, "status_to", OrderStatus::parse)?,
        retry_count: get(row, "retry_count")?,
        last_error: get(row, "last_error")?,
        idempotency_key: IdempotencyKey::from_store(get(row, "idempotency_key")?),
        trace_id: get(row, "trace_id")?,
        broker_order_id: get(row, "broker_order_id")?,
        worker_id: get(row, "worker_id")?,
        note: get(row, "note")?,
        created_at: value::time(row, "created_at")?,
    })
}
