//! `posthaste outbox …`

use super::table::{self, Column};
use super::{Call, Reach};
use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(crate) enum OutboxCommand {
    /// Show how the lane to the broker stands
    Show {
        #[command(flatten)]
        reach: Reach,
    },
    /// Let a lane that is paused, or sends one order at a time, go on
    Resume {
        #[command(flatten)]
        reach: Reach,
    },
}

const FIELDS: [Column; 10] = [
    ("state", "state"),
    ("paused", "paused_at"),
    ("reason", "reason"),
    ("sends per second", "rate"),
    ("throttled", "throttled"),
    ("being sent", "sending"),
    ("refusals in a row", "unauthorized_in_row"),
    ("faults in a row", "faults_in_row"),
    ("next try not before", "probe_until"),
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
