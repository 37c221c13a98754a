//! CloudEvents 1.0 over HTTP, structured and binary. Ids are unique within a source only, so the external
//! id is made of both. The data is the payload; of the other attributes only the trace is kept.

use super::{Context, payload_of, payload_of_text};
use crate::body::media_type;
use crate::fields::Fields;
use crate::problem::Problem;
use crate::state::Limits;
use crate::values::body;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::HeaderMap;
use posthaste_core::event::{EventType, ExternalEventId, NewEvent, TraceParent};
use posthaste_core::json::JsonText;
use serde_json::value::RawValue;

pub(super) const ONE: &str = "application/cloudevents+json";
pub(super) const BATCH: &str = "application/cloudevents-batch+json";
pub(super) const SPEC_VERSION_HEADER: &str = "ce-specversion";
const SPEC_VERSION: &str = "1.0";
/// Between source and id: a character that neither a URI nor a sane id has.
const SEPARATOR: char = '\u{1f}';

body! {
    /// CloudEvents 1.0; the binary mode is taken too.
    #[schema(example = json!({
        "specversion": "1.0", "type": "order.paid", "source": "/shop", "id": "7", "data": {"order": 7}
    }))]
    struct CloudEvent<'a> {
        #[schema(pattern = "^1\\.0$")]
        specversion: String,
        r#type: String,
        source: String,
        id: String,
        /// The trace that the event belongs to (W3C Trace Context).
        traceparent: Option<String>,
        /// A JSON media type.
        datacontenttype: Option<String>,
        #[schema(value_type = Option<serde_json::Value>)]
        data: Option<&'a RawValue>,
        /// JSON as base64, instead of data.
        data_base64: Option<String>,
    }
}

/// All attributes and the data in one JSON object. Attributes that we do not know are extensions.
pub(super) fn structured(
    mut fields: Fields<'_>,
    context: Context,
    limits: Limits,
) -> Result<NewEvent, Problem> {
    let body = CloudEvent::read(&mut fields)?;
    if body.specversion != SPEC_VERSION {
        return Err(fields.wrong("specversion", "specversion must be 1.0"));
    }
    if body.datacontenttype.is_some_and(|media| !is_json(&media)) {
        return Err(fields.wrong("datacontenttype", "only JSON is delivered: data must be JSON"));
    }
    let payload = match (body.data, body.data_base64) {
        (Some(_), Some(_)) => {
            return Err(fields.wrong("data_base64", "data and data_base64 must not come together"));
        }
        (Some(data), None) => payload_of(&fields, "data", data, limits)?,
        (None, Some(encoded)) => {
            let bytes = STANDARD.decode(encoded).ok().and_then(|bytes| String::from_utf8(bytes).ok());
            let text =
                bytes.ok_or_else(|| fields.wrong("data_base64", "data_base64 must be the base64 of JSON"))?;
            let wrong = |problem: Problem| match problem.status {
                400 => fields.wrong("data_base64", problem.detail),
                _ => problem,
            };
            payload_of_text(&fields.path("data_base64"), &text, limits).map_err(wrong)?
        }
        (None, None) => JsonText::from_store("null".to_owned()),
    };
    let said = |name: &str, detail: String| fields.wrong(name, detail);
    let traceparent = body.traceparent.and_then(|trace| TraceParent::parse(trace).ok());
    let context = Context { traceparent: traceparent.or(context.traceparent), ..context };
    event(&body.r#type, &body.source, &body.id, payload, context, said)
}

/// Attributes in headers, the data as the body.
pub(super) fn binary(
    headers: &HeaderMap,
    text: &str,
    context: Context,
    limits: Limits,
) -> Result<NewEvent, Problem> {
    let attribute = |name: &str| {
        let value = headers.get(name).ok_or_else(|| Problem::invalid(name, format!("{name} is missing")))?;
        let decoded = value.to_str().ok().and_then(percent_decoded);
        decoded.ok_or_else(|| {
            Problem::invalid(name, format!("{name} must be text, percent-encoded where it is not ASCII"))
        })
    };
    if attribute(SPEC_VERSION_HEADER)? != SPEC_VERSION {
        return Err(Problem::invalid(SPEC_VERSION_HEADER, "ce-specversion must be 1.0"));
    }
    let media = media_type(headers);
    if !(media.is_empty() || is_json(&media)) {
        return Err(Problem::unsupported("only JSON is delivered: send content-type: application/json"));
    }
    let (kind, source, id) = (attribute("ce-type")?, attribute("ce-source")?, attribute("ce-id")?);
    let payload = if text.is_empty() {
        JsonText::from_store("null".to_owned())
    } else {
        payload_of_text("body", text, limits)?
    };
    let said = |name: &str, detail: String| Problem::invalid(format!("ce-{name}"), detail);
    event(&kind, &source, &id, payload, context, said)
}

fn event(
    kind: &str,
    source: &str,
    id: &str,
    payload: JsonText,
    context: Context,
    said: impl Fn(&str, String) -> Problem,
) -> Result<NewEvent, Problem> {
    for (name, value) in [("source", source), ("id", id)] {
        if value.is_empty() {
            return Err(said(name, format!("{name} must not be empty")));
        }
        if value.contains(SEPARATOR) {
            return Err(said(name, format!("{name} must not contain U+001F")));
        }
    }
    let event_type = EventType::parse(kind);
    let event_type = event_type.map_err(|error| said("type", format!("type: {error}")))?;
    let external = ExternalEventId::parse(format!("{source}{SEPARATOR}{id}"));
    let external_event_id = Some(
        external
            .map_err(|_| said("id", "source and id together must be at most 199 characters".to_owned()))?,
    );
    let Context { correlation_id, traceparent } = context;
    Ok(NewEvent { event_type, payload, external_event_id, correlation_id, traceparent })
}

fn is_json(media: &str) -> bool {
    let media = media.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    media == "application/json" || media == "text/json" || media.ends_with("+json")
}

fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        rest = behind;
        let hex = |byte: &u8| char::from(*byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        if *first == b'%'
            && let [high, low, behind @ ..] = behind
            && let (Some(high), Some(low)) = (hex(high), hex(low))
        {
            bytes.push(high * 16 + low);
            rest = behind;
        } else {
            bytes.push(*first);
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_values_are_percent_decoded() {
        for (text, expected) in [
            ("plain", Some("plain")),
            ("Euro%20%E2%82%AC", Some("Euro €")),
            ("100%", Some("100%")),
            ("%zz%4", Some("%zz%4")),
            ("%ff", None),
        ] {
            assert_eq!(percent_decoded(text).as_deref(), expected, "{text}");
        }
    }
}
