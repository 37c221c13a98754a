//! What a subscription is made of, in a form: filled in anew by [`super::subscription_acts`], or changed here. A form that
//! was made before somebody else's change is not taken: it would undo that.

use super::form::Form;
use super::page::{Layout, Refusal, Shown, show as write, written};
use super::subscriptions::{ActionResult, HERE, answer};
use super::visitor::Visitor;
use crate::fields::Fields;
use crate::problem::Problem;
use crate::state::Api;
use crate::subscriptions::{self, SubscriptionView, subscription_id};
use askama::Template;
use axum::Extension;
use axum::extract::{Path, State};
use http::StatusCode;
use posthaste_core::audit::Actor;
use posthaste_core::ports::Stores;
use serde_json::Value;
use std::collections::BTreeMap;

/// How a field of the form becomes one of the API's body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    RequiredText,
    Text,
    Number,
}

/// The fields of `subscription_fields.html`, by their names in the API's body.
const FIELDS: [(&str, Kind); 5] = [
    ("event_type", Kind::RequiredText),
    ("callback_url", Kind::RequiredText),
    ("description", Kind::Text),
    ("max_retry_limit", Kind::Number),
    ("timeout", Kind::Text),
];

/// What stands in the fields.
#[derive(Debug, Default)]
pub(super) struct Filled {
    values: BTreeMap<&'static str, String>,
    pub(super) wrong: Option<Wrong>,
}

/// Which field is wrong, and why.
#[derive(Debug)]
pub(super) struct Wrong {
    field: String,
    pub(super) detail: String,
}

impl Filled {
    /// As somebody filled it in.
    pub(super) fn of(form: &Form) -> Self {
        Self { values: FIELDS.map(|(name, _)| (name, form.get(name).to_owned())).into(), wrong: None }
    }

    fn present(subscription: &SubscriptionView) -> Self {
        let present = serde_json::to_value(subscription).unwrap_or_default();
        let text = |name: &str| match &present[name] {
            Value::Null => String::new(),
            Value::String(text) => text.clone(),
            other @ (Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => {
                other.to_string()
            }
        };
        Self { values: FIELDS.map(|(name, _)| (name, text(name))).into(), wrong: None }
    }

    pub(super) fn wrong(self, field: String, detail: String) -> Self {
        Self { wrong: Some(Wrong { field, detail }), ..self }
    }

    pub(super) fn get(&self, field: &str) -> &str {
        self.values.get(field).map_or("", String::as_str)
    }

    /// Whether this field is wrong.
    pub(super) fn is_wrong(&self, field: &str) -> bool {
        self.wrong.as_ref().is_some_and(|wrong| wrong.field == field)
    }
}

/// The body that the API's own call would get. A field that is empty is null, which is as good as left out. A change
/// must not leave out what is required: it is judged as it is.
pub(super) fn body_of(form: &Form, is_new: bool) -> String {
    let value = |(name, kind): (&str, Kind)| {
        let text = form.get(name).trim();
        let number = text.parse::<i64>().ok().filter(|_| kind == Kind::Number);
        let is_left_out = text.is_empty() && (is_new || kind != Kind::RequiredText);
        let text = if is_left_out { Value::Null } else { text.into() };
        (name.to_owned(), number.map_or(text, Value::from))
    };
    Value::Object(FIELDS.into_iter().map(value).collect()).to_string()
}

#[derive(Debug, Template)]
#[template(path = "edit_subscription.html")]
struct EditPage {
    around: Layout,
    id: i64,
    /// When the subscription was last changed, as the form knows it.
    seen: String,
    filled: Filled,
}

pub(crate) async fn fill_in<S: Stores>(
    State(api): Api<S>,
    Extension(visitor): Extension<Visitor>,
    Path(text): Path<String>,
) -> Shown {
    let present = subscriptions::find_one(&api, &text).await?;
    write(&EditPage {
        around: Layout::of(visitor, HERE),
        id: present.id,
        seen: present.updated_at.iso(),
        filled: Filled::present(&present),
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
    let present = subscriptions::find_one(&api, &text).await?;
    let seen = form.get("seen").to_owned();
    if seen != present.updated_at.iso() {
        let detail = format!(
            "subscription {id} was changed since this form was made: open the form again, and repeat your change"
        );
        return Err(Problem::conflict(detail).into());
    }
    let body = body_of(&form, false);
    match subscriptions::change(&api, by, id, Fields::parse(&body)?).await {
        Ok(changed) => {
            let text = if present.verified && !changed.verified {
                "Changed. Verify the new URL: nothing is sent before."
            } else {
                "Changed."
            };
            answer(&api, visitor, changed, ActionResult::good(text)).await
        }
        Err(Problem { field: Some(field), detail, .. }) => {
            let filled = Filled::of(&form).wrong(field, detail);
            let page = EditPage { around: Layout::of(visitor, HERE), id: id.get(), seen, filled };
            written(StatusCode::UNPROCESSABLE_ENTITY, &page).map_err(Refusal)
        }
        Err(problem) => Err(problem.into()),
    }
}
