//! The pages for events: the list, filtered by id, external id, type and time, and one event with its payload and the
//! explanation of its routing.

use super::filter::Filter;
use super::lists::{self, ListPage};
use super::page::{Layout, Shown, show as write, show_as};
use super::pretty_json::pretty_json;
use super::visitor::Visitor;
use crate::auth::Scope;
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
use posthaste_core::attributes::Attributes;
use posthaste_core::ports::{EventFilter, EventHead, PageRequest, ReaderStore as _, Stores};
use posthaste_core::saga::SagaStatus;
use posthaste_core::tenant::Tenant;
use serde_json::value::RawValue;

const HERE: &str = "/events";
/// The maximum size of an indented payload, in bytes. A payload that would be larger is shown as it was sent.
pub(super) const PRETTY_BYTES_MAX: usize = 1024 * 1024;

#[derive(Debug, Template)]
#[template(path = "events.html")]
struct EventsPage {
    layout: Layout,
    page: ListPage<Row>,
}

/// A row of the list.
#[derive(Debug)]
struct Row {
    head: EventHead,
    /// The attributes as `name=value`, separated by commas.
    attributes: String,
    created_at: Utc,
}

/// Returns the names and the texts of attributes.
fn attribute_texts(attributes: &Attributes) -> Vec<(String, String)> {
    attributes.iter().map(|(name, value)| (name.to_owned(), value.as_text().into_owned())).collect()
}

impl Row {
    fn of(head: EventHead) -> Self {
        let attributes = attribute_texts(&head.attributes);
        let pairs: Vec<String> =
            attributes.into_iter().map(|(name, value)| format!("{name}={value}")).collect();
        Self { attributes: pairs.join(", "), created_at: Utc(head.created_at), head }
    }
}

pub(crate) async fn list<S: Stores>(
    State(api): Api<S>,
    Extension(visitor): Extension<Visitor>,
    uri: Uri,
) -> Shown {
    let filter = Filter::of(&lists::EVENTS, &uri)?;
    let id = Query::of(&filter.uri).and_then(|mut query| query.get::<EventId>("id"));
    if let Ok(Some(id)) = id {
        return Ok(Redirect::to(&format!("{HERE}/{id}")).into_response());
    }
    let found = match id {
        Ok(_) => events::find_heads(&api, &filter.uri, lists::ROWS_EXAMINED_MAX, Row::of).await,
        Err(problem) => Err(problem),
    };
    let page = ListPage::of(&api, filter, found).await?;
    show_as(page.filter.status(), &EventsPage { layout: Layout::of(visitor, HERE), page })
}

#[derive(Debug, Template)]
#[template(path = "event.html")]
struct EventPage {
    layout: Layout,
    event: EventView,
    tenant: Option<String>,
    /// The names and the texts of the attributes.
    attributes: Vec<(String, String)>,
    payload: String,
    explanation: Explanation,
    /// Whether the event is not routed yet or has unfinished deliveries.
    is_live: bool,
}

impl EventPage {
    fn reason_text(reason: &str) -> String {
        reason.replace('_', " ")
    }
}

pub(crate) async fn show<S: Stores>(
    State(api): Api<S>,
    Extension(visitor): Extension<Visitor>,
    Path(text): Path<String>,
) -> Shown {
    let event_id = id("id", &text, EventId::new)?;
    let event = events::find_one(&api, &Scope::default(), event_id).await?;
    let head = PageRequest::first(1).behind(Some(event_id.get().saturating_add(1)));
    let head = api.reader.event_heads(EventFilter::default(), head).await?.items.pop();
    let head = head.filter(|head| head.id == event_id);
    let explanation = explain::find(&api, &Scope::default(), event_id).await?;
    let text = event.payload.as_deref().unwrap_or(RawValue::NULL).get();
    let payload = pretty_json(text, PRETTY_BYTES_MAX).unwrap_or_else(|| text.to_owned());
    let finished = [SagaStatus::Completed, SagaStatus::DeadLettered].map(SagaStatus::as_str);
    let is_finished = explanation.deliveries.iter().all(|one| finished.contains(&one.delivery.status));
    write(&EventPage {
        layout: Layout::of(visitor, HERE),
        attributes: head.as_ref().map(|head| attribute_texts(&head.attributes)).unwrap_or_default(),
        tenant: head.and_then(|head| head.tenant).map(Tenant::into_string),
        payload,
        is_live: !explanation.routed || !is_finished,
        event,
        explanation,
    })
}
