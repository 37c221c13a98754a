//! `posthaste outbox …`: shows and resumes the broker lane.

use super::table::{self, Column};
use super::{Call, Reach};
use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(crate) enum OutboxCommand {
    /// Show the state of the broker lane
    #[command(after_help = "Example:\n  posthaste outbox show")]
    Show {
        #[command(flatten)]
        reach: Reach,
    },
    /// Resume a lane that is paused or sends one order at a time
    #[command(after_help = "Example:\n  posthaste outbox resume")]
    Resume {
        #[command(flatten)]
        reach: Reach,
    },
}

const FIELDS: [Column; 10] = [
    ("state", "state"),
    ("paused", "paused_at"),
    ("reason", "reason"),
    ("rate limit", "rate"),
    ("throttled", "throttled"),
    ("in flight", "sending"),
    ("consecutive 401 or 403", "unauthorized_in_row"),
    ("consecutive faults", "faults_in_row"),
    ("next probe", "probe_until"),
    ("updated", "updated_at"),
];

impl OutboxCommand {
    pub(super) fn call(&self) -> (Call, &Reach) {
        let (call, reach) = match self {
            Self::Show { reach } => (Call::get("/v1/outbox"), reach),
            Self::Resume { reach } => (Call::post("/v1/outbox/resume"), reach),
        };
        (call.show(|answer| table::record(&FIELDS, answer)), reach)
    }
}
