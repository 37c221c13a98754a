//! Shows which of the newest events a subscription with the patterns, the filter and the tenant of a form would have
//! matched. The script requests only this part of the page while the form is edited; without it, a button of the
//! form requests the whole page. Reads a bounded number of events, without payloads; `core::route` decides.

use super::form::Form;
use super::page::{Shown, show as write};
use super::subscription_form::{FieldError, FormFields};
use super::visitor::Visitor;
use super::{subscription_actions, subscription_edit};
use crate::auth::Scope;
use crate::problem::Problem;
use crate::state::{Api, ApiState};
use crate::time::Utc;
use askama::Template;
use axum::Extension;
use axum::extract::State;
use axum::response::{IntoResponse as _, Redirect};
use posthaste_core::filter::Filter;
use posthaste_core::pattern::EventTypePatterns;
use posthaste_core::ports::{EventFilter, EventHead, PageRequest, ReaderStore as _, Stores};
use posthaste_core::route::{EventFacts, Routable, matches};
use posthaste_core::tenant::Tenant;

/// The number of events that are examined.
const EXAMINED_MAX: u32 = 1_000;
/// The maximum number of matching events that are shown.
const SHOWN_MAX: usize = 10;

/// The events that a form matches.
#[derive(Debug, Default)]
pub(crate) struct Matches {
    /// The first error of each invalid field. If there are any, no events are examined.
    pub(super) errors: Vec<FieldError>,
    /// Whether the form has patterns.
    has_patterns: bool,
    examined: usize,
    count: usize,
    /// The newest matching events.
    pub(super) newest: Vec<MatchRow>,
}

/// A matching event.
#[derive(Debug)]
pub(super) struct MatchRow {
    pub(super) head: EventHead,
    pub(super) created_at: Utc,
}

/// The part of a subscription that decides which events it gets.
#[derive(Debug, PartialEq, Eq)]
struct Rule {
    event_types: EventTypePatterns,
    filter: Option<Filter>,
    tenant: Option<Tenant>,
}

impl Rule {
    /// Parses the rule of a form. Returns `None` if the form has no patterns.
    ///
    /// # Errors
    ///
    /// Returns the first error of each invalid field.
    fn of(fields: &FormFields) -> Result<Option<Self>, Vec<FieldError>> {
        let mut errors = Vec::new();
        let texts = fields.event_types();
        let is_empty = texts.is_empty();
        let event_types = EventTypePatterns::parse(texts);
        if let Err(error) = &event_types
            && !is_empty
        {
            errors.push(FieldError::of("event_types", error.to_string()));
        }
        let filled = |name| Some(fields.get(name).trim()).filter(|text| !text.is_empty());
        let filter = filled("filter").map(Filter::parse).transpose();
        if let Err(error) = &filter {
            errors.push(FieldError::of("filter", error.to_string()));
        }
        let tenant = filled("tenant").map(Tenant::parse).transpose();
        if let Err(error) = &tenant {
            errors.push(FieldError::of("tenant", error.to_string()));
        }
        match (event_types, filter, tenant) {
            (Ok(event_types), Ok(filter), Ok(tenant)) => Ok(Some(Self { event_types, filter, tenant })),
            _ if errors.is_empty() => Ok(None),
            _ => Err(errors),
        }
    }

    fn matches(&self, event: &EventHead) -> bool {
        let facts = EventFacts {
            event_type: &event.event_type,
            tenant: event.tenant.as_ref(),
            attributes: &event.attributes,
        };
        let subscription = Routable {
            tenant: self.tenant.as_ref(),
            event_types: &self.event_types,
            filter: self.filter.as_ref(),
            active: true,
            verified: true,
            deleted: false,
        };
        matches(facts, subscription)
    }
}

impl Matches {
    /// Returns the newest events that the form matches.
    pub(super) async fn of<S: Stores>(
        api: &ApiState<S>,
        scope: &Scope,
        fields: &FormFields,
    ) -> Result<Self, Problem> {
        let rule = match Rule::of(fields) {
            // A subscription that a bound key creates gets the tenant of the key.
            Ok(Some(rule)) => Rule { tenant: scope.tenant().cloned().or(rule.tenant), ..rule },
            Ok(None) => return Ok(Self::default()),
            Err(errors) => return Ok(Self { errors, ..Self::default() }),
        };
        let page = PageRequest::first(EXAMINED_MAX).looking_at(EXAMINED_MAX);
        let visible = EventFilter { tenant: scope.tenant().cloned(), ..EventFilter::default() };
        let events = api.reader.event_heads(visible, page).await?.items;
        let examined = events.len();
        let mut found: Vec<EventHead> = events.into_iter().filter(|event| rule.matches(event)).collect();
        let count = found.len();
        found.truncate(SHOWN_MAX);
        let row = |head: EventHead| MatchRow { created_at: Utc(head.created_at), head };
        let newest = found.into_iter().map(row).collect();
        Ok(Self { errors: Vec::new(), has_patterns: true, examined, count, newest })
    }

    /// Returns the result in one sentence.
    pub(super) fn summary(&self) -> String {
        match (self.has_patterns, self.examined) {
            (false, _) => "Enter an event type to see which of the newest events match.".to_owned(),
            (true, 0) => "There are no events yet.".to_owned(),
            (true, examined) => format!("{} of the newest {examined} events match.", self.count),
        }
    }
}

#[derive(Debug, Template)]
#[template(path = "subscription_matches.html")]
struct MatchesPart {
    matches: Matches,
}

pub(crate) async fn show<S: Stores>(
    State(api): Api<S>,
    Extension(visitor): Extension<Visitor>,
    Extension(form): Extension<Form>,
) -> Shown {
    let fields = FormFields::of(&form);
    let matches = Matches::of(&api, &Scope::default(), &fields).await?;
    if form.get("part") == "matches" {
        return write(&MatchesPart { matches });
    }
    let fields = fields.with_matches(matches);
    if form.get("id").is_empty() {
        subscription_actions::show_form(visitor, fields)
    } else {
        subscription_edit::show_form(visitor, &form, fields)
    }
}

/// Handles a GET request to the address of the whole page, such as a reload, by redirecting to an empty form.
pub(crate) async fn redirect<S: Stores>(State(_api): Api<S>) -> Shown {
    Ok(Redirect::to("/subscriptions/new").into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(pairs: &[(&str, &str)]) -> Result<Option<Rule>, Vec<FieldError>> {
        Rule::of(&FormFields::of(&Form::of_pairs(pairs)))
    }

    #[test]
    fn each_invalid_field_has_its_error() {
        assert_eq!(rule(&[("event_types", " \r\n"), ("filter", " ")]), Ok(None));
        let found = rule(&[("event_types", "order.*\r\ninvoice.paid"), ("filter", ""), ("tenant", "acme")]);
        let found = found.expect("a rule").expect("patterns");
        assert_eq!((found.event_types.as_slice().len(), found.filter), (2, None));
        assert_eq!(found.tenant.as_ref().map(Tenant::as_str), Some("acme"));
        for (pairs, expected) in [
            (&[("event_types", "a.*.b"), ("filter", "{")][..], &["event_types", "filter"][..]),
            (&[("event_types", "a"), ("filter", "{\"like\":{}}")], &["filter"]),
            (&[("event_types", "**"), ("tenant", "a\u{1}")], &["event_types", "tenant"]),
            (&[("event_types", ""), ("filter", "[]")], &["filter"]),
        ] {
            let errors = rule(pairs).expect_err("errors");
            let fields: Vec<&str> = errors.iter().map(|error| error.field.as_str()).collect();
            assert_eq!(fields, expected, "{pairs:?}: {errors:?}");
        }
    }
}
