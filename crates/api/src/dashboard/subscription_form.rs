//! The fields of the form that creates or edits a subscription. Their values come from the submitted form or from the
//! JSON of a subscription, and become the JSON body of the API call. The API validates them; only text that is not JSON
//! or has a malformed line is rejected here, because the body could not represent it.

mod auth;
mod lines;
mod signatures;

use super::form::Form;
use super::subscription_matches::Matches;
use crate::problem::Problem;
use crate::subscriptions::SubscriptionView;
pub(super) use auth::label_of as auth_label;
use auth::{METHODS, Method};
use http::StatusCode;
use posthaste_core::envelope::Envelope;
use posthaste_core::filter::Filter;
use serde_json::Value;
use signatures::Choice;
use std::collections::BTreeMap;

/// The inputs of `subscription_fields.html`, except those of [`auth`].
const INPUTS: [&str; 17] = [
    "event_types",
    "filter",
    "tenant",
    "callback_url",
    "name",
    "uid",
    "description",
    "metadata",
    "max_retry_limit",
    "timeout",
    "envelope",
    "signatures",
    "signatures_json",
    "secret",
    "signing_key",
    "headers",
    "auth",
];

/// The fields of the API that the form can change.
const FIELDS: [&str; 13] = [
    "event_types",
    "filter",
    "callback_url",
    "name",
    "uid",
    "description",
    "metadata",
    "max_retry_limit",
    "timeout",
    "envelope",
    "signatures",
    "headers",
    "auth",
];

/// The fields of the API that the form can set only at creation.
const CREATION_FIELDS: [&str; 3] = ["tenant", "secret", "signing_key"];

static ENVELOPES: [(&str, &str); 4] = [
    (Envelope::Raw.as_str(), "The payload as it is"),
    (Envelope::Standard.as_str(), "Standard Webhooks (type, timestamp, data)"),
    (Envelope::CloudeventsBinary.as_str(), "CloudEvents, binary"),
    (Envelope::CloudeventsStructured.as_str(), "CloudEvents, structured"),
];

/// An error with the name of the invalid field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FieldError {
    pub(super) field: String,
    pub(super) detail: String,
}

impl FieldError {
    /// Creates the error of a field of the API, such as `event_types` or `headers.X-Team`.
    pub(super) fn of(field: &str, detail: impl Into<String>) -> Self {
        let end = field.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
        let name = field.get(..end.unwrap_or(field.len())).unwrap_or(field);
        let name = if name == "event_type" { "event_types" } else { name };
        Self { field: name.to_owned(), detail: detail.into() }
    }
}

/// Returns the error of a rejected form with its status.
///
/// # Errors
///
/// Returns the problem if the form cannot fix it.
pub(super) fn error_of(problem: Problem) -> Result<(StatusCode, FieldError), Problem> {
    let status = StatusCode::from_u16(problem.status).unwrap_or(StatusCode::UNPROCESSABLE_ENTITY);
    match problem {
        Problem { field: Some(field), detail, .. } => Ok((status, FieldError::of(&field, detail))),
        // Another subscription of the tenant has the uid.
        Problem { status: 409, detail, .. } => Ok((status, FieldError::of("uid", detail))),
        problem => Err(problem),
    }
}

impl From<FieldError> for Problem {
    fn from(FieldError { field, detail }: FieldError) -> Self {
        Self::invalid(&field, detail)
    }
}

/// The values of the inputs, the error if one is invalid, and the events that the patterns and the filter match if they
/// were requested.
#[derive(Debug, Default)]
pub(super) struct FormFields {
    values: BTreeMap<String, String>,
    pub(super) error: Option<FieldError>,
    pub(super) matches: Option<Matches>,
}

impl FormFields {
    /// Returns the values of a submitted form.
    pub(super) fn of(form: &Form) -> Self {
        // Browsers send line breaks of a textarea as CR LF.
        let value = |name: &str| form.get(name).replace("\r\n", "\n");
        let names = INPUTS.iter().map(|name| (*name).to_owned()).chain(auth::input_names());
        Self::filled(names.map(|name| (value(&name), name)).map(|(value, name)| (name, value)))
    }

    /// Returns the current values of a subscription.
    pub(super) fn of_subscription(subscription: &SubscriptionView) -> Self {
        Self::of_json(&serde_json::to_value(subscription).unwrap_or_default())
    }

    /// Returns the values of a subscription in the JSON of the API.
    fn of_json(current: &Value) -> Self {
        let mut values = BTreeMap::new();
        for name in INPUTS {
            let value = &current[name];
            let text = match name {
                "event_types" => lines::event_types_text(value),
                "metadata" => lines::metadata_text(value),
                "headers" => lines::headers_text(value),
                "signatures" => signatures::choice_of(value).to_owned(),
                "signatures_json" => signatures::custom_text(&current["signatures"]),
                "auth" => auth::kind_of(value).to_owned(),
                "filter" if !value.is_null() => serde_json::to_string_pretty(value).unwrap_or_default(),
                // These are never shown again.
                "secret" | "signing_key" => String::new(),
                _ => text_of(value),
            };
            values.insert(name.to_owned(), text);
        }
        values.extend(auth::values_of(&current["auth"]));
        Self::filled(values)
    }

    fn filled(values: impl IntoIterator<Item = (String, String)>) -> Self {
        Self { values: values.into_iter().collect(), error: None, matches: None }
    }

    pub(super) fn with_error(self, error: FieldError) -> Self {
        Self { error: Some(error), ..self }
    }

    pub(super) fn with_matches(self, matches: Matches) -> Self {
        Self { matches: Some(matches), ..self }
    }

    /// Returns the value of an input, or an empty string if it is missing.
    pub(super) fn get(&self, input: &str) -> &str {
        self.values.get(input).map_or("", String::as_str)
    }

    /// Returns the attributes of an input that mark it as invalid.
    pub(super) fn marks(&self, field: &str) -> &'static str {
        if self.error.as_ref().is_some_and(|error| error.field == field) {
            " aria-invalid=\"true\" aria-describedby=\"error\""
        } else {
            ""
        }
    }

    /// Returns the names and labels of the envelopes.
    pub(super) fn envelopes(&self) -> &'static [(&'static str, &'static str)] {
        &ENVELOPES
    }

    pub(super) fn signature_choices(&self) -> &'static [Choice] {
        &signatures::CHOICES
    }

    pub(super) fn auth_methods(&self) -> &'static [Method] {
        &METHODS
    }

    /// Returns the patterns, one for each line that is not empty.
    pub(super) fn event_types(&self) -> Vec<String> {
        lines::event_types(self.get("event_types"))
    }

    /// Returns the JSON value of a field of the API, or `None` if it is empty.
    fn field(&self, name: &str) -> Result<Option<String>, FieldError> {
        let wrong = |detail: String| FieldError::of(name, detail);
        let text = self.get(name).trim();
        match name {
            "event_types" => {
                let types = self.event_types();
                Ok((!types.is_empty()).then(|| Value::from(types).to_string()))
            }
            "filter" if text.is_empty() => Ok(None),
            "filter" => {
                let filter = Filter::parse(text).map_err(|error| wrong(error.to_string()))?;
                Ok(Some(filter.as_text().to_owned()))
            }
            "metadata" => lines::metadata(text).map_err(wrong),
            "headers" => lines::headers(text).map_err(wrong),
            "signatures" => signatures::json_of(text, self.get("signatures_json")).map_err(wrong),
            "auth" => Ok(auth::json_of(text, |input| self.get(input))),
            "max_retry_limit" if text.parse::<i64>().is_ok() => Ok(Some(text.to_owned())),
            _ => Ok((!text.is_empty()).then(|| Value::from(text).to_string())),
        }
    }

    /// Returns the body that creates a subscription. Empty fields are left out.
    pub(super) fn creation(&self) -> Result<String, FieldError> {
        let mut members = Vec::new();
        for name in FIELDS.into_iter().chain(CREATION_FIELDS) {
            members.extend(self.field(name)?.map(|json| (name, json)));
        }
        Ok(object(&members))
    }

    /// Returns the merge patch that changes a subscription from `current` to these values. Fields that were not changed
    /// are left out, so that a stored value that is no longer accepted does not prevent the change. An empty optional
    /// field becomes null, which resets it; a required one stays empty, so that the API rejects it.
    pub(super) fn changes(&self, current: &Self) -> Result<String, FieldError> {
        let mut members = Vec::new();
        for name in FIELDS {
            let value = self.field(name);
            if value == current.field(name) {
                continue;
            }
            let empty = match name {
                "event_types" => "[]",
                "callback_url" => "\"\"",
                _ => "null",
            };
            members.push((name, value?.unwrap_or_else(|| empty.to_owned())));
        }
        Ok(object(&members))
    }
}

/// Returns the text of a value in an input.
fn text_of(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other @ (Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => other.to_string(),
    }
}

/// Returns a JSON object of values in JSON. Repeated names are kept, so that the API rejects them.
fn object<N: AsRef<str>>(members: &[(N, String)]) -> String {
    let member = |(name, json): &(N, String)| format!("{}:{json}", Value::from(name.as_ref()));
    format!("{{{}}}", members.iter().map(member).collect::<Vec<_>>().join(","))
}

#[cfg(test)]
mod tests;
