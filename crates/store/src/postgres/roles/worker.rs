//! Claims jobs, which the orchestrator created, reads the events and subscriptions to send, and writes outcomes to the
//! orchestrator's inbox. Never changes a saga.

use crate::columns::{SqlText, sql};
use crate::grants::DbRole;
use crate::postgres::PostgresStore;
use crate::postgres::conn::pool::RolePool;
use crate::postgres::conn::session::Session;
use crate::postgres::conn::value::{Instant, TAKE_MAX, count, get, instant, int, take, token};
use crate::postgres::roles::events::stored_event;
use crate::postgres::roles::subscriptions::target;
use crate::remote::{Call, Fault};
use posthaste_core::job::JobStatus;
use posthaste_core::message_id::MessageIdKey;
use posthaste_core::outcome::{AttemptOutcome, ErrorCode};
use posthaste_core::ports::{
    Claim, ClaimedJob, JobReport, Report, StoreResult, StoredEvent, Target, WorkerStore,
};
use posthaste_core::{EventId, JobId, LeaseToken, SagaId, SubscriptionId, Timestamp};
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio_postgres::Row;
use uuid::Uuid;

static LOAD_EVENTS: SqlText = sql!("../sql/worker/load_events.sql");
static LOAD_TARGETS: SqlText = sql!("../sql/worker/load_targets.sql");

/// The PostgreSQL implementation of [`WorkerStore`], with the rights of the role `job_worker`.
#[derive(Debug, Clone)]
pub struct PostgresWorker {
    pool: RolePool,
}

impl PostgresWorker {
    pub(crate) fn new(store: &PostgresStore) -> Self {
        Self { pool: store.pool(DbRole::JobWorker) }
    }
}

impl WorkerStore for PostgresWorker {
    async fn claim_due_jobs(&self, claim: Claim, now: Timestamp) -> StoreResult<Vec<ClaimedJob>> {
        let call = Call::repeatable("claiming jobs");
        let mut jobs = Vec::new();
        let mut wanted = claim.jobs_max;
        while wanted > 0 {
            let most = wanted.min(TAKE_MAX);
            // A retry first checks for jobs that the previous try may have claimed.
            let again = AtomicBool::new(false);
            let part =
                self.pool.call(call, |session| claim_jobs(session, &claim, most, &jobs, now, &again)).await?;
            let got = u32::try_from(part.len()).unwrap_or(u32::MAX);
            wanted = if got < most { 0 } else { wanted - most };
            jobs.extend(part);
        }
        Ok(jobs)
    }

    async fn claim_suspect_job(&self, claim: Claim, now: Timestamp) -> StoreResult<Option<ClaimedJob>> {
        let again = AtomicBool::new(false);
        let call = Call::repeatable("claiming a suspect job");
        self.pool.call(call, |session| claim_suspect(session, &claim, now, &again)).await
    }

    async fn load_events(&self, ids: Vec<EventId>) -> StoreResult<Vec<StoredEvent>> {
        let ids: Vec<i64> = ids.into_iter().map(EventId::get).collect();
        self.pool.call(Call::repeatable("loading events"), |session| load_events(session, &ids)).await
    }

    async fn load_targets(&self, ids: Vec<SubscriptionId>) -> StoreResult<Vec<Target>> {
        let ids: Vec<i64> = ids.into_iter().map(SubscriptionId::get).collect();
        self.pool.call(Call::repeatable("loading targets"), |session| load_targets(session, &ids)).await
    }

    async fn load_message_id_key(&self) -> StoreResult<MessageIdKey> {
        self.pool.call(Call::repeatable("loading the key of message ids"), load_message_id_key).await
    }

    async fn report_jobs(&self, reports: Vec<JobReport>, _now: Timestamp) -> StoreResult<Vec<Report>> {
        self.pool.call(Call::repeatable("reporting attempts"), |session| report(session, &reports)).await
    }

    async fn release_jobs(&self, jobs: Vec<JobId>, token: LeaseToken, now: Timestamp) -> StoreResult<u32> {
        let mut ids: Vec<i64> = jobs.into_iter().map(JobId::get).collect();
        ids.sort_unstable();
        let call = Call::repeatable("releasing jobs");
        self.pool.call(call, |session| release(session, &ids, token, now)).await
    }
}

/// Claims at most `most` jobs. `known` contains the jobs that earlier statements of the same call have claimed.
async fn claim_jobs(
    mut session: Session,
    claim: &Claim,
    most: u32,
    known: &[ClaimedJob],
    now: Timestamp,
    again: &AtomicBool,
) -> Result<Vec<ClaimedJob>, Fault> {
    let lease_until = now.after(claim.lease);
    let (end, proof) = (Instant(lease_until), token(claim.token));
    if again.swap(true, Ordering::Relaxed) {
        let mut found = find_claimed(&mut session, lease_until, proof).await?;
        found.retain(|job| known.iter().all(|known| known.job_id != job.job_id));
        if !found.is_empty() {
            return Ok(found);
        }
    }
    let from = Instant(claim.from.unwrap_or(Timestamp::MIN));
    let sql = include_str!("../sql/worker/claim_due_jobs.sql");
    let worker = claim.worker_id.as_str();
    // If a crash loses the lease, the job is sent once more, as after any lost response.
    let rows = session.run_relaxed(sql, &[&from, &take(most), &end, &proof, &worker]).await?;
    let mut jobs =
        rows.iter().map(|row| claimed(row, lease_until)).collect::<Result<Vec<ClaimedJob>, Fault>>()?;
    let leased: i64 = rows.first().map_or(Ok(0), |row| get(row, "leased"))?;
    if usize::try_from(leased) != Ok(jobs.len()) {
        let held = find_claimed(&mut session, lease_until, proof).await?;
        jobs.retain(|job| held.iter().any(|held| held.job_id == job.job_id));
    }
    Ok(jobs)
}

/// Claims the oldest suspect job. A retry returns the job that the previous try claimed, if any.
async fn claim_suspect(
    mut session: Session,
    claim: &Claim,
    now: Timestamp,
    again: &AtomicBool,
) -> Result<Option<ClaimedJob>, Fault> {
    let lease_until = now.after(claim.lease);
    let proof = token(claim.token);
    let suspect = |job: ClaimedJob| ClaimedJob { suspect: true, ..job };
    if again.swap(true, Ordering::Relaxed) {
        let found = find_claimed(&mut session, lease_until, proof).await?;
        if let Some(job) = found.into_iter().next() {
            return Ok(Some(suspect(job)));
        }
    }
    let sql = include_str!("../sql/worker/claim_suspect_job.sql");
    let from = Instant(claim.from.unwrap_or(Timestamp::MIN));
    let rows = session.run(sql, &[&from, &Instant(lease_until), &proof, &claim.worker_id.as_str()]).await?;
    rows.first().map(|row| claimed(row, lease_until).map(suspect)).transpose()
}

/// Returns the jobs of a claim, identified by its token and the end of its leases.
async fn find_claimed(
    session: &mut Session,
    lease_until: Timestamp,
    proof: Uuid,
) -> Result<Vec<ClaimedJob>, Fault> {
    let sql = include_str!("../sql/worker/find_claimed_jobs.sql");
    let rows = session.read(sql, &[&Instant(lease_until), &proof]).await?;
    rows.iter().map(|row| claimed(row, lease_until)).collect()
}

fn claimed(row: &Row, lease_until: Timestamp) -> Result<ClaimedJob, Fault> {
    Ok(ClaimedJob {
        job_id: JobId::from_store(get(row, "id")?),
        saga_id: SagaId::from_store(get(row, "saga_id")?),
        event_id: EventId::from_store(get(row, "event_id")?),
        subscription_id: SubscriptionId::from_store(get(row, "subscription_id")?),
        attempt: count(row, "attempt_count")?.saturating_add(1),
        claimable_since: instant(row, "claimable_since")?,
        lease_until,
        suspect: false,
    })
}

async fn load_events(mut session: Session, ids: &[i64]) -> Result<Vec<StoredEvent>, Fault> {
    let rows = session.read(&LOAD_EVENTS, &[&ids]).await?;
    rows.iter().map(stored_event).collect()
}

async fn load_message_id_key(mut session: Session) -> Result<MessageIdKey, Fault> {
    let rows = session.read(include_str!("../sql/worker/load_message_id_key.sql"), &[]).await?;
    let row =
        rows.first().ok_or_else(|| Fault::Unreadable("the key of message ids is missing".to_owned()))?;
    Ok(MessageIdKey { key: get(row, "key")?, plain_up_to: get(row, "plain_up_to")? })
}

async fn load_targets(mut session: Session, ids: &[i64]) -> Result<Vec<Target>, Fault> {
    let rows = session.read(&LOAD_TARGETS, &[&ids]).await?;
    rows.iter().map(target).collect()
}

async fn report(mut session: Session, reports: &[JobReport]) -> Result<Vec<Report>, Fault> {
    // Sorted by id, so that two calls cannot deadlock. Of several reports for one claim of a job, only the first is
    // kept.
    let mut sorted: Vec<&JobReport> = reports.iter().collect();
    sorted.sort_by_key(|report| (report.job_id, report.token.bits()));
    sorted.dedup_by_key(|report| (report.job_id, report.token));
    let jobs: Vec<i64> = sorted.iter().map(|report| report.job_id.get()).collect();
    let tokens: Vec<Uuid> = sorted.iter().map(|report| token(report.token)).collect();
    let statuses: Vec<&str> = sorted.iter().map(|report| ends_as(&report.outcome).as_str()).collect();
    let answers: Vec<Option<i32>> =
        sorted.iter().map(|report| report.outcome.status().map(i32::from)).collect();
    let codes: Vec<Option<ErrorCode>> = sorted.iter().map(|report| report.outcome.code()).collect();
    let codes: Vec<Option<&str>> = codes.iter().map(|code| code.as_ref().map(ErrorCode::as_str)).collect();
    let durations: Vec<i32> =
        sorted.iter().map(|report| i32::try_from(report.duration.as_millis()).unwrap_or(i32::MAX)).collect();
    let waits: Vec<Option<i32>> =
        sorted.iter().map(|report| report.outcome.retry_after_s().map(int)).collect();
    let sql = include_str!("../sql/worker/report_jobs.sql");
    let rows = session.run(sql, &[&jobs, &tokens, &statuses, &answers, &codes, &durations, &waits]).await?;
    let done: Option<Vec<i64>> = rows.first().map(|row| get(row, 0)).transpose()?;
    if done.is_some_and(|done| done.len() == reports.len()) {
        return Ok(vec![Report::Accepted; reports.len()]);
    }
    let ended = ended(&mut session, &jobs, &tokens).await?;
    let answer = |report: &JobReport| {
        let stands = ended.contains(&(report.job_id, report.token));
        if stands { Report::Accepted } else { Report::LeaseLost }
    };
    Ok(reports.iter().map(answer).collect())
}

/// Returns the jobs that are finished under the given tokens, by this report or an earlier one.
async fn ended(
    session: &mut Session,
    jobs: &[i64],
    tokens: &[Uuid],
) -> Result<HashSet<(JobId, LeaseToken)>, Fault> {
    let rows = session.read(include_str!("../sql/worker/find_reported_jobs.sql"), &[&jobs, &tokens]).await?;
    let as_told = |row: &Row| {
        let held = LeaseToken::from_random(get::<Uuid>(row, "lease_token")?.as_u128());
        Ok((JobId::from_store(get(row, "id")?), held))
    };
    rows.iter().map(as_told).collect()
}

const fn ends_as(outcome: &AttemptOutcome) -> JobStatus {
    match outcome {
        AttemptOutcome::Delivered { .. } => JobStatus::Completed,
        AttemptOutcome::Failed { .. } => JobStatus::Failed,
    }
}

async fn release(mut session: Session, ids: &[i64], held: LeaseToken, now: Timestamp) -> Result<u32, Fault> {
    let sql = include_str!("../sql/worker/release_jobs.sql");
    let rows = session.run(sql, &[&ids, &token(held), &Instant(now)]).await?;
    Ok(u32::try_from(rows.len()).unwrap_or(u32::MAX))
}
