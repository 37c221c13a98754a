//! Notes that a process lives and what it counted, for the reader's charts, through views that any role
//! may write to.

use posthaste_core::ports::{PresenceStore, ProcessSeen, Rollup, StoreResult};
use rusqlite::params;

use super::SqliteStore;
use crate::grants::Role;

const REPORT_PRESENCE: &str = include_str!("sql/presence/report_presence.sql");
const REPORT_ROLLUP: &str = include_str!("sql/presence/report_rollup.sql");

/// The port that every process has, with the rights of role viewer.
#[derive(Debug, Clone)]
pub struct SqlitePresence(pub(super) SqliteStore);

impl PresenceStore for SqlitePresence {
    async fn report_presence(&self, seen: ProcessSeen, rollups: Vec<Rollup>) -> StoreResult<()> {
        self.0
            .write(Role::Viewer, "reporting presence", move |session| {
                let process = params![
                    seen.process_id.as_str(),
                    seen.role,
                    seen.version,
                    seen.started_at.micros(),
                    seen.seen_at.micros(),
                ];
                session.run(REPORT_PRESENCE, process)?;
                for rollup in &rollups {
                    let values = params![rollup.interval_start.micros(), rollup.counter, rollup.amount];
                    session.run(REPORT_ROLLUP, values)?;
                }
                Ok(())
            })
            .await
    }
}
