//! `posthaste subscription …`: manages subscriptions.

mod flags;

use super::call::Page;
use super::import::Method;
use super::table::{self, Column, Record};
use super::{Call, Reach};
use clap::{Args, Subcommand, value_parser};
use flags::{CreateFlags, FieldFlags};
use posthaste_core::duration;
use serde_json::Value;

const CREATE_HELP: &str = "\
Examples:
  posthaste subscription create order.paid https://shop.example/hook
  posthaste subscription create https://shop.example/hook --type 'order.*' --type invoice.paid
  posthaste subscription create order.paid https://shop.example/hook --header 'X-Team: billing' --signature github";

const UPDATE_HELP: &str = "\
Fields without a flag are unchanged. A repeated flag replaces all previous values of its field.

Examples:
  posthaste subscription update 7 --callback-url https://shop.example/v2/hook
  posthaste subscription update 7 --type 'order.*' --type invoice.paid --filter null";

const MATCH_HELP: &str = "\
No event is sent. Subscriptions of the tenant are listed with the pattern that matches the type, the filter clause that
decides, and the reason if they do not match.

Example:
  posthaste subscription match --type order.paid --attributes '{\"region\":\"eu\"}'";

const VERIFY_HELP: &str = "\
challenge: the receiver must return a random text that it gets in a signed request.
cloudevents: the receiver must allow the server's origin in the handshake of CloudEvents webhooks (OPTIONS).
asserted: nothing is sent. You vouch for the URL, and your key and the time are stored.

Example:
  posthaste subscription verify 7";

#[derive(Debug, Subcommand)]
pub(crate) enum SubscriptionCommand {
    /// Create a subscription; its signing secret is shown only once
    #[command(after_help = CREATE_HELP, allow_missing_positional = true)]
    #[command(group = clap::ArgGroup::new("change").multiple(true))]
    Create {
        /// Event type or pattern, such as order.paid, order.* or *; more with --type
        #[arg(value_name = "TYPE", required_unless_present = "types")]
        event_type: Option<String>,
        /// URL that receives the events
        #[arg(value_name = "URL")]
        callback_url: String,
        #[command(flatten)]
        fields: Box<FieldFlags>,
        #[command(flatten)]
        once: Box<CreateFlags>,
        #[command(flatten)]
        reach: Reach,
    },
    /// List subscriptions
    #[command(after_help = "Example:\n  posthaste subscription list --state unverified")]
    List {
        /// Only subscriptions with a pattern that matches this event type
        #[arg(short = 't', long = "type", alias = "event-type", value_name = "TYPE")]
        event_type: Option<String>,
        /// Only subscriptions of this tenant
        #[arg(long, value_name = "TENANT")]
        tenant: Option<String>,
        /// Only subscriptions with this uid
        #[arg(long, value_name = "UID")]
        uid: Option<String>,
        /// Only subscriptions with this name
        #[arg(long, value_name = "NAME")]
        name: Option<String>,
        /// Only subscriptions with this pair in their metadata; may be repeated
        #[arg(long, value_name = "NAME=VALUE", value_parser = flags::parse_pair)]
        metadata: Vec<(String, String)>,
        /// Only subscriptions in this state: active, paused or unverified
        #[arg(long, value_name = "STATE")]
        state: Option<String>,
        #[command(flatten)]
        page: Page,
        #[command(flatten)]
        reach: Reach,
    },
    /// Show a subscription
    #[command(after_help = "Example:\n  posthaste subscription show 7")]
    Show(One),
    /// Change a subscription; a new URL must be verified again
    #[command(after_help = UPDATE_HELP)]
    #[command(group = clap::ArgGroup::new("change").required(true).multiple(true))]
    Update {
        /// Id of the subscription
        #[arg(value_parser = value_parser!(i64).range(1..))]
        id: i64,
        /// URL that receives the events
        #[arg(long, value_name = "URL", group = "change")]
        callback_url: Option<String>,
        #[command(flatten)]
        fields: Box<FieldFlags>,
        #[command(flatten)]
        reach: Reach,
    },
    /// Pause a subscription: hold its deliveries and route no new events to it
    #[command(after_help = "Example:\n  posthaste subscription pause 7")]
    Pause(One),
    /// Resume a paused subscription and its held deliveries
    #[command(after_help = "Example:\n  posthaste subscription resume 7")]
    Resume(One),
    /// Verify the URL; until then, no events are sent
    #[command(after_help = VERIFY_HELP)]
    Verify {
        /// Id of the subscription
        #[arg(value_parser = value_parser!(i64).range(1..))]
        id: i64,
        /// How to verify the URL; the server must allow it [default: challenge, if the server allows it]
        #[arg(long, value_name = "METHOD")]
        method: Option<Method>,
        #[command(flatten)]
        reach: Reach,
    },
    /// Replace the signing secret; the new one is shown only once
    #[command(after_help = "Example:\n  posthaste subscription rotate-secret 7 --overlap 1h")]
    RotateSecret {
        /// Id of the subscription
        #[arg(value_parser = value_parser!(i64).range(1..))]
        id: i64,
        /// Time for which requests are also signed with the old secret, such as 1h or 0s [default: 24h]
        #[arg(long, value_name = "DURATION", value_parser = parse_overlap)]
        overlap: Option<u64>,
        /// New secret; other users can see flags [default: random]
        #[arg(long, value_name = "SECRET")]
        secret: Option<String>,
        /// New Ed25519 key (whsk_…); other users can see flags [default: random, if requests are signed with it]
        #[arg(long, value_name = "KEY")]
        signing_key: Option<String>,
        #[command(flatten)]
        reach: Reach,
    },
    /// Show which subscriptions match an event, and which pattern or filter clause decides
    #[command(after_help = MATCH_HELP)]
    Match {
        /// Type of the event, such as order.paid
        #[arg(short = 't', long = "type", value_name = "TYPE")]
        event_type: String,
        /// Attributes of the event, such as {"region":"eu"} [default: none]
        #[arg(short, long, value_name = "JSON", value_parser = parse_attributes)]
        attributes: Option<String>,
        /// Tenant of the event [default: none]
        #[arg(long, value_name = "TENANT")]
        tenant: Option<String>,
        #[command(flatten)]
        page: Page,
        #[command(flatten)]
        reach: Reach,
    },
    /// Send a test event to the receiver
    #[command(after_help = "Example:\n  posthaste subscription test 7")]
    Test(One),
    /// Delete a subscription permanently; its unfinished deliveries are never sent
    #[command(after_help = "Example:\n  posthaste subscription delete 7")]
    Delete(One),
}

#[derive(Debug, Args)]
pub(crate) struct One {
    /// Id of the subscription
    #[arg(value_parser = value_parser!(i64).range(1..))]
    id: i64,
    #[command(flatten)]
    reach: Reach,
}

const SUBSCRIPTION: Record = Record {
    fields: &[
        ("subscription", "id"),
        ("uid", "uid"),
        ("tenant", "tenant"),
        ("name", "name"),
        ("types", "event_types"),
        ("filter", "filter"),
        ("url", "callback_url"),
        ("active", "active"),
        ("verified", "verified"),
        ("verification", "verification"),
        ("max attempts", "max_retry_limit"),
        ("timeout", "timeout"),
        ("signatures", "signatures"),
        ("public key", "public_key"),
        ("headers", "headers"),
        ("auth", "auth"),
        ("envelope", "envelope"),
        ("description", "description"),
        ("metadata", "metadata"),
        ("created", "created_at"),
        ("updated", "updated_at"),
        ("secret", "secret"),
    ],
    listed: &["id", "uid", "tenant", "event_types", "callback_url", "active", "verified", "description"],
    key: "ID",
};

const MATCHES: [Column; 6] = [
    ("ID", "subscription_id"),
    ("UID", "uid"),
    ("MATCHED", "matched"),
    ("PATTERN", "pattern"),
    ("CLAUSE", "clause"),
    ("REASON", "reason"),
];

impl SubscriptionCommand {
    pub(super) fn call(&self) -> (Call, &Reach) {
        let path = |id: &i64| format!("/v1/subscriptions/{id}");
        let set_active =
            |id: &i64, active: bool| Call::patch(path(id)).fields([("active", active.into())]).show(shown);
        match self {
            Self::Create { event_type, callback_url, fields, once, reach } => {
                let mut body = fields.body(event_type.as_ref(), Some(callback_url));
                body.extend(once.body());
                (Call::post("/v1/subscriptions").body(Value::Object(body).to_string()).show(created), reach)
            }
            Self::List { event_type, tenant, uid, name, metadata, state, page, reach } => {
                let filter = [
                    ("event_type", event_type),
                    ("tenant", tenant),
                    ("uid", uid),
                    ("name", name),
                    ("state", state),
                ];
                let filter = filter.map(|(parameter, value)| (parameter, value.clone()));
                let mut call = Call::get("/v1/subscriptions").query(&filter);
                for (name, value) in metadata {
                    call = call.query(&[(format!("metadata.{name}").as_str(), Some(value.clone()))]);
                }
                let call = call.page(page);
                (call.list(|answer| SUBSCRIPTION.list("no subscriptions", answer)), reach)
            }
            Self::Show(One { id, reach }) => (Call::get(path(id)).show(shown), reach),
            Self::Update { id, callback_url, fields, reach } => {
                let body = Value::Object(fields.body(None, callback_url.as_ref())).to_string();
                (Call::patch(path(id)).body(body).show(shown), reach)
            }
            Self::Pause(One { id, reach }) => (set_active(id, false), reach),
            Self::Resume(One { id, reach }) => (set_active(id, true), reach),
            Self::Verify { id, method, reach } => {
                let call = Call::post(format!("{}/verify", path(id)));
                let call = call.fields([("method", method.map(Method::as_str).into())]).show(verified);
                (call.succeeded(|answer| answer["verified"] == true), reach)
            }
            Self::RotateSecret { id, overlap, secret, signing_key, reach } => {
                let call = Call::post(format!("{}/rotate-secret", path(id)));
                let call = call.fields([
                    ("overlap_s", (*overlap).into()),
                    ("secret", secret.clone().into()),
                    ("signing_key", signing_key.clone().into()),
                ]);
                (
                    call.show(|answer| shown(answer) + "\nStore the secret now: it is not shown again.\n"),
                    reach,
                )
            }
            Self::Match { event_type, attributes, tenant, page, reach } => {
                let call = Call::get("/v1/subscriptions/match").query(&[
                    ("event_type", Some(event_type.clone())),
                    ("attributes", attributes.clone()),
                    ("tenant", tenant.clone()),
                ]);
                (call.page(page).list(|answer| table::list(&MATCHES, "no subscriptions", answer)), reach)
            }
            Self::Test(One { id, reach }) => {
                let call = Call::post(format!("{}/test", path(id)));
                let call = call.show(|answer| outcome("delivered", answer) + &response_body(answer));
                (call.succeeded(|answer| answer["delivered"] == true), reach)
            }
            Self::Delete(One { id, reach }) => {
                (Call::delete(path(id)).show(|_| "deleted\n".to_owned()), reach)
            }
        }
    }
}

/// Parses a duration and returns it in whole seconds. A bare number, as in earlier versions, counts as seconds.
fn parse_overlap(text: &str) -> Result<u64, String> {
    let seconds = text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()));
    let whole = duration::parse(text).filter(|time| time.subsec_nanos() == 0).map(|time| time.as_secs());
    seconds.or(whole).ok_or_else(|| "expected a duration in whole seconds, such as 30s or 24h".to_owned())
}

/// Checks that a text is a JSON object and returns it unchanged. The server checks its members.
fn parse_attributes(text: &str) -> Result<String, String> {
    let is_object = serde_json::from_str::<Value>(text).is_ok_and(|value| value.is_object());
    is_object
        .then(|| text.to_owned())
        .ok_or_else(|| r#"expected an object such as {"region":"eu"}"#.to_owned())
}

fn shown(answer: &Value) -> String {
    SUBSCRIPTION.show(answer)
}

/// Formats a new subscription, followed by instructions for verifying its URL.
fn created(answer: &Value) -> String {
    let id = table::cell(&answer["id"]);
    format!(
        "{}\nStore the secret now: it is not shown again. Configure it in the receiver, then verify the URL:\n  \
         posthaste subscription verify {id}\n",
        shown(answer)
    )
}

/// Formats the outcome of a verification.
fn verified(answer: &Value) -> String {
    if answer["verified"] == true && answer["method"] == "asserted" {
        return "verified: you vouch for the URL, and nothing was sent to it\n".to_owned();
    }
    let rate = answer["allowed_per_second"].as_f64();
    let rate = rate.map(|rate| format!("the receiver allows {rate} requests per second\n"));
    outcome("verified", answer) + &rate.unwrap_or_default()
}

/// Formats the outcome of a verification or a test event.
fn outcome(word: &'static str, answer: &Value) -> String {
    let status = answer["response_status"].as_u64().map(|status| format!(", response {status}"));
    let after = format!("after {}ms{}", table::cell(&answer["duration_ms"]), status.unwrap_or_default());
    if answer[word] == true {
        return format!("{word} {after}\n");
    }
    format!("not {word} {after}: {}\n", table::cell(&answer["reason"]))
}

/// Formats the beginning of the receiver's response body, if there is one.
fn response_body(answer: &Value) -> String {
    let body = answer.get("response_body").filter(|body| !body.is_null());
    body.map_or_else(String::new, |body| format!("response body: {}\n", table::cell(body)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn outcomes_are_formatted() {
        let good = json!({"verified": true, "response_status": 200, "reason": null, "duration_ms": 3});
        assert_eq!(outcome("verified", &good), "verified after 3ms, response 200\n");
        assert_eq!(verified(&good), "verified after 3ms, response 200\n");
        let limited = json!({
            "verified": true, "method": "cloudevents", "allowed_per_second": 1.5, "response_status": 405,
            "duration_ms": 3
        });
        let expected = "verified after 3ms, response 405\nthe receiver allows 1.5 requests per second\n";
        assert_eq!(verified(&limited), expected);
        let asserted =
            json!({"verified": true, "method": "asserted", "response_status": null, "duration_ms": 0});
        assert_eq!(verified(&asserted), "verified: you vouch for the URL, and nothing was sent to it\n");
        let bad =
            json!({"delivered": false, "response_status": null, "reason": "no connection", "duration_ms": 1});
        assert_eq!(outcome("delivered", &bad), "not delivered after 1ms: no connection\n");
        assert_eq!(response_body(&bad), "");
        let body = response_body(&json!({"response_body": "no\u{1b}[31m such shop"}));
        assert!(body.starts_with("response body: no") && !body.contains('\u{1b}'), "{body:?}");
    }

    #[test]
    fn matches_are_formatted() {
        let answer = json!({
            "items": [
                {"subscription_id": 7, "uid": "a", "matched": true, "pattern": "order.*",
                 "clause": "#/all/1 {\"exact\":{\"region\":\"eu\"}}", "reason": null},
                {"subscription_id": 8, "uid": null, "matched": false, "pattern": null, "clause": null,
                 "reason": "paused"}
            ],
            "next_cursor": null
        });
        let expected = "\
ID  UID  MATCHED  PATTERN  CLAUSE                             REASON
7   a    yes      order.*  #/all/1 {\"exact\":{\"region\":\"eu\"}}  -
8   -    no       -        -                                  paused
";
        assert_eq!(table::list(&MATCHES, "no subscriptions", &answer), expected);
        assert!(parse_attributes("[]").is_err() && parse_attributes("{").is_err());
        assert_eq!(parse_attributes(r#"{"a": 1.0}"#).as_deref(), Ok(r#"{"a": 1.0}"#));
    }

    #[test]
    fn overlap_is_a_duration_or_a_number_of_seconds() {
        for (text, seconds) in
            [("0", 0), ("0s", 0), ("60", 60), ("90s", 90), ("1h", 3_600), ("30d", 2_592_000)]
        {
            assert_eq!(parse_overlap(text), Ok(seconds), "{text}");
        }
        for text in ["", "-1", "1.5h", "500ms", "1500ms", "soon"] {
            assert!(parse_overlap(text).is_err(), "{text}");
        }
    }
}
