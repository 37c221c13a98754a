//! The pages for dead letters: the list, one dead letter, and requeueing it. [`super::requeue`] requeues dead letters
//! in bulk.

use super::events::PRETTY_BYTES_MAX;
use super::filter::Filter;
use super::form::Form;
use super::lists::{self, ListPage};
use super::page::{Layout, Shown, show as write, show_as};
use super::pretty_json::pretty_json;
use super::visitor::Visitor;
use crate::auth::Scope;
use crate::dead_letters::{self, DeadLetterView};
use crate::state::Api;
use crate::time::Utc;
use askama::Template;
use axum::Extension;
use axum::extract::{Path, State};
use axum::response::{IntoResponse as _, Redirect};
use http::Uri;
use posthaste_core::SubscriptionId;
use posthaste_core::audit::Actor;
use posthaste_core::ports::{DeadLetterHead, ReaderStore as _, Stores};
use serde_json::value::RawValue;

pub(super) const HERE: &str = "/dead-letters";

#[derive(Debug, Template)]
#[template(path = "dead_letters.html")]
struct DeadLettersPage {
    layout: Layout,
    page: ListPage<Row>,
}

/// A row of the list.
#[derive(Debug)]
struct Row {
    head: DeadLetterHead,
    failed_at: Utc,
}

pub(crate) async fn list<S: Stores>(
    State(api): Api<S>,
    Extension(visitor): Extension<Visitor>,
    uri: Uri,
) -> Shown {
    let row = |head: DeadLetterHead| Row { failed_at: Utc(head.failed_at), head };
    let filter = Filter::of(&lists::DEAD_LETTERS, &uri)?;
    let found = dead_letters::find_heads(&api, &filter.uri, lists::ROWS_EXAMINED_MAX, row).await;
    let page = ListPage::of(&api, filter, found).await?;
    show_as(page.filter.status(), &DeadLettersPage { layout: Layout::of(visitor, HERE), page })
}

#[derive(Debug, Template)]
#[template(path = "dead_letter.html")]
struct DeadLetterPage {
    layout: Layout,
    letter: DeadLetterView,
    payload: String,
    callback_url: Option<String>,
    /// Whether the subscription was deleted, so that the dead letter cannot be requeued.
    is_deleted: bool,
}

pub(crate) async fn show<S: Stores>(
    State(api): Api<S>,
    Extension(visitor): Extension<Visitor>,
    Path(text): Path<String>,
) -> Shown {
    let letter = dead_letters::find_one(&api, &Scope::default(), &text).await?;
    let text = letter.payload_snapshot.as_deref().unwrap_or(RawValue::NULL).get();
    let payload = pretty_json(text, PRETTY_BYTES_MAX).unwrap_or_else(|| text.to_owned());
    let subscription = api.reader.subscription(SubscriptionId::from_store(letter.subscription_id)).await?;
    write(&DeadLetterPage {
        layout: Layout::of(visitor, HERE),
        letter,
        payload,
        is_deleted: subscription.as_ref().is_some_and(|one| one.deleted_at.is_some()),
        callback_url: subscription.map(|one| one.callback_url.as_str().to_owned()),
    })
}

pub(crate) async fn requeue_one<S: Stores>(
    State(api): Api<S>,
    Extension(by): Extension<Actor>,
    Extension(_form): Extension<Form>,
    Path(text): Path<String>,
) -> Shown {
    let (_, saga) = dead_letters::requeue(&api, by, &Scope::default(), &text).await?;
    Ok(Redirect::to(&format!("/deliveries/{saga}")).into_response())
}
