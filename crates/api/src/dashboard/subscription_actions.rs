//! Handles the forms that create, verify, test, pause and resume a subscription and rotate its secret. They call the
//! functions that implement the API. A secret is shown only on the page after its creation.

use super::form::Form;
use super::page::{Layout, Refusal, Shown, render};
use super::subscription_form::{FormFields, error_of};
use super::subscriptions::{ActionResult, HERE, show_result};
use super::visitor::Visitor;
use crate::auth::Scope;
use crate::fields::Fields;
use crate::state::{Api, ApiState};
use crate::subscriptions::verification::{self, Verified};
use crate::subscriptions::{self, Preconditions, challenge, subscription_id};
use askama::Template;
use axum::Extension;
use axum::extract::{Path, State};
use axum::response::{IntoResponse as _, Redirect};
use posthaste_core::audit::Actor;
use posthaste_core::ports::Stores;
use posthaste_core::subscription::VerificationMethod;
use serde_json::Value;

#[derive(Debug, Template)]
#[template(path = "new_subscription.html")]
struct NewPage {
    layout: Layout,
    /// Whether the form creates a subscription.
    is_new: bool,
    fields: FormFields,
}

pub(crate) async fn fill_in<S: Stores>(State(_api): Api<S>, Extension(visitor): Extension<Visitor>) -> Shown {
    show_form(visitor, FormFields::default())
}

/// Shows the form with the given values.
pub(super) fn show_form(visitor: Visitor, fields: FormFields) -> Shown {
    super::page::show(&NewPage { layout: Layout::of(visitor, HERE), is_new: true, fields })
}

pub(crate) async fn create<S: Stores>(
    State(api): Api<S>,
    Extension(visitor): Extension<Visitor>,
    Extension(by): Extension<Actor>,
    Extension(form): Extension<Form>,
) -> Shown {
    let fields = FormFields::of(&form);
    let created = match fields.creation() {
        Ok(body) => subscriptions::make(&api, by, &Scope::default(), Fields::parse(&body)?).await,
        Err(error) => Err(error.into()),
    };
    match created {
        Ok(created) => {
            let text = "Created. Copy the secret, then verify the URL: nothing is sent until it is verified.";
            show_result(&api, visitor, created, ActionResult::good(text)).await
        }
        Err(problem) => {
            let (status, error) = error_of(problem)?;
            let fields = fields.with_error(error);
            render(status, &NewPage { layout: Layout::of(visitor, HERE), is_new: true, fields })
                .map_err(Refusal)
        }
    }
}

pub(crate) async fn verify<S: Stores>(
    State(api): Api<S>,
    Extension(visitor): Extension<Visitor>,
    Extension(by): Extension<Actor>,
    Extension(form): Extension<Form>,
    Path(id): Path<String>,
) -> Shown {
    let body = Value::Object(form.as_body(&["method"], &[])).to_string();
    let fields = Fields::parse(&body)?;
    let outcome =
        verification::verify_url(&api, by, &Scope::default(), subscription_id(&id)?, fields).await?;
    let text = verification_text(&outcome);
    let subscription = subscriptions::find_one(&api, &Scope::default(), &id).await?;
    let result = ActionResult { text, is_good: outcome.verified, body: None };
    show_result(&api, visitor, subscription, result).await
}

pub(crate) async fn test<S: Stores>(
    State(api): Api<S>,
    Extension(visitor): Extension<Visitor>,
    Extension(_form): Extension<Form>,
    Path(id): Path<String>,
) -> Shown {
    let outcome = challenge::send_test(&api, subscription_id(&id)?).await?;
    let response = response_text(outcome.response_status, outcome.error_code.as_deref(), outcome.duration_ms);
    let text = match outcome.reason {
        None => format!("Test event delivered ({response})"),
        Some(reason) => format!("Test event failed: {reason} ({response})"),
    };
    let subscription = subscriptions::find_one(&api, &Scope::default(), &id).await?;
    let result = ActionResult { text, is_good: outcome.delivered, body: outcome.response_body };
    show_result(&api, visitor, subscription, result).await
}

fn verification_text(outcome: &Verified) -> String {
    let response = response_text(outcome.response_status, outcome.error_code.as_deref(), outcome.duration_ms);
    match (&outcome.reason, outcome.method) {
        (Some(reason), VerificationMethod::Asserted) => format!("Not verified: {reason}"),
        (Some(reason), VerificationMethod::Challenge | VerificationMethod::Cloudevents) => {
            format!("Not verified: {reason} ({response})")
        }
        (None, VerificationMethod::Challenge) => {
            format!("Verified: the receiver returned the challenge ({response})")
        }
        (None, VerificationMethod::Cloudevents) => {
            let rate = outcome.allowed_per_second.map(|rate| format!(", at most {rate} requests per second"));
            format!("Verified: the receiver allows our origin{} ({response})", rate.unwrap_or_default())
        }
        (None, VerificationMethod::Asserted) => {
            "Verified: you vouch for the URL, and the receiver was not asked".to_owned()
        }
    }
}

fn response_text(status: Option<u16>, code: Option<&str>, duration_ms: u64) -> String {
    let status = status.map_or_else(|| "no response".to_owned(), |status| format!("response {status}"));
    let code = code.map_or_else(String::new, |code| format!(", {code}"));
    format!("{status}{code}, after {duration_ms} ms")
}

pub(crate) async fn pause<S: Stores>(
    State(api): Api<S>,
    Extension(by): Extension<Actor>,
    Extension(_form): Extension<Form>,
    Path(text): Path<String>,
) -> Shown {
    set_active(&api, by, &text, false).await
}

pub(crate) async fn resume<S: Stores>(
    State(api): Api<S>,
    Extension(by): Extension<Actor>,
    Extension(_form): Extension<Form>,
    Path(text): Path<String>,
) -> Shown {
    set_active(&api, by, &text, true).await
}

async fn set_active<S: Stores>(api: &ApiState<S>, by: Actor, text: &str, active: bool) -> Shown {
    let body = serde_json::json!({ "active": active }).to_string();
    let (scope, id, fields) = (Scope::default(), subscription_id(text)?, Fields::parse(&body)?);
    let changed = subscriptions::change(api, by, &scope, id, fields, &Preconditions::default()).await?;
    Ok(Redirect::to(&format!("/subscriptions/{}", changed.id)).into_response())
}

pub(crate) async fn rotate_secret<S: Stores>(
    State(api): Api<S>,
    Extension(visitor): Extension<Visitor>,
    Extension(by): Extension<Actor>,
    Extension(form): Extension<Form>,
    Path(text): Path<String>,
) -> Shown {
    let body = Value::Object(form.as_body(&["secret", "signing_key"], &["overlap_s"])).to_string();
    let rotated =
        subscriptions::rotate(&api, by, &Scope::default(), subscription_id(&text)?, Fields::parse(&body)?)
            .await?;
    let text = "Secret rotated. Copy the new one and configure the receiver with it.";
    show_result(&api, visitor, rotated, ActionResult::good(text)).await
}

/// Handles a GET request to the action URL of a subscription form by redirecting to the subscription's page.
pub(crate) async fn redirect<S: Stores>(State(_api): Api<S>, Path(text): Path<String>) -> Shown {
    let id = subscription_id(&text)?;
    Ok(Redirect::to(&format!("/subscriptions/{id}")).into_response())
}
