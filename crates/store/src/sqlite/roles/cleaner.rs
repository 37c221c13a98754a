//! Resets jobs whose lease has expired. Jobs that were reset too often fail instead, and are inserted into the
//! orchestrator's inbox. [`job::expire`] makes the decision.

use posthaste_core::job::{self, ExpiredLease};
use posthaste_core::outcome::Failure;
use posthaste_core::ports::{CleanerStore, LeaseTake, ResetLease, StoreResult};
use posthaste_core::{EventId, JobId, SagaId, Timestamp};
use rusqlite::params;

use crate::grants::DbRole;
use crate::sqlite::SqliteStore;
use crate::sqlite::conn::error::Answer;
use crate::sqlite::conn::session::Session;
use crate::sqlite::conn::value::{self, get};

const FETCH_EXPIRED_LEASES: &str = include_str!("../sql/cleaner/fetch_expired_leases.sql");
const GIVE_BACK_JOB: &str = include_str!("../sql/cleaner/give_back_job.sql");
const MARK_SUSPECT: &str = include_str!("../sql/cleaner/mark_suspect.sql");
const FAIL_JOB: &str = include_str!("../sql/cleaner/fail_job.sql");
const INSERT_FINISHED: &str = include_str!("../sql/cleaner/insert_finished.sql");

/// The SQLite implementation of [`CleanerStore`], with the rights of the role `lease_cleaner`.
#[derive(Debug, Clone)]
pub struct SqliteCleaner(pub(crate) SqliteStore);

impl CleanerStore for SqliteCleaner {
    async fn reset_expired_leases(
        &self,
        take: LeaseTake,
        resets_max: u32,
        now: Timestamp,
    ) -> StoreResult<Vec<ResetLease>> {
        self.0
            .write(DbRole::LeaseCleaner, "resetting expired leases", move |session| {
                reset_expired_leases(session, take, resets_max, now)
            })
            .await
    }
}

fn reset_expired_leases(
    session: &Session<'_>,
    take: LeaseTake,
    resets_max: u32,
    now: Timestamp,
) -> Answer<Vec<ResetLease>> {
    let from = take.from.unwrap_or(Timestamp::MIN).micros();
    let ahead = now.after(take.ahead_max).micros();
    let expired: Vec<ResetLease> = session
        .statement(FETCH_EXPIRED_LEASES)?
        .query_map(params![now.micros(), take.jobs_max, from, ahead], |row| {
            Ok(ResetLease {
                job_id: JobId::from_store(get(row, "id")?),
                saga_id: SagaId::from_store(get(row, "saga_id")?),
                event_id: EventId::from_store(get(row, "event_id")?),
                correlation_id: get(row, "correlation_id")?,
                worker_id: get(row, "worker_id")?,
                lease_until: value::time(row, "lease_until")?,
                outcome: job::expire(get(row, "lease_resets")?, resets_max),
            })
        })?
        .collect::<Result<_, _>>()?;
    for ResetLease { job_id, outcome, .. } in &expired {
        match *outcome {
            ExpiredLease::GiveBack { lease_resets, suspect } => {
                session.run(GIVE_BACK_JOB, params![job_id.get(), now.micros(), lease_resets])?;
                if suspect {
                    session.run(MARK_SUSPECT, [job_id.get()])?;
                }
            }
            ExpiredLease::Fail { lease_resets } => {
                let code = Failure::LeaseExpired.code();
                session.run(FAIL_JOB, params![job_id.get(), code.as_str(), lease_resets])?;
                session.run(INSERT_FINISHED, [job_id.get()])?;
            }
        }
    }
    Ok(expired)
}
