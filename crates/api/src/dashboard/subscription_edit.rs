//! What a subscription is made of, in a form: filled in anew by [`super::subscription_acts`], or changed here. A form that
//! was made before somebody else's change is not taken: it would undo that.

use super::form::Form;
use super::page::{Around, Refusal, Shown, show as write, written};
use super::subscriptions::{HERE, Told, answer};
use super::visitor::Visitor;
use crate::fields::Fields;
use crate::problem::Problem;
use crate::state::ApiState;
use crate::subscriptions::{self, SubscriptionView, subscription_id};
use askama::Template;
use axum::Extension;
use axum::extract::{Path, State};
use http::StatusCode;
use posthaste_core::audit::Actor;
use posthaste_core::ports::Stores;
use serde_json::{Map, Value};
use std::sync::Arc;

/// What stands in the fields.
#[derive(Debug, Default)]
pub(super) struct Filled {
    pub(super) event_type: String,
    pub(super) callback_url: String,
    pub(super) description: String,
    pub(super) max_retry_limit: String,
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
        let get = |name| form.get(name).to_owned();
        Self {
            event_type: get("event_type"),
            callback_url: get("callback_url"),
            description: get("description"),
            max_retry_limit: get("max_retry_limit"),
            wrong: None,
        }
    }

    fn present(subscription: &SubscriptionView) -> Self {
        Self {
            event_type: subscription.event_type.clone(),
            callback_url: subscription.callback_url.clone(),
            description: subscription.description.clone().unwrap_or_default(),
            max_retry_limit: subscription.max_retry_limit.map_or_else(String::new, |limit| limit.to_string()),
            wrong: None,
        }
    }

    pub(super) fn wrong(self, field: String, detail: String) -> Self {
        Self { wrong: Some(Wrong { field, detail }), ..self }
    }

    /// Whether this field is wrong.
    pub(super) fn is_wrong(&self, field: &str) -> bool {
        self.wrong.as_ref().is_some_and(|wrong| wrong.field == field)
    }
}

#[derive(Debug, Template)]
#[template(path = "edit_subscription.html")]
struct EditPage {
    around: Around,
    id: i64,
    /// When the subscription was last changed, as the form knows it.
    seen: String,
    filled: Filled,
}

pub(crate) async fn fill_in<S: Stores>(
    State(api): State<Arc<ApiState<S>>>,
    Extension(visitor): Extension<Visitor>,
    Path(text): Path<String>,
) -> Shown {
    let present = subscriptions::find_one(&api, &text).await?;
    write(&EditPage {
        around: Around::of(visitor, HERE),
        id: present.id,
        seen: present.updated_at.iso(),
        filled: Filled::present(&present),
    })
}

pub(crate) async fn change<S: Stores>(
    State(api): State<Arc<ApiState<S>>>,
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
    let body = body_of(&form).to_string();
    match subscriptions::change(&api, by, id, Fields::parse(&body)?).await {
        Ok(changed) => {
            let text = if present.verified && !changed.verified {
                "Changed. Verify the new URL: nothing is sent before."
            } else {
                "Changed."
            };
            answer(&api, visitor, changed, Told::good(text)).await
        }
        Err(Problem { field: Some(field), detail, .. }) => {
            let filled = Filled::of(&form).wrong(field, detail);
            let page = EditPage { around: Around::of(visitor, HERE), id: id.get(), seen, filled };
            written(StatusCode::UNPROCESSABLE_ENTITY, &page).map_err(Refusal)
        }
        Err(problem) => Err(problem.into()),
    }
}

/// The body that the API's own call would get. A field that may be left out and is empty is taken away; the others
/// are judged as they are.
fn body_of(form: &Form) -> Value {
    let mut body: Map<String, Value> = form.as_body(&["description"], &["max_retry_limit"]);
    for name in ["description", "max_retry_limit"] {
        body.entry(name).or_insert(Value::Null);
    }
    for name in ["event_type", "callback_url"] {
        body.insert(name.to_owned(), form.get(name).trim().into());
    }
    Value::Object(body)
}
