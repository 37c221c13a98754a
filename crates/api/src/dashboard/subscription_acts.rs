//! What can be pressed about a subscription: it is made, verified, tested, paused, resumed and given a new secret,
//! by the functions of the API. A secret stands on the page that answers its making, and on no other.

use super::form::Form;
use super::page::{Layout, Refusal, Shown, written};
use super::subscription_edit::{Filled, body_of};
use super::subscriptions::{ActionResult, HERE, answer};
use super::visitor::Visitor;
use crate::fields::Fields;
use crate::problem::Problem;
use crate::state::{Api, ApiState};
use crate::subscriptions::{self, challenge, subscription_id};
use askama::Template;
use axum::Extension;
use axum::extract::{Path, State};
use axum::response::{IntoResponse as _, Redirect};
use http::StatusCode;
use posthaste_core::audit::Actor;
use posthaste_core::ports::Stores;
use serde_json::Value;

#[derive(Debug, Template)]
#[template(path = "new_subscription.html")]
struct NewPage {
    around: Layout,
    filled: Filled,
}

pub(crate) async fn fill_in<S: Stores>(State(_api): Api<S>, Extension(visitor): Extension<Visitor>) -> Shown {
    super::page::show(&NewPage { around: Layout::of(visitor, HERE), filled: Filled::default() })
}

pub(crate) async fn create<S: Stores>(
    State(api): Api<S>,
    Extension(visitor): Extension<Visitor>,
    Extension(by): Extension<Actor>,
    Extension(form): Extension<Form>,
) -> Shown {
    let body = body_of(&form, true);
    match subscriptions::make(&api, by, Fields::parse(&body)?).await {
        Ok(made) => {
            let text = "Made. Copy the secret, then verify the URL: nothing is sent before.";
            answer(&api, visitor, made, ActionResult::good(text)).await
        }
        Err(Problem { field: Some(field), detail, .. }) => {
            let filled = Filled::of(&form).wrong(field, detail);
            let page = NewPage { around: Layout::of(visitor, HERE), filled };
            written(StatusCode::UNPROCESSABLE_ENTITY, &page).map_err(Refusal)
        }
        Err(problem) => Err(problem.into()),
    }
}

pub(crate) async fn verify<S: Stores>(
    State(api): Api<S>,
    Extension(visitor): Extension<Visitor>,
    Extension(by): Extension<Actor>,
    Extension(_form): Extension<Form>,
    Path(text): Path<String>,
) -> Shown {
    let outcome = challenge::challenge(&api, by, subscription_id(&text)?).await?;
    let answered = answered(outcome.response_status, outcome.error_code.as_deref(), outcome.duration_ms);
    let told = match outcome.reason {
        None => format!("Verified: the receiver echoed the challenge ({answered})"),
        Some(reason) => format!("Not verified: {reason} ({answered})"),
    };
    let subscription = subscriptions::find_one(&api, &text).await?;
    answer(&api, visitor, subscription, ActionResult { text: told, is_good: outcome.verified, body: None })
        .await
}

pub(crate) async fn test<S: Stores>(
    State(api): Api<S>,
    Extension(visitor): Extension<Visitor>,
    Extension(_form): Extension<Form>,
    Path(text): Path<String>,
) -> Shown {
    let outcome = challenge::send_test(&api, subscription_id(&text)?).await?;
    let answered = answered(outcome.response_status, outcome.error_code.as_deref(), outcome.duration_ms);
    let told = match outcome.reason {
        None => format!("The receiver took the test ({answered})"),
        Some(reason) => format!("The receiver did not take the test: {reason} ({answered})"),
    };
    let subscription = subscriptions::find_one(&api, &text).await?;
    let body = outcome.response_body;
    answer(&api, visitor, subscription, ActionResult { text: told, is_good: outcome.delivered, body }).await
}

fn answered(status: Option<u16>, code: Option<&str>, duration_ms: u64) -> String {
    let status = status.map_or_else(|| "no answer".to_owned(), |status| format!("answer {status}"));
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
    let changed = subscriptions::change(api, by, subscription_id(text)?, Fields::parse(&body)?).await?;
    Ok(Redirect::to(&format!("/subscriptions/{}", changed.id)).into_response())
}

pub(crate) async fn rotate_secret<S: Stores>(
    State(api): Api<S>,
    Extension(visitor): Extension<Visitor>,
    Extension(by): Extension<Actor>,
    Extension(form): Extension<Form>,
    Path(text): Path<String>,
) -> Shown {
    let body = Value::Object(form.as_body(&[], &["overlap_s"])).to_string();
    let rotated = subscriptions::rotate(&api, by, subscription_id(&text)?, Fields::parse(&body)?).await?;
    let text = "The secret was changed. Copy the new one and give it to the receiver.";
    answer(&api, visitor, rotated, ActionResult::good(text)).await
}

/// Who asks for the address of a form's answer again is led to the subscription.
pub(crate) async fn back<S: Stores>(State(_api): Api<S>, Path(text): Path<String>) -> Shown {
    let id = subscription_id(&text)?;
    Ok(Redirect::to(&format!("/subscriptions/{id}")).into_response())
}
