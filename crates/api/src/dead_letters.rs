//! Lists, returns and requeues dead letters, individually or in bulk.

use crate::auth::Scope;
use crate::body::receive_json;
use crate::events::{PAYLOAD_PAGE_BYTES, raw};
use crate::fields::Fields;
use crate::problem::Problem;
use crate::query::{Listed, Query, id, json, ok, read_cursor, write_cursor};
use crate::state::{Api, ApiResult, ApiState};
use crate::time::Utc;
use crate::values::{body, parameters};
use axum::Extension;
use axum::extract::{Path, Request, State};
use http::{StatusCode, Uri};
use posthaste_core::audit::Actor;
use posthaste_core::event::EventType;
use posthaste_core::ports::{
    DeadLetter, DeadLetterFilter, DeadLetterHead, DeadLetterStore as _, EXAMINED_MAX, PageRequest,
    ReaderStore as _, Requeue, Stage, Stores,
};
use posthaste_core::tenant::Tenant;
use posthaste_core::{DeadLetterId, SagaId, SubscriptionId, Timestamp};
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

pub(crate) const LIST: &str = "dead-letters";
/// The list name in the cursors of a bulk requeue.
const REQUEUE: &str = "requeue";
/// The maximum number of dead letters requeued in one transaction.
const REQUEUE_PAGE: u32 = 500;
/// The maximum number of transactions per call. The caller continues with the returned cursor.
const REQUEUE_PAGES_MAX: usize = 20;
/// The maximum number of ids in a response.
const IDS_SHOWN_MAX: usize = 1_000;
/// The maximum number of transactions of a call whose response must list the id of every requeued dead letter.
pub(crate) const REQUEUE_PAGES_NAMED: usize = IDS_SHOWN_MAX / REQUEUE_PAGE as usize;

/// A delivery that gets no further attempts.
#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({
    "id": 4, "saga_id": 9, "event_id": 7, "subscription_id": 3, "tenant": null, "final_error_code": "HTTP_503",
    "failed_at": "2026-01-31T13:00:00.000000Z", "requeued_as": null, "payload_snapshot": {"order": 7}
}))]
pub(crate) struct DeadLetterView {
    /// The id of the dead letter.
    pub(crate) id: i64,
    /// The id of the delivery.
    pub(crate) saga_id: i64,
    /// The id of the event.
    pub(crate) event_id: i64,
    /// The id of the subscription.
    pub(crate) subscription_id: i64,
    /// The tenant of the event; null if it has none.
    pub(crate) tenant: Option<String>,
    /// The error code of the last attempt.
    pub(crate) final_error_code: Option<String>,
    /// The time at which the delivery was dead-lettered.
    pub(crate) failed_at: Utc,
    /// The id of the delivery created by requeueing; null if the dead letter was not requeued.
    pub(crate) requeued_as: Option<i64>,
    /// The payload of the event. Included in lists only with `payload=true`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>)]
    pub(crate) payload_snapshot: Option<Box<RawValue>>,
}

impl DeadLetterView {
    fn of(DeadLetter { head, payload_snapshot }: DeadLetter) -> Self {
        Self { payload_snapshot: Some(raw(payload_snapshot)), ..Self::of_head(head) }
    }

    fn of_head(head: DeadLetterHead) -> Self {
        Self {
            id: head.id.get(),
            saga_id: head.saga_id.get(),
            event_id: head.event_id.get(),
            subscription_id: head.subscription_id.get(),
            tenant: head.tenant.map(Tenant::into_string),
            final_error_code: head.final_error_code.map(|code| code.to_string()),
            failed_at: Utc(head.failed_at),
            requeued_as: head.requeued_as.map(SagaId::get),
            payload_snapshot: None,
        }
    }
}

parameters! {
    struct Parameters(LIST) -> DeadLetterFilter {
        /// Returns only dead letters of events of this tenant.
        tenant: Tenant,
        /// Returns only dead letters of this subscription.
        subscription_id: SubscriptionId,
        /// Returns only dead letters of events of this type.
        event_type: EventType,
        /// Returns only deliveries dead-lettered at this time or later.
        since: Timestamp,
        /// Returns only deliveries dead-lettered before this time.
        until: Timestamp,
    }
}

body! {
    /// A filter for dead letters. All conditions must be met. An empty filter selects all dead letters.
    #[schema(example = json!({"event_type": "order.paid", "since": "2026-01-31T12:00:00Z", "dry_run": true}))]
    struct RequeueFilter {
        /// Selects only dead letters of events of this tenant.
        #[schema(value_type = Option<String>, min_length = 1, max_length = 200)]
        tenant: Option<Tenant>,
        /// Selects only dead letters of this subscription.
        #[schema(value_type = Option<i64>, minimum = 1)]
        subscription_id: Option<SubscriptionId>,
        /// Selects only dead letters of events of this type.
        #[schema(value_type = Option<String>, max_length = 200, pattern = "^[A-Za-z0-9][A-Za-z0-9_.:/-]*$")]
        event_type: Option<EventType>,
        /// Selects only deliveries dead-lettered at this time or later.
        #[schema(value_type = Option<String>, format = DateTime)]
        since: Option<Timestamp>,
        /// Selects only deliveries dead-lettered before this time.
        #[schema(value_type = Option<String>, format = DateTime)]
        until: Option<Timestamp>,
        /// Whether to count the selected dead letters without requeueing them. The default is false.
        dry_run: Option<bool>,
        /// The `next_cursor` of the previous response, to continue a bulk requeue.
        cursor: Option<String>,
    }
}

#[utoipa::path(
    get,
    path = "/v1/dead-letters",
    tag = "dead letters",
    operation_id = "list_dead_letters",
    summary = "List dead letters",
    description = "Returns dead letters, newest first.",
    security(("api_key" = ["viewer"])),
    params(
        Parameters,
        ("payload" = Option<bool>, Query, description = "Whether to include payloads. A page then ends at 4 MiB."),
    ),
    responses((status = 200, description = "A page of dead letters", body = Listed<DeadLetterView>)),
)]
pub(crate) async fn list<S: Stores>(
    State(api): Api<S>,
    Extension(scope): Extension<Scope>,
    uri: Uri,
) -> ApiResult {
    let mut query = Query::of(&uri)?;
    let has_payloads = query.flag("payload");
    let (mut filter, page) = Parameters::read(query)?;
    let Some(tenant) = scope.restrict(filter.tenant.take()) else {
        return ok(&Listed::<DeadLetterView>::empty());
    };
    filter.tenant = tenant;
    if !has_payloads {
        let found = api.reader.dead_letter_heads(filter, page).await?;
        return ok(&Listed::of(LIST, found, DeadLetterView::of_head));
    }
    let reserved = api.responses.reserve(PAYLOAD_PAGE_BYTES)?;
    let found = api.reader.dead_letters(filter, page).await?;
    Ok(reserved.hold(ok(&Listed::of(LIST, found, DeadLetterView::of))?))
}

/// Returns the page selected by the query parameters of `uri`, without payloads. Used by the dashboard, whose users are
/// not bound to a tenant.
pub(crate) async fn find_heads<S: Stores, T>(
    api: &ApiState<S>,
    uri: &Uri,
    examined_max: u32,
    view: fn(DeadLetterHead) -> T,
) -> Result<Listed<T>, Problem> {
    let (filter, page) = Parameters::read(Query::of(uri)?)?;
    let page = page.looking_at(examined_max);
    Ok(Listed::of(LIST, api.reader.dead_letter_heads(filter, page).await?, view))
}

#[utoipa::path(
    get,
    path = "/v1/dead-letters/{id}",
    tag = "dead letters",
    operation_id = "get_dead_letter",
    summary = "Get a dead letter",
    description = "Returns a dead letter with the payload of its event.",
    security(("api_key" = ["viewer"])),
    params(("id" = i64, Path, description = "The id of the dead letter.")),
    responses((status = 200, description = "The dead letter", body = DeadLetterView)),
)]
pub(crate) async fn show<S: Stores>(
    State(api): Api<S>,
    Extension(scope): Extension<Scope>,
    Path(text): Path<String>,
) -> ApiResult {
    ok(&find_one(&api, &scope, &text).await?)
}

/// Returns a dead letter with its payload, if it is within the scope of the caller.
pub(crate) async fn find_one<S: Stores>(
    api: &ApiState<S>,
    scope: &Scope,
    text: &str,
) -> Result<DeadLetterView, Problem> {
    let letter = api.reader.dead_letter(id("id", text, DeadLetterId::new)?).await?;
    let letter = letter.filter(|letter| scope.allows(letter.head.tenant.as_ref()));
    Ok(DeadLetterView::of(letter.ok_or_else(|| Problem::not_found("dead letter"))?))
}

/// The delivery created by requeueing a dead letter.
#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({"id": 12, "saga_id": 12}))]
pub(crate) struct Requeued {
    /// The id of the new delivery.
    id: i64,
    /// The same id under its former name.
    saga_id: i64,
}

#[utoipa::path(
    post,
    path = "/v1/dead-letters/{id}/requeue",
    tag = "dead letters",
    operation_id = "requeue_dead_letter",
    summary = "Requeue a dead letter",
    description = "Creates a new delivery from a dead letter. A dead letter is requeued at most once: a repeated call \
                   returns the same delivery.",
    security(("api_key" = ["operator"])),
    params(("id" = i64, Path, description = "The id of the dead letter.")),
    responses(
        (status = 201, description = "A new delivery was created", body = Requeued),
        (status = 200, description = "The dead letter had been requeued before", body = Requeued),
        (
            status = 409,
            description = "The subscription was deleted",
            body = Problem,
            content_type = "application/problem+json",
        ),
    ),
)]
pub(crate) async fn requeue_one<S: Stores>(
    State(api): Api<S>,
    Extension(by): Extension<Actor>,
    Extension(scope): Extension<Scope>,
    Path(text): Path<String>,
) -> ApiResult {
    let (status, saga) = requeue(&api, by, &scope, &text).await?;
    json(status, &Requeued { id: saga.get(), saga_id: saga.get() })
}

/// Requeues a dead letter. Returns the new delivery, with status 201 if this call created it and 200 otherwise.
pub(crate) async fn requeue<S: Stores>(
    api: &ApiState<S>,
    by: Actor,
    scope: &Scope,
    text: &str,
) -> Result<(StatusCode, SagaId), Problem> {
    let id = id("id", text, DeadLetterId::new)?;
    if scope.tenant().is_some() {
        // The tenant of an event never changes, so the check holds until the requeue.
        find_one(api, scope, text).await?;
    }
    let requeued = api.dead_letters.requeue_dead_letters(vec![id], by, api.clock.now()).await?;
    match requeued.first() {
        Some(Requeue::Created(saga)) => {
            api.wake_ups.wake(Stage::Admission);
            Ok((StatusCode::CREATED, *saga))
        }
        Some(Requeue::AlreadyRequeued(saga)) => Ok((StatusCode::OK, *saga)),
        Some(Requeue::SubscriptionDeleted) => {
            Err(Problem::conflict("the subscription of this dead letter was deleted: it cannot be requeued"))
        }
        Some(Requeue::NotFound) | None => Err(Problem::not_found("dead letter")),
    }
}

/// The result of a bulk requeue.
#[derive(Debug, Default, Serialize, ToSchema)]
#[schema(example = json!({
    "dry_run": false, "matched": 2, "requeued": 1, "already_requeued": 1, "subscription_deleted": 0, "ids": [4],
    "next_cursor": null
}))]
pub(crate) struct RequeuedMany {
    /// Whether this was a dry run, which requeues nothing.
    pub(crate) dry_run: bool,
    /// The number of selected dead letters.
    pub(crate) matched: u64,
    /// The number of dead letters that this call requeued.
    pub(crate) requeued: u64,
    /// The number of dead letters that had already been requeued.
    pub(crate) already_requeued: u64,
    /// The number of dead letters that cannot be requeued because their subscription was deleted.
    pub(crate) subscription_deleted: u64,
    /// The ids of the requeued dead letters or, in a dry run, of the selected dead letters; at most 1,000.
    pub(crate) ids: Vec<i64>,
    /// The `cursor` of the next call; null if all selected dead letters have been processed.
    pub(crate) next_cursor: Option<String>,
}

#[utoipa::path(
    post,
    path = "/v1/dead-letters/requeue",
    tag = "dead letters",
    operation_id = "requeue_dead_letters",
    summary = "Requeue dead letters in bulk",
    description = "Requeues all dead letters that a filter selects, oldest first, up to 10,000 in a call. Send the \
                   same filter with `next_cursor` to continue. A dead letter is requeued at most once, so the call may \
                   be repeated.",
    security(("api_key" = ["operator"])),
    request_body = Option<RequeueFilter>,
    responses((status = 200, description = "The number of dead letters, and their ids", body = RequeuedMany)),
)]
pub(crate) async fn requeue_many<S: Stores>(
    State(api): Api<S>,
    Extension(by): Extension<Actor>,
    Extension(scope): Extension<Scope>,
    request: Request,
) -> ApiResult {
    let upload = receive_json(&api.uploads, request).await?;
    let fields = Fields::parse_optional(upload.text()?)?;
    ok(&requeue_found(&api, by, &scope, fields, REQUEUE_PAGES_MAX, EXAMINED_MAX).await?)
}

/// Requeues up to `pages_max` pages of the selected dead letters within the scope of the caller. Sets `next_cursor` if
/// more remain.
pub(crate) async fn requeue_found<S: Stores>(
    api: &ApiState<S>,
    by: Actor,
    scope: &Scope,
    mut fields: Fields<'_>,
    pages_max: usize,
    examined_max: u32,
) -> Result<RequeuedMany, Problem> {
    let RequeueFilter { tenant, subscription_id, event_type, since, until, dry_run, cursor } =
        RequeueFilter::read(&mut fields)?;
    let dry_run = dry_run.unwrap_or(false);
    let after = cursor.map(|cursor| read_cursor(REQUEUE, &cursor)).transpose();
    let mut after = after.map_err(|problem| fields.wrong("cursor", problem.detail))?;
    let mut answer = RequeuedMany { dry_run, ..RequeuedMany::default() };
    let Some(tenant) = scope.restrict(tenant) else { return Ok(answer) };
    let filter = DeadLetterFilter { tenant, subscription_id, event_type, since, until };
    for _ in 0..pages_max {
        let page = PageRequest::first(REQUEUE_PAGE).behind(after).looking_at(examined_max);
        let found = api.dead_letters.find_dead_letters(filter.clone(), page).await?;
        answer.matched += found.items.len() as u64;
        if dry_run {
            answer.name(found.items);
        } else if !found.items.is_empty() {
            let (ids, now) = (found.items.clone(), api.clock.now());
            let outcomes = api.dead_letters.requeue_dead_letters(ids, by.clone(), now).await?;
            answer.count(&found.items, &outcomes);
            api.wake_ups.wake(Stage::Admission);
        }
        after = found.next;
        if after.is_none() {
            break;
        }
    }
    answer.next_cursor = write_cursor(REQUEUE, after);
    Ok(answer)
}

impl RequeuedMany {
    fn name(&mut self, ids: impl IntoIterator<Item = DeadLetterId>) {
        let room = IDS_SHOWN_MAX.saturating_sub(self.ids.len());
        self.ids.extend(ids.into_iter().map(DeadLetterId::get).take(room));
    }

    fn count(&mut self, ids: &[DeadLetterId], outcomes: &[Requeue]) {
        for (id, outcome) in ids.iter().zip(outcomes) {
            match outcome {
                Requeue::Created(_) => {
                    self.requeued += 1;
                    self.name([*id]);
                }
                Requeue::AlreadyRequeued(_) => self.already_requeued += 1,
                Requeue::SubscriptionDeleted => self.subscription_deleted += 1,
                Requeue::NotFound => {}
            }
        }
    }
}
