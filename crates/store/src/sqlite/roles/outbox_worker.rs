//! Claims orders, which the intake stored, records the broker's responses, and resets orders whose sender never
//! reported. [`batch`] determines the changes to orders, and [`Lane`] how many orders may be sent.

use posthaste_core::digest::{Digest, canonical_of};
use posthaste_core::lane::{ClaimMode, Lane};
use posthaste_core::order::batch::{self, HeldOrders, OrderChange};
use posthaste_core::order::{IdempotencyKey, OrderSignal, OrderUpdate};
use posthaste_core::ports::{
    ClaimedOrder, ClaimedOrders, NextOrders, OrderRecord, OrderReport, OutboxClaim, OutboxWorkerStore,
    RestartedWaits, Settled, StoreResult, WaitPage,
};
use posthaste_core::retry::OrderRetryPolicy;
use posthaste_core::{LeaseToken, OrderId, Timestamp};
use rusqlite::{Params, Row, params};
use std::time::Duration;

use crate::grants::DbRole;
use crate::sqlite::SqliteStore;
use crate::sqlite::conn::error::Answer;
use crate::sqlite::conn::session::Session;
use crate::sqlite::conn::value::{self, get};
use crate::sqlite::roles::lane_row::{count_sending, load_lane, save_lane};
use crate::sqlite::roles::order_row::{read_claim, read_order};

const FETCH_DUE_ORDERS: &str = include_str!("../sql/outbox_worker/fetch_due_orders.sql");
const FETCH_WAITING_ORDERS: &str = include_str!("../sql/outbox_worker/fetch_waiting_orders.sql");
const FETCH_STUCK_ORDERS: &str = include_str!("../sql/outbox_worker/fetch_stuck_orders.sql");
const LIST_QUEUED_ORDERS: &str = include_str!("../sql/outbox_worker/list_queued_orders.sql");
const CLAIM_ORDERS: &str = include_str!("../sql/outbox_worker/claim_orders.sql");
const FIND_ORDER: &str = include_str!("../sql/outbox_worker/find_order.sql");
const REQUEUE_ORDER: &str = include_str!("../sql/outbox_worker/requeue_order.sql");
const SETTLE_ORDER: &str = include_str!("../sql/outbox_worker/settle_order.sql");
const REWIND_ORDER: &str = include_str!("../sql/outbox_worker/rewind_order.sql");
const SETTLE_LEDGER: &str = include_str!("../sql/outbox_worker/settle_ledger.sql");
const PURGE_LEDGER: &str = include_str!("../sql/outbox_worker/purge_ledger.sql");
const NEXT_ORDERS_AT: &str = include_str!("../sql/outbox_worker/next_orders_at.sql");

const ROLE: DbRole = DbRole::OutboxWorker;

/// The SQLite implementation of [`OutboxWorkerStore`], with the rights of the role `outbox_worker`.
#[derive(Debug, Clone)]
pub struct SqliteOutboxWorker(pub(crate) SqliteStore);

impl OutboxWorkerStore for SqliteOutboxWorker {
    async fn requeue_due_orders(
        &self,
        orders_max: u32,
        policy: OrderRetryPolicy,
        now: Timestamp,
    ) -> StoreResult<Vec<OrderRecord>> {
        self.0
            .write(ROLE, "requeueing orders", move |session| {
                let due = list_claims(session, FETCH_DUE_ORDERS, params![now.micros(), orders_max])?;
                let changes = batch::changes(due, |_| OrderSignal::Due, policy, now);
                write(session, REQUEUE_ORDER, &changes, now)
            })
            .await
    }

    async fn restart_waits(
        &self,
        page: WaitPage,
        policy: OrderRetryPolicy,
        now: Timestamp,
    ) -> StoreResult<RestartedWaits> {
        self.0
            .write(ROLE, "restarting waits of orders", move |session| {
                let limits = params![page.from.micros(), page.rows_max];
                let waiting = list_claims(session, FETCH_WAITING_ORDERS, limits)?;
                let (count, last) = (waiting.len(), waiting.last().map(|order| order.next_attempt_at));
                let signal = |order: &OrderRecord| OrderSignal::ClockStep { since: order.updated_at };
                let changes = batch::changes(waiting, signal, policy, now);
                let restarted = write(session, REQUEUE_ORDER, &changes, now)?;
                Ok(RestartedWaits::of_page(page, count, restarted.len(), last))
            })
            .await
    }

    async fn next_orders_at(&self) -> StoreResult<NextOrders> {
        self.0.read(ROLE, "finding the next orders", next_orders_at).await
    }

    async fn claim_orders(&self, claim: OutboxClaim, now: Timestamp) -> StoreResult<ClaimedOrders> {
        self.0.write(ROLE, "claiming orders", move |session| claim_orders(session, &claim, now)).await
    }

    async fn settle_orders(
        &self,
        reports: Vec<OrderReport>,
        policy: OrderRetryPolicy,
        now: Timestamp,
    ) -> StoreResult<Vec<Settled>> {
        self.0.write(ROLE, "settling orders", move |session| settle(session, &reports, policy, now)).await
    }

    async fn release_orders(
        &self,
        orders: Vec<OrderId>,
        token: LeaseToken,
        policy: OrderRetryPolicy,
        now: Timestamp,
    ) -> StoreResult<u32> {
        self.0
            .write(ROLE, "releasing orders", move |session| {
                let released = end_claim(session, &orders, token, &OrderSignal::Unsent, policy, now)?;
                Ok(u32::try_from(released.len()).unwrap_or(u32::MAX))
            })
            .await
    }

    async fn rewind_stuck_orders(
        &self,
        stuck_threshold: Duration,
        orders_max: u32,
        policy: OrderRetryPolicy,
        now: Timestamp,
    ) -> StoreResult<Vec<OrderRecord>> {
        self.0
            .write(ROLE, "rewinding orders", move |session| {
                let (before, after) = (now.before(stuck_threshold), now.after(stuck_threshold));
                let limits = params![before.micros(), orders_max, after.micros()];
                let stuck = list_claims(session, FETCH_STUCK_ORDERS, limits)?;
                let changes = batch::changes(stuck, |_| OrderSignal::Stuck, policy, now);
                write(session, REWIND_ORDER, &changes, now)
            })
            .await
    }

    async fn purge_ledger(&self, rows_max: u32, now: Timestamp) -> StoreResult<u32> {
        self.0
            .write(ROLE, "purging the ledger", move |session| {
                let purged = session.run(PURGE_LEDGER, params![now.micros(), rows_max])?;
                Ok(u32::try_from(purged).unwrap_or(u32::MAX))
            })
            .await
    }

    async fn load_lane(&self) -> StoreResult<Lane> {
        self.0.read(ROLE, "loading the lane", load_lane).await
    }
}

fn claim_orders(session: &Session<'_>, claim: &OutboxClaim, now: Timestamp) -> Answer<ClaimedOrders> {
    let lane = load_lane(session)?;
    if claim.again {
        // A failed claim has no effect, since no response can be lost without a network.
        return Ok(ClaimedOrders::nothing(false, lane));
    }
    let (orders_max, probe) = match lane.may_claim(count_sending(session)?, claim.orders_max, now) {
        ClaimMode::Normal(orders_max) => (orders_max, false),
        ClaimMode::Probe => (1, true),
        ClaimMode::Nothing => return Ok(ClaimedOrders::nothing(true, lane)),
    };
    let (mut orders, mut unreadable) = (Vec::new(), Vec::new());
    for (id, order) in list_queued(session, orders_max, now)? {
        let values = params![id.get(), value::token(claim.token), claim.worker_id.as_str(), now.micros()];
        session.run(CLAIM_ORDERS, values)?;
        match order {
            Some(order) => orders.push(order),
            None => unreadable.push(id),
        }
    }
    // This signal marks an order as dead regardless of the policy.
    let (signal, policy) = (OrderSignal::Unreadable, OrderRetryPolicy::ORDER);
    let set_aside = end_claim(session, &unreadable, claim.token, &signal, policy, now)?;
    let sends = u32::try_from(orders.len()).unwrap_or(u32::MAX);
    let probe_until = probe.then(|| now.after(claim.probe_for));
    let after = lane.clone().after_claim(sends, probe_until, now);
    if after != lane {
        save_lane(session, &after)?;
    }
    Ok(ClaimedOrders { probe, held: false, orders, set_aside, lane: after })
}

/// Returns the oldest queued orders. The content is `None` for an order that must not be sent.
fn list_queued(
    session: &Session<'_>,
    orders_max: u32,
    now: Timestamp,
) -> Answer<Vec<(OrderId, Option<ClaimedOrder>)>> {
    let mut queued = Vec::new();
    let mut list = session.statement(LIST_QUEUED_ORDERS)?;
    let mut rows = list.query([orders_max])?;
    while let Some(row) = rows.next()? {
        queued.push((OrderId::from_store(get(row, "id")?), read_claimed(row, now)?));
    }
    Ok(queued)
}

/// Ends a claim without a response from the broker. Orders that no longer have the token of the claim are not changed.
fn end_claim(
    session: &Session<'_>,
    orders: &[OrderId],
    token: LeaseToken,
    signal: &OrderSignal<'_>,
    policy: OrderRetryPolicy,
    now: Timestamp,
) -> Answer<Vec<OrderRecord>> {
    let mut held = Vec::new();
    for id in orders {
        let claim = find_claim(session, *id)?.filter(|(_, holder)| *holder == Some(token));
        held.extend(claim.map(|(order, _)| order));
    }
    let changes = batch::changes(held, |_| signal.clone(), policy, now);
    write(session, REWIND_ORDER, &changes, now)
}

fn next_orders_at(session: &Session<'_>) -> Answer<NextOrders> {
    let mut find = session.statement(NEXT_ORDERS_AT)?;
    let mut found = find.query([])?;
    let Some(row) = found.next()? else { return Ok(NextOrders::default()) };
    Ok(NextOrders { has_queued: get(row, "has_queued")?, failed_at: value::maybe_time(row, "failed_at")? })
}

/// Returns the order to send, or `None` if its key is invalid or its content does not match its digest.
fn read_claimed(row: &Row<'_>, now: Timestamp) -> Answer<Option<ClaimedOrder>> {
    let request_digest = Digest::from_store(get(row, "request_digest")?);
    let canonical = canonical_of(value::text(row, "request_json")?, &request_digest);
    let (Some(canonical), Ok(idempotency_key)) =
        (canonical, IdempotencyKey::parse(get::<String>(row, "idempotency_key")?))
    else {
        return Ok(None);
    };
    Ok(Some(ClaimedOrder {
        id: OrderId::from_store(get(row, "id")?),
        idempotency_key,
        canonical,
        request_digest,
        trace_id: get(row, "trace_id")?,
        retry_count: get(row, "retry_count")?,
        created_at: value::time(row, "created_at")?,
        claimed_at: now,
    }))
}

fn settle(
    session: &Session<'_>,
    reports: &[OrderReport],
    policy: OrderRetryPolicy,
    now: Timestamp,
) -> Answer<Vec<Settled>> {
    let before = load_lane(session)?;
    let mut held = HeldOrders::new();
    for report in reports {
        held.extend(find_claim(session, report.id)?.map(|claim| (report.id, claim)));
    }
    let (changes, lane) = batch::settle(reports, &held, before.clone(), policy, now);
    let mut settled = Vec::with_capacity(changes.len());
    for (order, update) in &changes {
        let token = held.get(&order.id).and_then(|(_, token)| *token);
        settled.extend(write_settled(session, order, token, update, now)?);
    }
    if lane != before {
        save_lane(session, &lane)?;
    }
    Ok(batch::answers(reports, &held, settled))
}

/// Writes each change with the given statement. Returns the changed orders.
fn write(
    session: &Session<'_>,
    sql: &'static str,
    changes: &[OrderChange],
    now: Timestamp,
) -> Answer<Vec<OrderRecord>> {
    let mut changed = Vec::with_capacity(changes.len());
    for (order, update) in changes {
        changed.extend(write_update(session, sql, order.id, update, now)?);
    }
    Ok(changed)
}

fn write_settled(
    session: &Session<'_>,
    order: &OrderRecord,
    token: Option<LeaseToken>,
    update: &OrderUpdate,
    now: Timestamp,
) -> Answer<Option<OrderRecord>> {
    let receipt = update.receipt.as_ref();
    let broker_order_id = receipt.and_then(|receipt| receipt.broker_order_id.as_deref());
    let result_digest = receipt.map(|receipt| receipt.result_digest.as_str());
    let result_json = receipt.and_then(|receipt| receipt.result_json.as_ref()).map(|json| json.as_str());
    if receipt.is_some() {
        session
            .run(SETTLE_LEDGER, params![order.idempotency_key.as_str(), result_digest, broker_order_id])?;
    }
    let values = params![
        order.id.get(),
        update.status.as_str(),
        update.retry_count,
        update.next_attempt_at.micros(),
        update.last_error.as_ref().map(|code| code.as_str()),
        update.maybe_executed,
        update.note,
        now.micros(),
        broker_order_id,
        result_digest,
        result_json,
        token.map(value::token),
    ];
    updated(session, SETTLE_ORDER, values)
}

fn write_update(
    session: &Session<'_>,
    sql: &'static str,
    id: OrderId,
    update: &OrderUpdate,
    now: Timestamp,
) -> Answer<Option<OrderRecord>> {
    let values = params![
        id.get(),
        update.status.as_str(),
        update.retry_count,
        update.next_attempt_at.micros(),
        update.last_error.as_ref().map(|code| code.as_str()),
        update.maybe_executed,
        update.note,
        now.micros(),
    ];
    updated(session, sql, values)
}

fn updated(session: &Session<'_>, sql: &'static str, values: impl Params) -> Answer<Option<OrderRecord>> {
    let mut update = session.statement(sql)?;
    let mut rows = update.query(values)?;
    let order = rows.next()?.map(read_order).transpose()?;
    // SQLite returns the first row before the statement has finished. Reading the remaining rows finishes it.
    while rows.next()?.is_some() {}
    Ok(order)
}

fn find_claim(session: &Session<'_>, id: OrderId) -> Answer<Option<(OrderRecord, Option<LeaseToken>)>> {
    let mut find = session.statement(FIND_ORDER)?;
    let mut rows = find.query([id.get()])?;
    rows.next()?.map(read_claim).transpose()
}

fn list_claims(session: &Session<'_>, sql: &'static str, limits: impl Params) -> Answer<Vec<OrderRecord>> {
    let mut orders = Vec::new();
    let mut list = session.statement(sql)?;
    let mut rows = list.query(limits)?;
    while let Some(row) = rows.next()? {
        orders.push(read_order(row)?);
    }
    Ok(orders)
}
