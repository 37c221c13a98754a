//! Functions shared by all pages: rendering, with a content security policy that allows no other origin, the layout
//! with the navigation, and error pages.

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

/// The entries of the navigation: path, label and the required role.
pub(crate) const NAVIGATION: &[(&str, &str, KeyRole)] = &[
    ("/", "Overview", KeyRole::Viewer),
    ("/events", "Events", KeyRole::Viewer),
    ("/subscriptions", "Subscriptions", KeyRole::Viewer),
    ("/deliveries", "Deliveries", KeyRole::Viewer),
    ("/dead-letters", "Dead letters", KeyRole::Viewer),
    ("/orders", "Orders", KeyRole::Viewer),
    ("/system", "System", KeyRole::Viewer),
    ("/audit", "Audit", KeyRole::Admin),
];

/// The variables of `layout.html`.
#[derive(Debug)]
pub(crate) struct Layout {
    pub(crate) visitor: Option<Visitor>,
    /// The path of the navigation entry that the page belongs to.
    pub(crate) here: &'static str,
}

impl Layout {
    pub(crate) const fn of(visitor: Visitor, here: &'static str) -> Self {
        Self { visitor: Some(visitor), here }
    }

    const fn signed_out() -> Self {
        Self { visitor: None, here: "" }
    }
}

/// The problem that prevents a page from being shown. [`super::visitor`] renders it as an error page.
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

/// Renders a page with status 200.
pub(crate) fn show(page: &impl Template) -> Shown {
    show_as(StatusCode::OK, page)
}

/// Renders a page with the given status.
pub(crate) fn show_as(status: StatusCode, page: &impl Template) -> Shown {
    render(status, page).map_err(Refusal)
}

pub(crate) fn render(status: StatusCode, page: &impl Template) -> Result<Response, Problem> {
    let html = page.render().map_err(|error| Problem::broken("the page could not be rendered", &error))?;
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
    layout: Layout,
    status: u16,
    title: &'static str,
    detail: String,
    /// Whether a retry may succeed. The error page of a read then reloads itself.
    is_temporary: bool,
    is_change: bool,
}

/// Whether a request reads or changes data. Error pages of reads may reload automatically; changes are never repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestKind {
    Read,
    Change,
}

/// Renders a problem as an HTML page.
pub(crate) fn refused(
    visitor: Option<Visitor>,
    here: &'static str,
    kind: RequestKind,
    problem: Problem,
) -> Response {
    let status = StatusCode::from_u16(problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let page = RefusedPage {
        layout: Layout { visitor, here },
        status: problem.status,
        title: problem.title,
        detail: problem.detail,
        is_temporary: problem.retry_after_s.is_some(),
        is_change: kind == RequestKind::Change,
    };
    let mut response = render(status, &page).unwrap_or_else(IntoResponse::into_response);
    if let Some(seconds) = problem.retry_after_s {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    if let Some(cause) = problem.cause {
        response.extensions_mut().insert(LoggedCause(cause));
    }
    response
}

/// Renders an error page for a response that has only a status.
pub(crate) fn of_status(status: StatusCode) -> Response {
    let problem = Problem::of_status(status);
    let detail = match status {
        StatusCode::METHOD_NOT_ALLOWED => {
            "this address accepts only forms: open the page with the form and submit it there"
        }
        StatusCode::BAD_REQUEST => "this address is malformed: check its spelling",
        _ => "the request cannot be processed",
    };
    refused(None, "", RequestKind::Read, Problem { detail: detail.to_owned(), ..problem })
}

pub(crate) fn not_found() -> Response {
    let detail = "there is no page at this address";
    let page = RefusedPage {
        layout: Layout::signed_out(),
        status: 404,
        title: "Not found",
        detail: detail.to_owned(),
        is_temporary: false,
        is_change: false,
    };
    render(StatusCode::NOT_FOUND, &page).unwrap_or_else(IntoResponse::into_response)
}
