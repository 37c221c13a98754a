//! The form above a list: what it was filled in with, to fill it in again, and what is wrong with it. A field that is
//! wrong is told of beside it, where it can be mended; there is no list then.

use super::form::Form;
use super::look::List;
use crate::problem::Problem;
use crate::query::{Listed, write_query};
use crate::time;
use http::{StatusCode, Uri};
use std::borrow::Cow;

const TIMES: [&str; 2] = ["since", "until"];
const SECOND_US: i64 = 1_000_000;

/// The address with its times in full: a browser's own field for a time names no zone, and stands for UTC here.
fn in_utc(uri: &Uri) -> Uri {
    let mut text = url::form_urlencoded::Serializer::new(String::new());
    let pairs = url::form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes());
    text.extend_pairs(pairs.map(|(name, value)| {
        let zoned = Some(&value).filter(|_| TIMES.contains(&&*name)).and_then(|value| zoned(value));
        (name, zoned.map_or(value, Cow::Owned))
    }));
    format!("{}?{}", uri.path(), text.finish()).parse().unwrap_or_else(|_| uri.clone())
}

/// A time without a zone, to the minute or finer, with one.
fn zoned(text: &str) -> Option<String> {
    let minute = "0000-00-00T00:00".len();
    let zoned = format!("{text}{}", if text.len() == minute { ":00Z" } else { "Z" });
    time::parse(&zoned).map(|_| zoned)
}

/// What a browser's own field for a time shows for this text; nothing where it cannot hold it.
fn local(text: &str) -> Option<String> {
    let at = time::parse(text).filter(|at| at.micros().rem_euclid(SECOND_US) == 0)?;
    at.to_string().get(.."0000-00-00T00:00:00".len()).map(str::to_owned)
}

/// The form of one list.
#[derive(Debug)]
pub(crate) struct Filter {
    pub(crate) list: &'static List,
    /// The address, with its times in full.
    pub(crate) uri: Uri,
    form: Form,
    pub(crate) is_continued: bool,
    pub(crate) wrong: Option<Wrong>,
}

/// Which field or parameter is wrong, and why.
#[derive(Debug)]
pub(crate) struct Wrong {
    field: String,
    pub(crate) detail: String,
    status: u16,
}

/// A field for a time.
#[derive(Debug)]
pub(crate) struct TimeField {
    pub(crate) text: String,
    /// The browser's own field can hold it.
    pub(crate) is_local: bool,
}

impl Filter {
    /// What comes twice is taken once: whoever looks for something refuses it.
    pub(crate) fn of(list: &'static List, uri: &Uri) -> Result<Self, Problem> {
        let uri = in_utc(uri);
        Ok(Self::filled(list, Form::of_query(&uri)?, uri))
    }

    /// As a form filled it in.
    pub(crate) fn filled(list: &'static List, form: Form, uri: Uri) -> Self {
        Self { list, uri, is_continued: !form.get("cursor").is_empty(), form, wrong: None }
    }

    /// What a field holds; empty when it is not there.
    pub(crate) fn get(&self, name: &str) -> &str {
        self.form.get(name)
    }

    /// The same filter in an address, from a place on.
    pub(crate) fn query(&self, cursor: &str) -> String {
        let names = self.list.parameters.iter().copied().chain(["limit"]);
        let pairs: Vec<(&str, &str)> = names.map(|name| (name, self.get(name))).collect();
        write_query(pairs.into_iter().chain([("cursor", cursor)]))
    }

    /// What was found, or nothing where a parameter is wrong, which is remembered.
    pub(super) fn judge<T>(&mut self, found: Result<Listed<T>, Problem>) -> Result<Listed<T>, Problem> {
        match found {
            Err(Problem { field: Some(field), detail, status, .. }) => {
                self.wrong = Some(Wrong { field, detail, status });
                Ok(Listed { items: Vec::new(), next_cursor: None })
            }
            found => found,
        }
    }

    /// The status of the page.
    pub(crate) fn status(&self) -> StatusCode {
        let wrong = self.wrong.as_ref().map(|wrong| StatusCode::from_u16(wrong.status));
        wrong.map_or(StatusCode::OK, |status| status.unwrap_or(StatusCode::UNPROCESSABLE_ENTITY))
    }

    pub(crate) fn is_wrong(&self, field: &str) -> bool {
        self.wrong.as_ref().is_some_and(|wrong| wrong.field == field)
    }

    /// The error of a parameter that the form has no field for: it can be fixed in the address only.
    pub(crate) fn wrong_elsewhere(&self) -> Option<&Wrong> {
        let List { parameters, direct, .. } = self.list;
        self.wrong.as_ref().filter(|wrong| {
            let name = wrong.field.as_str();
            !parameters.contains(&name) && *direct != Some(name)
        })
    }

    /// The field `since` or `until`.
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
    fn a_time_without_a_zone_is_of_utc() {
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
    fn a_field_for_a_time_shows_what_it_can_hold() {
        assert_eq!(local("2026-11-16T10:30:00+01:00").as_deref(), Some("2026-11-16T09:30:00"));
        for text in ["2026-11-16T10:30:00.000001Z", "now", ""] {
            assert_eq!(local(text), None, "{text}");
        }
    }
}
