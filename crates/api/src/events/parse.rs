//! Parses the body and headers of ingest requests into events: one event, an array of events, or CloudEvents
//! ([`cloud`]).

use super::{NewEventBody, cloud};
use crate::body::media_type;
use crate::fields::{Fields, elements};
use crate::problem::{Problem, ProblemKind, ValidationErrors};
use crate::state::Limits;
use http::HeaderMap;
use posthaste_core::event::{CorrelationId, NewEvent, TraceParent};
use posthaste_core::json::{JsonError, JsonText};
use serde_json::value::RawValue;

/// Header values that apply to all events of a request.
#[derive(Debug, Clone)]
pub(super) struct Context {
    pub(super) correlation_id: Option<CorrelationId>,
    pub(super) traceparent: Option<TraceParent>,
}

impl Context {
    /// Reads the headers. Ignores an invalid `traceparent`, as W3C Trace Context requires, and rejects an invalid
    /// correlation id.
    fn of(headers: &HeaderMap) -> Result<Self, Problem> {
        let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or_default());
        let correlation_id = text("x-correlation-id").map(CorrelationId::parse).transpose();
        let correlation_id =
            correlation_id.map_err(|error| Problem::invalid_header("x-correlation-id", error.to_string()))?;
        let traceparent = text("traceparent").and_then(|text| TraceParent::parse(text).ok());
        Ok(Self { correlation_id, traceparent })
    }
}

/// Parses the events of a request. Also returns whether they were sent as an array.
pub(super) fn read_events(
    headers: &HeaderMap,
    text: &str,
    limits: Limits,
) -> Result<(Vec<NewEvent>, bool), Problem> {
    let context = Context::of(headers)?;
    if headers.contains_key(cloud::SPEC_VERSION_HEADER) {
        return Ok((vec![cloud::binary(headers, text, context, limits)?], false));
    }
    let one: fn(Fields<'_>, Context, Limits) -> Result<NewEvent, Problem> = match media_type(headers).as_str()
    {
        "" | "application/json" => plain,
        cloud::ONE | cloud::BATCH => cloud::structured,
        _ => {
            return Err(Problem::unsupported(
                "the content type is not accepted: send application/json, application/cloudevents+json or \
                 application/cloudevents-batch+json",
            ));
        }
    };
    if !text.trim_start().starts_with('[') {
        return Ok((vec![one(Fields::parse(text)?, context, limits)?], false));
    }
    let elements = elements(text, limits.batch_events_max)?;
    if elements.is_empty() {
        return Err(Problem::invalid_body("the array is empty: send at least one event"));
    }
    let (mut events, mut errors) = (Vec::with_capacity(elements.len()), ValidationErrors::default());
    for (index, raw) in elements.into_iter().enumerate() {
        let fields = Fields::of_element(raw, index);
        events.extend(errors.check(fields.and_then(|fields| one(fields, context.clone(), limits))));
        if errors.is_full() {
            break;
        }
    }
    errors.into_result()?;
    Ok((events, true))
}

/// Parses a [`NewEventBody`] into an event.
fn plain(mut fields: Fields<'_>, context: Context, limits: Limits) -> Result<NewEvent, Problem> {
    let NewEventBody { event_type, external_event_id, correlation_id, payload } =
        NewEventBody::read(&mut fields)?;
    let payload = payload_of(&fields, "payload", payload, limits)?;
    let correlation_id = correlation_id.or(context.correlation_id);
    let traceparent = context.traceparent;
    Ok(NewEvent { external_event_id, correlation_id, traceparent, ..NewEvent::new(event_type, payload) })
}

/// Returns the payload in the field `name`, byte for byte.
pub(super) fn payload_of(
    fields: &Fields<'_>,
    name: &str,
    value: &RawValue,
    limits: Limits,
) -> Result<JsonText, Problem> {
    JsonText::of_value(value, limits.payload_bytes_max)
        .map_err(|error| fields.problem(kind_of(&error), name, format!("{}: {error}", fields.path(name))))
}

/// Returns the kind of problem for an invalid payload.
pub(super) const fn kind_of(error: &JsonError) -> ProblemKind {
    match error {
        JsonError::TooLong { .. } => ProblemKind::ContentTooLarge,
        JsonError::TooDeep { .. } => ProblemKind::ValidationFailed,
        JsonError::NotUtf8 { .. } | JsonError::Invalid { .. } => ProblemKind::MalformedRequest,
    }
}
