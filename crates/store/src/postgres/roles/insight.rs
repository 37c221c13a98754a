//! Reads operational data: backlogs, counters, running processes and the state of the server. [`examine`] reads
//! individual rows.

use crate::grants::DbRole;
use crate::postgres::PostgresStore;
use crate::postgres::conn::monitor::ConnectionMonitor;
use crate::postgres::conn::pool::RolePool;
use crate::postgres::conn::session::{Session, TransactionMode};
use crate::postgres::conn::value::{Instant, get, instant, instant_or_none};
use crate::postgres::roles::examine;
use crate::postgres::roles::health;
use crate::postgres::roles::server;
use crate::remote::{Call, Fault};
use posthaste_core::ports::{
    COUNTED_MAX, DeadTuples, EXAMINED_MAX, EngineFacts, Examine, Examined, ExplainedEvent, InsightStore,
    Observed, OldTransaction, ProcessSeen, Rollup, RollupWidth, ServerFacts, StoreResult, SubscriptionHealth,
    SubscriptionTimeout, Survey, SurveyRequest, Upkeep, Waiting,
};
use posthaste_core::{EventId, SubscriptionId, Timestamp, WorkerId};
use std::cmp::Reverse;
use std::time::Duration;
use tokio_postgres::Row;

/// The PostgreSQL implementation of [`InsightStore`], with the rights of the role `viewer`.
#[derive(Debug, Clone)]
pub struct PostgresInsight {
    pool: RolePool,
    monitor: ConnectionMonitor,
    shares_login: bool,
    has_roles: bool,
}

impl PostgresInsight {
    pub(crate) fn new(store: &PostgresStore) -> Self {
        let (monitor, shares_login) = (store.pools.monitor.clone(), store.pools.shares_login);
        let has_roles = store.pools.prefix.is_some();
        Self { pool: store.pool(DbRole::Viewer), monitor, shares_login, has_roles }
    }
}

impl InsightStore for PostgresInsight {
    async fn survey(&self, request: SurveyRequest) -> StoreResult<Survey> {
        let call = Call::repeatable("counting backlogs");
        self.pool.call(call, |session| survey(session, request)).await
    }

    async fn rollups(
        &self,
        width: RollupWidth,
        since: Timestamp,
        counters: Vec<String>,
    ) -> StoreResult<Vec<Rollup>> {
        let call = Call::repeatable("reading counters");
        self.pool.call(call, |session| rollups(session, width, since, &counters)).await
    }

    async fn processes(&self, since: Timestamp) -> StoreResult<Vec<ProcessSeen>> {
        self.pool.call(Call::repeatable("listing processes"), |session| processes(session, since)).await
    }

    async fn engine(&self) -> StoreResult<EngineFacts> {
        self.pool.call(Call::repeatable("reading server information"), engine).await
    }

    async fn upkeep(&self) -> StoreResult<Upkeep> {
        let upkeep = self.pool.call(Call::repeatable("reading maintenance information"), upkeep).await?;
        Ok(Upkeep { has_roles: Observed::Seen(self.has_roles), ..upkeep })
    }

    async fn server(&self) -> StoreResult<Option<ServerFacts>> {
        let read = |session| async move {
            match self.monitor.server() {
                Some(connected) => server::read(session, connected, self.shares_login).await.map(Some),
                // Not reached: the session has a connection, which is recorded.
                None => Ok(None),
            }
        };
        self.pool.call(Call::repeatable("reading the state of the server"), read).await
    }

    async fn subscription_health(
        &self,
        ids: Vec<SubscriptionId>,
        counted_max: u32,
        since: Timestamp,
    ) -> StoreResult<Vec<SubscriptionHealth>> {
        let call = Call::repeatable("reading subscription health");
        self.pool.call(call, |session| health::of(session, &ids, counted_max, since)).await
    }

    async fn long_timeouts(&self, longest: Duration) -> StoreResult<Vec<SubscriptionTimeout>> {
        self.pool.call(Call::repeatable("reading timeouts"), |session| long_timeouts(session, longest)).await
    }

    async fn explain(&self, id: EventId) -> StoreResult<Option<ExplainedEvent>> {
        let call = Call::repeatable("explaining an event");
        self.pool.call(call, |session| examine::explain(session, id)).await
    }

    async fn examine(&self, page: Examine) -> StoreResult<Examined> {
        self.pool.call(Call::repeatable("examining history"), |session| examine::examine(session, page)).await
    }
}

/// Reads the backlogs of queues and sagas from one snapshot.
async fn survey(mut session: Session, request: SurveyRequest) -> Result<Survey, Fault> {
    let SurveyRequest { now, lease, jobs_stuck_before, orders_stuck_before } = request;
    let lease_ms = i64::try_from(lease.as_millis()).unwrap_or(i64::MAX);
    let (jobs_before, orders_before) = (Instant(jobs_stuck_before), Instant(orders_stuck_before));
    let sql = include_str!("../sql/insight/survey_queues.sql");
    let params: [&(dyn tokio_postgres::types::ToSql + Sync); 4] =
        [&Instant(now), &lease_ms, &jobs_before, &orders_before];
    let queues = session.begin(TransactionMode::Snapshot, sql, &params).await?;
    let sagas = session.go_on(include_str!("../sql/insight/survey_sagas.sql"), &[&Instant(now)]).await?;
    session.roll_back().await?;
    let (queues, sagas) = (only(&queues)?, only(&sagas)?);
    let waiting = |row: &Row, first: usize| {
        Ok::<_, Fault>(Waiting { depth: counted(row, first)?, oldest: instant_or_none(row, first + 1)? })
    };
    Ok(Survey {
        routing: waiting(queues, 0)?,
        admission: waiting(sagas, 0)?,
        delivery: waiting(queues, 2)?,
        results: waiting(queues, 4)?,
        outbox: waiting(queues, 6)?,
        held: counted(sagas, 2)?,
        stuck_jobs: counted(queues, 8)?,
        stuck_orders: counted(queues, 9)?,
    })
}

fn only(rows: &[Row]) -> Result<&Row, Fault> {
    rows.first().ok_or_else(|| Fault::Unreadable("the server returned no row".to_owned()))
}

fn counted(row: &Row, column: usize) -> Result<u32, Fault> {
    let count: i64 = get(row, column)?;
    Ok(u32::try_from(count).unwrap_or(COUNTED_MAX).min(COUNTED_MAX))
}

async fn rollups(
    mut session: Session,
    width: RollupWidth,
    since: Timestamp,
    counters: &[String],
) -> Result<Vec<Rollup>, Fault> {
    let width_s = i32::try_from(width.seconds()).unwrap_or(i32::MAX);
    let sql = include_str!("../sql/insight/rollups.sql");
    let rows = session.read(sql, &[&width_s, &Instant(since), &counters]).await?;
    let rollup = |row: &Row| {
        Ok(Rollup {
            interval_start: instant(row, "interval_start")?,
            counter: get(row, "counter")?,
            amount: get(row, "amount")?,
        })
    };
    rows.iter().map(rollup).collect()
}

async fn processes(mut session: Session, since: Timestamp) -> Result<Vec<ProcessSeen>, Fault> {
    let rows = session.read(include_str!("../sql/insight/processes.sql"), &[&Instant(since)]).await?;
    let seen = |row: &Row| {
        let name: String = get(row, "process_id")?;
        let process_id =
            WorkerId::parse(name).map_err(|_| Fault::Unreadable("a process has an invalid id".to_owned()))?;
        Ok(ProcessSeen {
            process_id,
            role: get(row, "role")?,
            version: get(row, "version")?,
            started_at: instant(row, "started_at")?,
            seen_at: instant(row, "seen_at")?,
        })
    };
    rows.iter().map(seen).collect()
}

async fn long_timeouts(mut session: Session, longest: Duration) -> Result<Vec<SubscriptionTimeout>, Fault> {
    let longest_ms = i64::try_from(longest.as_millis()).unwrap_or(i64::MAX);
    let sql = include_str!("../sql/insight/long_timeouts.sql");
    let rows = session.read(sql, &[&longest_ms, &i64::from(EXAMINED_MAX)]).await?;
    let read = |row: &Row| {
        let timeout_ms = u64::try_from(get::<i32>(row, "timeout_ms")?).unwrap_or_default();
        let id = SubscriptionId::from_store(get(row, "id")?);
        Ok(SubscriptionTimeout { id, timeout: Duration::from_millis(timeout_ms) })
    };
    let mut found = rows.iter().map(read).collect::<Result<Vec<_>, Fault>>()?;
    found.sort_by_key(|one| Reverse(one.id));
    Ok(found)
}

async fn engine(mut session: Session) -> Result<EngineFacts, Fault> {
    let rows = session.read(include_str!("../sql/insight/engine.sql"), &[]).await?;
    let row = only(&rows)?;
    Ok(EngineFacts {
        name: "postgresql",
        version: get(row, 0)?,
        schema_version: u32::try_from(get::<i32>(row, 1)?).unwrap_or_default(),
        unfinished_migrations: counted(row, 2)?,
        bytes: get::<Option<i64>>(row, 3)?.and_then(|bytes| u64::try_from(bytes).ok()),
        now: instant(row, 4)?,
    })
}

async fn upkeep(mut session: Session) -> Result<Upkeep, Fault> {
    let rows = session.read(include_str!("../sql/insight/oldest_transaction.sql"), &[]).await?;
    let row = only(&rows)?;
    let oldest_transaction =
        if get(row, 0)? { Observed::Seen(old_transaction(row, 1)?) } else { Observed::Denied };
    let rows = session.read(include_str!("../sql/insight/oldest_prepared.sql"), &[]).await?;
    let prepared = rows.first().map(|row| old_transaction(row, 0)).transpose()?;
    let rows = session.read(include_str!("../sql/insight/holding_slots.sql"), &[]).await?;
    let slot = |row: &Row| Ok((get(row, 0)?, u64::try_from(get::<i64>(row, 1)?).unwrap_or_default()));
    let slots = rows.iter().map(slot).collect::<Result<_, Fault>>()?;
    let rows = session.read(include_str!("../sql/insight/dead_tuples.sql"), &[]).await?;
    let tuples = |row: &Row| {
        let count = |column| Ok::<_, Fault>(u64::try_from(get::<i64>(row, column)?).unwrap_or_default());
        Ok(DeadTuples { table: get(row, 0)?, live: count(1)?, dead: count(2)? })
    };
    Ok(Upkeep {
        oldest_transaction,
        oldest_prepared: Observed::Seen(prepared.flatten()),
        holding_slots: Observed::Seen(slots),
        dead_tuples: Observed::Seen(rows.iter().map(tuples).collect::<Result<_, Fault>>()?),
        write_ahead_log: Observed::Without,
        exposed_files: Observed::Without,
        has_roles: Observed::Without,
    })
}

fn old_transaction(row: &Row, first: usize) -> Result<Option<OldTransaction>, Fault> {
    let Some(age_s) = get::<Option<f64>>(row, first + 1)? else { return Ok(None) };
    let who: Option<String> = get(row, first)?;
    let age = Duration::try_from_secs_f64(age_s).unwrap_or_default();
    Ok(Some(OldTransaction { who: who.unwrap_or_default(), age }))
}
