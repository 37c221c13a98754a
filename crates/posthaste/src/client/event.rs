//! `posthaste event …`: sends, lists and shows events.

use super::call::{Page, Span};
use super::table::{self, Record};
use super::{Call, Failure, Reach, delivery, input};
use clap::{Subcommand, value_parser};
use posthaste_core::json::JsonText;
use serde_json::Value;
use std::path::PathBuf;

#[derive(Debug, Subcommand)]
pub(crate) enum EventCommand {
    /// Send an event; its payload is any JSON and is delivered byte for byte
    #[command(
        after_help = "Example:\n  posthaste event send order.paid --payload '{\"id\":7}' --external-id order-7"
    )]
    Send {
        /// Type of the event, such as order.paid
        #[arg(value_name = "TYPE")]
        event_type: String,
        /// Payload as JSON [default: read from --file or stdin]
        #[arg(short, long, value_name = "JSON", conflicts_with = "file")]
        payload: Option<String>,
        /// File with the payload
        #[arg(short, long, value_name = "FILE")]
        file: Option<PathBuf>,
        /// Id assigned by the caller; sending the same event again with the same id is a no-op
        #[arg(long, value_name = "ID")]
        external_id: Option<String>,
        #[command(flatten)]
        reach: Reach,
    },
    /// List events, newest first
    #[command(after_help = "Example:\n  posthaste event list --type order.paid --limit 10")]
    List {
        /// Only events of this type
        #[arg(short = 't', long = "type", value_name = "TYPE")]
        event_type: Option<String>,
        /// Only the event with this external id
        #[arg(long, value_name = "ID")]
        external_id: Option<String>,
        /// Include payloads, at most 4 MiB per page; the table truncates them
        #[arg(long)]
        payload: bool,
        #[command(flatten)]
        span: Span,
        #[command(flatten)]
        page: Page,
        #[command(flatten)]
        reach: Reach,
    },
    /// Show an event with its deliveries
    #[command(after_help = "Example:\n  posthaste event show 42")]
    Show {
        /// Id of the event
        #[arg(value_parser = value_parser!(i64).range(1..))]
        id: i64,
        #[command(flatten)]
        reach: Reach,
    },
}

const EVENT: Record = Record {
    fields: &[
        ("event", "id"),
        ("type", "event_type"),
        ("external id", "external_event_id"),
        ("correlation id", "correlation_id"),
        ("trace", "traceparent"),
        ("created", "created_at"),
        ("payload", "payload"),
    ],
    listed: &["id", "event_type", "external_event_id", "created_at", "payload"],
    key: "ID",
};

impl EventCommand {
    pub(super) fn call(&self) -> Result<(Call, &Reach), Failure> {
        Ok(match self {
            Self::Send { event_type, payload, file, external_id, reach } => {
                let payload = match (payload, file) {
                    (Some(text), _) => text.clone().into_bytes(),
                    (None, Some(path)) => input::from_file(path)?,
                    (None, None) => input::from_stdin("the payload")?,
                };
                let body = body(event_type, payload, external_id.as_deref())?;
                (Call::post("/v1/events").body(body).show(sent), reach)
            }
            Self::List { event_type, external_id, payload, span, page, reach } => {
                let call = Call::get("/v1/events").query(&[
                    ("event_type", event_type.clone()),
                    ("external_event_id", external_id.clone()),
                    ("payload", payload.then(|| "true".to_owned())),
                ]);
                (call.span(span).page(page).list(|answer| EVENT.list("no events", answer)), reach)
            }
            Self::Show { id, reach } => (Call::get(format!("/v1/events/{id}")).show(shown), reach),
        })
    }
}

/// Builds the request body. The payload is inserted unchanged: parsing and serializing it could change the notation of
/// numbers and the order of keys.
fn body(event_type: &str, payload: Vec<u8>, external_id: Option<&str>) -> Result<String, Failure> {
    let payload = JsonText::parse(payload, input::BYTES_MAX);
    let payload = payload.map_err(|error| Failure::Usage(format!("the payload: {error}")))?;
    let external = external_id.map(|id| format!(r#","external_event_id":{}"#, Value::from(id)));
    let (event_type, external) = (Value::from(event_type), external.unwrap_or_default());
    Ok(format!(r#"{{"event_type":{event_type},"payload":{}{external}}}"#, payload.into_string()))
}

fn sent(answer: &Value) -> String {
    let id = table::cell(&answer["id"]);
    if answer["duplicate"] == true {
        return format!("event {id} was accepted before with this external id; unchanged\n");
    }
    format!("event {id} is accepted\n")
}

fn shown(answer: &Value) -> String {
    let mut text = EVENT.show(answer);
    match answer["deliveries"].as_array().map(Vec::as_slice) {
        None | Some([]) => text.push_str("\nno deliveries (yet)\n"),
        Some(deliveries) => {
            text.push('\n');
            text.push_str(&delivery::DELIVERY.rows(deliveries));
        }
    }
    if answer["deliveries_next_cursor"].is_string() {
        let id = table::cell(&answer["id"]);
        text.push_str(&format!("more with: posthaste delivery list --event {id}\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payload_is_inserted_unchanged() {
        let text = body("a.b", b" {\"z\": 1.0, \"a\": 1e400 } ".to_vec(), Some("n\"1"));
        let expected =
            r#"{"event_type":"a.b","payload": {"z": 1.0, "a": 1e400 } ,"external_event_id":"n\"1"}"#;
        assert_eq!(text.as_deref(), Ok(expected));
        // A payload must be valid JSON on its own, not only together with the text around it.
        for payload in ["", "{", r#"1,"external_event_id":"x""#, "nope", "\u{1}"] {
            assert!(matches!(body("a", payload.into(), None), Err(Failure::Usage(_))), "{payload}");
        }
    }
}
