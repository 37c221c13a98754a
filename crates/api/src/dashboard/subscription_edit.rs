//! The edit page of a subscription. A form that was opened before another user changed the subscription is rejected,
//! because saving it would undo that change.

use super::form::Form;
use super::page::{Layout, Refusal, Shown, render, show as write};
use super::subscription_form::{FormFields, error_of};
use super::subscriptions::{ActionResult, HERE, show_result};
use super::visitor::Visitor;
use crate::auth::Scope;
use crate::fields::Fields;
use crate::problem::Problem;
use crate::state::Api;
use crate::subscriptions::{self, Preconditions, subscription_id};
use askama::Template;
use axum::Extension;
use axum::extract::{Path, State};
use posthaste_core::audit::Actor;
use posthaste_core::ports::Stores;

#[derive(Debug, Template)]
#[template(path = "edit_subscription.html")]
struct EditPage {
    layout: Layout,
    id: i64,
    /// The time of the last change when the form was opened, for optimistic concurrency control.
    seen: String,
    /// Whether the form creates a subscription.
    is_new: bool,
    fields: FormFields,
}

impl EditPage {
    const fn of(visitor: Visitor, id: i64, seen: String, fields: FormFields) -> Self {
        Self { layout: Layout::of(visitor, HERE), id, seen, is_new: false, fields }
    }
}

pub(crate) async fn fill_in<S: Stores>(
    State(api): Api<S>,
    Extension(visitor): Extension<Visitor>,
    Path(text): Path<String>,
) -> Shown {
    let current = subscriptions::find_one(&api, &Scope::default(), &text).await?;
    let fields = FormFields::of_subscription(&current);
    write(&EditPage::of(visitor, current.id, current.updated_at.iso(), fields))
}

/// Shows a submitted form again.
pub(super) fn show_form(visitor: Visitor, form: &Form, fields: FormFields) -> Shown {
    let id = subscription_id(form.get("id"))?;
    write(&EditPage::of(visitor, id.get(), form.get("seen").to_owned(), fields))
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
    let fields = FormFields::of(&form);
    let changed = match fields.changes(&FormFields::of_subscription(&current)) {
        Ok(body) => {
            let (patch, conditions) = (Fields::parse(&body)?, Preconditions::default());
            subscriptions::change(&api, by, &Scope::default(), id, patch, &conditions).await
        }
        Err(error) => Err(error.into()),
    };
    match changed {
        Ok(changed) => {
            let text = if current.verified && !changed.verified {
                "Saved. Verify the new URL: nothing is sent until it is verified."
            } else {
                "Saved."
            };
            show_result(&api, visitor, changed, ActionResult::good(text)).await
        }
        Err(problem) => {
            let (status, error) = error_of(problem)?;
            let page = EditPage::of(visitor, id.get(), seen, fields.with_error(error));
            render(status, &page).map_err(Refusal)
        }
    }
}
