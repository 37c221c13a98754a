//! Reads all data except secrets and key hashes, for the API and the dashboard.

use crate::columns::{SqlText, sql};
use crate::grants::DbRole;
use crate::postgres::PostgresStore;
use crate::postgres::conn::pool::RolePool;
use crate::postgres::conn::session::{Params, Session};
use crate::postgres::conn::value::{
    Instant, count, count_or_none, error_code, get, id_or_none, instant, word,
};
use crate::postgres::roles::audit;
use crate::postgres::roles::events;
use crate::postgres::roles::lane_row;
use crate::postgres::roles::letters;
use crate::postgres::roles::orchestrator::saga_state;
use crate::postgres::roles::order_row::{order_record, order_status};
use crate::postgres::roles::page;
use crate::postgres::roles::subscriptions::subscription;
use crate::remote::{Call, Fault};
use posthaste_core::audit::{OperatorAuditEntry, OperatorAuditFilter};
use posthaste_core::event::EventType;
use posthaste_core::identity::{SubscriptionName, Uid};
use posthaste_core::job::JobStatus;
use posthaste_core::order::{IdempotencyKey, OrderStatus};
use posthaste_core::outcome::ErrorCode;
use posthaste_core::pattern::probes;
use posthaste_core::ports::{
    Attempt, AuditEntry, DeadLetter, DeadLetterFilter, DeadLetterHead, Delivery, DeliveryFilter, EventFilter,
    EventHead, LaneStanding, Lineage, OrderRecord, Page, PageRequest, ReaderStore, RequeuedFates,
    RequeuedRange, StoreResult, StoredEvent, SubscriptionFilter,
};
use posthaste_core::saga::{Saga, SagaStatus};
use posthaste_core::subscription::{Standing, Subscription};
use posthaste_core::tenant::Tenant;
use posthaste_core::{AuditId, DeadLetterId, EventId, JobId, SagaId, SubscriptionId};
use tokio_postgres::Row;

static SUBSCRIPTIONS: SqlText = sql!("../sql/reader/subscriptions.sql");
static SUBSCRIPTION: SqlText = sql!("../sql/reader/subscription.sql");

/// The PostgreSQL implementation of [`ReaderStore`], with the rights of the role `viewer`.
#[derive(Debug, Clone)]
pub struct PostgresReader {
    pool: RolePool,
}

impl PostgresReader {
    pub(crate) fn new(store: &PostgresStore) -> Self {
        Self { pool: store.pool(DbRole::Viewer) }
    }
}

impl ReaderStore for PostgresReader {
    async fn event(&self, id: EventId) -> StoreResult<Option<StoredEvent>> {
        self.pool.call(Call::repeatable("reading an event"), |session| events::one(session, id)).await
    }

    async fn events(&self, filter: EventFilter, page: PageRequest) -> StoreResult<Page<StoredEvent>> {
        let call = Call::repeatable("listing events");
        self.pool.call(call, |session| events::list(session, &filter, page)).await
    }

    async fn event_heads(&self, filter: EventFilter, page: PageRequest) -> StoreResult<Page<EventHead>> {
        let call = Call::repeatable("listing events");
        self.pool.call(call, |session| events::heads(session, &filter, page)).await
    }

    async fn subscription(&self, id: SubscriptionId) -> StoreResult<Option<Subscription>> {
        let call = Call::repeatable("reading a subscription");
        self.pool.call(call, |session| one_subscription(session, id)).await
    }

    async fn find_public_key(&self, fingerprint: String) -> StoreResult<Option<String>> {
        let call = Call::repeatable("looking up a public key");
        self.pool.call(call, |session| find_public_key(session, &fingerprint)).await
    }

    async fn subscriptions(
        &self,
        filter: SubscriptionFilter,
        page: PageRequest,
    ) -> StoreResult<Page<Subscription>> {
        let call = Call::repeatable("listing subscriptions");
        self.pool.call(call, |session| subscriptions(session, &filter, page)).await
    }

    async fn delivery(&self, id: SagaId) -> StoreResult<Option<(Delivery, Vec<Attempt>)>> {
        self.pool.call(Call::repeatable("reading a delivery"), |session| one_delivery(session, id)).await
    }

    async fn deliveries(&self, filter: DeliveryFilter, page: PageRequest) -> StoreResult<Page<Delivery>> {
        let call = Call::repeatable("listing deliveries");
        self.pool.call(call, |session| deliveries(session, &filter, page)).await
    }

    async fn dead_letter(&self, id: DeadLetterId) -> StoreResult<Option<DeadLetter>> {
        let call = Call::repeatable("reading a dead letter");
        self.pool.call(call, |session| letters::one(session, id)).await
    }

    async fn dead_letters(
        &self,
        filter: DeadLetterFilter,
        page: PageRequest,
    ) -> StoreResult<Page<DeadLetter>> {
        let call = Call::repeatable("listing dead letters");
        self.pool.call(call, |session| letters::list(session, &filter, page)).await
    }

    async fn dead_letter_heads(
        &self,
        filter: DeadLetterFilter,
        page: PageRequest,
    ) -> StoreResult<Page<DeadLetterHead>> {
        let call = Call::repeatable("listing dead letters");
        self.pool.call(call, |session| letters::heads(session, &filter, page)).await
    }

    async fn lineage(&self, id: SagaId) -> StoreResult<Lineage> {
        self.pool.call(Call::repeatable("reading a lineage"), |session| letters::lineage(session, id)).await
    }

    async fn count_requeued(&self, range: RequeuedRange) -> StoreResult<RequeuedFates> {
        let call = Call::repeatable("counting requeued deliveries");
        self.pool.call(call, |session| letters::count_requeued(session, &range)).await
    }

    async fn order(&self, key: IdempotencyKey) -> StoreResult<Option<OrderRecord>> {
        self.pool.call(Call::repeatable("reading an order"), |session| order(session, &key)).await
    }

    async fn orders(&self, status: Option<OrderStatus>, page: PageRequest) -> StoreResult<Page<OrderRecord>> {
        self.pool.call(Call::repeatable("listing orders"), |session| orders(session, status, page)).await
    }

    async fn order_audit(&self, key: IdempotencyKey, page: PageRequest) -> StoreResult<Page<AuditEntry>> {
        self.pool.call(Call::repeatable("reading an audit"), |session| order_audit(session, &key, page)).await
    }

    async fn newest_order_audit(
        &self,
        key: IdempotencyKey,
        entries_max: u32,
    ) -> StoreResult<Vec<AuditEntry>> {
        let call = Call::repeatable("reading an audit");
        self.pool.call(call, |session| newest_audit(session, &key, entries_max)).await
    }

    async fn operator_audit(
        &self,
        filter: OperatorAuditFilter,
        page: PageRequest,
    ) -> StoreResult<Page<OperatorAuditEntry>> {
        let call = Call::repeatable("reading the operator audit");
        self.pool.call(call, |session| audit::list(session, &filter, page)).await
    }

    async fn lane(&self) -> StoreResult<LaneStanding> {
        self.pool.call(Call::repeatable("reading the lane"), lane_row::view).await
    }
}

async fn one_subscription(mut session: Session, id: SubscriptionId) -> Result<Option<Subscription>, Fault> {
    let rows = session.read(&SUBSCRIPTION, &[&id.get()]).await?;
    rows.first().map(subscription).transpose()
}

async fn find_public_key(mut session: Session, fingerprint: &str) -> Result<Option<String>, Fault> {
    let sql = include_str!("../sql/reader/find_public_key.sql");
    let rows = session.read(sql, &[&fingerprint]).await?;
    rows.first().map(|row| get(row, "public_key")).transpose()
}

async fn subscriptions(
    mut session: Session,
    filter: &SubscriptionFilter,
    request: PageRequest,
) -> Result<Page<Subscription>, Fault> {
    let below = page::below(request);
    let patterns = filter.event_type.as_ref().map(probes);
    let (verified, active) = match filter.standing {
        None => (None, None),
        Some(Standing::Active) => (Some(true), Some(true)),
        Some(Standing::Paused) => (Some(true), Some(false)),
        Some(Standing::Unverified) => (Some(false), None),
    };
    let (rows_max, examined_max) = (page::rows_max(request), page::examined_max(request));
    let (tenant, uid) = (filter.tenant.as_ref().map(Tenant::as_str), filter.uid.as_ref().map(Uid::as_str));
    let name = filter.name.as_ref().map(SubscriptionName::as_str);
    let metadata = (!filter.metadata.is_empty()).then(|| filter.metadata.to_json());
    let values: Params<'_> =
        &[&below, &patterns, &verified, &active, &rows_max, &examined_max, &tenant, &uid, &name, &metadata];
    let found = session.read(&SUBSCRIPTIONS, values).await?;
    let last = include_str!("../sql/reader/last_subscription_examined.sql");
    page::fill(&mut session, request, &found, subscription, (last, &[&below, &examined_max])).await
}

async fn one_delivery(mut session: Session, id: SagaId) -> Result<Option<(Delivery, Vec<Attempt>)>, Fault> {
    let rows = session.read(include_str!("../sql/reader/delivery.sql"), &[&id.get()]).await?;
    let Some(row) = rows.first() else {
        return Ok(None);
    };
    let delivery = delivery(row)?;
    let rows = session.read(include_str!("../sql/reader/attempts.sql"), &[&id.get()]).await?;
    let attempts = rows.iter().map(attempt).collect::<Result<_, Fault>>()?;
    Ok(Some((delivery, attempts)))
}

async fn deliveries(
    mut session: Session,
    filter: &DeliveryFilter,
    request: PageRequest,
) -> Result<Page<Delivery>, Fault> {
    let below = page::below(request);
    let status = filter.status.map(SagaStatus::as_str);
    let subscription = filter.subscription_id.map(SubscriptionId::get);
    let event_type = filter.event_type.as_ref().map(EventType::as_str);
    let event = filter.event_id.map(EventId::get);
    let sql = if event.is_some() {
        include_str!("../sql/reader/deliveries_of_event.sql")
    } else {
        include_str!("../sql/reader/deliveries.sql")
    };
    let error_code = filter.error_code.as_ref().map(ErrorCode::as_str);
    let (since, until) = (filter.since.map(Instant), filter.until.map(Instant));
    let (rows_max, examined_max) = (page::rows_max(request), page::examined_max(request));
    let tenant = filter.tenant.as_ref().map(Tenant::as_str);
    let params: [&(dyn tokio_postgres::types::ToSql + Sync); 11] = [
        &below,
        &status,
        &subscription,
        &event_type,
        &event,
        &error_code,
        &since,
        &until,
        &rows_max,
        &examined_max,
        &tenant,
    ];
    let found = session.read(sql, &params).await?;
    let last = include_str!("../sql/reader/last_delivery_examined.sql");
    page::fill(&mut session, request, &found, delivery, (last, &[&below, &event, &examined_max])).await
}

pub(crate) fn delivery(row: &Row) -> Result<Delivery, Fault> {
    let saga = Saga {
        id: SagaId::from_store(get(row, "id")?),
        event_id: EventId::from_store(get(row, "event_id")?),
        subscription_id: SubscriptionId::from_store(get(row, "subscription_id")?),
        state: saga_state(row)?,
        requeued_from: id_or_none(row, "requeued_from", DeadLetterId::from_store)?,
        created_at: instant(row, "created_at")?,
        updated_at: instant(row, "updated_at")?,
    };
    let tenant = get::<Option<String>>(row, "tenant")?.map(Tenant::from_store);
    Ok(Delivery { saga, event_type: EventType::from_store(get(row, "event_type")?), tenant })
}

pub(crate) fn attempt(row: &Row) -> Result<Attempt, Fault> {
    let answered = get::<Option<i32>>(row, "response_status")?;
    Ok(Attempt {
        job_id: JobId::from_store(get(row, "id")?),
        status: word(row, "status", JobStatus::parse)?,
        attempt_at: instant(row, "attempt_at")?,
        response_status: answered.and_then(|status| u16::try_from(status).ok()),
        error_code: error_code(row, "error_code")?,
        duration_ms: count_or_none(row, "duration_ms")?,
        worker_id: get(row, "worker_id")?,
        lease_resets: count(row, "lease_resets")?,
    })
}

async fn order(mut session: Session, key: &IdempotencyKey) -> Result<Option<OrderRecord>, Fault> {
    let rows = session.read(include_str!("../sql/reader/order.sql"), &[&key.as_str()]).await?;
    rows.first().map(order_record).transpose()
}

async fn orders(
    mut session: Session,
    status: Option<OrderStatus>,
    request: PageRequest,
) -> Result<Page<OrderRecord>, Fault> {
    let below = page::below(request);
    let status = status.map(OrderStatus::as_str);
    let sql = include_str!("../sql/reader/orders.sql");
    let (rows_max, examined_max) = (page::rows_max(request), page::examined_max(request));
    let found = session.read(sql, &[&below, &status, &rows_max, &examined_max]).await?;
    let last = include_str!("../sql/reader/last_order_examined.sql");
    page::fill(&mut session, request, &found, order_record, (last, &[&below, &examined_max])).await
}

async fn order_audit(
    mut session: Session,
    key: &IdempotencyKey,
    page: PageRequest,
) -> Result<Page<AuditEntry>, Fault> {
    let sql = include_str!("../sql/reader/order_audit.sql");
    let (after, rows_max) = (page.after.unwrap_or_default(), i64::from(page.items_max) + 1);
    let rows = session.read(sql, &[&key.as_str(), &after, &rows_max]).await?;
    let entries: Result<Vec<AuditEntry>, Fault> = rows.iter().map(audit_entry).collect();
    Ok(Page::of_one_more(entries?, page.items_max, |entry| entry.id.get()))
}

async fn newest_audit(
    mut session: Session,
    key: &IdempotencyKey,
    entries_max: u32,
) -> Result<Vec<AuditEntry>, Fault> {
    let sql = include_str!("../sql/reader/newest_order_audit.sql");
    let rows = session.read(sql, &[&key.as_str(), &i64::from(entries_max)]).await?;
    rows.iter().map(audit_entry).collect()
}

fn audit_entry(row: &Row) -> Result<AuditEntry, Fault> {
    Ok(AuditEntry {
        id: AuditId::from_store(get(row, "id")?),
        status_from: get::<Option<&str>>(row, "status_from")?.map(order_status).transpose()?,
        status_to: word(row, "status_to", OrderStatus::parse)?,
        retry_count: count(row, "retry_count")?,
        last_error: get(row, "last_error")?,
        idempotency_key: IdempotencyKey::from_store(get(row, "idempotency_key")?),
        trace_id: get(row, "trace_id")?,
        broker_order_id: get(row, "broker_order_id")?,
        worker_id: get(row, "worker_id")?,
        note: get(row, "note")?,
        created_at: instant(row, "created_at")?,
    })
}
