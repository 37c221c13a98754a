//! `posthaste delivery …`: lists and shows deliveries.

use super::call::{Page, Span};
use super::table::{self, Column, Record};
use super::{Call, Reach};
use clap::{Subcommand, value_parser};
use serde_json::Value;

#[derive(Debug, Subcommand)]
pub(crate) enum DeliveryCommand {
    /// List deliveries, newest first
    #[command(after_help = "Example:\n  posthaste delivery list --status DeadLettered --type order.paid")]
    List {
        /// Only deliveries in this state: Pending, InProgress, PendingRetry, Completed or DeadLettered
        #[arg(short, long, value_name = "STATUS")]
        status: Option<String>,
        /// Only deliveries to this subscription
        #[arg(long, value_name = "ID", value_parser = value_parser!(i64).range(1..))]
        subscription: Option<i64>,
        /// Only deliveries of this event
        #[arg(short, long, value_name = "ID", value_parser = value_parser!(i64).range(1..))]
        event: Option<i64>,
        /// Only deliveries of this event type
        #[arg(short = 't', long = "type", value_name = "TYPE")]
        event_type: Option<String>,
        /// Only deliveries with this last error, such as HTTP_503
        #[arg(long, value_name = "CODE")]
        error: Option<String>,
        #[command(flatten)]
        span: Span,
        #[command(flatten)]
        page: Page,
        #[command(flatten)]
        reach: Reach,
    },
    /// Show a delivery with all its attempts
    #[command(after_help = "Example:\n  posthaste delivery show 42")]
    Show {
        /// Id of the delivery
        #[arg(value_parser = value_parser!(i64).range(1..))]
        id: i64,
        #[command(flatten)]
        reach: Reach,
    },
}

pub(super) const DELIVERY: Record = Record {
    fields: &[
        ("delivery", "saga_id"),
        ("event", "event_id"),
        ("subscription", "subscription_id"),
        ("type", "event_type"),
        ("status", "status"),
        ("attempts", "attempt_count"),
        ("next attempt", "next_attempt_at"),
        ("error", "final_error_code"),
        ("requeued from", "requeued_from"),
        ("created", "created_at"),
        ("updated", "updated_at"),
    ],
    listed: &[
        "saga_id",
        "event_id",
        "subscription_id",
        "event_type",
        "status",
        "attempt_count",
        "final_error_code",
        "updated_at",
    ],
    key: "ID",
};

const ATTEMPTS: [Column; 7] = [
    ("ATTEMPT", "job_id"),
    ("STATUS", "status"),
    ("SCHEDULED", "attempt_at"),
    ("RESPONSE", "response_status"),
    ("ERROR", "error_code"),
    ("MS", "duration_ms"),
    ("WORKER", "worker_id"),
];

impl DeliveryCommand {
    pub(super) fn call(&self) -> (Call, &Reach) {
        match self {
            Self::List { status, subscription, event, event_type, error, span, page, reach } => {
                let found = Call::get("/v1/deliveries").query(&[
                    ("status", status.clone()),
                    ("subscription_id", subscription.map(|id| id.to_string())),
                    ("event_id", event.map(|id| id.to_string())),
                    ("event_type", event_type.clone()),
                    ("error_code", error.clone()),
                ]);
                let found = found.span(span).page(page);
                (found.list(|answer| DELIVERY.list("no deliveries", answer)), reach)
            }
            Self::Show { id, reach } => (Call::get(format!("/v1/deliveries/{id}")).show(shown), reach),
        }
    }
}

fn shown(answer: &Value) -> String {
    let mut text = DELIVERY.show(answer);
    if let Some(attempts) = answer["attempts"].as_array().filter(|attempts| !attempts.is_empty()) {
        text.push('\n');
        text.push_str(&table::rows(&ATTEMPTS, attempts));
    }
    text
}
