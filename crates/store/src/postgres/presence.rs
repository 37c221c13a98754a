//! Says that a process lives, and adds what it counted, through one function of the owner.

use crate::postgres::PostgresStore;
use crate::postgres::error::Fault;
use crate::postgres::pool::{RolePool, Verb};
use crate::postgres::session::Session;
use crate::postgres::value::Instant;
use posthaste_core::ports::{PresenceStore, ProcessSeen, Rollup, StoreResult};

/// Port of every role.
#[derive(Debug, Clone)]
pub struct PostgresPresence {
    pool: RolePool,
}

impl PostgresPresence {
    pub(super) fn new(store: &PostgresStore) -> Self {
        Self { pool: store.home_pool() }
    }
}

impl PresenceStore for PostgresPresence {
    async fn report_presence(&self, seen: ProcessSeen, rollups: Vec<Rollup>) -> StoreResult<()> {
        // Counters are added to: only a report without any may be made twice.
        let doing = "reporting presence";
        let verb = if rollups.is_empty() { Verb::repeatable(doing) } else { Verb::once(doing) };
        self.pool.call(verb, |session| report(session, &seen, &rollups)).await
    }
}

async fn report(mut session: Session, seen: &ProcessSeen, rollups: &[Rollup]) -> Result<(), Fault> {
    let starts: Vec<Instant> = rollups.iter().map(|rollup| Instant(rollup.interval_start)).collect();
    let counters: Vec<&str> = rollups.iter().map(|rollup| rollup.counter.as_str()).collect();
    let amounts: Vec<i64> = rollups.iter().map(|rollup| rollup.amount).collect();
    let sql = include_str!("sql/presence/report_presence.sql");
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
