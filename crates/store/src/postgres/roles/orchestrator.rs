//! Starts attempts for due sagas, which the router created, and applies the results that workers report. This module
//! reads rows and writes decisions; [`admission::decide`] and [`results::decide`] make the decisions.

use crate::grants::DbRole;
use crate::postgres::PostgresStore;
use crate::postgres::conn::pool::RolePool;
use crate::postgres::conn::session::{Session, TransactionMode};
use crate::postgres::conn::value::{
    Instant, TAKE_MAX, count, count_or_none, error_code, get, id_or_none, instant, int, word,
};
use crate::remote::{Call, Fault};
use posthaste_core::admission::{self, Admission, DueSaga};
use posthaste_core::job::{JobOutcome, JobResult, JobStatus};
use posthaste_core::outcome::ErrorCode;
use posthaste_core::ports::{
    Admitted, AppliedResult, DueSince, DueSubscriptions, OrchestratorStore, Quota, RecentlyDue,
    RestartedWaits, ResultTake, StoreResult, WaitPage,
};
use posthaste_core::results::{self, FinishedJob};
use posthaste_core::retry::{RetryPolicy, Wait};
use posthaste_core::saga::{Decision, Ignored, SagaState, SagaStatus};
use posthaste_core::{EventId, JobId, SagaId, SubscriptionId, Timestamp};
use std::collections::{HashMap, HashSet};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

/// The PostgreSQL implementation of [`OrchestratorStore`], with the rights of the role `saga_orchestrator`.
#[derive(Debug, Clone)]
pub struct PostgresOrchestrator {
    pool: RolePool,
}

impl PostgresOrchestrator {
    pub(crate) fn new(store: &PostgresStore) -> Self {
        Self { pool: store.pool(DbRole::SagaOrchestrator) }
    }
}

impl OrchestratorStore for PostgresOrchestrator {
    async fn find_due_subscriptions(
        &self,
        after: Option<SubscriptionId>,
        probes_max: u32,
        now: Timestamp,
    ) -> StoreResult<DueSubscriptions> {
        let call = Call::repeatable("finding due subscriptions");
        self.pool.call(call, |session| find_due(session, after, probes_max.max(1), now)).await
    }

    async fn find_recently_due(
        &self,
        since: Timestamp,
        sagas_max: u32,
        now: Timestamp,
    ) -> StoreResult<RecentlyDue> {
        let call = Call::repeatable("finding recently due deliveries");
        let sagas_max = sagas_max.clamp(1, TAKE_MAX);
        self.pool.call(call, |session| find_recently_due(session, since, sagas_max, now)).await
    }

    async fn admit_due_sagas(
        &self,
        quotas: Vec<Quota>,
        policy: RetryPolicy,
        now: Timestamp,
    ) -> StoreResult<Admitted> {
        let quotas = admission::distinct(quotas);
        if quotas.is_empty() {
            return Ok(Admitted::default());
        }
        let call = Call::repeatable("admitting due deliveries");
        self.pool.call(call, |session| admit(session, &quotas, policy, now)).await
    }

    async fn restart_waits(
        &self,
        page: WaitPage,
        policy: RetryPolicy,
        now: Timestamp,
    ) -> StoreResult<RestartedWaits> {
        let call = Call::repeatable("restarting waits");
        let page = WaitPage { rows_max: page.rows_max.clamp(1, TAKE_MAX), ..page };
        self.pool.call(call, |session| restart_waits(session, page, policy, now)).await
    }

    async fn apply_job_results(
        &self,
        take: ResultTake,
        policy: RetryPolicy,
        now: Timestamp,
    ) -> StoreResult<Vec<AppliedResult>> {
        let call = Call::repeatable("applying results of attempts");
        let mut applied = Vec::new();
        let mut wanted = take.results_max;
        while wanted > 0 {
            let part = ResultTake { results_max: wanted.min(TAKE_MAX), ..take };
            let (taken, results) = self.pool.call(call, |session| apply(session, part, policy, now)).await?;
            wanted = if taken < part.results_max { 0 } else { wanted - taken };
            applied.extend(results);
        }
        Ok(applied)
    }

    async fn count_in_flight(
        &self,
        subscriptions: Vec<SubscriptionId>,
        count_max: u32,
    ) -> StoreResult<Vec<u32>> {
        if subscriptions.is_empty() {
            return Ok(Vec::new());
        }
        let call = Call::repeatable("counting deliveries in flight");
        self.pool.call(call, |session| count_in_flight(session, &subscriptions, count_max)).await
    }
}

async fn find_due(
    mut session: Session,
    after: Option<SubscriptionId>,
    probes_max: u32,
    now: Timestamp,
) -> Result<DueSubscriptions, Fault> {
    let after = after.map_or(i64::MIN, SubscriptionId::get);
    let sql = include_str!("../sql/orchestrator/find_due_subscriptions.sql");
    let rows = session.read(sql, &[&after, &int(probes_max), &Instant(now)]).await?;
    let mut found = DueSubscriptions::default();
    for row in &rows {
        let id = SubscriptionId::from_store(get(row, "subscription_id")?);
        if let Some(Instant(since)) = get(row, "due_since")? {
            found.due.push(DueSince { subscription_id: id, since });
        }
        found.next = found.next.max(Some(id));
    }
    found.due.sort_unstable();
    if rows.len() < probes_max as usize {
        found.next = None;
    }
    Ok(found)
}

async fn find_recently_due(
    mut session: Session,
    since: Timestamp,
    sagas_max: u32,
    now: Timestamp,
) -> Result<RecentlyDue, Fault> {
    let sql = include_str!("../sql/orchestrator/find_recently_due.sql");
    let rows = session.read(sql, &[&Instant(since), &Instant(now), &int(sagas_max)]).await?;
    let mut found = RecentlyDue::default();
    // For each state, the number of sagas read and the time of the last one.
    let mut read: HashMap<&str, (i64, Timestamp)> = HashMap::new();
    for row in &rows {
        let subscription_id = SubscriptionId::from_store(get(row, "subscription_id")?);
        found.due.push(DueSince { subscription_id, since: instant(row, "first_at")? });
        let (count, last) = read.entry(get(row, "status")?).or_insert((0, Timestamp::MIN));
        *count += get::<i64>(row, "sagas")?;
        *last = instant(row, "last_at")?.max(*last);
    }
    let ends = read.into_values().filter(|(count, _)| *count >= i64::from(sagas_max));
    found.until = ends.map(|(_, last)| last).min();
    found.due.sort_unstable();
    found.due.dedup_by_key(|due| due.subscription_id);
    Ok(found)
}

async fn restart_waits(
    mut session: Session,
    page: WaitPage,
    policy: RetryPolicy,
    now: Timestamp,
) -> Result<RestartedWaits, Fault> {
    let sql = include_str!("../sql/orchestrator/list_waiting_sagas.sql");
    let rows = session.read(sql, &[&Instant(page.from), &int(page.rows_max)]).await?;
    let (mut sagas, mut was, mut until) = (Vec::new(), Vec::new(), Vec::new());
    for row in &rows {
        let wait = Wait { since: instant(row, "updated_at")?, until: instant(row, "next_attempt_at")? };
        if let Some(restarted) = policy.restarted_wait(wait, now) {
            sagas.push(get::<i64>(row, "id")?);
            was.push(Instant(wait.until));
            until.push(Instant(restarted));
        }
    }
    let last = rows.last().map(|row| instant(row, "next_attempt_at")).transpose()?;
    let mut restarted = 0;
    if !sagas.is_empty() {
        let sql = include_str!("../sql/orchestrator/restart_waits.sql");
        restarted = session.run(sql, &[&sagas, &was, &until, &Instant(now)]).await?.len();
    }
    Ok(RestartedWaits::of_page(page, rows.len(), restarted, last))
}

async fn count_in_flight(
    mut session: Session,
    subscriptions: &[SubscriptionId],
    count_max: u32,
) -> Result<Vec<u32>, Fault> {
    let ids: Vec<i64> = subscriptions.iter().map(|id| id.get()).collect();
    let sql = include_str!("../sql/orchestrator/count_in_flight.sql");
    let rows = session.read(sql, &[&ids, &int(count_max)]).await?;
    rows.iter().map(|row| Ok(u32::try_from(get::<i64>(row, 0)?).unwrap_or(u32::MAX))).collect()
}

async fn admit(
    mut session: Session,
    quotas: &[Quota],
    policy: RetryPolicy,
    now: Timestamp,
) -> Result<Admitted, Fault> {
    let ids: Vec<i64> = quotas.iter().map(|quota| quota.subscription_id.get()).collect();
    let maxima: Vec<i32> = quotas.iter().map(|quota| int(quota.jobs_max)).collect();
    let from: Vec<Instant> =
        quotas.iter().map(|quota| Instant(quota.from.unwrap_or(Timestamp::MIN))).collect();
    let sql = include_str!("../sql/orchestrator/fetch_due_sagas.sql");
    let rows = session.begin(TransactionMode::Relaxed, sql, &[&ids, &maxima, &from, &Instant(now)]).await?;
    let due = match rows.iter().map(due_saga).collect() {
        Ok(due) => due,
        Err(fault) => return Err(undone(session, fault).await),
    };
    let admission = admission::decide(quotas, due, policy, now);
    if admission.is_empty() {
        session.roll_back().await?;
        return Ok(Admitted::default());
    }
    write_admission(session, admission, now).await
}

/// Rolls back the transaction and returns the fault.
async fn undone(mut session: Session, fault: Fault) -> Fault {
    // If the rollback fails, the connection is dropped, and the server rolls back.
    let _ = session.roll_back().await;
    fault
}

fn due_saga(row: &Row) -> Result<DueSaga, Fault> {
    Ok(DueSaga {
        saga_id: SagaId::from_store(get(row, "id")?),
        event_id: EventId::from_store(get(row, "event_id")?),
        subscription_id: SubscriptionId::from_store(get(row, "subscription_id")?),
        state: saga_state(row)?,
        max_retry_limit: count_or_none(row, "max_retry_limit")?,
    })
}

/// Reads the state of a saga, on which [`admission`] and [`results`] base their decisions.
pub(crate) fn saga_state(row: &Row) -> Result<SagaState, Fault> {
    Ok(SagaState {
        status: word(row, "status", SagaStatus::parse)?,
        attempt_count: count(row, "attempt_count")?,
        next_attempt_at: instant(row, "next_attempt_at")?,
        final_error_code: error_code(row, "final_error_code")?,
        current_job_id: id_or_none(row, "current_job_id", JobId::from_store)?,
    })
}

async fn write_admission(
    mut session: Session,
    admission: Admission,
    now: Timestamp,
) -> Result<Admitted, Fault> {
    let starts = || admission.starts.iter();
    let sagas: Vec<i64> = starts().map(|start| start.saga_id.get()).collect();
    let attempts: Vec<Instant> = starts().map(|start| Instant(start.attempt_at)).collect();
    let suspects: Vec<bool> = starts().map(|start| start.suspect).collect();
    let letters: Vec<i64> = admission.dead_lettered.iter().map(|saga| saga.saga_id.get()).collect();
    let start = include_str!("../sql/orchestrator/start_attempts.sql");
    let values: [&(dyn ToSql + Sync); 4] = [&sagas, &attempts, &Instant(now), &suspects];
    let rows = if letters.is_empty() {
        session.commit_with(start, &values).await?
    } else {
        let rows = session.go_on(start, &values).await?;
        let give_up = include_str!("../sql/orchestrator/dead_letter_due_sagas.sql");
        session.commit_with(give_up, &[&letters, &Instant(now)]).await?;
        rows
    };
    let created = |row| Ok((JobId::from_store(get(row, "id")?), SagaId::from_store(get(row, "saga_id")?)));
    let created: Vec<(JobId, SagaId)> = rows.iter().map(created).collect::<Result<_, Fault>>()?;
    Ok(admission.carried_out(created))
}

/// Applies the results of finished jobs. Returns the number of jobs fetched, and their results.
async fn apply(
    mut session: Session,
    take: ResultTake,
    policy: RetryPolicy,
    now: Timestamp,
) -> Result<(u32, Vec<AppliedResult>), Fault> {
    let from = take.from.map_or(i64::MIN, JobId::get);
    let sql = include_str!("../sql/orchestrator/fetch_job_results.sql");
    let rows = session.begin(TransactionMode::Flushed, sql, &[&from, &int(take.results_max)]).await?;
    if rows.is_empty() {
        session.roll_back().await?;
        return Ok((0, Vec::new()));
    }
    let read = rows.iter().map(|row| Ok((get::<i64>(row, "job_id")?, finished_job(row)?)));
    let (taken, finished) = match read.collect::<Result<(Vec<_>, Vec<_>), Fault>>() {
        Ok(read) => read,
        Err(fault) => return Err(undone(session, fault).await),
    };
    let mut decided = results::decide(finished.into_iter().flatten(), policy, now);
    decided.sort_unstable_by_key(|(result, _)| result.saga_id);
    let moved = write_results(session, &taken, &decided, now).await?;
    let mut results: Vec<AppliedResult> = decided.into_iter().map(|(result, _)| result).collect();
    for result in &mut results {
        if !result.is_ignored() && !moved.contains(&result.job_id.get()) {
            result.decision = Decision::Ignore(Ignored::NotItsJob);
        }
    }
    Ok((u32::try_from(taken.len()).unwrap_or(u32::MAX), results))
}

/// Reads a finished job. Returns `None` if the saga does not exist or the job has not finished, which only a manual
/// change to the database can cause.
fn finished_job(row: &Row) -> Result<Option<FinishedJob>, Fault> {
    let Some(saga_id) = id_or_none(row, "saga_id", SagaId::from_store)? else {
        return Ok(None);
    };
    let status = word(row, "job_status", JobStatus::parse)?;
    let Some(outcome) =
        JobOutcome::of_row(status, error_code(row, "error_code")?, count_or_none(row, "retry_after_s")?)
    else {
        return Ok(None);
    };
    Ok(Some(FinishedJob {
        result: JobResult { job_id: JobId::from_store(get(row, "job_id")?), outcome },
        saga_id,
        event_id: EventId::from_store(get(row, "event_id")?),
        subscription_id: SubscriptionId::from_store(get(row, "subscription_id")?),
        state: saga_state(row)?,
        saga_created_at: instant(row, "saga_created_at")?,
        max_retry_limit: count_or_none(row, "max_retry_limit")?,
    }))
}

/// Writes the new states of sagas and removes the fetched jobs from the inbox. Returns the jobs whose results changed a
/// saga.
async fn write_results(
    mut session: Session,
    taken: &[i64],
    decided: &[(AppliedResult, SagaState)],
    now: Timestamp,
) -> Result<HashSet<i64>, Fault> {
    let moves = || decided.iter().filter(|(result, _)| !result.is_ignored());
    let sagas: Vec<i64> = moves().map(|(result, _)| result.saga_id.get()).collect();
    let jobs: Vec<i64> = moves().map(|(result, _)| result.job_id.get()).collect();
    let statuses: Vec<&str> = moves().map(|(_, state)| state.status.as_str()).collect();
    let counts: Vec<i32> = moves().map(|(_, state)| int(state.attempt_count)).collect();
    let times: Vec<Instant> = moves().map(|(_, state)| Instant(state.next_attempt_at)).collect();
    let codes: Vec<Option<&str>> =
        moves().map(|(_, state)| state.final_error_code.as_ref().map(ErrorCode::as_str)).collect();
    let sql = include_str!("../sql/orchestrator/apply_job_results.sql");
    let answer = session
        .commit_with(sql, &[&sagas, &jobs, &statuses, &counts, &times, &codes, &taken, &Instant(now)])
        .await?;
    let moved: Option<Vec<i64>> = answer.first().map(|row| get(row, 0)).transpose()?;
    Ok(moved.unwrap_or_default().into_iter().collect())
}
