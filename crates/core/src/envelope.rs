//! The envelope of a request: how an event becomes a body and headers. The worker renders a stored event for each
//! attempt and signs the result. The output depends only on the arguments, and its members have a fixed order, so
//! that every attempt sends the same bytes.

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::fmt;

use serde_json::Value;

use crate::attributes::AttributeValue;
use crate::event::{EventType, ExternalEventId};
use crate::time::Timestamp;

const JSON: &str = "application/json";
const CLOUDEVENTS_JSON: &str = "application/cloudevents+json";
/// The separator between source and id in the external id of an event that was received as a CloudEvent.
const SEPARATOR: char = '\u{1f}';

/// The envelope in which a subscription receives events.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Envelope {
    /// The payload byte for byte.
    #[default]
    Raw,
    /// An object of `type`, `timestamp` and `data`, as Standard Webhooks recommends.
    Standard,
    /// CloudEvents 1.0 in binary mode: the attributes as headers, the payload as the body.
    CloudeventsBinary,
    /// CloudEvents 1.0 in structured mode: an object of the attributes and the payload.
    CloudeventsStructured,
}

/// An error from parsing the name of an envelope.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("envelope must be raw, standard, cloudevents-binary or cloudevents-structured")]
pub struct EnvelopeError;

impl Envelope {
    pub const ALL: [Self; 4] =
        [Self::Raw, Self::Standard, Self::CloudeventsBinary, Self::CloudeventsStructured];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::Standard => "standard",
            Self::CloudeventsBinary => "cloudevents-binary",
            Self::CloudeventsStructured => "cloudevents-structured",
        }
    }

    pub fn parse(text: &str) -> Result<Self, EnvelopeError> {
        Self::ALL.into_iter().find(|envelope| envelope.as_str() == text).ok_or(EnvelopeError)
    }
}

/// The value of an attribute of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContextValue<'a> {
    Text(&'a str),
    /// A number in the canonical form of RFC 8785.
    Number(&'a str),
    Boolean(bool),
}

impl<'a> From<&'a AttributeValue> for ContextValue<'a> {
    fn from(value: &'a AttributeValue) -> Self {
        match value {
            AttributeValue::Text(text) => Self::Text(text),
            AttributeValue::Number(number) => Self::Number(number),
            AttributeValue::Boolean(value) => Self::Boolean(*value),
        }
    }
}

/// The parts of an event that a receiver gets.
#[derive(Clone, Copy)]
pub struct EventContent<'a> {
    pub event_type: &'a EventType,
    /// Valid JSON, byte for byte as submitted.
    pub payload: &'a str,
    /// The attributes by name, in the order in which they are sent. The names consist of `a` to `z` and `0` to `9`.
    pub attributes: &'a [(&'a str, ContextValue<'a>)],
    pub external_event_id: Option<&'a ExternalEventId>,
    pub created_at: Timestamp,
}

/// Omits the payload and the attributes, because they must not be logged.
impl fmt::Debug for EventContent<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventContent").field("event_type", &self.event_type).finish_non_exhaustive()
    }
}

/// The content of a request. Signatures and other headers are added by the caller.
#[derive(Clone, PartialEq, Eq)]
pub struct Rendered {
    /// The body, or `None` if it is the payload.
    pub body: Option<String>,
    pub content_type: &'static str,
    /// The headers in addition to the content type: names in lower case, values in visible ASCII.
    pub headers: Vec<(String, String)>,
}

/// Omits the body and the headers, because they must not be logged.
impl fmt::Debug for Rendered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rendered").field("content_type", &self.content_type).finish_non_exhaustive()
    }
}

/// Renders an event. `message_id` and `default_source` identify an event that was not received as a CloudEvent.
pub fn render(
    envelope: Envelope,
    content: &EventContent<'_>,
    message_id: &str,
    default_source: &str,
) -> Rendered {
    let time = time(content);
    let data = ("data", content.payload);
    match envelope {
        Envelope::Raw => Rendered { body: None, content_type: JSON, headers: Vec::new() },
        Envelope::Standard => {
            let event_type = ContextValue::Text(content.event_type.as_str());
            let members = [("type", event_type), ("timestamp", ContextValue::Text(&time))];
            Rendered { body: Some(object(&members, data)), content_type: JSON, headers: Vec::new() }
        }
        Envelope::CloudeventsBinary => {
            let context = context(content, &time, message_id, default_source);
            let header =
                |(name, value): &(&str, ContextValue<'_>)| (format!("ce-{name}"), header_value(*value));
            Rendered { body: None, content_type: JSON, headers: context.iter().map(header).collect() }
        }
        Envelope::CloudeventsStructured => {
            let mut context = context(content, &time, message_id, default_source);
            context.push(("datacontenttype", ContextValue::Text(JSON)));
            let body = Some(object(&context, data));
            Rendered { body, content_type: CLOUDEVENTS_JSON, headers: Vec::new() }
        }
    }
}

fn attribute<'a>(content: &EventContent<'a>, name: &str) -> Option<&'a str> {
    let text = |value| match value {
        ContextValue::Text(text) => Some(text),
        ContextValue::Number(_) | ContextValue::Boolean(_) => None,
    };
    content.attributes.iter().find(|(given, _)| *given == name).and_then(|(_, value)| text(*value))
}

/// Returns the time of the event: as received, else the time of its creation.
fn time<'a>(content: &EventContent<'a>) -> Cow<'a, str> {
    match attribute(content, "time") {
        Some(time) => Cow::Borrowed(time),
        None => Cow::Owned(content.created_at.to_string()),
    }
}

/// Returns the CloudEvents attributes, except `datacontenttype`: first the required ones and the time, then the
/// attributes of the event.
fn context<'a>(
    content: &EventContent<'a>,
    time: &'a str,
    message_id: &'a str,
    default_source: &'a str,
) -> Vec<(&'a str, ContextValue<'a>)> {
    let received = content.external_event_id.and_then(|id| source_and_id(id.as_str()));
    let (source, id) =
        received.unwrap_or((attribute(content, "source").unwrap_or(default_source), message_id));
    let first = [
        ("specversion", "1.0"),
        ("id", id),
        ("source", source),
        ("type", content.event_type.as_str()),
        ("time", time),
    ];
    let is_first = |name: &str| first.iter().any(|(known, _)| *known == name);
    // These names cannot be attributes of an event. They are checked again, because a second member of this name would
    // make the body ambiguous.
    let is_reserved = |name: &str| is_first(name) || matches!(name, "data" | "datacontenttype");
    let rest = content.attributes.iter().copied().filter(|(name, _)| !is_reserved(name));
    first.into_iter().map(|(name, text)| (name, ContextValue::Text(text))).chain(rest).collect()
}

/// Splits the external id of an event that was received as a CloudEvent. Other external ids may contain the separator
/// as well; they are split only if both parts are valid in a CloudEvent.
fn source_and_id(external: &str) -> Option<(&str, &str)> {
    let (source, id) = external.split_once(SEPARATOR)?;
    (!source.is_empty() && !id.is_empty() && !id.contains(SEPARATOR)).then_some((source, id))
}

/// Writes a JSON object with the data as its last member, byte for byte.
fn object(members: &[(&str, ContextValue<'_>)], (data_name, data): (&str, &str)) -> String {
    let mut text = String::with_capacity(data.len() + 64 * (members.len() + 1));
    text.push('{');
    for (name, value) in members {
        text.push_str(&quote(name));
        text.push(':');
        text.push_str(&json_value(*value));
        text.push(',');
    }
    text.push_str(&quote(data_name));
    text.push(':');
    text.push_str(data);
    text.push('}');
    text
}

/// Returns the JSON of a value. The only numbers of CloudEvents are 32-bit integers, and libraries refuse others. They
/// are sent as text, like in a header.
fn json_value(value: ContextValue<'_>) -> Cow<'_, str> {
    match value {
        ContextValue::Text(text) => Cow::Owned(quote(text)),
        ContextValue::Number(number) if number.parse::<i32>().is_ok() => Cow::Borrowed(number),
        ContextValue::Number(number) => Cow::Owned(quote(number)),
        ContextValue::Boolean(true) => Cow::Borrowed("true"),
        ContextValue::Boolean(false) => Cow::Borrowed("false"),
    }
}

fn quote(text: &str) -> String {
    Value::from(text).to_string()
}

/// Returns the value of a `ce-` header, percent-encoded as specified in section 3.1.3.2 of the HTTP binding 1.0.2:
/// space, double quote, percent sign and everything outside visible ASCII.
fn header_value(value: ContextValue<'_>) -> String {
    let text = match value {
        ContextValue::Text(text) | ContextValue::Number(text) => text,
        ContextValue::Boolean(true) => "true",
        ContextValue::Boolean(false) => "false",
    };
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_graphic() && !matches!(byte, b'"' | b'%') {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}
