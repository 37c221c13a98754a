//! Starts attempts for due sagas, which the router created, and applies the results that workers report. This module
//! reads rows and writes decisions; [`admission::decide`] and [`results::decide`] make the decisions.

use std::collections::HashMap;

use posthaste_core::admission::{self, DueSaga, Start};
use posthaste_core::job::{JobOutcome, JobResult, JobStatus};
use posthaste_core::ports::{
    Admitted, AppliedResult, DueSince, DueSubscriptions, OrchestratorStore, Quota, RecentlyDue,
    RestartedWaits, ResultTake, StoreResult, WaitPage,
};
use posthaste_core::results::{self, FinishedJob};
use posthaste_core::retry::{RetryPolicy, Wait};
use posthaste_core::saga::{Decision, SagaState, SagaStatus};
use posthaste_core::{EventId, JobId, SagaId, SubscriptionId, Timestamp};
use rusqlite::{OptionalExtension as _, Row, params};

use crate::grants::DbRole;
use crate::sqlite::SqliteStore;
use crate::sqlite::commit::task::Durability;
use crate::sqlite::conn::error::Answer;
use crate::sqlite::conn::session::Session;
use crate::sqlite::conn::value::{self, columns, get};

const FIND_DUE_SUBSCRIPTIONS: &str = include_str!("../sql/orchestrator/find_due_subscriptions.sql");
const FIND_RECENTLY_DUE: &str = include_str!("../sql/orchestrator/find_recently_due.sql");
const LIST_WAITING_SAGAS: &str = include_str!("../sql/orchestrator/list_waiting_sagas.sql");
const RESTART_WAITS: &str = include_str!("../sql/orchestrator/restart_waits.sql");
const FIND_SUBSCRIPTION: &str = include_str!("../sql/orchestrator/find_subscription.sql");
const FETCH_DUE_SAGAS: &str = include_str!("../sql/orchestrator/fetch_due_sagas.sql");
const INSERT_JOBS: &str = include_str!("../sql/orchestrator/insert_jobs.sql");
const START_ATTEMPTS: &str = include_str!("../sql/orchestrator/start_attempts.sql");
const DEAD_LETTER_DUE_SAGAS: &str = include_str!("../sql/orchestrator/dead_letter_due_sagas.sql");
const FETCH_JOB_RESULTS: &str = include_str!("../sql/orchestrator/fetch_job_results.sql");
const COMPLETE_SAGAS: &str = include_str!("../sql/orchestrator/complete_sagas.sql");
const RETRY_SAGAS: &str = include_str!("../sql/orchestrator/retry_sagas.sql");
const DEAD_LETTER_SAGAS: &str = include_str!("../sql/orchestrator/dead_letter_sagas.sql");
const DELETE_APPLIED: &str = include_str!("../sql/orchestrator/delete_applied.sql");
const COUNT_IN_FLIGHT: &str = include_str!("../sql/orchestrator/count_in_flight.sql");

const ROLE: DbRole = DbRole::SagaOrchestrator;

/// The SQLite implementation of [`OrchestratorStore`], with the rights of the role `saga_orchestrator`.
#[derive(Debug, Clone)]
pub struct SqliteOrchestrator(pub(crate) SqliteStore);

impl OrchestratorStore for SqliteOrchestrator {
    async fn find_due_subscriptions(
        &self,
        after: Option<SubscriptionId>,
        probes_max: u32,
        now: Timestamp,
    ) -> StoreResult<DueSubscriptions> {
        self.0
            .read(ROLE, "finding due subscriptions", move |session| {
                find_due_subscriptions(session, after, probes_max, now)
            })
            .await
    }

    async fn find_recently_due(
        &self,
        since: Timestamp,
        sagas_max: u32,
        now: Timestamp,
    ) -> StoreResult<RecentlyDue> {
        self.0
            .read(ROLE, "finding recently due sagas", move |session| {
                find_recently_due(session, since, sagas_max.max(1), now)
            })
            .await
    }

    async fn restart_waits(
        &self,
        page: WaitPage,
        policy: RetryPolicy,
        now: Timestamp,
    ) -> StoreResult<RestartedWaits> {
        self.0.write(ROLE, "restarting waits", move |session| restart_waits(session, page, policy, now)).await
    }

    async fn admit_due_sagas(
        &self,
        quotas: Vec<Quota>,
        policy: RetryPolicy,
        now: Timestamp,
    ) -> StoreResult<Admitted> {
        self.0
            .write_as(Durability::Relaxed, ROLE, "admitting sagas", move |session| {
                admit_due_sagas(session, quotas, policy, now)
            })
            .await
    }

    async fn apply_job_results(
        &self,
        take: ResultTake,
        policy: RetryPolicy,
        now: Timestamp,
    ) -> StoreResult<Vec<AppliedResult>> {
        self.0
            .write(ROLE, "applying results", move |session| apply_job_results(session, take, policy, now))
            .await
    }

    async fn count_in_flight(
        &self,
        subscriptions: Vec<SubscriptionId>,
        count_max: u32,
    ) -> StoreResult<Vec<u32>> {
        self.0
            .read(ROLE, "counting deliveries in flight", move |session| {
                count_in_flight(session, &subscriptions, count_max)
            })
            .await
    }
}

fn find_due_subscriptions(
    session: &Session<'_>,
    after: Option<SubscriptionId>,
    probes_max: u32,
    now: Timestamp,
) -> Answer<DueSubscriptions> {
    let probes_max = probes_max.max(1);
    let mut found = DueSubscriptions::default();
    let mut walk = session.statement(FIND_DUE_SUBSCRIPTIONS)?;
    let mut rows = walk.query(params![after.map_or(0, SubscriptionId::get), probes_max, now.micros()])?;
    let (mut probes, mut last) = (0, None);
    while let Some(row) = rows.next()? {
        let id = SubscriptionId::from_store(get(row, "subscription_id")?);
        if let Some(since) = value::maybe_time(row, "due_since")? {
            found.due.push(DueSince { subscription_id: id, since });
        }
        probes += 1;
        last = Some(id);
    }
    found.next = last.filter(|_| probes >= probes_max);
    Ok(found)
}

fn find_recently_due(
    session: &Session<'_>,
    since: Timestamp,
    sagas_max: u32,
    now: Timestamp,
) -> Answer<RecentlyDue> {
    let mut found = RecentlyDue::default();
    // A Pending saga is due regardless of its time.
    for (status, until) in [(SagaStatus::Pending, Timestamp::MAX), (SagaStatus::PendingRetry, now)] {
        let mut find = session.statement(FIND_RECENTLY_DUE)?;
        let mut sagas = find.query(params![status.as_str(), since.micros(), until.micros(), sagas_max])?;
        let (mut read, mut last) = (0, since);
        while let Some(row) = sagas.next()? {
            let subscription_id = SubscriptionId::from_store(get(row, "subscription_id")?);
            last = value::time(row, "next_attempt_at")?;
            found.due.push(DueSince { subscription_id, since: last });
            read += 1;
        }
        if read >= sagas_max {
            found.until = Some(found.until.map_or(last, |until| until.min(last)));
        }
    }
    found.due.sort_unstable();
    found.due.dedup_by_key(|due| due.subscription_id);
    Ok(found)
}

fn restart_waits(
    session: &Session<'_>,
    page: WaitPage,
    policy: RetryPolicy,
    now: Timestamp,
) -> Answer<RestartedWaits> {
    let mut waiting: Vec<(i64, Wait)> = Vec::new();
    {
        let mut list = session.statement(LIST_WAITING_SAGAS)?;
        let mut found = list.query(params![page.from.micros(), page.rows_max])?;
        while let Some(row) = found.next()? {
            let (since, until) = (value::time(row, "updated_at")?, value::time(row, "next_attempt_at")?);
            waiting.push((get(row, "id")?, Wait { since, until }));
        }
    }
    let mut restarted = 0;
    for (id, wait) in &waiting {
        if let Some(until) = policy.restarted_wait(*wait, now) {
            restarted += session.run(RESTART_WAITS, params![id, until.micros(), now.micros()])?;
        }
    }
    let last = waiting.last().map(|(_, wait)| wait.until);
    Ok(RestartedWaits::of_page(page, waiting.len(), restarted, last))
}

fn count_in_flight(
    session: &Session<'_>,
    subscriptions: &[SubscriptionId],
    count_max: u32,
) -> Answer<Vec<u32>> {
    let ids = value::array(subscriptions.iter().map(|id| id.get()));
    let mut count = session.statement(COUNT_IN_FLIGHT)?;
    let counted = count.query_map(params![ids, count_max], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let counts: HashMap<i64, u32> = counted.collect::<Result<_, _>>()?;
    Ok(subscriptions.iter().map(|id| counts.get(&id.get()).copied().unwrap_or(0)).collect())
}

fn admit_due_sagas(
    session: &Session<'_>,
    quotas: Vec<Quota>,
    policy: RetryPolicy,
    now: Timestamp,
) -> Answer<Admitted> {
    let quotas = admission::distinct(quotas);
    let mut due = Vec::new();
    for quota in &quotas {
        fetch_due_sagas(session, *quota, now, &mut due)?;
    }
    let admission = admission::decide(&quotas, due, policy, now);
    if !admission.dead_lettered.is_empty() {
        let ending = value::array(admission.dead_lettered.iter().map(|saga| saga.saga_id.get()));
        session.change_all(
            DEAD_LETTER_DUE_SAGAS,
            admission.dead_lettered.len(),
            params![ending, now.micros()],
        )?;
    }
    let created = start_attempts(session, &admission.starts, now)?;
    Ok(admission.carried_out(created))
}

/// Creates the jobs, and updates the sagas for which a job was created.
fn start_attempts(session: &Session<'_>, starts: &[Start], now: Timestamp) -> Answer<Vec<(JobId, SagaId)>> {
    if starts.is_empty() {
        return Ok(Vec::new());
    }
    let sagas = value::array(starts.iter().map(|start| start.saga_id.get()));
    let suspects = value::array(starts.iter().filter(|start| start.suspect).map(|start| start.saga_id.get()));
    let created: Vec<(JobId, SagaId)> = {
        let mut insert = session.statement(INSERT_JOBS)?;
        let columns = CreatedColumns::of(&insert)?;
        let created = insert.query_map(params![sagas, now.micros(), suspects], |row| {
            Ok((JobId::from_store(get(row, columns.id)?), SagaId::from_store(get(row, columns.saga_id)?)))
        })?;
        created.collect::<Result<_, _>>()?
    };
    let moving = value::array(created.iter().map(|(_, saga_id)| saga_id.get()));
    session.change_all(START_ATTEMPTS, created.len(), params![moving, now.micros()])?;
    Ok(created)
}

/// Returns the retry limit of a subscription. The outer `Option` is `None` if the subscription is inactive, unverified
/// or deleted.
fn find_limit(session: &Session<'_>, id: SubscriptionId) -> Answer<Option<Option<u32>>> {
    let mut find = session.statement(FIND_SUBSCRIPTION)?;
    Ok(find.query_row([id.get()], |row| row.get(0)).optional()?)
}

/// Adds the oldest due sagas of a subscription to `due`, up to the quota in each waiting state. Adds none if the
/// subscription is inactive, unverified or deleted.
fn fetch_due_sagas(
    session: &Session<'_>,
    quota: Quota,
    now: Timestamp,
    due: &mut Vec<DueSaga>,
) -> Answer<()> {
    let subscription_id = quota.subscription_id;
    let Some(max_retry_limit) = find_limit(session, subscription_id)? else { return Ok(()) };
    let mut list = session.statement(FETCH_DUE_SAGAS)?;
    let (columns, state) = (DueColumns::of(&list)?, StateColumns::of(&list)?);
    let from = quota.from.unwrap_or(Timestamp::MIN).micros();
    let mut found = list.query(params![subscription_id.get(), now.micros(), quota.jobs_max, from])?;
    while let Some(row) = found.next()? {
        due.push(DueSaga {
            saga_id: SagaId::from_store(get(row, columns.id)?),
            event_id: EventId::from_store(get(row, columns.event_id)?),
            subscription_id,
            state: state.read(row)?,
            max_retry_limit,
        });
    }
    Ok(())
}

columns!(CreatedColumns { id, saga_id });
columns!(DueColumns { id, event_id });
columns!(StateColumns { status, attempt_count, next_attempt_at, final_error_code, current_job_id });

impl StateColumns {
    /// Reads the state of a saga, on which [`admission`] and [`results`] base their decisions.
    pub(crate) fn read(self, row: &Row<'_>) -> Answer<SagaState> {
        Ok(SagaState {
            status: value::word(row, self.status, SagaStatus::parse)?,
            attempt_count: get(row, self.attempt_count)?,
            next_attempt_at: value::time(row, self.next_attempt_at)?,
            final_error_code: value::error_code(row, self.final_error_code)?,
            current_job_id: value::maybe_id(row, self.current_job_id, JobId::from_store)?,
        })
    }
}

fn apply_job_results(
    session: &Session<'_>,
    take: ResultTake,
    policy: RetryPolicy,
    now: Timestamp,
) -> Answer<Vec<AppliedResult>> {
    let (mut lowest, mut highest) = (None, 0_i64);
    let mut finished = Vec::new();
    {
        let mut list = session.statement(FETCH_JOB_RESULTS)?;
        let (columns, state) = (ResultColumns::of(&list)?, StateColumns::of(&list)?);
        let mut found = list.query(params![take.from.map_or(0, JobId::get), take.results_max])?;
        while let Some(row) = found.next()? {
            highest = get(row, columns.job_id)?;
            lowest = lowest.or(Some(highest));
            finished.extend(finished_job(row, columns, state)?);
        }
    }
    let decided = results::decide(finished, policy, now);
    let results: Vec<AppliedResult> = decided.into_iter().map(|(result, _)| result).collect();
    write_results(session, &results, now)?;
    if let Some(lowest) = lowest {
        session.run(DELETE_APPLIED, params![lowest, highest])?;
    }
    Ok(results)
}

/// Writes the new states of sagas, with one statement per distinct decision. A batch has few distinct decisions.
fn write_results(session: &Session<'_>, results: &[AppliedResult], now: Timestamp) -> Answer<()> {
    let mut groups: Vec<(&Decision, Vec<i64>)> = Vec::new();
    for result in results {
        match groups.iter_mut().rev().find(|(decision, _)| **decision == result.decision) {
            Some((_, sagas)) => sagas.push(result.saga_id.get()),
            None => groups.push((&result.decision, vec![result.saga_id.get()])),
        }
    }
    let now = now.micros();
    for (decision, sagas) in groups {
        let (count, sagas) = (sagas.len(), value::array(sagas));
        match decision {
            Decision::Complete { attempt_count } => {
                session.change_all(COMPLETE_SAGAS, count, params![sagas, attempt_count, now])?;
            }
            Decision::Retry { attempt_count, next_attempt_at, error_code } => {
                let (at, code) = (next_attempt_at.micros(), error_code.as_str());
                session.change_all(RETRY_SAGAS, count, params![sagas, attempt_count, now, at, code])?;
            }
            Decision::DeadLetter { attempt_count, error_code } => {
                let code = error_code.as_ref().map(|code| code.as_str());
                session.change_all(DEAD_LETTER_SAGAS, count, params![sagas, attempt_count, now, code])?;
            }
            Decision::StartAttempt { .. } | Decision::Ignore(_) => {}
        }
    }
    Ok(())
}

columns!(ResultColumns {
    job_id,
    job_status,
    error_code,
    retry_after_s,
    saga_id,
    event_id,
    subscription_id,
    saga_created_at,
    max_retry_limit,
});

/// Reads a finished job. Returns `None` if the saga does not exist or the job has not finished, which only a manual
/// change to the database can cause.
fn finished_job(row: &Row<'_>, at: ResultColumns, state: StateColumns) -> Answer<Option<FinishedJob>> {
    let Some(saga_id) = value::maybe_id(row, at.saga_id, SagaId::from_store)? else { return Ok(None) };
    let status = value::word(row, at.job_status, JobStatus::parse)?;
    let Some(outcome) =
        JobOutcome::of_row(status, value::error_code(row, at.error_code)?, get(row, at.retry_after_s)?)
    else {
        return Ok(None);
    };
    Ok(Some(FinishedJob {
        result: JobResult { job_id: JobId::from_store(get(row, at.job_id)?), outcome },
        saga_id,
        event_id: EventId::from_store(get(row, at.event_id)?),
        subscription_id: SubscriptionId::from_store(get(row, at.subscription_id)?),
        state: state.read(row)?,
        saga_created_at: value::time(row, at.saga_created_at)?,
        max_retry_limit: get(row, at.max_retry_limit)?,
    }))
}
