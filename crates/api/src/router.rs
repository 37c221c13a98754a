//! The routes of the API, the key role that each requires, and whether keys of one tenant may call it. A request is
//! authenticated before its body is read.

use crate::auth::BoundKeys;
use crate::frame::RequestIds;
use crate::health::Readiness;
use crate::state::ApiState;
use crate::{
    audit, auth, dashboard, dead_letters, deliveries, docs, doctor, events, explain, frame, health, keys,
    openapi, orders, outbox, stats, subscriptions, system,
};
use axum::Router;
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use axum::routing::{MethodRouter, delete, get, patch, post, put};
use http::StatusCode;
use posthaste_core::ports::{KeyRole, Stores};
use std::sync::Arc;

/// Returns the router of the API and the dashboard.
pub fn router<S: Stores>(state: ApiState<S>) -> Router {
    let api = Arc::new(state);
    let (metrics, health) = (api.metrics.clone(), Arc::clone(&api.health));
    let probes = if api.metrics_elsewhere { liveness() } else { health_calls(health) };
    let ids = Arc::new(RequestIds::new(api.random));
    // Keys that are bound to a tenant may call only the routes of a `tenant_` guard, whose handlers apply the `Scope`
    // of the key.
    let scoped = |needs, methods| guarded(&api, needs, BoundKeys::Scoped, methods);
    let tenant_viewer = |methods| scoped(KeyRole::Viewer, methods);
    let tenant_ingest = |methods| scoped(KeyRole::Ingest, methods);
    let tenant_admin = |methods| scoped(KeyRole::Admin, methods);
    let tenant_operator = |methods| scoped(KeyRole::Operator, methods);
    let unscoped = |needs, methods| guarded(&api, needs, BoundKeys::Refused, methods);
    let viewer = |methods| unscoped(KeyRole::Viewer, methods);
    let submitter = |methods| unscoped(KeyRole::Orders, methods);
    let admin = |methods| unscoped(KeyRole::Admin, methods);
    let operator = |methods| unscoped(KeyRole::Operator, methods);
    let root = |methods| unscoped(KeyRole::Root, methods);
    Router::new()
        .route("/openapi.json", get(openapi::show))
        .route("/docs", get(docs::show))
        .route("/v1/events", tenant_viewer(get(events::list)).merge(tenant_ingest(post(events::create))))
        .route("/v1/events/{id}", tenant_viewer(get(events::show)))
        .route("/v1/events/{id}/explain", tenant_viewer(get(explain::show)))
        .route(
            "/v1/subscriptions",
            tenant_viewer(get(subscriptions::list)).merge(tenant_admin(post(subscriptions::create))),
        )
        .route(
            "/v1/subscriptions/{id}",
            tenant_viewer(get(subscriptions::show))
                .merge(tenant_admin(patch(subscriptions::update).merge(delete(subscriptions::remove)))),
        )
        .route(
            "/v1/subscriptions/uid/{uid}",
            tenant_viewer(get(subscriptions::replacement::show))
                .merge(tenant_admin(put(subscriptions::replacement::replace))),
        )
        .route("/v1/subscriptions/match", tenant_viewer(get(subscriptions::matching::list)))
        .route("/.well-known/posthaste/keys/{fingerprint}", get(subscriptions::public_keys::show))
        .route("/v1/subscriptions/reseal-secrets", admin(post(subscriptions::reseal_secrets)))
        .route("/v1/subscriptions/{id}/verify", tenant_admin(post(subscriptions::verify)))
        .route("/v1/subscriptions/{id}/rotate-secret", tenant_admin(post(subscriptions::rotate_secret)))
        .route("/v1/subscriptions/{id}/test", tenant_admin(post(subscriptions::test)))
        .route("/v1/subscriptions/{id}/preview", tenant_admin(post(subscriptions::preview::preview)))
        .route("/v1/deliveries", tenant_viewer(get(deliveries::list)))
        .route("/v1/deliveries/{id}", tenant_viewer(get(deliveries::show)))
        .route("/v1/dead-letters", tenant_viewer(get(dead_letters::list)))
        .route("/v1/dead-letters/requeue", tenant_operator(post(dead_letters::requeue_many)))
        .route("/v1/dead-letters/{id}", tenant_viewer(get(dead_letters::show)))
        .route("/v1/dead-letters/{id}/requeue", tenant_operator(post(dead_letters::requeue_one)))
        .route("/v1/orders", viewer(get(orders::list)).merge(submitter(post(orders::create))))
        .route("/v1/orders/{idempotency_key}", viewer(get(orders::show)))
        .route("/v1/orders/{idempotency_key}/audit", viewer(get(orders::audit::list)))
        .route("/v1/outbox", viewer(get(outbox::show)))
        .route("/v1/outbox/resume", operator(post(outbox::resume)))
        .route("/v1/stats", tenant_viewer(get(stats::show)))
        .route("/v1/system", viewer(get(system::show)))
        .route("/v1/doctor", viewer(get(doctor::show)))
        .route("/v1/audit", admin(get(audit::list)))
        .route("/v1/keys", root(get(keys::list).merge(post(keys::create))))
        .route("/v1/keys/{id}", root(delete(keys::revoke)))
        .merge(dashboard::routes(&api))
        .fallback(dashboard::not_found)
        .with_state(api)
        .merge(probes)
        .layer(from_fn(move |request: Request, next: Next| {
            frame::frame(Arc::clone(&ids), metrics.clone(), request, next)
        }))
}

/// Returns a router for a process without the API, with `/healthz`, `/readyz` and `/metrics`. They require no key.
pub fn health_router(health: Arc<Readiness>, random: fn(&mut [u8])) -> Router {
    let (metrics, ids) = (health.metrics.clone(), Arc::new(RequestIds::new(random)));
    health_calls(health).fallback(|| async { StatusCode::NOT_FOUND }).layer(from_fn(
        move |request: Request, next: Next| frame::frame(Arc::clone(&ids), metrics.clone(), request, next),
    ))
}

/// Returns a router with only `/healthz`, which reveals nothing about the process.
fn liveness() -> Router {
    Router::new().route("/healthz", get(health::healthz))
}

fn health_calls(health: Arc<Readiness>) -> Router {
    let details = Router::new()
        .route("/readyz", get(health::readyz))
        .route("/metrics", get(health::metrics))
        .with_state(health);
    liveness().merge(details)
}

type Methods<S> = MethodRouter<Arc<ApiState<S>>>;

fn guarded<S: Stores>(
    api: &Arc<ApiState<S>>,
    needs: KeyRole,
    bound: BoundKeys,
    methods: Methods<S>,
) -> Methods<S> {
    let api = Arc::clone(api);
    methods.route_layer(from_fn(move |request: Request, next: Next| {
        auth::admit(Arc::clone(&api), needs, bound, request, next)
    }))
}
