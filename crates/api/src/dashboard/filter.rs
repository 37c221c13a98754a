//! The filter form of a list. Its values are read from the query string and shown again in the form. If a field is
//! invalid, the form shows the error and the list is omitted.

use super::form::Form;
use super::lists::List;
use crate::problem::Problem;
use crate::query::{Listed, write_query};
use crate::time;
use http::{StatusCode, Uri};
use std::borrow::Cow;

const TIMES: [&str; 2] = ["since", "until"];
const SECOND_US: i64 = 1_000_000;

/// Appends `Z` to times without a zone, which `datetime-local` inputs send.
fn in_utc(uri: &Uri) -> Uri {
    let mut text = url::form_urlencoded::Serializer::new(String::new());
    let pairs = url::form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes());
    text.extend_pairs(pairs.map(|(name, value)| {
        let zoned = Some(&value).filter(|_| TIMES.contains(&&*name)).and_then(|value| zoned(value));
        (name, zoned.map_or(value, Cow::Owned))
    }));
    format!("{}?{}", uri.path(), text.finish()).parse().unwrap_or_else(|_| uri.clone())
}

/// Converts a time without a zone to a time in UTC. Returns `None` if the text is not a time without a zone.
fn zoned(text: &str) -> Option<String> {
    let minute = "0000-00-00T00:00".len();
    let zoned = format!("{text}{}", if text.len() == minute { ":00Z" } else { "Z" });
    time::parse(&zoned).map(|_| zoned)
}

/// Returns the value for a `datetime-local` input, or `None` if the input cannot represent the time.
fn local(text: &str) -> Option<String> {
    let at = time::parse(text).filter(|at| at.micros().rem_euclid(SECOND_US) == 0)?;
    at.to_string().get(.."0000-00-00T00:00:00".len()).map(str::to_owned)
}

/// The filter form of one list.
#[derive(Debug)]
pub(crate) struct Filter {
    pub(crate) list: &'static List,
    /// The requested URI, with all times in UTC.
    pub(crate) uri: Uri,
    form: Form,
    pub(crate) is_continued: bool,
    pub(crate) error: Option<FieldError>,
}

/// An error with the name of the invalid field or parameter.
#[derive(Debug)]
pub(crate) struct FieldError {
    field: String,
    pub(crate) detail: String,
    status: u16,
}

/// The value of an input for a time.
#[derive(Debug)]
pub(crate) struct TimeField {
    pub(crate) text: String,
    /// Whether a `datetime-local` input can represent the value.
    pub(crate) is_local: bool,
}

impl Filter {
    /// Reads the filter from the query parameters of `uri`. The form shows the first of repeated parameters; the search
    /// itself rejects them.
    pub(crate) fn of(list: &'static List, uri: &Uri) -> Result<Self, Problem> {
        let uri = in_utc(uri);
        Ok(Self::filled(list, Form::of_query(&uri)?, uri))
    }

    /// Creates a filter from a submitted form.
    pub(crate) fn filled(list: &'static List, form: Form, uri: Uri) -> Self {
        Self { list, uri, is_continued: !form.get("cursor").is_empty(), form, error: None }
    }

    /// Returns the value of a field, or an empty string if it is missing.
    pub(crate) fn get(&self, name: &str) -> &str {
        self.form.get(name)
    }

    /// Returns the query string of this filter, continued at `cursor`.
    pub(crate) fn query(&self, cursor: &str) -> String {
        let names = self.list.parameters.iter().copied().chain(["limit"]);
        let pairs: Vec<(&str, &str)> = names.map(|name| (name, self.get(name))).collect();
        write_query(pairs.into_iter().chain([("cursor", cursor)]))
    }

    /// Records the error of an invalid parameter and returns an empty list instead. Returns all other results
    /// unchanged.
    pub(super) fn keep_error<T>(&mut self, found: Result<Listed<T>, Problem>) -> Result<Listed<T>, Problem> {
        match found {
            Err(Problem { field: Some(field), detail, status, .. }) => {
                self.error = Some(FieldError { field, detail, status });
                Ok(Listed { items: Vec::new(), next_cursor: None })
            }
            found => found,
        }
    }

    /// Returns the HTTP status of the page.
    pub(crate) fn status(&self) -> StatusCode {
        let error = self.error.as_ref().map(|error| StatusCode::from_u16(error.status));
        error.map_or(StatusCode::OK, |status| status.unwrap_or(StatusCode::UNPROCESSABLE_ENTITY))
    }

    pub(crate) fn is_invalid(&self, field: &str) -> bool {
        self.error.as_ref().is_some_and(|error| error.field == field)
    }

    /// Returns the error of a parameter that has no field in the form. The user can fix it only in the address bar.
    pub(crate) fn error_without_field(&self) -> Option<&FieldError> {
        let List { parameters, direct, .. } = self.list;
        self.error.as_ref().filter(|error| {
            let name = error.field.as_str();
            !parameters.contains(&name) && *direct != Some(name)
        })
    }

    /// Returns the value of the input `since` or `until`.
    pub(crate) fn time(&self, name: &str) -> TimeField {
        let text = self.get(name);
        let local = if text.is_empty() { Some(String::new()) } else { local(text) };
        TimeField { is_local: local.is_some(), text: local.unwrap_or_else(|| text.to_owned()) }
    }
}

#[cfg(test)]
mod tests {
    use super::{in_utc, local};
    use http::Uri;

    #[test]
    fn a_time_without_a_zone_is_utc() {
        let rows = [
            ("since=2026-11-16T10:30", "since=2026-11-16T10%3A30%3A00Z"),
            ("until=2026-11-16T10%3A30%3A05", "until=2026-11-16T10%3A30%3A05Z"),
            ("until=2026-11-16T10%3A30%3A05.5", "until=2026-11-16T10%3A30%3A05.5Z"),
            (
                "since=2026-11-16T10:30:00%2B01:00&status=a+b",
                "since=2026-11-16T10%3A30%3A00%2B01%3A00&status=a+b",
            ),
            ("since=now&until=&status=2026-11-16T10:30", "since=now&until=&status=2026-11-16T10%3A30"),
        ];
        for (query, expected) in rows {
            let uri: Uri = format!("/events?{query}").parse().expect("an address");
            assert_eq!(in_utc(&uri).to_string(), format!("/events?{expected}"), "{query}");
        }
    }

    #[test]
    fn datetime_inputs_show_only_whole_seconds() {
        assert_eq!(local("2026-11-16T10:30:00+01:00").as_deref(), Some("2026-11-16T09:30:00"));
        for text in ["2026-11-16T10:30:00.000001Z", "now", ""] {
            assert_eq!(local(text), None, "{text}");
        }
    }
}
