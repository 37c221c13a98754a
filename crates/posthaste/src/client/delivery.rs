//! `posthaste delivery …`

use super::call::{Page, Span};
use super::table::{self, Column};
use super::{Call, Reach};
use clap::{Subcommand, value_parser};
use serde_json::Value;

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// List deliveries, newest first
    List {
        /// Only those in this state, such as Completed or DeadLettered
        #[arg(long, value_name = "STATUS")]
        status: Option<String>,
        /// Only those of this subscription
        #[arg(long, value_name = "ID", value_parser = value_parser!(i64).range(1..))]
        subscription: Option<i64>,
        /// Only those of this event
        #[arg(long, value_name = "ID", value_parser = value_parser!(i64).range(1..))]
        event: Option<i64>,
        /// Only those of this type of event
        #[arg(long = "type", value_name = "TYPE")]
        event_type: Option<String>,
        /// Only those whose last error is this, such as HTTP_503
        #[arg(long, value_name = "CODE")]
        error: Option<String>,
        #[command(flatten)]
        span: Span,
        #[command(flatten)]
        page: Page,
        #[command(flatten)]
        reach: Reach,
    },
    /// Show a delivery with every attempt
    Show {
        /// The delivery's number, as delivery list shows it
        #[arg(value_parser = value_parser!(i64).range(1..))]
        id: i64,
        #[command(flatten)]
        reach: Reach,
    },
}

pub(super) const COLUMNS: [Column; 8] = [
    ("ID", "saga_id"),
    ("EVENT", "event_id"),
    ("SUBSCRIPTION", "subscription_id"),
    ("TYPE", "event_type"),
    ("STATUS", "status"),
    ("ATTEMPTS", "attempt_count"),
    ("ERROR", "final_error_code"),
    ("UPDATED", "updated_at"),
];

const FIELDS: [Column; 11] = [
    ("delivery", "saga_id"),
    ("event", "event_id"),
    ("subscription", "subscription_id"),
    ("type", "event_type"),
    ("status", "status"),
    ("attempts", "attempt_count"),
    ("next attempt", "next_attempt_at"),
    ("error", "final_error_code"),
    ("from dead letter", "requeued_from"),
    ("created", "created_at"),
    ("updated", "updated_at"),
];

const ATTEMPTS: [Column; 7] = [
    ("ATTEMPT", "job_id"),
    ("STATUS", "status"),
    ("AT", "attempt_at"),
    ("ANSWER", "response_status"),
    ("ERROR", "error_code"),
    ("MS", "duration_ms"),
    ("WORKER", "worker_id"),
];

impl Verb {
    pub(super) fn reach(&self) -> &Reach {
        match self {
            Self::List { reach, .. } | Self::Show { reach, .. } => reach,
        }
    }

    pub(super) fn call(&self) -> Call {
        match self {
            Self::List { status, subscription, event, event_type, error, span, page, .. } => {
                let found = Call::get("/v1/deliveries").query(&[
                    ("status", status.clone()),
                    ("subscription_id", subscription.map(|id| id.to_string())),
                    ("event_id", event.map(|id| id.to_string())),
                    ("event_type", event_type.clone()),
                    ("error_code", error.clone()),
                    span.since(),
                    span.until(),
                    page.limit(),
                    page.cursor(),
                ]);
                found.list(|answer| table::list(&COLUMNS, "no deliveries", answer))
            }
            Self::Show { id, .. } => Call::get(format!("/v1/deliveries/{id}")).show(shown),
        }
    }
}

fn shown(answer: &Value) -> String {
    let mut text = table::record(&FIELDS, answer);
    if let Some(attempts) = answer["attempts"].as_array().filter(|attempts| !attempts.is_empty()) {
        text.push('\n');
        text.push_str(&table::rows(&ATTEMPTS, attempts));
    }
    text
}
