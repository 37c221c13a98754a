//! `posthaste explain`: shows to which subscriptions an event was routed, and why.

use super::table::{self, Column};
use super::{Call, Reach};
use clap::{Args, value_parser};
use serde_json::Value;

#[derive(Debug, Args)]
pub(crate) struct Explain {
    /// Id of the event
    #[arg(value_name = "EVENT_ID", value_parser = value_parser!(i64).range(1..))]
    id: i64,
    #[command(flatten)]
    reach: Reach,
}

const FIELDS: [Column; 6] = [
    ("event", "event_id"),
    ("type", "event_type"),
    ("external id", "external_event_id"),
    ("created", "created_at"),
    ("routed", "routed"),
    ("summary", "summary"),
];

const ATTEMPTS: [Column; 6] = [
    ("SCHEDULED", "attempt_at"),
    ("STATUS", "status"),
    ("RESPONSE", "response_status"),
    ("ERROR", "error_code"),
    ("MS", "duration_ms"),
    ("WORKER", "worker_id"),
];

const UNMATCHED: [Column; 3] =
    [("SUBSCRIPTION", "subscription_id"), ("REASON", "reason"), ("DETAIL", "told")];

impl Explain {
    pub(super) fn call(&self) -> (Call, &Reach) {
        (Call::get(format!("/v1/events/{}/explain", self.id)).show(shown), &self.reach)
    }
}

fn shown(answer: &Value) -> String {
    let list = |name: &str| answer[name].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut text = table::record(&FIELDS, &with_routing(answer));
    for delivery in list("deliveries") {
        let cell = |name: &str| table::cell(&delivery[name]);
        text.push_str(&format!(
            "\ndelivery {} to subscription {}: {}, {}\n",
            cell("saga_id"),
            cell("subscription_id"),
            cell("status"),
            cell("told")
        ));
        let matched = &delivery["matched_by"];
        if let Some(pattern) = matched["pattern"].as_str() {
            let filter = matched["clause"].as_str().map(|clause| format!(" and the filter {clause}"));
            text.push_str(&format!("  matched by the pattern {pattern}{}\n", filter.unwrap_or_default()));
        }
        if !delivery["requeued_from"].is_null() {
            text.push_str(&format!("  requeued from dead letter {}\n", cell("requeued_from")));
        }
        let attempts = delivery["attempts"].as_array().map(Vec::as_slice).unwrap_or_default();
        if !attempts.is_empty() {
            for line in table::rows(&ATTEMPTS, attempts).lines() {
                text.push_str(&format!("  {line}\n"));
            }
        }
    }
    if !list("unmatched").is_empty() {
        text.push_str("\nother subscriptions for this type:\n");
        text.push_str(&table::rows(&UNMATCHED, list("unmatched")));
    }
    if answer["truncated"] == true {
        text.push_str("\ntruncated; list all deliveries with: posthaste delivery list --event ID\n");
    }
    text
}

/// Replaces `routed` with the time of routing, which is the time of the first delivery. It is unknown if there are no
/// deliveries.
fn with_routing(answer: &Value) -> Value {
    let mut answer = answer.clone();
    answer["routed"] = match (answer["routed"].as_bool(), answer["routed_at"].as_str()) {
        (_, Some(at)) => at.into(),
        (Some(true), None) => "yes, time unknown".into(),
        (Some(false) | None, None) => "not yet".into(),
    };
    answer
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn deliveries_attempts_and_unmatched_subscriptions_are_shown() {
        let answer = json!({
            "event_id": 7, "event_type": "order.paid", "external_event_id": null,
            "created_at": "2026-01-31T12:00:00Z", "routed": true, "routed_at": "2026-01-31T12:00:01Z",
            "summary": "routed",
            "deliveries": [{
                "saga_id": 9, "subscription_id": 3, "status": "Completed", "told": "delivered with 1 attempt",
                "requeued_from": 4,
                "matched_by": {"pattern": "order.*", "clause": "# {\"exact\":{\"region\":\"eu\"}}"},
                "attempts": [{
                    "attempt_at": "2026-01-31T12:00:02Z", "status": "Completed", "response_status": 200,
                    "error_code": null, "duration_ms": 12, "worker_id": "w"
                }]
            }],
            "unmatched": [{"subscription_id": 5, "reason": "paused", "told": "it was paused"}],
            "truncated": false
        });
        let text = shown(&answer);
        for line in [
            "event        7",
            "routed       2026-01-31T12:00:01Z",
            "delivery 9 to subscription 3: Completed, delivered with 1 attempt",
            "  matched by the pattern order.* and the filter # {\"exact\":{\"region\":\"eu\"}}",
            "  requeued from dead letter 4",
            "  2026-01-31T12:00:02Z  Completed  200       -      12  w",
            "5             paused  it was paused",
        ] {
            assert!(text.lines().any(|found| found == line), "{line:?} in\n{text}");
        }
    }

    #[test]
    fn event_without_matches_counts_as_routed() {
        for (routed, line) in [(true, "routed  yes, time unknown"), (false, "routed  not yet")] {
            assert_eq!(shown(&json!({"routed": routed, "routed_at": null})), format!("{line}\n"));
        }
    }
}
