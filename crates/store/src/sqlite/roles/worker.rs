//! Claims jobs, which the orchestrator created, reads the events and subscriptions to send, and writes outcomes to the
//! orchestrator's inbox. Never changes a saga.

use posthaste_core::message_id::MessageIdKey;
use posthaste_core::outcome::AttemptOutcome;
use posthaste_core::ports::{
    Claim, ClaimedJob, JobReport, Report, StoreResult, StoredEvent, Target, WorkerStore,
};
use posthaste_core::{EventId, JobId, LeaseToken, SagaId, SubscriptionId, Timestamp};
use rusqlite::{OptionalExtension as _, Row, params};

use crate::columns::{SqlText, sql};
use crate::grants::DbRole;
use crate::sqlite::SqliteStore;
use crate::sqlite::commit::task::Durability;
use crate::sqlite::conn::error::{Answer, Fault};
use crate::sqlite::conn::session::{Session, must_change};
use crate::sqlite::conn::value::{self, columns, get};
use crate::sqlite::roles::events::EventColumns;
use crate::sqlite::roles::subscriptions::target;

const FETCH_DUE_JOBS: &str = include_str!("../sql/worker/fetch_due_jobs.sql");
const FIND_SUSPECT_JOB: &str = include_str!("../sql/worker/find_suspect_job.sql");
const LEASE_JOBS: &str = include_str!("../sql/worker/lease_jobs.sql");
static LOAD_EVENTS: SqlText = sql!("../sql/worker/load_events.sql");
const LOAD_MESSAGE_ID_KEY: &str = include_str!("../sql/worker/load_message_id_key.sql");
static LOAD_TARGETS: SqlText = sql!("../sql/worker/load_targets.sql");
const COMPLETE_32_JOBS: &str = include_str!("../sql/worker/complete_32_jobs.sql");
const COMPLETE_JOB: &str = include_str!("../sql/worker/complete_job.sql");
const FAIL_JOB: &str = include_str!("../sql/worker/fail_job.sql");
const INSERT_FINISHED: &str = include_str!("../sql/worker/insert_finished.sql");
const FIND_REPORTED_JOBS: &str = include_str!("../sql/worker/find_reported_jobs.sql");
const RELEASE_JOBS: &str = include_str!("../sql/worker/release_jobs.sql");

const ROLE: DbRole = DbRole::JobWorker;

/// The number of jobs that [`COMPLETE_32_JOBS`] completes.
const STRIDE: usize = 32;

/// The SQLite implementation of [`WorkerStore`], with the rights of the role `job_worker`.
#[derive(Debug, Clone)]
pub struct SqliteWorker(pub(crate) SqliteStore);

impl WorkerStore for SqliteWorker {
    async fn claim_due_jobs(&self, claim: Claim, now: Timestamp) -> StoreResult<Vec<ClaimedJob>> {
        self.0
            .write_as(Durability::AfterFlushes, ROLE, "claiming jobs", move |session| {
                claim_due_jobs(session, &claim, now)
            })
            .await
    }

    async fn claim_suspect_job(&self, claim: Claim, now: Timestamp) -> StoreResult<Option<ClaimedJob>> {
        self.0
            .write_as(Durability::AfterFlushes, ROLE, "claiming a suspect job", move |session| {
                claim_suspect_job(session, &claim, now)
            })
            .await
    }

    async fn load_events(&self, mut ids: Vec<EventId>) -> StoreResult<Vec<StoredEvent>> {
        ids.sort_unstable();
        ids.dedup();
        self.0
            .read(ROLE, "loading events", move |session| {
                let mut load = session.statement(&LOAD_EVENTS)?;
                let columns = EventColumns::of(&load)?;
                let mut load_one =
                    |id: EventId| load.query_row([id.get()], |row| columns.read(row)).optional();
                Ok(ids.into_iter().filter_map(|id| load_one(id).transpose()).collect::<Result<_, _>>()?)
            })
            .await
    }

    async fn load_targets(&self, mut ids: Vec<SubscriptionId>) -> StoreResult<Vec<Target>> {
        ids.sort_unstable();
        ids.dedup();
        self.0
            .read(ROLE, "loading targets", move |session| {
                let mut load = session.statement(&LOAD_TARGETS)?;
                let mut load_one = |id: SubscriptionId| {
                    let mut rows = load.query([id.get()])?;
                    rows.next()?.map(target).transpose()
                };
                ids.into_iter().filter_map(|id| load_one(id).transpose()).collect()
            })
            .await
    }

    async fn load_message_id_key(&self) -> StoreResult<MessageIdKey> {
        self.0
            .read(ROLE, "loading the key of message ids", move |session| {
                let mut load = session.statement(LOAD_MESSAGE_ID_KEY)?;
                let read = |row: &Row<'_>| {
                    Ok(MessageIdKey { key: get(row, "key")?, plain_up_to: get(row, "plain_up_to")? })
                };
                Ok(load.query_row([], read)?)
            })
            .await
    }

    async fn report_jobs(&self, reports: Vec<JobReport>, _now: Timestamp) -> StoreResult<Vec<Report>> {
        self.0.write(ROLE, "reporting jobs", move |session| report_jobs(session, &reports)).await
    }

    async fn release_jobs(&self, jobs: Vec<JobId>, token: LeaseToken, now: Timestamp) -> StoreResult<u32> {
        self.0
            .write(ROLE, "releasing jobs", move |session| {
                let mut release = session.statement(RELEASE_JOBS)?;
                let mut released = 0_u32;
                for job in jobs {
                    if release.execute(params![job.get(), value::token(token), now.micros()])? > 0 {
                        released += 1;
                    }
                }
                Ok(released)
            })
            .await
    }
}

fn claim_due_jobs(session: &Session<'_>, claim: &Claim, now: Timestamp) -> Answer<Vec<ClaimedJob>> {
    let lease_until = now.after(claim.lease);
    let from = claim.from.unwrap_or(Timestamp::MIN);
    let mut fetch = session.statement(FETCH_DUE_JOBS)?;
    let columns = JobColumns::of(&fetch)?;
    let claimed: Vec<ClaimedJob> = fetch
        .query_map(params![from.micros(), claim.jobs_max], |row| columns.read(row, lease_until))?
        .collect::<Result<_, _>>()?;
    if !claimed.is_empty() {
        lease_jobs(session, claim, &claimed, lease_until)?;
    }
    Ok(claimed)
}

fn claim_suspect_job(session: &Session<'_>, claim: &Claim, now: Timestamp) -> Answer<Option<ClaimedJob>> {
    let lease_until = now.after(claim.lease);
    let found = session
        .statement(FIND_SUSPECT_JOB)?
        .query_row([claim.from.unwrap_or(Timestamp::MIN).micros()], |row| {
            JobColumns::of(row.as_ref())?.read(row, lease_until)
        })
        .optional()?
        .map(|job| ClaimedJob { suspect: true, ..job });
    if let Some(job) = &found {
        lease_jobs(session, claim, std::slice::from_ref(job), lease_until)?;
    }
    Ok(found)
}

fn lease_jobs(
    session: &Session<'_>,
    claim: &Claim,
    jobs: &[ClaimedJob],
    lease_until: Timestamp,
) -> Answer<()> {
    let ids = value::array(jobs.iter().map(|job| job.job_id.get()));
    let (token, worker) = (value::token(claim.token), claim.worker_id.as_str());
    session.change_all(LEASE_JOBS, jobs.len(), params![ids, lease_until.micros(), token, worker])
}

columns!(JobColumns { id, saga_id, event_id, subscription_id, attempt_count, claimable_since });

impl JobColumns {
    fn read(self, row: &Row<'_>, lease_until: Timestamp) -> rusqlite::Result<ClaimedJob> {
        Ok(ClaimedJob {
            job_id: JobId::from_store(get(row, self.id)?),
            saga_id: SagaId::from_store(get(row, self.saga_id)?),
            event_id: EventId::from_store(get(row, self.event_id)?),
            subscription_id: SubscriptionId::from_store(get(row, self.subscription_id)?),
            attempt: get::<u32>(row, self.attempt_count)?.saturating_add(1),
            claimable_since: value::time(row, self.claimable_since)?,
            lease_until,
            suspect: false,
        })
    }
}

fn report_jobs(session: &Session<'_>, reports: &[JobReport]) -> Answer<Vec<Report>> {
    let are_complete = complete_all(session, reports)?;
    let mut complete = session.statement(COMPLETE_JOB)?;
    let mut fail = session.statement(FAIL_JOB)?;
    let mut finished = Vec::with_capacity(reports.len());
    let mut answers = Vec::with_capacity(reports.len());
    for report in reports {
        let (id, token) = (report.job_id.get(), value::token(report.token));
        let changed = match report.outcome {
            AttemptOutcome::Delivered { .. } if are_complete => 1,
            AttemptOutcome::Delivered { status } => {
                complete.execute(params![id, token, status, duration_ms(report)])?
            }
            AttemptOutcome::Failed { failure, status, .. } => {
                let (code, retry_after) = (failure.code(), report.outcome.retry_after_s());
                let took = duration_ms(report);
                fail.execute(params![id, token, status, took, code.as_str(), retry_after])?
            }
        };
        let answer = if changed > 0 {
            finished.push(id);
            Report::Accepted
        } else if session.statement(FIND_REPORTED_JOBS)?.exists(params![id, token])? {
            Report::Accepted
        } else {
            Report::LeaseLost
        };
        answers.push(answer);
    }
    if !finished.is_empty() {
        session.run(INSERT_FINISHED, [value::array(finished)])?;
    }
    Ok(answers)
}

/// Completes the jobs of all successful attempts, 32 per statement. Returns `false` without a change if there are fewer
/// than two, or if a job has lost its lease or was reported before. The caller must then write each report separately.
fn complete_all(session: &Session<'_>, reports: &[JobReport]) -> Answer<bool> {
    let delivered = |report: &JobReport| match report.outcome {
        AttemptOutcome::Delivered { status } => {
            Some((report.job_id.get(), value::token(report.token), status, duration_ms(report)))
        }
        AttemptOutcome::Failed { .. } => None,
    };
    let delivered: Vec<_> = reports.iter().filter_map(delivered).collect();
    if delivered.len() < 2 {
        return Ok(false);
    }
    let completed = session.all_or_nothing(|| {
        let mut complete = session.statement(COMPLETE_32_JOBS)?;
        for jobs in delivered.chunks(STRIDE) {
            for place in 0..STRIDE {
                let (first, job) = (place * 4 + 1, jobs.get(place));
                complete.raw_bind_parameter(first, job.map(|job| job.0))?;
                complete.raw_bind_parameter(first + 1, job.map(|job| job.1))?;
                complete.raw_bind_parameter(first + 2, job.map(|job| job.2))?;
                complete.raw_bind_parameter(first + 3, job.map(|job| job.3))?;
            }
            must_change(jobs.len(), complete.raw_execute()?)?;
        }
        Ok(())
    });
    match completed {
        Ok(()) => Ok(true),
        // Fewer rows were changed than expected.
        Err(Fault::Unreadable(_)) => Ok(false),
        Err(fault) => Err(fault),
    }
}

fn duration_ms(report: &JobReport) -> i64 {
    i64::try_from(report.duration.as_millis()).unwrap_or(i64::MAX).min(i64::from(i32::MAX))
}
