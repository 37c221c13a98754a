//! Records that a process is running and adds its counters, through SECURITY DEFINER functions.

use crate::postgres::PostgresStore;
use crate::postgres::conn::pool::RolePool;
use crate::postgres::conn::session::Session;
use crate::postgres::conn::value::Instant;
use crate::remote::{Call, Fault};
use posthaste_core::Timestamp;
use posthaste_core::ports::{HealthSum, PresenceStore, ProcessSeen, Rollup, StoreResult};

/// The PostgreSQL implementation of [`PresenceStore`], available to every role.
#[derive(Debug, Clone)]
pub struct PostgresPresence {
    pool: RolePool,
}

impl PostgresPresence {
    pub(crate) fn new(store: &PostgresStore) -> Self {
        Self { pool: store.home_pool() }
    }
}

impl PresenceStore for PostgresPresence {
    async fn report_presence(&self, seen: ProcessSeen, rollups: Vec<Rollup>) -> StoreResult<()> {
        // Counters are added, so only a report without counters may be repeated.
        let doing = "reporting presence";
        let call = if rollups.is_empty() { Call::repeatable(doing) } else { Call::once(doing) };
        self.pool.call(call, |session| report(session, &seen, &rollups)).await
    }

    async fn report_health(&self, sums: Vec<HealthSum>, now: Timestamp) -> StoreResult<()> {
        let call = Call::once("reporting subscription health");
        self.pool.call(call, |session| report_health(session, &sums, now)).await
    }
}

async fn report(mut session: Session, seen: &ProcessSeen, rollups: &[Rollup]) -> Result<(), Fault> {
    let starts: Vec<Instant> = rollups.iter().map(|rollup| Instant(rollup.interval_start)).collect();
    let counters: Vec<&str> = rollups.iter().map(|rollup| rollup.counter.as_str()).collect();
    let amounts: Vec<i64> = rollups.iter().map(|rollup| rollup.amount).collect();
    let sql = include_str!("../sql/presence/report_presence.sql");
    let process = seen.process_id.as_str();
    session
        .run(
            sql,
            &[
                &process,
                &seen.role,
                &seen.version,
                &Instant(seen.started_at),
                &Instant(seen.seen_at),
                &starts,
                &counters,
                &amounts,
            ],
        )
        .await?;
    Ok(())
}

async fn report_health(mut session: Session, sums: &[HealthSum], now: Timestamp) -> Result<(), Fault> {
    let number = |count: &u64| i64::try_from(*count).unwrap_or(i64::MAX);
    let ids: Vec<i64> = sums.iter().map(|sum| sum.subscription_id.get()).collect();
    let starts: Vec<Instant> = sums.iter().map(|sum| Instant(sum.interval_start)).collect();
    let failed: Vec<i64> = sums.iter().map(|sum| number(&sum.attempts.failed)).collect();
    let took: Vec<i64> = sums.iter().flat_map(|sum| sum.attempts.took.iter().map(number)).collect();
    let errors = || sums.iter().map(|sum| sum.attempts.last_error.as_ref());
    let codes: Vec<Option<&str>> = errors().map(|error| error.map(|(code, _)| code.as_str())).collect();
    let times: Vec<Option<Instant>> = errors().map(|error| error.map(|(_, at)| Instant(*at))).collect();
    let sql = include_str!("../sql/presence/report_health.sql");
    session.run(sql, &[&Instant(now), &ids, &starts, &failed, &took, &codes, &times]).await?;
    Ok(())
}
