//! The dashboard: HTML pages rendered on the server with the functions that implement the API. [`visitor`]
//! authenticates and authorizes every request, so the pages do not check permissions. All assets are embedded in the
//! binary.

mod assets;
mod audit;
mod chart;
mod concerns;
mod dead_letters;
mod deliveries;
mod events;
mod filter;
mod form;
mod lists;
mod orders;
mod overview;
mod page;
mod pretty_json;
mod requeue;
mod session;
mod sign_in;
mod subscription_actions;
mod subscription_deletion;
mod subscription_details;
mod subscription_edit;
mod subscription_form;
mod subscription_matches;
mod subscription_preview;
mod subscriptions;
mod system;
mod visitor;

use crate::state::ApiState;
use axum::Router;
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{MethodRouter, get, post};
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, Method, StatusCode, Uri};
use posthaste_core::ports::{KeyRole, Stores};
use std::sync::Arc;

pub(crate) use page::PAGE_TYPE;

pub(crate) fn routes<S: Stores>(api: &Arc<ApiState<S>>) -> Router<Arc<ApiState<S>>> {
    let viewer = |methods| guarded(api, KeyRole::Viewer, methods);
    let operator = |methods| guarded(api, KeyRole::Operator, methods);
    let admin = |methods| guarded(api, KeyRole::Admin, methods);
    Router::new()
        .route("/", viewer(get(overview::show)))
        .route("/events", viewer(get(events::list)))
        .route("/events/{id}", viewer(get(events::show)))
        .route(
            "/subscriptions",
            viewer(get(subscriptions::list)).merge(admin(post(subscription_actions::create))),
        )
        .route("/subscriptions/new", admin(get(subscription_actions::fill_in)))
        .route(
            "/subscriptions/matches",
            admin(get(subscription_matches::redirect).post(subscription_matches::show)),
        )
        .route("/subscriptions/{id}", viewer(get(subscriptions::show)))
        .route(
            "/subscriptions/{id}/edit",
            admin(get(subscription_edit::fill_in).post(subscription_edit::change)),
        )
        .route(
            "/subscriptions/{id}/delete",
            admin(get(subscription_deletion::confirm).post(subscription_deletion::delete)),
        )
        .route("/subscriptions/{id}/verify", admin(result_page(post(subscription_actions::verify))))
        .route("/subscriptions/{id}/test", admin(result_page(post(subscription_actions::test))))
        .route("/subscriptions/{id}/pause", admin(result_page(post(subscription_actions::pause))))
        .route("/subscriptions/{id}/resume", admin(result_page(post(subscription_actions::resume))))
        .route(
            "/subscriptions/{id}/rotate-secret",
            admin(result_page(post(subscription_actions::rotate_secret))),
        )
        .route("/deliveries", viewer(get(deliveries::list)))
        .route("/deliveries/{id}", viewer(get(deliveries::show)))
        .route("/dead-letters", viewer(get(dead_letters::list)))
        .route("/dead-letters/requeue", operator(get(requeue::preview).merge(post(requeue::requeue))))
        .route("/dead-letters/requeued", viewer(get(requeue::show_results)))
        .route("/dead-letters/{id}", viewer(get(dead_letters::show)))
        .route("/dead-letters/{id}/requeue", operator(post(dead_letters::requeue_one)))
        .route("/orders", viewer(get(orders::list)))
        .route("/orders/{key}", viewer(get(orders::show)))
        .route("/outbox/resume", operator(post(orders::resume)))
        .route("/system", viewer(get(system::show)))
        .route("/system/history", viewer(get(system::redirect).merge(post(system::check_history))))
        .route("/audit", admin(get(audit::list)))
        .route("/sign-in", get(sign_in::show).post(sign_in::enter))
        .route("/sign-out", viewer(post(sign_in::leave)))
        .route("/assets/dashboard.css", get(assets::style))
        .route("/assets/dashboard.js", get(assets::script))
        .layer(from_fn(explain_refusals))
}

/// Replaces error responses that no page handler created, such as for a path that is not UTF-8, with HTML pages for
/// browsers.
async fn explain_refusals(request: Request, next: Next) -> Response {
    let is_browser = is_browser(request.headers());
    let response = next.run(request).await;
    let status = response.status();
    let is_page = response.headers().get(CONTENT_TYPE).is_some_and(|media| media == PAGE_TYPE);
    if is_page || !is_browser || !(status.is_client_error() || status.is_server_error()) {
        return response;
    }
    page::of_status(status)
}

/// Returns whether the request accepts HTML explicitly, as browsers do and API clients do not.
fn is_browser(headers: &HeaderMap) -> bool {
    headers.get(ACCEPT).and_then(|value| value.to_str().ok()).is_some_and(|text| text.contains("text/html"))
}

/// Adds a GET handler to the action URL of a form, which redirects to the subscription.
fn result_page<S: Stores>(methods: Methods<S>) -> Methods<S> {
    methods.get(subscription_actions::redirect)
}

type Methods<S> = MethodRouter<Arc<ApiState<S>>>;

fn guarded<S: Stores>(api: &Arc<ApiState<S>>, needs: KeyRole, methods: Methods<S>) -> Methods<S> {
    let api = Arc::clone(api);
    methods.route_layer(from_fn(move |request: Request, next: Next| {
        visitor::admit(Arc::clone(&api), needs, request, next)
    }))
}

/// Responds to requests for unknown paths: with a page for browsers, otherwise with an empty 404 response that
/// [`crate::frame`] converts to a problem.
pub(crate) async fn not_found(method: Method, uri: Uri, headers: HeaderMap) -> Response {
    let is_page = method == Method::GET && is_browser(&headers) && !uri.path().starts_with("/v1/");
    if is_page { page::not_found() } else { StatusCode::NOT_FOUND.into_response() }
}
