//! The panel with the request of a subscription as it will be sent, for a sample or for a stored event. Secret values
//! are masked by the API, and nothing is sent.

use super::visitor::Visitor;
use crate::auth::Scope;
use crate::problem::Problem;
use crate::query::id;
use crate::state::ApiState;
use crate::subscriptions::preview::{PreviewView, show_request};
use posthaste_core::ports::Stores;
use posthaste_core::{EventId, SubscriptionId};
use std::fmt::Write as _;

/// The request, or the reason why it cannot be shown.
#[derive(Debug)]
pub(crate) struct PreviewPanel {
    /// The id of the event as it was requested. Empty for a sample.
    pub(crate) event_id: String,
    /// The request line and the headers.
    pub(crate) head: String,
    pub(crate) body: String,
    pub(crate) error: Option<String>,
}

impl PreviewPanel {
    /// Returns the panel, or `None` if the role of the visitor does not allow it.
    pub(super) async fn of<S: Stores>(
        api: &ApiState<S>,
        visitor: &Visitor,
        subscription: SubscriptionId,
        event_id: &str,
    ) -> Option<Self> {
        if !visitor.is_admin() {
            return None;
        }
        let event_id = event_id.trim();
        let shown = match requested(event_id) {
            Ok(event) => show_request(api, &Scope::default(), subscription, event).await,
            Err(problem) => Err(problem),
        };
        // The page remains usable if, for example, a secret cannot be decrypted.
        let (head, body, error) = match shown {
            Ok(request) => (head_of(&request), request.body, None),
            Err(problem) => (String::new(), String::new(), Some(problem.detail)),
        };
        Some(Self { event_id: event_id.to_owned(), head, body, error })
    }
}

fn requested(event_id: &str) -> Result<Option<EventId>, Problem> {
    if event_id.is_empty() { Ok(None) } else { id("event_id", event_id, EventId::new).map(Some) }
}

fn head_of(request: &PreviewView) -> String {
    let mut head = format!("{} {}", request.method, request.url);
    for header in &request.headers {
        let _ = write!(head, "\n{}: {}", header.name, header.value);
    }
    head
}
