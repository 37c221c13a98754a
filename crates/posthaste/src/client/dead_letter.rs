//! `posthaste dead-letter …`: lists, shows and requeues dead letters.

use super::call::Page;
use super::table::{self, Record};
use super::{Call, Reach};
use clap::{Args, Subcommand, value_parser};
use serde_json::Value;

#[derive(Debug, Subcommand)]
pub(crate) enum DeadLetterCommand {
    /// List dead letters, newest first
    #[command(after_help = "Example:\n  posthaste dead-letter list --subscription 7")]
    List {
        #[command(flatten)]
        filter: Filter,
        /// Include payloads, at most 4 MiB per page; the table truncates them
        #[arg(long)]
        payload: bool,
        #[command(flatten)]
        page: Page,
        #[command(flatten)]
        reach: Reach,
    },
    /// Show a dead letter with its payload
    #[command(after_help = "Example:\n  posthaste dead-letter show 42")]
    Show {
        /// Id of the dead letter
        #[arg(value_parser = value_parser!(i64).range(1..))]
        id: i64,
        #[command(flatten)]
        reach: Reach,
    },
    /// Create a new delivery from a dead letter; repeating the command returns the same delivery
    #[command(after_help = "Example:\n  posthaste dead-letter requeue 42")]
    Requeue {
        /// Id of the dead letter
        #[arg(value_parser = value_parser!(i64).range(1..))]
        id: i64,
        #[command(flatten)]
        reach: Reach,
    },
    /// Create new deliveries from all dead letters that match the filter
    #[command(after_help = "Example:\n  posthaste dead-letter requeue-all --subscription 7 --dry-run")]
    RequeueAll {
        #[command(flatten)]
        filter: Filter,
        /// Count the matches without requeuing them
        #[arg(long)]
        dry_run: bool,
        #[command(flatten)]
        reach: Reach,
    },
}

/// The flags that filter dead letters. All conditions must match.
#[derive(Debug, Args)]
pub(crate) struct Filter {
    /// Only dead letters of this subscription
    #[arg(long, value_name = "ID", value_parser = value_parser!(i64).range(1..))]
    subscription: Option<i64>,
    /// Only dead letters of this event type
    #[arg(short = 't', long = "type", value_name = "TYPE")]
    event_type: Option<String>,
    /// Only dead letters that failed at this time or later, such as 2026-01-31T12:00:00Z
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Only dead letters that failed before this time
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
}

const DEAD_LETTER: Record = Record {
    fields: &[
        ("dead letter", "id"),
        ("delivery", "saga_id"),
        ("event", "event_id"),
        ("subscription", "subscription_id"),
        ("error", "final_error_code"),
        ("failed", "failed_at"),
        ("requeued as", "requeued_as"),
        ("payload", "payload_snapshot"),
    ],
    listed: &[
        "id",
        "saga_id",
        "event_id",
        "subscription_id",
        "final_error_code",
        "failed_at",
        "requeued_as",
        "payload_snapshot",
    ],
    key: "ID",
};

impl DeadLetterCommand {
    pub(super) fn call(&self) -> (Call, &Reach) {
        match self {
            Self::List { filter, payload, page, reach } => {
                let call = Call::get("/v1/dead-letters").query(&[
                    ("subscription_id", filter.subscription.map(|id| id.to_string())),
                    ("event_type", filter.event_type.clone()),
                    ("since", filter.since.clone()),
                    ("until", filter.until.clone()),
                    ("payload", payload.then(|| "true".to_owned())),
                ]);
                (call.page(page).list(|answer| DEAD_LETTER.list("no dead letters", answer)), reach)
            }
            Self::Show { id, reach } => {
                let call = Call::get(format!("/v1/dead-letters/{id}"));
                (call.show(|answer| DEAD_LETTER.show(answer)), reach)
            }
            Self::Requeue { id, reach } => {
                let requeued =
                    |answer: &Value| format!("requeued as delivery {}\n", table::cell(&answer["saga_id"]));
                (Call::post(format!("/v1/dead-letters/{id}/requeue")).show(requeued), reach)
            }
            Self::RequeueAll { filter, dry_run, reach } => {
                let call = Call::post("/v1/dead-letters/requeue").fields([
                    ("subscription_id", filter.subscription.into()),
                    ("event_type", filter.event_type.clone().into()),
                    ("since", filter.since.clone().into()),
                    ("until", filter.until.clone().into()),
                    ("dry_run", (*dry_run).into()),
                ]);
                (Call { show: counts, next: next_call, sum: Some(add), ..call }, reach)
            }
        }
    }
}

/// Formats the counts in the response to a bulk requeue.
fn counts(answer: &Value) -> String {
    let count = |name: &str| answer[name].as_u64().unwrap_or_default();
    let (matched, requeued) = (count("matched"), count("requeued"));
    if answer["dry_run"] == true {
        return format!("{matched} matched; dry run, none requeued\n");
    }
    let (before, deleted) = (count("already_requeued"), count("subscription_deleted"));
    format!(
        "{matched} matched: {requeued} requeued, {before} already requeued, {deleted} skipped (subscription deleted)\n"
    )
}

/// Returns `answer` with the counts of `before` added to its own.
fn add(before: &Value, answer: &Value) -> Value {
    let mut sum = answer.clone();
    for name in ["matched", "requeued", "already_requeued", "subscription_deleted"] {
        let count = |of: &Value| of[name].as_u64().unwrap_or_default();
        sum[name] = (count(before) + count(answer)).into();
    }
    sum
}

/// Returns the next call, or `None` after the last one. The server requeues a limited number of dead letters per call
/// and returns a cursor.
fn next_call(call: &Call, answer: &Value) -> Option<Call> {
    let cursor = answer["next_cursor"].as_str()?;
    let mut body: Value = serde_json::from_str(call.body.as_deref()?).ok()?;
    body["cursor"] = cursor.into();
    Some(Call { body: Some(body.to_string()), ..call.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn counts_are_added() {
        let part = json!({
            "dry_run": false, "matched": 3, "requeued": 2, "already_requeued": 1, "subscription_deleted": 0
        });
        let sum = add(&add(&Value::Null, &part), &part);
        let expected = "6 matched: 4 requeued, 2 already requeued, 0 skipped (subscription deleted)\n";
        assert_eq!(counts(&sum), expected);
    }

    #[test]
    fn next_call_keeps_the_filter() {
        let call = Call::post("/v1/x").fields([("event_type", "a".into()), ("dry_run", true.into())]);
        assert!(next_call(&call, &json!({"next_cursor": null})).is_none());
        let next = next_call(&call, &json!({"next_cursor": "c1"})).expect("another call");
        let next = next_call(&next, &json!({"next_cursor": "c2"})).expect("a third call");
        assert_eq!(next.body.as_deref(), Some(r#"{"cursor":"c2","dry_run":true,"event_type":"a"}"#));
    }
}
