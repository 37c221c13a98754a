//! Parses CloudEvents 1.0 in structured and binary mode. The external id consists of source and id, because ids are
//! unique only within a source. The data becomes the payload, `traceparent` and `tracestate` the trace context of the
//! event, and `source`, `subject`, `time`, `dataschema` and extensions its attributes.

use super::parse::{Context, IngestPolicy, Trace, kind_of, payload_of};
use crate::body::media_type;
use crate::fields::Fields;
use crate::problem::{Problem, ProblemKind, RequestError, ValidationErrors};
use crate::state::Limits;
use crate::values::body;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::HeaderMap;
use posthaste_core::attributes::{AttributeError, AttributeValue, Attributes};
use posthaste_core::event::{EventType, ExternalEventId, NewEvent};
use posthaste_core::json::JsonText;
use serde_json::value::RawValue;

pub(super) const ONE: &str = "application/cloudevents+json";
pub(super) const BATCH: &str = "application/cloudevents-batch+json";
pub(super) const SPEC_VERSION_HEADER: &str = "ce-specversion";
const SPEC_VERSION: &str = "1.0";
/// The separator between source and id in an external id. Neither may contain it.
const SEPARATOR: char = '\u{1f}';
const ATTRIBUTE_HEADER_PREFIX: &str = "ce-";
/// The attributes in binary mode that do not become attributes of the event. The header `content-type` replaces
/// `datacontenttype`. `source` is added separately.
const OTHER_ATTRIBUTES: [&str; 7] =
    ["specversion", "type", "source", "id", "datacontenttype", "traceparent", "tracestate"];

body! {
    /// A CloudEvent 1.0 in structured mode. `source`, `subject`, `time`, `dataschema` and extensions become attributes
    /// of the event: text, numbers or booleans with names of `a-z` and `0-9`, at most 20.
    #[schema(example = json!({
        "specversion": "1.0", "type": "order.paid", "source": "/shop", "id": "7", "data": {"order": 7}
    }))]
    struct CloudEvent<'a> {
        /// The version of CloudEvents, `1.0`.
        #[schema(pattern = "^1\\.0$")]
        specversion: String,
        /// The event type.
        r#type: String,
        /// The source of the event. The external id consists of the source and the id.
        source: String,
        /// The id of the event, unique within its source.
        id: String,
        /// The trace context of the event (W3C Trace Context).
        traceparent: Option<String>,
        /// The vendor-specific part of the trace context.
        tracestate: Option<String>,
        /// The media type of the data, which must be JSON.
        datacontenttype: Option<String>,
        /// The payload, which may be any JSON value.
        #[schema(value_type = Option<serde_json::Value>)]
        data: Option<&'a RawValue>,
        /// The payload as base64-encoded JSON, instead of `data`.
        data_base64: Option<String>,
    }
}

/// Parses an event in structured mode: a JSON object with all attributes and the data. Unknown attributes are treated
/// as extensions.
pub(super) fn structured(
    fields: Fields<'_>,
    context: Context,
    policy: IngestPolicy<'_>,
) -> Result<NewEvent, Problem> {
    let limits = policy.limits;
    let mut fields = fields.extensible();
    let body = CloudEvent::read(&mut fields)?;
    if body.specversion != SPEC_VERSION {
        return Err(fields.wrong("specversion", "specversion must be 1.0"));
    }
    if body.datacontenttype.is_some_and(|media| !is_json(&media)) {
        return Err(fields.wrong("datacontenttype", "datacontenttype must be a JSON media type"));
    }
    let payload = match (body.data, body.data_base64) {
        (Some(_), Some(_)) => {
            return Err(fields.wrong("data_base64", "data_base64 must not be used together with data"));
        }
        (Some(data), None) => payload_of(&fields, "data", data, limits)?,
        (None, Some(encoded)) => {
            let bytes = STANDARD.decode(encoded).ok().and_then(|bytes| String::from_utf8(bytes).ok());
            let text =
                bytes.ok_or_else(|| fields.wrong("data_base64", "data_base64 must be the base64 of JSON"))?;
            JsonText::parse(text, limits.payload_bytes_max).map_err(|error| {
                // The enclosing body is well-formed JSON.
                let is_malformed = kind_of(&error) == ProblemKind::MalformedRequest;
                let kind = if is_malformed { ProblemKind::ValidationFailed } else { kind_of(&error) };
                let detail = format!("{}: {error}", fields.path("data_base64"));
                fields.problem(kind, "data_base64", detail)
            })?
        }
        (None, None) => JsonText::from_store("null".to_owned()),
    };
    let (mut attributes, mut errors) = (with_source(&body.source), ValidationErrors::default());
    let given = fields.take_rest();
    let wrong = |name: &str, detail: String| fields.wrong(name, detail);
    // An attribute that is null is absent.
    for (name, value) in given.into_iter().filter(|(_, value)| value.get() != "null") {
        let added = attributes.insert_json(&name, value);
        errors.check(added.map_err(|error| wrong(&name, detail_of(&name, &error))));
    }
    let context =
        Context { trace: Trace::parse(body.traceparent, body.tracestate).or(context.trace), ..context };
    let parsed = event(&body.r#type, &body.source, &body.id, payload, context, wrong);
    finish(parsed, attributes, errors)
}

/// Returns an error message that begins with the name of the attribute.
fn detail_of(name: &str, error: &AttributeError) -> String {
    let text = error.to_string();
    text.strip_prefix("attributes.").map_or_else(|| format!("{name}: {text}"), str::to_owned)
}

/// Returns the attributes of an event before its extensions are added. [`event`] restricts the source more than
/// attributes do.
fn with_source(source: &str) -> Attributes {
    let mut attributes = Attributes::default();
    let _ = attributes.insert("source", AttributeValue::Text(source.to_owned()));
    attributes
}

/// Returns the event with its attributes, or a problem with the errors of both.
fn finish(
    parsed: Result<NewEvent, Problem>,
    attributes: Attributes,
    of_attributes: ValidationErrors,
) -> Result<NewEvent, Problem> {
    let mut errors = ValidationErrors::default();
    let event = errors.check(parsed);
    errors.check(of_attributes.into_result());
    errors.into_result()?;
    let event = event.ok_or_else(|| Problem::invalid_body("the event is not valid"))?;
    Ok(NewEvent { attributes, ..event })
}

/// Parses an event in binary mode: the headers contain the attributes, the body contains the data.
pub(super) fn binary(
    headers: &HeaderMap,
    text: &str,
    context: Context,
    limits: Limits,
) -> Result<NewEvent, Problem> {
    let attribute = |name: &str| {
        let Some(value) = headers.get(name) else {
            return Err(Problem::invalid_header(name, format!("{name} is required")));
        };
        let decoded = value.to_str().ok().and_then(percent_decoded);
        decoded.ok_or_else(|| {
            let detail = format!("{name} must be ASCII, with other characters percent-encoded as UTF-8");
            Problem::invalid_header(name, detail)
        })
    };
    if attribute(SPEC_VERSION_HEADER)? != SPEC_VERSION {
        return Err(Problem::invalid_header(SPEC_VERSION_HEADER, "ce-specversion must be 1.0"));
    }
    let media = media_type(headers);
    if !(media.is_empty() || is_json(&media)) {
        return Err(Problem::unsupported("the data of an event must be JSON: send application/json"));
    }
    let mut errors = ValidationErrors::default();
    let [kind, source, id] = ["ce-type", "ce-source", "ce-id"].map(|name| errors.check(attribute(name)));
    errors.into_result()?;
    let (kind, source, id) = (kind.unwrap_or_default(), source.unwrap_or_default(), id.unwrap_or_default());
    let payload = if text.is_empty() {
        JsonText::from_store("null".to_owned())
    } else {
        JsonText::parse(text, limits.payload_bytes_max).map_err(|error| {
            let detail = format!("the body: {error}");
            let kind = kind_of(&error);
            let at = RequestError::in_body(&[], detail.clone());
            let problem = Problem::of(kind, detail);
            if kind == ProblemKind::MalformedRequest { problem } else { problem.at("body", at) }
        })?
    };
    let wrong =
        |name: &str, detail: String| Problem::invalid_header(&format!("ce-{name}"), format!("ce-{detail}"));
    let (mut attributes, mut errors) = (with_source(&source), ValidationErrors::default());
    for name in extension_names(headers) {
        let added = attribute(&format!("{ATTRIBUTE_HEADER_PREFIX}{name}")).and_then(|text| {
            let added = attributes.insert(name, AttributeValue::Text(text));
            added.map_err(|error| wrong(name, detail_of(name, &error)))
        });
        errors.check(added);
    }
    let optional = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let trace = Trace::parse(optional("ce-traceparent"), optional("ce-tracestate"));
    let context = Context { trace: trace.or(context.trace), ..context };
    finish(event(&kind, &source, &id, payload, context, wrong), attributes, errors)
}

/// Returns the names of the attributes in binary mode that become attributes of the event. A repeated header has its
/// name once for each value.
fn extension_names(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let names = headers.iter().filter_map(|(name, _)| name.as_str().strip_prefix(ATTRIBUTE_HEADER_PREFIX));
    names.filter(|name| !OTHER_ATTRIBUTES.contains(name))
}

/// Creates an event from its required attributes. `wrong` creates the problem for an invalid attribute from a message
/// that begins with its name.
fn event(
    kind: &str,
    source: &str,
    id: &str,
    payload: JsonText,
    context: Context,
    wrong: impl Fn(&str, String) -> Problem,
) -> Result<NewEvent, Problem> {
    for (name, value) in [("source", source), ("id", id)] {
        if value.is_empty() {
            return Err(wrong(name, format!("{name} must not be empty")));
        }
        if value.contains(SEPARATOR) {
            return Err(wrong(name, format!("{name} must not contain U+001F")));
        }
    }
    let event_type = EventType::parse_published(kind);
    let event_type = event_type.map_err(|error| wrong("type", format!("type: {error}")))?;
    let external = ExternalEventId::parse(format!("{source}{SEPARATOR}{id}"));
    let external_event_id = Some(
        external
            .map_err(|_| wrong("id", "id and source together must be at most 199 characters".to_owned()))?,
    );
    Ok(NewEvent {
        tenant: context.tenant,
        external_event_id,
        correlation_id: context.correlation_id,
        traceparent: context.trace.parent,
        tracestate: context.trace.state,
        ..NewEvent::new(event_type, payload)
    })
}

fn is_json(media: &str) -> bool {
    let media = media.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    media == "application/json" || media == "text/json" || media.ends_with("+json")
}

/// Decodes percent-encoded UTF-8. Returns `None` if the result is not UTF-8.
pub(super) fn percent_decoded(text: &str) -> Option<String> {
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
