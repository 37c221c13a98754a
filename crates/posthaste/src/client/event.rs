//! `posthaste event …`: sends, lists and shows events.

use super::call::{Page, Span};
use super::table::{self, Record};
use super::{Call, Failure, Reach, delivery, input};
use clap::{Subcommand, value_parser};
use posthaste_core::json::JsonText;
use serde_json::{Map, Value};
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
        /// Tenant to which the event belongs
        #[arg(long, value_name = "TENANT")]
        tenant: Option<String>,
        /// Attribute for the filters of subscriptions; a value that is a JSON number, true or false is sent as such
        #[arg(short, long = "attribute", value_name = "NAME=VALUE")]
        attributes: Vec<String>,
        #[command(flatten)]
        reach: Reach,
    },
    /// List events, newest first
    #[command(after_help = "Example:\n  posthaste event list --type order.paid --limit 10")]
    List {
        /// Only events of this tenant
        #[arg(long, value_name = "TENANT")]
        tenant: Option<String>,
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
        ("tenant", "tenant"),
        ("type", "event_type"),
        ("attributes", "attributes"),
        ("external id", "external_event_id"),
        ("correlation id", "correlation_id"),
        ("trace", "traceparent"),
        ("trace state", "tracestate"),
        ("created", "created_at"),
        ("payload", "payload"),
    ],
    listed: &["id", "tenant", "event_type", "external_event_id", "created_at", "payload"],
    key: "ID",
};

impl EventCommand {
    pub(super) fn call(&self) -> Result<(Call, &Reach), Failure> {
        Ok(match self {
            Self::Send { event_type, payload, file, external_id, tenant, attributes, reach } => {
                let payload = match (payload, file) {
                    (Some(text), _) => text.clone().into_bytes(),
                    (None, Some(path)) => input::from_file(path)?,
                    (None, None) => input::from_stdin("the payload")?,
                };
                let attributes = read_attributes(attributes)?;
                let body = body(
                    event_type,
                    payload,
                    &[
                        ("external_event_id", external_id.as_deref().map(Value::from)),
                        ("tenant", tenant.as_deref().map(Value::from)),
                        ("attributes", (!attributes.is_empty()).then_some(Value::Object(attributes))),
                    ],
                )?;
                (Call::post("/v1/events").body(body).show(sent), reach)
            }
            Self::List { tenant, event_type, external_id, payload, span, page, reach } => {
                let call = Call::get("/v1/events").query(&[
                    ("tenant", tenant.clone()),
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
fn body(event_type: &str, payload: Vec<u8>, optional: &[(&str, Option<Value>)]) -> Result<String, Failure> {
    let payload = JsonText::parse(payload, input::BYTES_MAX);
    let payload = payload.map_err(|error| Failure::Usage(format!("the payload: {error}")))?;
    let given = optional.iter().filter_map(|(name, value)| Some((name, value.as_ref()?)));
    let given: String = given.map(|(name, value)| format!(r#","{name}":{value}"#)).collect();
    let event_type = Value::from(event_type);
    Ok(format!(r#"{{"event_type":{event_type},"payload":{}{given}}}"#, payload.into_string()))
}

/// Reads attributes of the form `name=value`. Values that are JSON numbers or booleans keep their type; a value in
/// double quotes is text.
fn read_attributes(given: &[String]) -> Result<Map<String, Value>, Failure> {
    let mut attributes = Map::new();
    for text in given {
        let wrong = |detail: &str| Failure::Usage(format!("--attribute {detail}, got {text:?}"));
        let (name, value) = text.split_once('=').ok_or_else(|| wrong("must have the form NAME=VALUE"))?;
        let value = match serde_json::from_str(value) {
            Ok(value @ (Value::Number(_) | Value::Bool(_) | Value::String(_))) => value,
            Ok(Value::Null | Value::Array(_) | Value::Object(_)) | Err(_) => Value::from(value),
        };
        if attributes.insert(name.to_owned(), value).is_some() {
            return Err(wrong("must name each attribute once"));
        }
    }
    Ok(attributes)
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
        let text = body(
            "a.b",
            b" {\"z\": 1.0, \"a\": 1e400 } ".to_vec(),
            &[("external_event_id", Some("n\"1".into())), ("tenant", None)],
        );
        let expected =
            r#"{"event_type":"a.b","payload": {"z": 1.0, "a": 1e400 } ,"external_event_id":"n\"1"}"#;
        assert_eq!(text.as_deref(), Ok(expected));
        // A payload must be valid JSON on its own, not only together with the text around it.
        for payload in ["", "{", r#"1,"external_event_id":"x""#, "nope", "\u{1}"] {
            assert!(matches!(body("a", payload.into(), &[]), Err(Failure::Usage(_))), "{payload}");
        }
    }

    #[test]
    fn attributes_keep_the_type_of_their_value() {
        let given = ["a=eu", "b=7", "c=true", "d=\"7\"", "e=x=y", "f=", "g=[1]", "h=null"].map(str::to_owned);
        let expected = serde_json::json!({
            "a": "eu", "b": 7, "c": true, "d": "7", "e": "x=y", "f": "", "g": "[1]", "h": "null"
        });
        assert_eq!(read_attributes(&given).map(Value::Object), Ok(expected));
        for wrong in [vec!["a"], vec!["a=1", "a=2"]] {
            let wrong: Vec<String> = wrong.into_iter().map(str::to_owned).collect();
            assert!(matches!(read_attributes(&wrong), Err(Failure::Usage(_))), "{wrong:?}");
        }
    }
}
