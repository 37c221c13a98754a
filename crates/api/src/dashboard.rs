//! The pages for people, made on the server: they show what the API answers and press what it offers, through
//! the same functions. [`visitor`] stands before every page and knows who looks; a page never asks for a
//! right of its own. Everything a browser needs is part of the program.

mod assets;
mod audit;
mod chart;
mod concerns;
mod dead_letters;
mod deliveries;
mod events;
mod filter;
mod form;
mod layout_json;
mod look;
mod orders;
mod overview;
mod page;
mod requeue;
mod session;
mod sign_in;
mod subscription_acts;
mod subscription_edit;
mod subscription_end;
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
            viewer(get(subscriptions::list)).merge(admin(post(subscription_acts::create))),
        )
        .route("/subscriptions/new", admin(get(subscription_acts::fill_in)))
        .route("/subscriptions/{id}", viewer(get(subscriptions::show)))
        .route(
            "/subscriptions/{id}/edit",
            admin(get(subscription_edit::fill_in).post(subscription_edit::change)),
        )
        .route(
            "/subscriptions/{id}/delete",
            admin(get(subscription_end::confirm).post(subscription_end::end)),
        )
        .route("/subscriptions/{id}/verify", admin(answered(post(subscription_acts::verify))))
        .route("/subscriptions/{id}/test", admin(answered(post(subscription_acts::test))))
        .route("/subscriptions/{id}/pause", admin(answered(post(subscription_acts::pause))))
        .route("/subscriptions/{id}/resume", admin(answered(post(subscription_acts::resume))))
        .route("/subscriptions/{id}/rotate-secret", admin(answered(post(subscription_acts::rotate_secret))))
        .route("/deliveries", viewer(get(deliveries::list)))
        .route("/deliveries/{id}", viewer(get(deliveries::show)))
        .route("/dead-letters", viewer(get(dead_letters::list)))
        .route("/dead-letters/requeue", operator(get(requeue::preview).merge(post(requeue::requeue))))
        .route("/dead-letters/requeued", viewer(get(requeue::fates)))
        .route("/dead-letters/{id}", viewer(get(dead_letters::show)))
        .route("/dead-letters/{id}/requeue", operator(post(dead_letters::requeue_one)))
        .route("/orders", viewer(get(orders::list)))
        .route("/orders/{key}", viewer(get(orders::show)))
        .route("/outbox/resume", operator(post(orders::resume)))
        .route("/system", viewer(get(system::show)))
        .route("/system/history", viewer(get(system::to_the_system).merge(post(system::walk))))
        .route("/audit", admin(get(audit::list)))
        .route("/sign-in", get(sign_in::show).post(sign_in::enter))
        .route("/sign-out", viewer(post(sign_in::leave)))
        .route("/assets/dashboard.css", get(assets::style))
        .route("/assets/dashboard.js", get(assets::script))
        .layer(from_fn(refused))
}

/// What is refused before a page could, such as a path that is no text, is told to people in words.
async fn refused(request: Request, next: Next) -> Response {
    let is_person = is_person(request.headers());
    let response = next.run(request).await;
    let status = response.status();
    let is_page = response.headers().get(CONTENT_TYPE).is_some_and(|media| media == PAGE_TYPE);
    if is_page || !is_person || !(status.is_client_error() || status.is_server_error()) {
        return response;
    }
    page::unexplained(status)
}

/// Browsers ask for pages by name, programs do not.
fn is_person(headers: &HeaderMap) -> bool {
    headers.get(ACCEPT).and_then(|value| value.to_str().ok()).is_some_and(|text| text.contains("text/html"))
}

/// The address of a form's answer can be asked for again, and leads back.
fn answered<S: Stores>(methods: Methods<S>) -> Methods<S> {
    methods.get(subscription_acts::back)
}

type Methods<S> = MethodRouter<Arc<ApiState<S>>>;

fn guarded<S: Stores>(api: &Arc<ApiState<S>>, needs: KeyRole, methods: Methods<S>) -> Methods<S> {
    let api = Arc::clone(api);
    methods.route_layer(from_fn(move |request: Request, next: Next| {
        visitor::admit(Arc::clone(&api), needs, request, next)
    }))
}

/// People are led back; programs get the problem that [`crate::frame`] makes of the status.
pub(crate) async fn not_found(method: Method, uri: Uri, headers: HeaderMap) -> Response {
    let is_page = method == Method::GET && is_person(&headers) && !uri.path().starts_with("/v1/");
    if is_page { page::nothing_here() } else { StatusCode::NOT_FOUND.into_response() }
}
