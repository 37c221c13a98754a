//! The end of a subscription: what a deletion does, before it is done; and the page of one that was deleted, to which
//! its deliveries still lead.

use super::form::Form;
use super::page::{Layout, Refusal, Shown, show as write, written};
use super::subscriptions::{HERE, SubscriptionRow, look_at_one};
use super::visitor::Visitor;
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
use posthaste_core::ports::{ReaderStore as _, Stores};
use posthaste_core::subscription::Subscription;

#[derive(Debug, Template)]
#[template(path = "delete_subscription.html")]
struct ConfirmPage {
    around: Layout,
    one: SubscriptionRow,
}

pub(crate) async fn confirm<S: Stores>(
    State(api): Api<S>,
    Extension(visitor): Extension<Visitor>,
    Path(text): Path<String>,
) -> Shown {
    let one = look_at_one(&api, subscriptions::find_one(&api, &text).await?).await?;
    write(&ConfirmPage { around: Layout::of(visitor, HERE), one })
}

/// Pressed twice, it is deleted all the same.
pub(crate) async fn end<S: Stores>(
    State(api): Api<S>,
    Extension(by): Extension<Actor>,
    Extension(_form): Extension<Form>,
    Path(text): Path<String>,
) -> Shown {
    let id = subscription_id(&text)?;
    match subscriptions::end(&api, by, id).await {
        Err(problem) if problem.status != 404 => Err(problem.into()),
        Ok(()) | Err(_) => Ok(Redirect::to(&format!("{HERE}/{id}")).into_response()),
    }
}

#[derive(Debug, Template)]
#[template(path = "deleted_subscription.html")]
struct DeletedPage {
    around: Layout,
    subscription: Subscription,
    at: Utc,
}

/// The page of a subscription that is not there: it was deleted, or never was.
pub(crate) async fn tell<S: Stores>(
    api: &ApiState<S>,
    visitor: Visitor,
    text: &str,
    problem: Problem,
) -> Shown {
    let found = api.reader.subscription(subscription_id(text)?).await?;
    let Some((at, subscription)) = found.and_then(|found| Some((found.deleted_at?, found))) else {
        return Err(problem.into());
    };
    let page = DeletedPage { around: Layout::of(visitor, HERE), subscription, at: Utc(at) };
    written(StatusCode::NOT_FOUND, &page).map_err(Refusal)
}
