//! Tells other processes that there is work for a stage. They hear it through
//! [`PostgresListener`](super::PostgresListener).

use crate::postgres::PostgresStore;
use crate::postgres::error::Fault;
use crate::postgres::pool::{RolePool, Verb};
use crate::postgres::session::Session;
use posthaste_core::ports::{AnnounceStore, Stage, StoreResult};
use std::collections::BTreeSet;

/// Port of every role.
#[derive(Debug, Clone)]
pub struct PostgresAnnouncer {
    pool: RolePool,
}

impl PostgresAnnouncer {
    pub(super) fn new(store: &PostgresStore) -> Self {
        Self { pool: store.home_pool() }
    }
}

impl AnnounceStore for PostgresAnnouncer {
    async fn announce(&self, stages: Vec<Stage>) -> StoreResult<()> {
        let stages: BTreeSet<Stage> = stages.into_iter().collect();
        if stages.is_empty() {
            return Ok(());
        }
        let words: Vec<&str> = stages.into_iter().map(Stage::as_str).collect();
        self.pool.call(Verb::repeatable("announcing work"), |session| announce(session, &words)).await
    }
}

async fn announce(mut session: Session, words: &[&str]) -> Result<(), Fault> {
    session.run(include_str!("sql/announce/announce.sql"), &[&words]).await?;
    Ok(())
}
