//! Reads operational data: backlogs, counters, running processes and the state of the database. [`examine`] reads
//! individual rows.

use posthaste_core::ports::{
    COUNTED_MAX, EXAMINED_MAX, EngineFacts, Examine, Examined, ExplainedEvent, InsightStore, Observed,
    ProcessSeen, Rollup, RollupWidth, ServerFacts, StoreResult, SubscriptionHealth, SubscriptionTimeout,
    Survey, SurveyRequest, Upkeep, Waiting,
};
use posthaste_core::{EventId, SubscriptionId, Timestamp, WorkerId};
use rusqlite::types::Value;
use rusqlite::vtab::array::Array;
use rusqlite::{Row, params};
use std::cmp::Reverse;
use std::rc::Rc;
use std::time::Duration;

use crate::grants::DbRole;
use crate::sqlite::SqliteStore;
use crate::sqlite::conn::error::{Answer, Fault};
use crate::sqlite::conn::permissions;
use crate::sqlite::conn::session::Session;
use crate::sqlite::conn::value;
use crate::sqlite::conn::value::get;
use crate::sqlite::migrate::system_now;
use crate::sqlite::roles::examine;
use crate::sqlite::roles::health;
use crate::sqlite::roles::reader::{all, one};

const SURVEY_QUEUES: &str = include_str!("../sql/insight/survey_queues.sql");
const SURVEY_SAGAS: &str = include_str!("../sql/insight/survey_sagas.sql");
const ROLLUPS: &str = include_str!("../sql/insight/rollups.sql");
const PROCESSES: &str = include_str!("../sql/insight/processes.sql");
const LONG_TIMEOUTS: &str = include_str!("../sql/insight/long_timeouts.sql");
const ENGINE: &str = include_str!("../sql/insight/engine.sql");

const ROLE: DbRole = DbRole::Viewer;

/// The SQLite implementation of [`InsightStore`], with the rights of the role `viewer`.
#[derive(Debug, Clone)]
pub struct SqliteInsight(pub(crate) SqliteStore);

impl InsightStore for SqliteInsight {
    async fn survey(&self, request: SurveyRequest) -> StoreResult<Survey> {
        self.0.read(ROLE, "counting backlogs", move |session| survey(session, request)).await
    }

    async fn rollups(
        &self,
        width: RollupWidth,
        since: Timestamp,
        counters: Vec<String>,
    ) -> StoreResult<Vec<Rollup>> {
        self.0
            .read(ROLE, "reading counters", move |session| {
                let counters: Array = Rc::new(counters.into_iter().map(Value::Text).collect());
                all(session, ROLLUPS, params![width.seconds(), since.micros(), counters], read_rollup)
            })
            .await
    }

    async fn processes(&self, since: Timestamp) -> StoreResult<Vec<ProcessSeen>> {
        self.0
            .read(ROLE, "listing processes", move |session| {
                all(session, PROCESSES, [since.micros()], read_process)
            })
            .await
    }

    async fn engine(&self) -> StoreResult<EngineFacts> {
        self.0.read(ROLE, "reading database information", engine).await
    }

    async fn upkeep(&self) -> StoreResult<Upkeep> {
        // There is one process with one writer, and no VACUUM that could fall behind.
        Ok(Upkeep {
            oldest_transaction: Observed::Without,
            oldest_prepared: Observed::Without,
            holding_slots: Observed::Without,
            dead_tuples: Observed::Without,
            write_ahead_log: Observed::Seen(self.0.threads.log.seen()),
            has_roles: Observed::Without,
            exposed_files: Observed::Seen(permissions::exposed_files(&self.0.threads.path)),
        })
    }

    async fn server(&self) -> StoreResult<Option<ServerFacts>> {
        Ok(None)
    }

    async fn subscription_health(
        &self,
        ids: Vec<SubscriptionId>,
        counted_max: u32,
        since: Timestamp,
    ) -> StoreResult<Vec<SubscriptionHealth>> {
        self.0
            .read(ROLE, "reading subscription health", move |session| {
                health::of(session, &ids, counted_max, since)
            })
            .await
    }

    async fn long_timeouts(&self, longest: Duration) -> StoreResult<Vec<SubscriptionTimeout>> {
        self.0
            .read(ROLE, "reading timeouts", move |session| {
                let longest_ms = i64::try_from(longest.as_millis()).unwrap_or(i64::MAX);
                let mut found = all(session, LONG_TIMEOUTS, params![longest_ms, EXAMINED_MAX], read_timeout)?;
                found.sort_by_key(|one| Reverse(one.id));
                Ok(found)
            })
            .await
    }

    async fn explain(&self, id: EventId) -> StoreResult<Option<ExplainedEvent>> {
        self.0.read(ROLE, "explaining an event", move |session| examine::explain(session, id)).await
    }

    async fn examine(&self, page: Examine) -> StoreResult<Examined> {
        self.0.read(ROLE, "examining history", move |session| examine::examine(session, page)).await
    }
}

fn survey(session: &Session<'_>, request: SurveyRequest) -> Answer<Survey> {
    let SurveyRequest { now, lease, jobs_stuck_before, orders_stuck_before } = request;
    let lease_ms = i64::try_from(lease.as_millis()).unwrap_or(i64::MAX / 1_000);
    let values = params![now.micros(), lease_ms, jobs_stuck_before.micros(), orders_stuck_before.micros()];
    let queues = one(session, SURVEY_QUEUES, values, |row| {
        Ok(Survey {
            routing: waiting(row, 0)?,
            delivery: waiting(row, 2)?,
            results: waiting(row, 4)?,
            outbox: Waiting { depth: counted(row, 6)?, oldest: earlier(row, 7, 8)? },
            stuck_jobs: counted(row, 9)?,
            stuck_orders: counted(row, 10)?,
            ..Survey::default()
        })
    })?;
    let sagas = one(session, SURVEY_SAGAS, [now.micros()], |row| {
        let depth = counted(row, 0)?.saturating_add(counted(row, 1)?).min(COUNTED_MAX);
        Ok((Waiting { depth, oldest: earlier(row, 2, 3)? }, counted(row, 4)?))
    })?;
    let (queues, (admission, held)) = queues.zip(sagas).ok_or_else(no_row)?;
    Ok(Survey { admission, held, ..queues })
}

fn no_row() -> Fault {
    Fault::Unreadable("the database returned no row".to_owned())
}

fn waiting(row: &Row<'_>, first: usize) -> Answer<Waiting> {
    Ok(Waiting { depth: counted(row, first)?, oldest: value::maybe_time(row, first + 1)? })
}

fn earlier(row: &Row<'_>, one: usize, other: usize) -> Answer<Option<Timestamp>> {
    let times = [value::maybe_time(row, one)?, value::maybe_time(row, other)?];
    Ok(times.into_iter().flatten().min())
}

fn counted(row: &Row<'_>, column: usize) -> Answer<u32> {
    let count: i64 = row.get(column)?;
    Ok(u32::try_from(count).unwrap_or(COUNTED_MAX).min(COUNTED_MAX))
}

fn read_rollup(row: &Row<'_>) -> Answer<Rollup> {
    Ok(Rollup {
        interval_start: value::time(row, "interval_start")?,
        counter: get(row, "counter")?,
        amount: get(row, "amount")?,
    })
}

fn read_process(row: &Row<'_>) -> Answer<ProcessSeen> {
    let process_id = WorkerId::parse(get::<String>(row, "process_id")?)
        .map_err(|_| Fault::Unreadable("a process has an invalid id".to_owned()))?;
    Ok(ProcessSeen {
        process_id,
        role: get(row, "role")?,
        version: get(row, "version")?,
        started_at: value::time(row, "started_at")?,
        seen_at: value::time(row, "seen_at")?,
    })
}

fn read_timeout(row: &Row<'_>) -> Answer<SubscriptionTimeout> {
    let timeout_ms: u32 = get(row, "timeout_ms")?;
    let id = SubscriptionId::from_store(get(row, "id")?);
    Ok(SubscriptionTimeout { id, timeout: Duration::from_millis(timeout_ms.into()) })
}

fn engine(session: &Session<'_>) -> Answer<EngineFacts> {
    let bytes = session.database_bytes()?;
    let facts = one(session, ENGINE, [], |row| {
        Ok(EngineFacts {
            name: "sqlite",
            version: row.get(0)?,
            schema_version: row.get(1)?,
            unfinished_migrations: row.get(2)?,
            bytes: Some(bytes),
            now: system_now(),
        })
    })?;
    facts.ok_or_else(no_row)
}
