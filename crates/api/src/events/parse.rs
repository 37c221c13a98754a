//! Parses the body and headers of ingest requests into events: one event, an array of events, or CloudEvents
//! ([`cloud`]). Fills attributes by the rules of the operator.

use super::{NewEventBody, cloud};
use crate::body::media_type;
use crate::fields::{Fields, elements};
use crate::problem::{Problem, ProblemKind, ValidationErrors};
use crate::state::Limits;
use http::HeaderMap;
use posthaste_core::attribute_rules::AttributeRules;
use posthaste_core::event::{CorrelationId, NewEvent, TraceParent, TraceState};
use posthaste_core::json::{JsonError, JsonText};
use posthaste_core::tenant::Tenant;
use serde_json::value::RawValue;

/// The header with the tenant of all events of a request.
const TENANT_HEADER: &str = "posthaste-tenant";

/// What the settings and the key of a request determine about its events.
#[derive(Debug, Clone, Copy)]
pub(super) struct IngestPolicy<'a> {
    pub(super) limits: Limits,
    pub(super) rules: &'a AttributeRules,
    /// The tenant to which the key is bound.
    pub(super) bound: Option<&'a Tenant>,
}

/// A W3C trace context. Without a valid `traceparent`, a `tracestate` has no meaning and is discarded.
#[derive(Debug, Clone, Default)]
pub(super) struct Trace {
    pub(super) parent: Option<TraceParent>,
    pub(super) state: Option<TraceState>,
}

impl Trace {
    /// Parses a trace context. Ignores invalid values, as W3C Trace Context requires.
    pub(super) fn parse(parent: Option<String>, state: Option<String>) -> Self {
        let parent = parent.and_then(|text| TraceParent::parse(text).ok());
        let state = state.filter(|_| parent.is_some()).and_then(|text| TraceState::parse(text).ok());
        Self { parent, state }
    }

    /// Returns this trace context, or `other` if this one is empty.
    pub(super) fn or(self, other: Self) -> Self {
        if self.parent.is_some() { self } else { other }
    }
}

/// Header values that apply to all events of a request.
#[derive(Debug, Clone)]
pub(super) struct Context {
    pub(super) correlation_id: Option<CorrelationId>,
    pub(super) trace: Trace,
    /// The tenant in the header, or that of the key.
    pub(super) tenant: Option<Tenant>,
}

impl Context {
    /// Reads the headers. Ignores an invalid trace context, and rejects an invalid correlation id and a tenant that the
    /// key must not use.
    fn of(headers: &HeaderMap, bound: Option<&Tenant>) -> Result<Self, Problem> {
        let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or_default());
        let correlation_id = text("x-correlation-id").map(CorrelationId::parse).transpose();
        let correlation_id =
            correlation_id.map_err(|error| Problem::invalid_header("x-correlation-id", error.to_string()))?;
        // A list may be split into several headers.
        let states: Vec<&str> =
            headers.get_all("tracestate").iter().filter_map(|value| value.to_str().ok()).collect();
        let state = (!states.is_empty()).then(|| states.join(","));
        let trace = Trace::parse(text("traceparent").map(str::to_owned), state);
        let wrong = |detail: String| Problem::invalid_header(TENANT_HEADER, detail);
        let given = headers.get(TENANT_HEADER).map(|value| {
            let decoded = value.to_str().ok().and_then(cloud::percent_decoded);
            let decoded = decoded.ok_or_else(|| {
                wrong(format!(
                    "{TENANT_HEADER} must be ASCII, with other characters percent-encoded as UTF-8"
                ))
            })?;
            Tenant::parse(decoded).map_err(|error| wrong(format!("{TENANT_HEADER}: {error}")))
        });
        let given = given.transpose()?;
        let tenant = own_tenant(given, bound)
            .map_err(|detail| Problem::invalid_header(TENANT_HEADER, format!("{TENANT_HEADER}: {detail}")))?;
        Ok(Self { correlation_id, trace, tenant })
    }
}

/// Returns the tenant of an event: the given one, or that of the key.
///
/// # Errors
///
/// Returns an error message if the key is bound to another tenant.
fn own_tenant(given: Option<Tenant>, bound: Option<&Tenant>) -> Result<Option<Tenant>, String> {
    match (given, bound) {
        (Some(given), Some(bound)) if given != *bound => {
            Err(format!("tenant must be {bound}, the tenant of the API key, got {given}"))
        }
        (Some(given), _) => Ok(Some(given)),
        (None, bound) => Ok(bound.cloned()),
    }
}

/// Parses the events of a request. Also returns whether they were sent as an array.
pub(super) fn read_events(
    headers: &HeaderMap,
    text: &str,
    policy: IngestPolicy<'_>,
) -> Result<(Vec<NewEvent>, bool), Problem> {
    let (mut events, is_list) = read_given(headers, text, policy)?;
    if !policy.rules.is_empty() {
        for event in &mut events {
            policy.rules.fill(&event.payload, &mut event.attributes);
        }
    }
    Ok((events, is_list))
}

/// Parses the events of a request as the caller sent them.
fn read_given(
    headers: &HeaderMap,
    text: &str,
    policy: IngestPolicy<'_>,
) -> Result<(Vec<NewEvent>, bool), Problem> {
    let context = Context::of(headers, policy.bound)?;
    if headers.contains_key(cloud::SPEC_VERSION_HEADER) {
        return Ok((vec![cloud::binary(headers, text, context, policy.limits)?], false));
    }
    let one: fn(Fields<'_>, Context, IngestPolicy<'_>) -> Result<NewEvent, Problem> = match media_type(
        headers,
    )
    .as_str()
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
        return Ok((vec![one(Fields::parse(text)?, context, policy)?], false));
    }
    let elements = elements(text, policy.limits.batch_events_max)?;
    if elements.is_empty() {
        return Err(Problem::invalid_body("the array is empty: send at least one event"));
    }
    let (mut events, mut errors) = (Vec::with_capacity(elements.len()), ValidationErrors::default());
    for (index, raw) in elements.into_iter().enumerate() {
        let fields = Fields::of_element(raw, index);
        events.extend(errors.check(fields.and_then(|fields| one(fields, context.clone(), policy))));
        if errors.is_full() {
            break;
        }
    }
    errors.into_result()?;
    Ok((events, true))
}

/// Parses a [`NewEventBody`] into an event.
fn plain(mut fields: Fields<'_>, context: Context, policy: IngestPolicy<'_>) -> Result<NewEvent, Problem> {
    let NewEventBody { event_type, tenant, attributes, external_event_id, correlation_id, payload } =
        NewEventBody::read(&mut fields)?;
    let payload = payload_of(&fields, "payload", payload, policy.limits)?;
    let tenant =
        own_tenant(tenant, policy.bound).map_err(|detail| fields.wrong("tenant", detail))?.or(context.tenant);
    Ok(NewEvent {
        tenant,
        attributes: attributes.unwrap_or_default(),
        external_event_id,
        correlation_id: correlation_id.or(context.correlation_id),
        traceparent: context.trace.parent,
        tracestate: context.trace.state,
        ..NewEvent::new(event_type.0, payload)
    })
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
