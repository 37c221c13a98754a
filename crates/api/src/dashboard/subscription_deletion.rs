//! The pages for deleting a subscription: the confirmation, and the page of a deleted subscription, to which its
//! deliveries still link.

use super::form::Form;
use super::page::{Layout, Refusal, Shown, render, show as write};
use super::subscriptions::{HERE, SubscriptionRow, load_row};
use super::visitor::Visitor;
use crate::auth::Scope;
use crate::problem::Problem;
use crate::state::{Api, ApiState};
use crate::subscriptions::{self, subscription_id};
use crate::time::Utc;
use askama::Template;
use axum::Extension;
use axum::extract::{Path, State};
use axum::response::{IntoResponse as _, Redirect};
use http::StatusCode;
use posthaste_core::audit::Actor;
use posthaste_core::pattern::EventTypePattern;
use posthaste_core::ports::{ReaderStore as _, Stores};
use posthaste_core::subscription::Subscription;

#[derive(Debug, Template)]
#[template(path = "delete_subscription.html")]
struct ConfirmPage {
    layout: Layout,
    one: SubscriptionRow,
}

pub(crate) async fn confirm<S: Stores>(
    State(api): Api<S>,
    Extension(visitor): Extension<Visitor>,
    Path(text): Path<String>,
) -> Shown {
    let one = load_row(&api, subscriptions::find_one(&api, &Scope::default(), &text).await?).await?;
    write(&ConfirmPage { layout: Layout::of(visitor, HERE), one })
}

/// Deletes the subscription. Also succeeds if it was already deleted, so the form may be submitted again.
pub(crate) async fn delete<S: Stores>(
    State(api): Api<S>,
    Extension(by): Extension<Actor>,
    Extension(_form): Extension<Form>,
    Path(text): Path<String>,
) -> Shown {
    let id = subscription_id(&text)?;
    match subscriptions::end(&api, by, &Scope::default(), id).await {
        Err(problem) if problem.status != 404 => Err(problem.into()),
        Ok(()) | Err(_) => Ok(Redirect::to(&format!("{HERE}/{id}")).into_response()),
    }
}

#[derive(Debug, Template)]
#[template(path = "deleted_subscription.html")]
struct DeletedPage {
    layout: Layout,
    subscription: Subscription,
    event_types: String,
    at: Utc,
}

/// Shows the page of a deleted subscription, or `problem` if it never existed.
pub(crate) async fn show_deleted<S: Stores>(
    api: &ApiState<S>,
    visitor: Visitor,
    text: &str,
    problem: Problem,
) -> Shown {
    let found = api.reader.subscription(subscription_id(text)?).await?;
    let Some((at, subscription)) = found.and_then(|found| Some((found.deleted_at?, found))) else {
        return Err(problem.into());
    };
    let event_types: Vec<&str> =
        subscription.event_types.as_slice().iter().map(EventTypePattern::as_str).collect();
    let event_types = event_types.join(", ");
    let page = DeletedPage { layout: Layout::of(visitor, HERE), subscription, event_types, at: Utc(at) };
    render(StatusCode::NOT_FOUND, &page).map_err(Refusal)
}
