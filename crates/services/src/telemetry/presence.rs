//! The identity of a process and the roles that it runs.

use posthaste_core::ports::ProcessSeen;
use posthaste_core::{Timestamp, WorkerId};
use std::time::Duration;

/// The time since its last report after which a process no longer counts as running.
pub const GONE_AFTER: Duration = Duration::from_secs(30);

/// The identity of the process that reports.
#[derive(Debug, Clone)]
pub struct Identity {
    pub process_id: WorkerId,
    pub version: &'static str,
    pub started_at: Timestamp,
    /// The roles that the process runs.
    pub roles: Vec<&'static str>,
}

impl Identity {
    /// Returns one report for each role.
    pub(super) fn seen(&self, now: Timestamp) -> Vec<ProcessSeen> {
        let seen = |role: &&str| ProcessSeen {
            process_id: self.process_id.clone(),
            role: (*role).to_owned(),
            version: self.version.to_owned(),
            started_at: self.started_at,
            seen_at: now,
        };
        self.roles.iter().map(seen).collect()
    }
}
