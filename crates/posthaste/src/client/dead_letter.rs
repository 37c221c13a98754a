//! `posthaste dead-letter …`

use super::call::Page;
use super::table::{self, Record};
use super::{Call, Reach};
use clap::{Args, Subcommand, value_parser};
use serde_json::Value;

#[derive(Debug, Subcommand)]
pub(crate) enum DeadLetterCommand {
    /// List dead letters, newest first
    List {
        #[command(flatten)]
        filter: Filter,
        /// With the payloads, cut in the table; a page then ends at 4 MiB of them
        #[arg(long)]
        payload: bool,
        #[command(flatten)]
        page: Page,
        #[command(flatten)]
        reach: Reach,
    },
    /// Show a dead letter with its payload
    Show {
        /// The dead letter's number, as dead-letter list shows it
        #[arg(value_parser = value_parser!(i64).range(1..))]
        id: i64,
        #[command(flatten)]
        reach: Reach,
    },
    /// Make a fresh delivery from a dead letter; a second time names the same one
    Requeue {
        /// The dead letter's number, as dead-letter list shows it
        #[arg(value_parser = value_parser!(i64).range(1..))]
        id: i64,
        #[command(flatten)]
        reach: Reach,
    },
    /// Make fresh deliveries from all that the filter finds
    RequeueAll {
        #[command(flatten)]
        filter: Filter,
        /// Only say what would be done
        #[arg(long)]
        dry_run: bool,
        #[command(flatten)]
        reach: Reach,
    },
}

/// Every part narrows.
#[derive(Debug, Args)]
pub(crate) struct Filter {
    /// Only those of this subscription
    #[arg(long, value_name = "ID", value_parser = value_parser!(i64).range(1..))]
    subscription: Option<i64>,
    /// Only those of this type of event
    #[arg(long = "type", value_name = "TYPE")]
    event_type: Option<String>,
    /// Only what failed at or after this time, such as 2026-01-31T12:00:00Z
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Only what failed before this time
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
                let made = |answer: &Value| {
                    format!("delivery {} was made from it\n", table::cell(&answer["saga_id"]))
                };
                (Call::post(format!("/v1/dead-letters/{id}/requeue")).show(made), reach)
            }
            Self::RequeueAll { filter, dry_run, reach } => {
                let call = Call::post("/v1/dead-letters/requeue").fields([
                    ("subscription_id", filter.subscription.into()),
                    ("event_type", filter.event_type.clone().into()),
                    ("since", filter.since.clone().into()),
                    ("until", filter.until.clone().into()),
                    ("dry_run", (*dry_run).into()),
                ]);
                (Call { show: counted, next: the_rest, sum: Some(summed), ..call }, reach)
            }
        }
    }
}

fn counted(answer: &Value) -> String {
    let count = |name: &str| answer[name].as_u64().unwrap_or_default();
    let (matched, requeued) = (count("matched"), count("requeued"));
    if answer["dry_run"] == true {
        return format!("{matched} found; nothing was done\n");
    }
    let (before, deleted) = (count("already_requeued"), count("subscription_deleted"));
    format!(
        "{matched} found: {requeued} requeued, {before} were before, {deleted} have no subscription any more\n"
    )
}

/// What all parts came to so far.
fn summed(before: &Value, answer: &Value) -> Value {
    let mut sum = answer.clone();
    for name in ["matched", "requeued", "already_requeued", "subscription_deleted"] {
        let count = |of: &Value| of[name].as_u64().unwrap_or_default();
        sum[name] = (count(before) + count(answer)).into();
    }
    sum
}

/// The server does a bounded part of the work in one call, and says where to go on.
fn the_rest(call: &Call, answer: &Value) -> Option<Call> {
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
    fn parts_add_up() {
        let part = json!({"dry_run": false, "matched": 3, "requeued": 2, "already_requeued": 1, "subscription_deleted": 0});
        let sum = summed(&summed(&Value::Null, &part), &part);
        assert_eq!(counted(&sum), "6 found: 4 requeued, 2 were before, 0 have no subscription any more\n");
    }

    #[test]
    fn long_work_goes_on_with_the_same_filter() {
        let call = Call::post("/v1/x").fields([("event_type", "a".into()), ("dry_run", true.into())]);
        assert!(the_rest(&call, &json!({"next_cursor": null})).is_none());
        let next = the_rest(&call, &json!({"next_cursor": "c1"})).expect("another call");
        let next = the_rest(&next, &json!({"next_cursor": "c2"})).expect("a third call");
        assert_eq!(next.body.as_deref(), Some(r#"{"cursor":"c2","dry_run":true,"event_type":"a"}"#));
    }
}
