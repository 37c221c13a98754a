//! Resets jobs whose lease has expired because their worker died or hung. Jobs that were reset too often fail instead,
//! and are inserted into the orchestrator's inbox. [`job::expire`] makes the decision.

use crate::grants::DbRole;
use crate::postgres::PostgresStore;
use crate::postgres::conn::pool::RolePool;
use crate::postgres::conn::session::{Session, TransactionMode};
use crate::postgres::conn::value::{Instant, TAKE_MAX, count, get, instant, int};
use crate::remote::{Call, Fault};
use posthaste_core::job::{self, ExpiredLease};
use posthaste_core::outcome::Failure;
use posthaste_core::ports::{CleanerStore, LeaseTake, ResetLease, StoreResult};
use posthaste_core::{EventId, JobId, SagaId, Timestamp};
use std::collections::HashSet;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

/// The PostgreSQL implementation of [`CleanerStore`], with the rights of the role `lease_cleaner`.
#[derive(Debug, Clone)]
pub struct PostgresCleaner {
    pool: RolePool,
}

impl PostgresCleaner {
    pub(crate) fn new(store: &PostgresStore) -> Self {
        Self { pool: store.pool(DbRole::LeaseCleaner) }
    }
}

impl CleanerStore for PostgresCleaner {
    async fn reset_expired_leases(
        &self,
        take: LeaseTake,
        resets_max: u32,
        now: Timestamp,
    ) -> StoreResult<Vec<ResetLease>> {
        let call = Call::repeatable("resetting expired leases");
        let mut leases = Vec::new();
        let mut wanted = take.jobs_max;
        // Makes at least one call, even for zero jobs, because the caller uses it to check that the server responds.
        loop {
            let few = LeaseTake { jobs_max: wanted.min(TAKE_MAX), ..take };
            let (taken, part) = self.pool.call(call, |session| reset(session, few, resets_max, now)).await?;
            wanted = if taken < few.jobs_max { 0 } else { wanted - taken };
            leases.extend(part);
            if wanted == 0 {
                return Ok(leases);
            }
        }
    }
}

/// Resets expired leases. Returns the number of leases fetched and the outcome of each.
async fn reset(
    mut session: Session,
    take: LeaseTake,
    resets_max: u32,
    now: Timestamp,
) -> Result<(u32, Vec<ResetLease>), Fault> {
    let sql = include_str!("../sql/cleaner/fetch_expired_leases.sql");
    let from = Instant(take.from.unwrap_or(Timestamp::MIN));
    let ahead = Instant(now.after(take.ahead_max));
    let params: [&(dyn ToSql + Sync); 4] = [&Instant(now), &int(take.jobs_max), &from, &ahead];
    let rows = session.begin(TransactionMode::Flushed, sql, &params).await?;
    if rows.is_empty() {
        session.roll_back().await?;
        return Ok((0, Vec::new()));
    }
    let taken = u32::try_from(rows.len()).unwrap_or(u32::MAX);
    let mut leases =
        rows.iter().map(|row| expired(row, resets_max)).collect::<Result<Vec<ResetLease>, Fault>>()?;
    let jobs: Vec<i64> = leases.iter().map(|lease| lease.job_id.get()).collect();
    let (resets, verdicts): (Vec<i32>, Vec<(bool, bool)>) =
        leases.iter().map(|lease| verdict(lease.outcome)).unzip();
    let (fails, suspects): (Vec<bool>, Vec<bool>) = verdicts.into_iter().unzip();
    let code = Failure::LeaseExpired.code();
    let sql = include_str!("../sql/cleaner/reset_expired_leases.sql");
    let now = Instant(now);
    let rows = session.commit_with(sql, &[&jobs, &resets, &fails, &now, &code.as_str(), &suspects]).await?;
    let done: HashSet<i64> = rows.iter().map(|row| get(row, 0)).collect::<Result<_, Fault>>()?;
    leases.retain(|lease| done.contains(&lease.job_id.get()));
    Ok((taken, leases))
}

fn expired(row: &Row, resets_max: u32) -> Result<ResetLease, Fault> {
    Ok(ResetLease {
        job_id: JobId::from_store(get(row, "id")?),
        saga_id: SagaId::from_store(get(row, "saga_id")?),
        event_id: EventId::from_store(get(row, "event_id")?),
        correlation_id: get(row, "correlation_id")?,
        worker_id: get(row, "worker_id")?,
        lease_until: instant(row, "lease_until")?,
        outcome: job::expire(count(row, "lease_resets")?, resets_max),
    })
}

/// Returns the new number of resets, whether the job fails, and whether it becomes suspect.
fn verdict(outcome: ExpiredLease) -> (i32, (bool, bool)) {
    match outcome {
        ExpiredLease::GiveBack { lease_resets, suspect } => (int(lease_resets), (false, suspect)),
        ExpiredLease::Fail { lease_resets } => (int(lease_resets), (true, false)),
    }
}
