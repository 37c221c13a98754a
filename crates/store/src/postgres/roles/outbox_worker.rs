//! Claims orders, which the intake stored, records the broker's responses, and resets orders whose sender never
//! reported. [`batch`] determines the changes to orders, and [`Lane`] how many orders may be sent. Lock order: the
//! lane, then orders.

use crate::grants::DbRole;
use crate::postgres::PostgresStore;
use crate::postgres::conn::pool::RolePool;
use crate::postgres::conn::session::{Session, TransactionMode};
use crate::postgres::conn::value::{Instant, TAKE_MAX, count, get, instant, instant_or_none, int, token};
use crate::postgres::roles::lane_row;
use crate::postgres::roles::order_row::{held_orders, records, write};
use crate::remote::{Call, Fault};
use posthaste_core::digest::{Digest, canonical_of};
use posthaste_core::lane::{ClaimMode, Lane};
use posthaste_core::order::batch::{self, OrderChange};
use posthaste_core::order::{IdempotencyKey, OrderSignal};
use posthaste_core::ports::{
    ClaimedOrder, ClaimedOrders, NextOrders, OrderRecord, OrderReport, OutboxClaim, OutboxWorkerStore,
    RestartedWaits, Settled, StoreResult, WaitPage,
};
use posthaste_core::retry::OrderRetryPolicy;
use posthaste_core::{LeaseToken, OrderId, Timestamp};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

/// The PostgreSQL implementation of [`OutboxWorkerStore`], with the rights of the role `outbox_worker`.
#[derive(Debug, Clone)]
pub struct PostgresOutboxWorker {
    pool: RolePool,
}

impl PostgresOutboxWorker {
    pub(crate) fn new(store: &PostgresStore) -> Self {
        Self { pool: store.pool(DbRole::OutboxWorker) }
    }
}

impl OutboxWorkerStore for PostgresOutboxWorker {
    async fn requeue_due_orders(
        &self,
        orders_max: u32,
        policy: OrderRetryPolicy,
        now: Timestamp,
    ) -> StoreResult<Vec<OrderRecord>> {
        let call = Call::repeatable("requeueing due orders");
        self.pool.call(call, |session| requeue(session, orders_max, policy, now)).await
    }

    async fn restart_waits(
        &self,
        page: WaitPage,
        policy: OrderRetryPolicy,
        now: Timestamp,
    ) -> StoreResult<RestartedWaits> {
        let call = Call::repeatable("restarting waits of orders");
        let page = WaitPage { rows_max: page.rows_max.clamp(1, TAKE_MAX), ..page };
        self.pool.call(call, |session| restart_waits(session, page, policy, now)).await
    }

    async fn next_orders_at(&self) -> StoreResult<NextOrders> {
        self.pool.call(Call::repeatable("finding the next orders"), next_orders_at).await
    }

    async fn claim_orders(&self, claim: OutboxClaim, now: Timestamp) -> StoreResult<ClaimedOrders> {
        // A retry first checks for orders that the previous try may have claimed.
        let again = AtomicBool::new(claim.again);
        let call = Call::repeatable("claiming orders");
        self.pool.call(call, |session| claim_orders(session, &claim, now, &again)).await
    }

    async fn settle_orders(
        &self,
        reports: Vec<OrderReport>,
        policy: OrderRetryPolicy,
        now: Timestamp,
    ) -> StoreResult<Vec<Settled>> {
        let call = Call::repeatable("settling orders");
        self.pool.call(call, |session| settle(session, &reports, policy, now)).await
    }

    async fn release_orders(
        &self,
        orders: Vec<OrderId>,
        token: LeaseToken,
        policy: OrderRetryPolicy,
        now: Timestamp,
    ) -> StoreResult<u32> {
        let call = Call::repeatable("releasing orders");
        let orders = &orders;
        let released = |mut session| async move {
            end_claim(&mut session, orders, token, &OrderSignal::Unsent, policy, now).await
        };
        let released = self.pool.call(call, released).await?;
        Ok(u32::try_from(released.len()).unwrap_or(u32::MAX))
    }

    async fn rewind_stuck_orders(
        &self,
        stuck_threshold: Duration,
        orders_max: u32,
        policy: OrderRetryPolicy,
        now: Timestamp,
    ) -> StoreResult<Vec<OrderRecord>> {
        let call = Call::repeatable("rewinding stuck orders");
        self.pool.call(call, |session| rewind(session, stuck_threshold, orders_max, policy, now)).await
    }

    async fn purge_ledger(&self, rows_max: u32, now: Timestamp) -> StoreResult<u32> {
        self.pool.call(Call::repeatable("purging the ledger"), |session| purge(session, rows_max, now)).await
    }

    async fn load_lane(&self) -> StoreResult<Lane> {
        self.pool.call(Call::repeatable("reading the lane"), lane_row::load).await
    }
}

/// Writes changes and commits. Rolls back if there are no changes.
async fn commit(
    session: &mut Session,
    changes: &[OrderChange],
    frees: bool,
    now: Timestamp,
) -> Result<Vec<OrderRecord>, Fault> {
    if changes.is_empty() {
        session.roll_back().await?;
        return Ok(Vec::new());
    }
    write(session, changes, frees, true, now).await
}

async fn requeue(
    mut session: Session,
    orders_max: u32,
    policy: OrderRetryPolicy,
    now: Timestamp,
) -> Result<Vec<OrderRecord>, Fault> {
    let sql = include_str!("../sql/outbox_worker/fetch_due_orders.sql");
    let rows = session.begin(TransactionMode::Flushed, sql, &[&Instant(now), &int(orders_max)]).await?;
    let changes = batch::changes(records(&rows)?, |_| OrderSignal::Due, policy, now);
    commit(&mut session, &changes, false, now).await
}

async fn restart_waits(
    mut session: Session,
    page: WaitPage,
    policy: OrderRetryPolicy,
    now: Timestamp,
) -> Result<RestartedWaits, Fault> {
    let sql = include_str!("../sql/outbox_worker/fetch_waiting_orders.sql");
    let rows =
        session.begin(TransactionMode::Flushed, sql, &[&Instant(page.from), &int(page.rows_max)]).await?;
    let waiting = records(&rows)?;
    let last = waiting.last().map(|record| record.next_attempt_at);
    let signal = |record: &OrderRecord| OrderSignal::ClockStep { since: record.updated_at };
    let changes = batch::changes(waiting, signal, policy, now);
    let restarted = commit(&mut session, &changes, false, now).await?;
    Ok(RestartedWaits::of_page(page, rows.len(), restarted.len(), last))
}

async fn next_orders_at(mut session: Session) -> Result<NextOrders, Fault> {
    let rows = session.read(include_str!("../sql/outbox_worker/next_orders_at.sql"), &[]).await?;
    let Some(row) = rows.first() else { return Ok(NextOrders::default()) };
    Ok(NextOrders { has_queued: get(row, "has_queued")?, failed_at: instant_or_none(row, "failed_at")? })
}

/// Ends a claim without a response from the broker. Orders that no longer have the token of the claim are not changed.
async fn end_claim(
    session: &mut Session,
    orders: &[OrderId],
    claim: LeaseToken,
    signal: &OrderSignal<'_>,
    policy: OrderRetryPolicy,
    now: Timestamp,
) -> Result<Vec<OrderRecord>, Fault> {
    let mut ids: Vec<i64> = orders.iter().map(|id| id.get()).collect();
    ids.sort_unstable();
    let sql = include_str!("../sql/outbox_worker/lock_orders.sql");
    let rows = session.begin(TransactionMode::Flushed, sql, &[&ids]).await?;
    let held = held_orders(&rows)?.into_values().filter(|(_, holder)| *holder == Some(claim));
    let changes = batch::changes(held.map(|(record, _)| record), |_| signal.clone(), policy, now);
    commit(session, &changes, true, now).await
}

async fn rewind(
    mut session: Session,
    stuck_threshold: Duration,
    orders_max: u32,
    policy: OrderRetryPolicy,
    now: Timestamp,
) -> Result<Vec<OrderRecord>, Fault> {
    let sql = include_str!("../sql/outbox_worker/fetch_stuck_orders.sql");
    let (before, after) = (Instant(now.before(stuck_threshold)), Instant(now.after(stuck_threshold)));
    let rows = session.begin(TransactionMode::Flushed, sql, &[&before, &int(orders_max), &after]).await?;
    let changes = batch::changes(records(&rows)?, |_| OrderSignal::Stuck, policy, now);
    commit(&mut session, &changes, true, now).await
}

async fn claim_orders(
    mut session: Session,
    claim: &OutboxClaim,
    now: Timestamp,
    again: &AtomicBool,
) -> Result<ClaimedOrders, Fault> {
    if again.swap(true, Ordering::Relaxed)
        && let Some(found) = find_claimed(&mut session, claim, now).await?
    {
        return Ok(found);
    }
    if claim.again {
        let lane = lane_row::read(&mut session).await?;
        return Ok(ClaimedOrders::nothing(false, lane));
    }
    let lane = lane_row::lock(&mut session).await?;
    // The orders in flight are counted only if the lane is restricted.
    let in_flight = if lane.is_holding() { lane_row::count_sending(&mut session).await? } else { 0 };
    let (most, probe) = match lane.may_claim(in_flight, claim.orders_max, now) {
        ClaimMode::Nothing => {
            session.roll_back().await?;
            return Ok(ClaimedOrders::nothing(true, lane));
        }
        ClaimMode::Normal(most) => (most, false),
        ClaimMode::Probe => (1, true),
    };
    let probe_until = probe.then(|| now.after(claim.probe_for));
    let after = |sends| lane.clone().after_claim(sends, probe_until, now);
    let (rows, lane) = take(&mut session, claim, most, now, &lane, after).await?;
    answer_claim(&mut session, claim, &rows, probe, lane, now).await
}

/// Claims at most `most` orders, and writes the state that the lane has after sending them.
async fn take(
    session: &mut Session,
    claim: &OutboxClaim,
    most: u32,
    now: Timestamp,
    before: &Lane,
    after: impl Fn(u32) -> Lane,
) -> Result<(Vec<Row>, Lane), Fault> {
    let sql = include_str!("../sql/outbox_worker/claim_orders.sql");
    let (moment, proof, worker) = (Instant(now), token(claim.token), claim.worker_id.as_str());
    let params: [&(dyn ToSql + Sync); 4] = [&moment, &int(most), &proof, &worker];
    // An unthrottled lane does not change, however many orders are sent, so the claim is the last statement.
    if after(1) == *before {
        return Ok((session.commit_with(sql, &params).await?, before.clone()));
    }
    let rows = session.go_on(sql, &params).await?;
    if rows.is_empty() {
        session.roll_back().await?;
        return Ok((rows, before.clone()));
    }
    // Orders that cannot be sent do not count.
    let sends = rows.iter().filter(|row| matches!(claimed(row), Ok(Some(_)))).count();
    let lane = after(u32::try_from(sends).unwrap_or(u32::MAX));
    lane_row::commit(session, &lane).await?;
    Ok((rows, lane))
}

/// Returns the orders of a claim whose response was lost, or `None` if there are none. If the lane has been restricted
/// since, the claim counts as a probe, which is the more cautious choice.
async fn find_claimed(
    session: &mut Session,
    claim: &OutboxClaim,
    now: Timestamp,
) -> Result<Option<ClaimedOrders>, Fault> {
    let sql = include_str!("../sql/outbox_worker/find_claimed_orders.sql");
    let rows = session.read(sql, &[&token(claim.token), &Instant(now)]).await?;
    if rows.is_empty() {
        return Ok(None);
    }
    let lane = lane_row::read(session).await?;
    answer_claim(session, claim, &rows, lane.is_holding(), lane, now).await.map(Some)
}

/// Returns the claimed orders, and marks those that must not be sent as dead. If that fails, a retry or the reset of
/// stuck orders finds them again.
async fn answer_claim(
    session: &mut Session,
    claim: &OutboxClaim,
    rows: &[Row],
    probe: bool,
    lane: Lane,
    now: Timestamp,
) -> Result<ClaimedOrders, Fault> {
    let (mut orders, mut unreadable) = (Vec::with_capacity(rows.len()), Vec::new());
    for row in rows {
        match claimed(row)? {
            Some(order) => orders.push((instant(row, "next_attempt_at")?, order)),
            None => unreadable.push(OrderId::from_store(get(row, "id")?)),
        }
    }
    // The statement claims the oldest orders but returns them in no particular order.
    orders.sort_by_key(|(next_attempt_at, order)| (*next_attempt_at, order.id));
    let set_aside = if unreadable.is_empty() {
        Vec::new()
    } else {
        // This signal marks an order as dead regardless of the policy.
        let (signal, policy) = (OrderSignal::Unreadable, OrderRetryPolicy::ORDER);
        end_claim(session, &unreadable, claim.token, &signal, policy, now).await?
    };
    let orders = orders.into_iter().map(|(_, order)| order).collect();
    Ok(ClaimedOrders { probe, held: false, orders, set_aside, lane })
}

/// Returns the order to send, or `None` if its key is invalid or its content does not match its digest.
fn claimed(row: &Row) -> Result<Option<ClaimedOrder>, Fault> {
    let request_digest = Digest::from_store(get(row, "request_digest")?);
    // The server formats `jsonb` in its own way: with spaces, and with all digits of a number.
    let canonical = canonical_of(get(row, "request_json")?, &request_digest);
    let (Some(canonical), Ok(key)) =
        (canonical, IdempotencyKey::parse(get::<String>(row, "idempotency_key")?))
    else {
        return Ok(None);
    };
    Ok(Some(ClaimedOrder {
        id: OrderId::from_store(get(row, "id")?),
        idempotency_key: key,
        canonical,
        request_digest,
        trace_id: get(row, "trace_id")?,
        retry_count: count(row, "retry_count")?,
        created_at: instant(row, "created_at")?,
        claimed_at: instant(row, "updated_at")?,
    }))
}

async fn settle(
    mut session: Session,
    reports: &[OrderReport],
    policy: OrderRetryPolicy,
    now: Timestamp,
) -> Result<Vec<Settled>, Fault> {
    let before = lane_row::lock(&mut session).await?;
    let mut ids: Vec<i64> = reports.iter().map(|report| report.id.get()).collect();
    ids.sort_unstable();
    ids.dedup();
    let rows = session.go_on(include_str!("../sql/outbox_worker/lock_orders.sql"), &[&ids]).await?;
    let held = held_orders(&rows)?;
    let (changes, lane) = batch::settle(reports, &held, before.clone(), policy, now);
    // If no order changes, the lane does not change either.
    let settled = if lane == before {
        commit(&mut session, &changes, false, now).await?
    } else {
        let settled = write(&mut session, &changes, false, false, now).await?;
        lane_row::commit(&mut session, &lane).await?;
        settled
    };
    Ok(batch::answers(reports, &held, settled))
}

async fn purge(mut session: Session, rows_max: u32, now: Timestamp) -> Result<u32, Fault> {
    let sql = include_str!("../sql/outbox_worker/purge_ledger.sql");
    let rows = session.run(sql, &[&Instant(now), &int(rows_max)]).await?;
    Ok(u32::try_from(rows.len()).unwrap_or(u32::MAX))
}
