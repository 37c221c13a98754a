//! Notifies other processes that a stage has work. They receive the notification through
//! [`PostgresListener`](crate::postgres::PostgresListener).

use crate::postgres::PostgresStore;
use crate::postgres::conn::pool::RolePool;
use crate::postgres::conn::session::Session;
use crate::remote::{Call, Fault};
use posthaste_core::ports::{AnnounceStore, Announcement, StoreResult};

/// The PostgreSQL implementation of [`AnnounceStore`], available to every role.
#[derive(Debug, Clone)]
pub struct PostgresAnnouncer {
    pool: RolePool,
}

impl PostgresAnnouncer {
    pub(crate) fn new(store: &PostgresStore) -> Self {
        Self { pool: store.home_pool() }
    }
}

impl AnnounceStore for PostgresAnnouncer {
    async fn announce(&self, announcement: Announcement) -> StoreResult<()> {
        let messages = announcement.messages();
        if messages.is_empty() {
            return Ok(());
        }
        self.pool.call(Call::repeatable("announcing work"), |session| announce(session, &messages)).await
    }
}

async fn announce(mut session: Session, messages: &[String]) -> Result<(), Fault> {
    session.run_relaxed(include_str!("../sql/announce/announce.sql"), &[&messages]).await?;
    Ok(())
}
