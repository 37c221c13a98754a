//! `posthaste subscription …`

use super::call::Page;
use super::table::{self, Record};
use super::{Call, Reach};
use clap::{Args, Subcommand, value_parser};
use serde_json::Value;

#[derive(Debug, Subcommand)]
pub(crate) enum SubscriptionCommand {
    /// Subscribe a URL to a type of event; its secret is shown once
    Create {
        /// The type of event
        #[arg(value_name = "TYPE")]
        event_type: String,
        /// Where its events are sent
        #[arg(value_name = "URL")]
        callback_url: String,
        #[command(flatten)]
        extras: Extras,
        #[command(flatten)]
        reach: Reach,
    },
    /// List subscriptions
    List {
        /// Only those of this type of event
        #[arg(long = "type", value_name = "TYPE")]
        event_type: Option<String>,
        /// Only those in this state: active, paused or unverified
        #[arg(long, value_name = "STATE")]
        state: Option<String>,
        #[command(flatten)]
        page: Page,
        #[command(flatten)]
        reach: Reach,
    },
    /// Show a subscription
    Show(One),
    /// Change a subscription; a changed URL must be verified again
    #[command(group = clap::ArgGroup::new("change").required(true).multiple(true))]
    Update {
        /// The subscription's number, as subscription list shows it
        #[arg(value_parser = value_parser!(i64).range(1..))]
        id: i64,
        /// The type of event
        #[arg(long = "type", value_name = "TYPE", group = "change")]
        event_type: Option<String>,
        /// Where its events are sent
        #[arg(long, value_name = "URL", group = "change")]
        callback_url: Option<String>,
        /// How many attempts are made in all, the first included; unless said otherwise as many as before
        #[arg(long, value_name = "N", group = "change")]
        max_retry_limit: Option<u32>,
        /// The longest time for one request, such as 30s
        #[arg(long, value_name = "TIME", group = "change")]
        timeout: Option<String>,
        /// A note for people; unless said otherwise the one before
        #[arg(long, value_name = "TEXT", group = "change")]
        description: Option<String>,
        #[command(flatten)]
        reach: Reach,
    },
    /// Hold what was routed to it, and route no more
    Pause(One),
    /// Go on with what was held
    Resume(One),
    /// Challenge the receiver; until it has echoed, nothing else is sent to it
    Verify(One),
    /// Give it a new secret, shown once; the one before goes on signing for a while
    RotateSecret {
        /// The subscription's number, as subscription list shows it
        #[arg(value_parser = value_parser!(i64).range(1..))]
        id: i64,
        /// For how many seconds the secret before goes on signing; a day unless said otherwise
        #[arg(long, value_name = "SECONDS")]
        overlap: Option<u64>,
        #[command(flatten)]
        reach: Reach,
    },
    /// Send a test event to the receiver
    Test(One),
    /// Delete a subscription for good; what has not reached it yet never will
    Delete(One),
}

#[derive(Debug, Args)]
pub(crate) struct One {
    /// The subscription's number, as subscription list shows it
    #[arg(value_parser = value_parser!(i64).range(1..))]
    id: i64,
    #[command(flatten)]
    reach: Reach,
}

#[derive(Debug, Args)]
pub(crate) struct Extras {
    /// How many attempts are made in all, the first included; unless said otherwise what the server is set to
    /// (POSTHASTE_MAX_RETRY_LIMIT)
    #[arg(long, value_name = "N")]
    max_retry_limit: Option<u32>,
    /// The longest time for one request, such as 30s [default: the server's POSTHASTE_REQUEST_TIMEOUT]
    #[arg(long, value_name = "TIME")]
    timeout: Option<String>,
    /// A note for people; none unless said otherwise
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
}

const SUBSCRIPTION: Record = Record {
    fields: &[
        ("subscription", "id"),
        ("type", "event_type"),
        ("url", "callback_url"),
        ("active", "active"),
        ("verified", "verified"),
        ("attempts at most", "max_retry_limit"),
        ("timeout", "timeout"),
        ("description", "description"),
        ("created", "created_at"),
        ("updated", "updated_at"),
        ("secret", "secret"),
    ],
    listed: &["id", "event_type", "callback_url", "active", "verified", "description"],
    key: "ID",
};

impl SubscriptionCommand {
    pub(super) fn call(&self) -> (Call, &Reach) {
        let path = |id: &i64| format!("/v1/subscriptions/{id}");
        let set_active =
            |id: &i64, active: bool| Call::patch(path(id)).fields([("active", active.into())]).show(shown);
        match self {
            Self::Create { event_type, callback_url, extras, reach } => {
                let call = Call::post("/v1/subscriptions").fields([
                    ("event_type", event_type.as_str().into()),
                    ("callback_url", callback_url.as_str().into()),
                    ("max_retry_limit", extras.max_retry_limit.into()),
                    ("timeout", extras.timeout.clone().into()),
                    ("description", extras.description.clone().into()),
                ]);
                (call.show(made), reach)
            }
            Self::List { event_type, state, page, reach } => {
                let filter = [("event_type", event_type.clone()), ("state", state.clone())];
                let call = Call::get("/v1/subscriptions").query(&filter).page(page);
                (call.list(|answer| SUBSCRIPTION.list("no subscriptions", answer)), reach)
            }
            Self::Show(One { id, reach }) => (Call::get(path(id)).show(shown), reach),
            Self::Update { id, event_type, callback_url, max_retry_limit, timeout, description, reach } => {
                let change = Call::patch(path(id)).fields([
                    ("event_type", event_type.clone().into()),
                    ("callback_url", callback_url.clone().into()),
                    ("max_retry_limit", (*max_retry_limit).into()),
                    ("timeout", timeout.clone().into()),
                    ("description", description.clone().into()),
                ]);
                (change.show(shown), reach)
            }
            Self::Pause(One { id, reach }) => (set_active(id, false), reach),
            Self::Resume(One { id, reach }) => (set_active(id, true), reach),
            Self::Verify(One { id, reach }) => {
                let call = Call::post(format!("{}/verify", path(id)));
                let call = call.show(|answer| outcome("verified", answer));
                (call.succeeded(|answer| answer["verified"] == true), reach)
            }
            Self::RotateSecret { id, overlap, reach } => {
                let call = Call::post(format!("{}/rotate-secret", path(id)));
                let call = call.fields([("overlap_s", (*overlap).into())]);
                (call.show(|answer| shown(answer) + "\nKeep the secret now: it is not shown again.\n"), reach)
            }
            Self::Test(One { id, reach }) => {
                let call = Call::post(format!("{}/test", path(id)));
                let call = call.show(|answer| outcome("delivered", answer) + &written(answer));
                (call.succeeded(|answer| answer["delivered"] == true), reach)
            }
            Self::Delete(One { id, reach }) => {
                (Call::delete(path(id)).show(|_| "deleted\n".to_owned()), reach)
            }
        }
    }
}

fn shown(answer: &Value) -> String {
    SUBSCRIPTION.show(answer)
}

fn made(answer: &Value) -> String {
    let id = table::cell(&answer["id"]);
    format!(
        "{}\nKeep the secret now: it is not shown again. Give it to the receiver, then let it prove that it \
         listens:\n  posthaste subscription verify {id}\n",
        shown(answer)
    )
}

/// What came of a challenge or a test.
fn outcome(word: &'static str, answer: &Value) -> String {
    let status = answer["response_status"].as_u64().map(|status| format!(", it answered {status}"));
    let after = format!("after {} ms{}", table::cell(&answer["duration_ms"]), status.unwrap_or_default());
    if answer[word] == true {
        return format!("{word} {after}\n");
    }
    format!("not {word} {after}: {}\n", table::cell(&answer["reason"]))
}

/// The beginning of what the receiver wrote, if it wrote anything.
fn written(answer: &Value) -> String {
    let body = answer.get("response_body").filter(|body| !body.is_null());
    body.map_or_else(String::new, |body| format!("it wrote: {}\n", table::cell(body)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn outcomes_read_well() {
        let good = json!({"verified": true, "response_status": 200, "reason": null, "duration_ms": 3});
        assert_eq!(outcome("verified", &good), "verified after 3 ms, it answered 200\n");
        let bad =
            json!({"delivered": false, "response_status": null, "reason": "no connection", "duration_ms": 1});
        assert_eq!(outcome("delivered", &bad), "not delivered after 1 ms: no connection\n");
        assert_eq!(written(&bad), "");
        let wrote = written(&json!({"response_body": "no\u{1b}[31m such shop"}));
        assert!(wrote.starts_with("it wrote: no") && !wrote.contains('\u{1b}'), "{wrote:?}");
    }
}
