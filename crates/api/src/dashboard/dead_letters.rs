//! Dead letters: to find, to look at, and to requeue, one or all that a filter finds. Many are requeued in
//! parts, each one request, so that the page can tell how far it is.

use super::deliveries::Filter;
use super::form::Form;
use super::page::{Around, Shown, show as write};
use super::visitor::Visitor;
use crate::dead_letters::{self, DeadLetterView, RequeuedMany};
use crate::fields::Fields;
use crate::problem::Problem;
use crate::query::Listed;
use crate::state::ApiState;
use askama::Template;
use axum::Extension;
use axum::extract::{Path, State};
use axum::response::{IntoResponse as _, Redirect};
use http::Uri;
use posthaste_core::ports::Stores;
use serde_json::Value;
use std::sync::Arc;

const HERE: &str = "/dead-letters";
const TEXTS: [&str; 4] = ["event_type", "since", "until", "cursor"];
const NUMBERS: [&str; 1] = ["subscription_id"];

#[derive(Debug, Template)]
#[template(path = "dead_letters.html")]
struct DeadLettersPage {
    around: Around,
    found: Listed<DeadLetterView>,
    filter: Filter,
}

pub(crate) async fn list<S: Stores>(
    State(api): State<Arc<ApiState<S>>>,
    Extension(visitor): Extension<Visitor>,
    uri: Uri,
) -> Shown {
    let found = dead_letters::find(&api, &uri).await?;
    write(&DeadLettersPage { around: Around::of(visitor, HERE), found, filter: Filter::of(&uri)? })
}

#[derive(Debug, Template)]
#[template(path = "dead_letter.html")]
struct DeadLetterPage {
    around: Around,
    letter: DeadLetterView,
    payload: String,
}

pub(crate) async fn show<S: Stores>(
    State(api): State<Arc<ApiState<S>>>,
    Extension(visitor): Extension<Visitor>,
    Path(text): Path<String>,
) -> Shown {
    let letter = dead_letters::find_one(&api, &text).await?;
    let payload = letter.payload_snapshot.get().to_owned();
    write(&DeadLetterPage { around: Around::of(visitor, HERE), letter, payload })
}

pub(crate) async fn requeue_one<S: Stores>(
    State(api): State<Arc<ApiState<S>>>,
    Extension(_form): Extension<Form>,
    Path(text): Path<String>,
) -> Shown {
    let (_, saga) = dead_letters::requeue(&api, &text).await?;
    Ok(Redirect::to(&format!("/deliveries/{saga}")).into_response())
}

#[derive(Debug, Template)]
#[template(path = "requeue.html")]
struct RequeuePage {
    around: Around,
    filter: Filter,
    found: RequeuedMany,
    /// What the requests before this one did.
    before: Done,
}

#[derive(Debug, Default)]
struct Done {
    requeued: u64,
    left: u64,
}

/// How many and which, before anything is done.
pub(crate) async fn preview<S: Stores>(
    State(api): State<Arc<ApiState<S>>>,
    Extension(visitor): Extension<Visitor>,
    uri: Uri,
) -> Shown {
    let filter = Filter::of(&uri)?;
    let form = Form::of_query(&uri);
    let found = part(&api, &form, true).await?;
    write(&RequeuePage { around: Around::of(visitor, HERE), filter, found, before: Done::default() })
}

pub(crate) async fn requeue_many<S: Stores>(
    State(api): State<Arc<ApiState<S>>>,
    Extension(visitor): Extension<Visitor>,
    Extension(form): Extension<Form>,
) -> Shown {
    let found = part(&api, &form, false).await?;
    let number = |name: &str| form.get(name).parse().unwrap_or_default();
    let filter = Filter {
        subscription_id: form.get("subscription_id").to_owned(),
        event_type: form.get("event_type").to_owned(),
        since: form.get("since").to_owned(),
        until: form.get("until").to_owned(),
        ..Filter::default()
    };
    let before = Done { requeued: number("requeued"), left: number("left") };
    write(&RequeuePage { around: Around::of(visitor, HERE), filter, found, before })
}

async fn part<S: Stores>(api: &ApiState<S>, form: &Form, dry_run: bool) -> Result<RequeuedMany, Problem> {
    let mut body = form.as_body(&TEXTS, &NUMBERS);
    body.insert("dry_run".to_owned(), dry_run.into());
    let text = Value::Object(body).to_string();
    dead_letters::requeue_found(api, Fields::parse(&text)?).await
}

impl RequeuePage {
    fn requeued(&self) -> u64 {
        self.before.requeued + self.found.requeued
    }

    /// Letters that were found and not requeued: somebody did it before, or nothing could be sent.
    fn left(&self) -> u64 {
        self.before.left + self.found.already_requeued + self.found.subscription_deleted
    }
}
