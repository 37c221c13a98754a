//! The edit page of a subscription, and the form fields shared with [`super::subscription_actions`]. A form that was
//! opened before another user changed the subscription is rejected, because saving it would undo that change.

use super::form::Form;
use super::page::{Layout, Refusal, Shown, render, show as write};
use super::subscriptions::{ActionResult, HERE, show_result};
use super::visitor::Visitor;
use crate::auth::Scope;
use crate::fields::Fields;
use crate::problem::Problem;
use crate::state::Api;
use crate::subscriptions::{self, Preconditions, SubscriptionView, subscription_id};
use askama::Template;
use axum::Extension;
use axum::extract::{Path, State};
use http::StatusCode;
use posthaste_core::audit::Actor;
use posthaste_core::ports::Stores;
use serde_json::Value;
use std::collections::BTreeMap;

/// The conversion of a form field to a JSON value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    RequiredText,
    Text,
    Number,
}

/// The inputs of `subscription_fields.html`, named as in the request body of the API.
const FIELDS: [(&str, Kind); 5] = [
    ("event_type", Kind::RequiredText),
    ("callback_url", Kind::RequiredText),
    ("description", Kind::Text),
    ("max_retry_limit", Kind::Number),
    ("timeout", Kind::Text),
];

/// The values of the fields, and the error if a field is invalid.
#[derive(Debug, Default)]
pub(super) struct FormFields {
    values: BTreeMap<&'static str, String>,
    pub(super) error: Option<FieldError>,
}

/// An error with the name of the invalid field.
#[derive(Debug)]
pub(super) struct FieldError {
    field: String,
    pub(super) detail: String,
}

impl FormFields {
    /// Returns the values of a submitted form.
    pub(super) fn of(form: &Form) -> Self {
        Self { values: FIELDS.map(|(name, _)| (name, form.get(name).to_owned())).into(), error: None }
    }

    /// Returns the current values of a subscription.
    fn of_subscription(subscription: &SubscriptionView) -> Self {
        let current = serde_json::to_value(subscription).unwrap_or_default();
        let text = |name: &str| match &current[name] {
            Value::Null => String::new(),
            Value::String(text) => text.clone(),
            other @ (Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => {
                other.to_string()
            }
        };
        Self { values: FIELDS.map(|(name, _)| (name, text(name))).into(), error: None }
    }

    pub(super) fn with_error(self, field: String, detail: String) -> Self {
        Self { error: Some(FieldError { field, detail }), ..self }
    }

    pub(super) fn get(&self, field: &str) -> &str {
        self.values.get(field).map_or("", String::as_str)
    }

    pub(super) fn is_invalid(&self, field: &str) -> bool {
        self.error.as_ref().is_some_and(|error| error.field == field)
    }
}

/// Returns the JSON body of the corresponding API call. Empty fields become null, which the API treats as absent. In a
/// change of `current`, an empty required field stays an empty string, so that the API rejects it, and fields that were
/// not changed are left out, so that a stored value that is no longer accepted does not prevent the change.
pub(super) fn body_of(form: &Form, current: Option<&FormFields>) -> String {
    let value = |(name, kind): (&str, Kind)| {
        let text = form.get(name).trim();
        let number = text.parse::<i64>().ok().filter(|_| kind == Kind::Number);
        let is_left_out = text.is_empty() && (current.is_none() || kind != Kind::RequiredText);
        let text = if is_left_out { Value::Null } else { text.into() };
        (name.to_owned(), number.map_or(text, Value::from))
    };
    let is_changed =
        |(name, _): &(&str, Kind)| current.is_none_or(|current| current.get(name) != form.get(name).trim());
    Value::Object(FIELDS.into_iter().filter(is_changed).map(value).collect()).to_string()
}

#[derive(Debug, Template)]
#[template(path = "edit_subscription.html")]
struct EditPage {
    layout: Layout,
    id: i64,
    /// The time of the last change when the form was opened, for optimistic concurrency control.
    seen: String,
    fields: FormFields,
}

pub(crate) async fn fill_in<S: Stores>(
    State(api): Api<S>,
    Extension(visitor): Extension<Visitor>,
    Path(text): Path<String>,
) -> Shown {
    let current = subscriptions::find_one(&api, &Scope::default(), &text).await?;
    write(&EditPage {
        layout: Layout::of(visitor, HERE),
        id: current.id,
        seen: current.updated_at.iso(),
        fields: FormFields::of_subscription(&current),
    })
}

pub(crate) async fn change<S: Stores>(
    State(api): Api<S>,
    Extension(visitor): Extension<Visitor>,
    Extension(by): Extension<Actor>,
    Extension(form): Extension<Form>,
    Path(text): Path<String>,
) -> Shown {
    let id = subscription_id(&text)?;
    let current = subscriptions::find_one(&api, &Scope::default(), &text).await?;
    let seen = form.get("seen").to_owned();
    if seen != current.updated_at.iso() {
        let detail = format!(
            "subscription {id} was changed after this form was opened: reload the form and repeat your change"
        );
        return Err(Problem::conflict(detail).into());
    }
    let body = body_of(&form, Some(&FormFields::of_subscription(&current)));
    let fields = Fields::parse(&body)?;
    match subscriptions::change(&api, by, &Scope::default(), id, fields, &Preconditions::default()).await {
        Ok(changed) => {
            let text = if current.verified && !changed.verified {
                "Saved. Verify the new URL: nothing is sent until it is verified."
            } else {
                "Saved."
            };
            show_result(&api, visitor, changed, ActionResult::good(text)).await
        }
        Err(Problem { field: Some(field), detail, .. }) => {
            let fields = FormFields::of(&form).with_error(field, detail);
            let page = EditPage { layout: Layout::of(visitor, HERE), id: id.get(), seen, fields };
            render(StatusCode::UNPROCESSABLE_ENTITY, &page).map_err(Refusal)
        }
        Err(problem) => Err(problem.into()),
    }
}
