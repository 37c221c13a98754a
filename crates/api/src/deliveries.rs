//! Lists and returns deliveries. Read-only.

use crate::auth::Scope;
use crate::problem::Problem;
use crate::query::{Listed, Query, id, ok};
use crate::state::{Api, ApiResult, ApiState};
use crate::time::Utc;
use crate::values::parameters;
use axum::Extension;
use axum::extract::{Path, State};
use http::Uri;
use posthaste_core::event::EventType;
use posthaste_core::outcome::ErrorCode;
use posthaste_core::ports::{Attempt, Delivery, DeliveryFilter, EXAMINED_MAX, ReaderStore as _, Stores};
use posthaste_core::saga::SagaStatus;
use posthaste_core::tenant::Tenant;
use posthaste_core::{EventId, SagaId, SubscriptionId, Timestamp};
use serde::Serialize;
use utoipa::ToSchema;

pub(crate) const LIST: &str = "deliveries";

/// The delivery of one event to one subscription.
#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({
    "id": 9, "saga_id": 9, "event_id": 7, "subscription_id": 3, "tenant": null, "event_type": "order.paid",
    "status": "PendingRetry", "attempt_count": 1, "next_attempt_at": "2026-01-31T12:00:30.000000Z", "final_error_code": "HTTP_503",
    "requeued_from": null, "created_at": "2026-01-31T12:00:00.004000Z", "updated_at": "2026-01-31T12:00:00.020000Z",
    "attempts": [{
        "job_id": 11, "status": "Failed", "attempt_at": "2026-01-31T12:00:00.010000Z", "response_status": 503,
        "error_code": "HTTP_503", "duration_ms": 8, "worker_id": "node1-77-5f3a"
    }]
}))]
pub(crate) struct DeliveryView {
    /// The id of the delivery.
    pub(crate) id: i64,
    /// The same id under its former name.
    pub(crate) saga_id: i64,
    /// The id of the event.
    pub(crate) event_id: i64,
    /// The id of the subscription.
    pub(crate) subscription_id: i64,
    /// The tenant of the event; null if it has none.
    pub(crate) tenant: Option<String>,
    /// The type of the event.
    pub(crate) event_type: String,
    /// The status of the delivery. `Completed` and `DeadLettered` are final.
    pub(crate) status: &'static str,
    /// The number of finished attempts.
    pub(crate) attempt_count: u32,
    /// The time at which the next attempt is due. For a final delivery, the time at which the last attempt was due.
    pub(crate) next_attempt_at: Utc,
    /// The error code of the last failed attempt. A later success does not clear it.
    pub(crate) final_error_code: Option<String>,
    /// The id of the dead letter that this delivery was requeued from; null if it was not requeued.
    pub(crate) requeued_from: Option<i64>,
    /// The time at which the event was routed to the subscription or requeued.
    pub(crate) created_at: Utc,
    /// The time of the last change to the delivery.
    pub(crate) updated_at: Utc,
    /// The attempts, oldest first. Not included in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) attempts: Option<Vec<AttemptView>>,
}

/// One attempt to send an event to a receiver.
#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({
    "job_id": 11, "status": "Completed", "attempt_at": "2026-01-31T12:00:00.010000Z", "response_status": 200,
    "error_code": null, "duration_ms": 8, "worker_id": "node1-77-5f3a"
}))]
pub(crate) struct AttemptView {
    /// The id of the attempt.
    pub(crate) job_id: i64,
    /// The status of the attempt.
    pub(crate) status: &'static str,
    /// The time at which the attempt was due.
    pub(crate) attempt_at: Utc,
    /// The HTTP status of the response; null if there was none.
    pub(crate) response_status: Option<u16>,
    /// The error code; null if the attempt succeeded or is unfinished.
    pub(crate) error_code: Option<String>,
    /// The duration of the request, in milliseconds.
    pub(crate) duration_ms: Option<u32>,
    /// The id of the process that sent the request.
    pub(crate) worker_id: Option<String>,
}

impl DeliveryView {
    pub(crate) fn of(delivery: &Delivery) -> Self {
        let (saga, state) = (&delivery.saga, &delivery.saga.state);
        Self {
            id: saga.id.get(),
            saga_id: saga.id.get(),
            event_id: saga.event_id.get(),
            subscription_id: saga.subscription_id.get(),
            tenant: delivery.tenant.as_ref().map(|tenant| tenant.as_str().to_owned()),
            event_type: delivery.event_type.as_str().to_owned(),
            status: state.status.as_str(),
            attempt_count: state.attempt_count,
            next_attempt_at: Utc(state.next_attempt_at),
            final_error_code: state.final_error_code.as_ref().map(ToString::to_string),
            requeued_from: saga.requeued_from.map(posthaste_core::DeadLetterId::get),
            created_at: Utc(saga.created_at),
            updated_at: Utc(saga.updated_at),
            attempts: None,
        }
    }

    pub(crate) fn with_attempts(delivery: &Delivery, attempts: Vec<Attempt>) -> Self {
        let attempts = attempts.into_iter().map(AttemptView::of).collect();
        Self { attempts: Some(attempts), ..Self::of(delivery) }
    }
}

impl AttemptView {
    fn of(attempt: Attempt) -> Self {
        Self {
            job_id: attempt.job_id.get(),
            status: attempt.status.as_str(),
            attempt_at: Utc(attempt.attempt_at),
            response_status: attempt.response_status,
            error_code: attempt.error_code.map(|code| code.to_string()),
            duration_ms: attempt.duration_ms,
            worker_id: attempt.worker_id,
        }
    }
}

parameters! {
    struct Parameters(LIST) -> DeliveryFilter {
        /// Returns only deliveries of events of this tenant.
        tenant: Tenant,
        /// Returns only deliveries with this status.
        status: SagaStatus,
        /// Returns only deliveries to this subscription.
        subscription_id: SubscriptionId,
        /// Returns only deliveries of this event.
        event_id: EventId,
        /// Returns only deliveries of events of this type.
        event_type: EventType,
        /// Returns only deliveries with this `final_error_code`, such as `HTTP_503`.
        error_code: ErrorCode,
        /// Returns only deliveries created at this time or later.
        since: Timestamp,
        /// Returns only deliveries created before this time.
        until: Timestamp,
    }
}

#[utoipa::path(
    get,
    path = "/v1/deliveries",
    tag = "deliveries",
    operation_id = "list_deliveries",
    summary = "List deliveries",
    description = "Returns deliveries without their attempts, newest first.",
    security(("api_key" = ["viewer"])),
    params(Parameters),
    responses((status = 200, description = "A page of deliveries", body = Listed<DeliveryView>)),
)]
pub(crate) async fn list<S: Stores>(
    State(api): Api<S>,
    Extension(scope): Extension<Scope>,
    uri: Uri,
) -> ApiResult {
    ok(&find(&api, &scope, &uri, EXAMINED_MAX).await?)
}

/// Returns the page selected by the query parameters of `uri`, within the scope of the caller.
pub(crate) async fn find<S: Stores>(
    api: &ApiState<S>,
    scope: &Scope,
    uri: &Uri,
    examined_max: u32,
) -> Result<Listed<DeliveryView>, Problem> {
    let (mut filter, page) = Parameters::read(Query::of(uri)?)?;
    let Some(tenant) = scope.restrict(filter.tenant.take()) else { return Ok(Listed::empty()) };
    filter.tenant = tenant;
    let deliveries = api.reader.deliveries(filter, page.looking_at(examined_max)).await?;
    Ok(Listed::of(LIST, deliveries, |delivery| DeliveryView::of(&delivery)))
}

#[utoipa::path(
    get,
    path = "/v1/deliveries/{id}",
    tag = "deliveries",
    operation_id = "get_delivery",
    summary = "Get a delivery",
    description = "Returns a delivery with all its attempts.",
    security(("api_key" = ["viewer"])),
    params(("id" = i64, Path, description = "The id of the delivery.")),
    responses((status = 200, description = "The delivery", body = DeliveryView)),
)]
pub(crate) async fn show<S: Stores>(
    State(api): Api<S>,
    Extension(scope): Extension<Scope>,
    Path(text): Path<String>,
) -> ApiResult {
    ok(&find_one(&api, &scope, &text).await?)
}

/// Returns a delivery with its attempts, if it is within the scope of the caller.
pub(crate) async fn find_one<S: Stores>(
    api: &ApiState<S>,
    scope: &Scope,
    text: &str,
) -> Result<DeliveryView, Problem> {
    let saga_id = id("id", text, SagaId::new)?;
    match api.reader.delivery(saga_id).await? {
        Some((delivery, attempts)) if scope.allows(delivery.tenant.as_ref()) => {
            Ok(DeliveryView::with_attempts(&delivery, attempts))
        }
        Some(_) | None => Err(Problem::not_found("delivery")),
    }
}
