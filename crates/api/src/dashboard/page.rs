//! What every page has around it: the policy that lets nothing in from elsewhere, the frame with the way to
//! the other pages, and words for what went wrong.

use super::visitor::Visitor;
use crate::problem::{LoggedCause, Problem};
use askama::Template;
use axum::response::{IntoResponse, Response};
use http::header::{
    CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, RETRY_AFTER, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderValue, StatusCode};
use posthaste_core::ports::{KeyRole, StoreError};

pub(crate) const PAGE_TYPE: &str = "text/html; charset=utf-8";
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src data:; \
                      form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// A part of the dashboard: its address, its name and the role that may see it.
pub(crate) const PARTS: &[(&str, &str, KeyRole)] = &[
    ("/", "Overview", KeyRole::Viewer),
    ("/events", "Events", KeyRole::Viewer),
    ("/subscriptions", "Subscriptions", KeyRole::Viewer),
    ("/deliveries", "Deliveries", KeyRole::Viewer),
    ("/dead-letters", "Dead letters", KeyRole::Viewer),
    ("/orders", "Orders", KeyRole::Viewer),
    ("/system", "System", KeyRole::Viewer),
    ("/audit", "Audit", KeyRole::Admin),
];

/// What the layout shows around a page.
#[derive(Debug)]
pub(crate) struct Layout {
    pub(crate) visitor: Option<Visitor>,
    /// The address of the part that the page belongs to.
    pub(crate) here: &'static str,
}

impl Layout {
    pub(crate) const fn of(visitor: Visitor, here: &'static str) -> Self {
        Self { visitor: Some(visitor), here }
    }

    const fn nobody() -> Self {
        Self { visitor: None, here: "" }
    }
}

/// Why a page cannot be shown; [`super::visitor`] writes it out for whoever looks.
#[derive(Debug)]
pub(crate) struct Refusal(pub(crate) Problem);

impl From<Problem> for Refusal {
    fn from(problem: Problem) -> Self {
        Self(problem)
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        Self(error.into())
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let mut response = StatusCode::OK.into_response();
        response.extensions_mut().insert(self.0);
        response
    }
}

pub(crate) type Shown = Result<Response, Refusal>;

/// Writes a page.
pub(crate) fn show(page: &impl Template) -> Shown {
    show_as(StatusCode::OK, page)
}

/// Writes a page that says what is wrong.
pub(crate) fn show_as(status: StatusCode, page: &impl Template) -> Shown {
    written(status, page).map_err(Refusal)
}

pub(crate) fn written(status: StatusCode, page: &impl Template) -> Result<Response, Problem> {
    let html = page.render().map_err(|error| Problem::broken("the page could not be written", &error))?;
    let headers = [
        (CONTENT_TYPE, PAGE_TYPE),
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "same-origin"),
    ];
    Ok((status, headers, html).into_response())
}

#[derive(Debug, Template)]
#[template(path = "refused.html")]
struct RefusedPage {
    around: Layout,
    status: u16,
    title: &'static str,
    detail: String,
    /// It may be there in a moment: a page that was looked for asks again by itself.
    comes_back: bool,
    was_pressed: bool,
}

/// What was asked for: a page that is asked for again does no harm, something that was pressed is not pressed
/// again by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestKind {
    Read,
    Change,
}

/// A problem as a page.
pub(crate) fn refused(
    visitor: Option<Visitor>,
    here: &'static str,
    asked: RequestKind,
    problem: Problem,
) -> Response {
    let status = StatusCode::from_u16(problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let page = RefusedPage {
        around: Layout { visitor, here },
        status: problem.status,
        title: problem.title,
        detail: problem.detail,
        comes_back: problem.retry_after_s.is_some(),
        was_pressed: asked == RequestKind::Change,
    };
    let mut response = written(status, &page).unwrap_or_else(IntoResponse::into_response);
    if let Some(seconds) = problem.retry_after_s {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    if let Some(cause) = problem.cause {
        response.extensions_mut().insert(LoggedCause(cause));
    }
    response
}

/// A refusal that nobody explained.
pub(crate) fn unexplained(status: StatusCode) -> Response {
    let problem = Problem::of_status(status);
    let detail = match status {
        StatusCode::METHOD_NOT_ALLOWED => {
            "this address takes what a button sends: go to the page with the button, and press it there"
        }
        StatusCode::BAD_REQUEST => "this address cannot be read: check how it is spelled",
        _ => "the request cannot be answered as it is",
    };
    refused(None, "", RequestKind::Read, Problem { detail: detail.to_owned(), ..problem })
}

pub(crate) fn nothing_here() -> Response {
    let detail = "there is no page at this address";
    let page = RefusedPage {
        around: Layout::nobody(),
        status: 404,
        title: "Nothing here",
        detail: detail.to_owned(),
        comes_back: false,
        was_pressed: false,
    };
    written(StatusCode::NOT_FOUND, &page).unwrap_or_else(IntoResponse::into_response)
}
