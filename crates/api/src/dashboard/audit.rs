//! The audit page for admins: changes made by people, with time, key and client address.

use super::filter::Filter;
use super::lists::{self, ListPage};
use super::page::{Layout, Shown, show_as};
use super::visitor::Visitor;
use crate::audit::{self, AuditView};
use crate::state::Api;
use askama::Template;
use axum::Extension;
use axum::extract::State;
use http::Uri;
use posthaste_core::audit::AuditAction;
use posthaste_core::ports::Stores;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

const HERE: &str = "/audit";
/// The maximum number of characters of a value in the list. The record of a bulk requeue contains up to 500 dead
/// letters.
const VALUE_CHARS_MAX: usize = 200;

#[derive(Debug, Template)]
#[template(path = "audit.html")]
struct AuditPage {
    layout: Layout,
    page: ListPage<AuditView>,
    actions: [&'static str; AuditAction::ALL.len()],
}

pub(crate) async fn list<S: Stores>(
    State(api): Api<S>,
    Extension(visitor): Extension<Visitor>,
    uri: Uri,
) -> Shown {
    let filter = Filter::of(&lists::AUDIT, &uri)?;
    let found = audit::find(&api, &filter.uri, lists::ROWS_EXAMINED_MAX).await;
    let page = ListPage::of(&api, filter, found).await?;
    let (layout, actions) = (Layout::of(visitor, HERE), AuditAction::ALL.map(AuditAction::as_str));
    show_as(page.filter.status(), &AuditPage { layout, page, actions })
}

impl AuditView {
    /// Returns the action for display.
    fn action_text(&self) -> String {
        self.action.replace('_', " ")
    }

    /// Returns the URL path of the page of the changed object, or `None` if it has no page.
    fn address(&self) -> Option<String> {
        let has_page = ["subscriptions/", "dead-letters"].iter().any(|part| self.object.starts_with(part));
        match self.object.as_str() {
            "outbox" => Some("/orders".to_owned()),
            object if has_page => Some(format!("/{object}")),
            _ => None,
        }
    }

    fn fields_before(&self) -> Vec<(String, String)> {
        fields(self.before.as_deref())
    }

    fn fields_after(&self) -> Vec<(String, String)> {
        fields(self.after.as_deref())
    }
}

/// Returns the fields of a JSON object with their values as text, or an empty vector if it is not an object.
fn fields(value: Option<&RawValue>) -> Vec<(String, String)> {
    let object = value.and_then(|text| serde_json::from_str::<Map<String, Value>>(text.get()).ok());
    object.unwrap_or_default().into_iter().map(|(field, value)| (field, shown(&value))).collect()
}

fn shown(value: &Value) -> String {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    match text.char_indices().nth(VALUE_CHARS_MAX) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text,
    }
}
