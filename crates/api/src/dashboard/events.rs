//! Events: to find by id, by the sender's id, by type and by time; and one with its payload and the same answer to
//! where it went and why that `posthaste explain` gives.

use super::filter::Filter;
use super::layout_json::laid_out;
use super::look::{self, ListPage};
use super::page::{Layout, Shown, show as write, show_as};
use super::visitor::Visitor;
use crate::events::{self, EventView};
use crate::explain::{self, Explanation};
use crate::query::{Query, id};
use crate::state::Api;
use crate::time::Utc;
use askama::Template;
use axum::Extension;
use axum::extract::{Path, State};
use axum::response::{IntoResponse as _, Redirect};
use http::Uri;
use posthaste_core::EventId;
use posthaste_core::ports::{EventHead, Stores};
use posthaste_core::saga::SagaStatus;
use serde_json::value::RawValue;

const HERE: &str = "/events";
/// A payload that would become longer than this by laying it out is shown as it came.
pub(super) const LAID_OUT_BYTES_MAX: usize = 1024 * 1024;

#[derive(Debug, Template)]
#[template(path = "events.html")]
struct EventsPage {
    around: Layout,
    page: ListPage<Line>,
}

/// An event in the list.
#[derive(Debug)]
struct Line {
    head: EventHead,
    created_at: Utc,
}

pub(crate) async fn list<S: Stores>(
    State(api): Api<S>,
    Extension(visitor): Extension<Visitor>,
    uri: Uri,
) -> Shown {
    let filter = Filter::of(&look::EVENTS, &uri)?;
    let named = Query::of(&filter.uri).and_then(|mut query| query.get::<EventId>("id"));
    if let Ok(Some(id)) = named {
        return Ok(Redirect::to(&format!("{HERE}/{id}")).into_response());
    }
    let line = |head: EventHead| Line { created_at: Utc(head.created_at), head };
    let found = match named {
        Ok(_) => events::find_heads(&api, &filter.uri, look::LOOKED_AT_MAX, line).await,
        Err(problem) => Err(problem),
    };
    let page = ListPage::of(&api, filter, found).await?;
    show_as(page.filter.status(), &EventsPage { around: Layout::of(visitor, HERE), page })
}

#[derive(Debug, Template)]
#[template(path = "event.html")]
struct EventPage {
    around: Layout,
    event: EventView,
    payload: String,
    explanation: Explanation,
    /// Something is still to come.
    is_live: bool,
}

impl EventPage {
    fn spoken(reason: &str) -> String {
        reason.replace('_', " ")
    }
}

pub(crate) async fn show<S: Stores>(
    State(api): Api<S>,
    Extension(visitor): Extension<Visitor>,
    Path(text): Path<String>,
) -> Shown {
    let event_id = id("id", &text, EventId::new)?;
    let event = events::find_one(&api, event_id).await?;
    let explanation = explain::find(&api, event_id).await?;
    let text = event.payload.as_deref().unwrap_or(RawValue::NULL).get();
    let payload = laid_out(text, LAID_OUT_BYTES_MAX).unwrap_or_else(|| text.to_owned());
    let ends = [SagaStatus::Completed, SagaStatus::DeadLettered].map(SagaStatus::as_str);
    let has_ended = explanation.deliveries.iter().all(|one| ends.contains(&one.delivery.status));
    write(&EventPage {
        around: Layout::of(visitor, HERE),
        payload,
        is_live: !explanation.routed || !has_ended,
        event,
        explanation,
    })
}
