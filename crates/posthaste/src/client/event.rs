//! `posthaste event …`

use super::call::{Page, Span};
use super::table::{self, Record};
use super::{Call, Failure, Reach, delivery, input};
use clap::{Subcommand, value_parser};
use posthaste_core::json::JsonText;
use serde_json::Value;
use std::path::PathBuf;

#[derive(Debug, Subcommand)]
pub(crate) enum EventCommand {
    /// Send an event; its payload is any JSON, and is delivered byte for byte
    Send {
        /// What subscriptions ask for, such as order.paid
        #[arg(value_name = "TYPE")]
        event_type: String,
        /// The payload; without this and --file it is read from stdin
        #[arg(long, value_name = "JSON", conflicts_with = "file")]
        payload: Option<String>,
        /// A file that holds the payload
        #[arg(long, value_name = "FILE")]
        file: Option<PathBuf>,
        /// Your own name for the event; a second one of that name is the same event
        #[arg(long, value_name = "ID")]
        external_id: Option<String>,
        #[command(flatten)]
        reach: Reach,
    },
    /// List events, newest first
    List {
        /// Only those of this type
        #[arg(long = "type", value_name = "TYPE")]
        event_type: Option<String>,
        /// Only the one of this name
        #[arg(long, value_name = "ID")]
        external_id: Option<String>,
        /// With the payloads, cut in the table; a page then ends at 4 MiB of them
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
    Show {
        /// The event's number, as event list and event send show it
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

/// The payload goes in as it is: reading and writing it anew would change numbers and the order of keys.
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
        return format!("event {id} was accepted before under this name; nothing was added\n");
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
    fn a_payload_goes_in_byte_for_byte() {
        let text = body("a.b", b" {\"z\": 1.0, \"a\": 1e400 } ".to_vec(), Some("n\"1"));
        let expected =
            r#"{"event_type":"a.b","payload": {"z": 1.0, "a": 1e400 } ,"external_event_id":"n\"1"}"#;
        assert_eq!(text.as_deref(), Ok(expected));
        // What would only be JSON together with what stands around it is none.
        for payload in ["", "{", r#"1,"external_event_id":"x""#, "nope", "\u{1}"] {
            assert!(matches!(body("a", payload.into(), None), Err(Failure::Usage(_))), "{payload}");
        }
    }
}
