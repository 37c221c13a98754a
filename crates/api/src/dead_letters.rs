//! Deliveries that were given up: to look at, and to make fresh deliveries from, one or many.

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
use posthaste_core::{DeadLetterId, SagaId, SubscriptionId, Timestamp};
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

pub(crate) const LIST: &str = "dead-letters";
const REQUEUE: &str = "requeue";
/// Letters of one transaction, and transactions of one call: a longer work is done in several calls.
const REQUEUE_PAGE: u32 = 500;
const REQUEUE_PAGES_MAX: usize = 20;
/// The ids that an answer names.
const IDS_SHOWN_MAX: usize = 1_000;
/// The transactions of a call whose answer names every letter that was requeued.
pub(crate) const REQUEUE_PAGES_NAMED: usize = IDS_SHOWN_MAX / REQUEUE_PAGE as usize;

#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({
    "id": 4, "saga_id": 9, "event_id": 7, "subscription_id": 3, "final_error_code": "HTTP_503",
    "failed_at": "2026-01-31T13:00:00.000000Z", "requeued_as": null, "payload_snapshot": {"order": 7}
}))]
pub(crate) struct DeadLetterView {
    pub(crate) id: i64,
    pub(crate) saga_id: i64,
    pub(crate) event_id: i64,
    pub(crate) subscription_id: i64,
    pub(crate) final_error_code: Option<String>,
    pub(crate) failed_at: Utc,
    pub(crate) requeued_as: Option<i64>,
    /// In lists only with `payload=true`.
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
            final_error_code: head.final_error_code.map(|code| code.to_string()),
            failed_at: Utc(head.failed_at),
            requeued_as: head.requeued_as.map(SagaId::get),
            payload_snapshot: None,
        }
    }
}

parameters! {
    struct Parameters(LIST) -> DeadLetterFilter {
        subscription_id: SubscriptionId,
        event_type: EventType,
        /// Failed at or after.
        since: Timestamp,
        /// Failed before.
        until: Timestamp,
    }
}

body! {
    /// Every field narrows.
    #[schema(example = json!({"event_type": "order.paid", "since": "2026-01-31T12:00:00Z", "dry_run": true}))]
    struct RequeueFilter {
        #[schema(value_type = Option<i64>, minimum = 1)]
        subscription_id: Option<SubscriptionId>,
        #[schema(value_type = Option<String>)]
        event_type: Option<EventType>,
        /// Failed at or after.
        #[schema(value_type = Option<String>, format = DateTime)]
        since: Option<Timestamp>,
        /// Failed before.
        #[schema(value_type = Option<String>, format = DateTime)]
        until: Option<Timestamp>,
        /// Only say what would be done.
        dry_run: Option<bool>,
        /// The next_cursor of the answer before, to go on.
        cursor: Option<String>,
    }
}

#[utoipa::path(
    get,
    path = "/v1/dead-letters",
    tag = "dead letters",
    summary = "List dead letters, newest first (role viewer)",
    params(
        Parameters,
        ("payload" = Option<bool>, Query, description = "true: with the payloads; a page ends at 4 MiB of them"),
    ),
    responses((status = 200, description = "A page", body = Listed<DeadLetterView>)),
)]
pub(crate) async fn list<S: Stores>(State(api): Api<S>, uri: Uri) -> ApiResult {
    let mut query = Query::of(&uri)?;
    let has_payloads = query.flag("payload")?;
    let (filter, page) = Parameters::read(query)?;
    if !has_payloads {
        let found = api.reader.dead_letter_heads(filter, page).await?;
        return ok(&Listed::of(LIST, found, DeadLetterView::of_head));
    }
    let reserved = api.responses.reserve(PAYLOAD_PAGE_BYTES)?;
    let found = api.reader.dead_letters(filter, page).await?;
    Ok(reserved.hold(ok(&Listed::of(LIST, found, DeadLetterView::of))?))
}

/// The same for a page of the dashboard.
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
    summary = "A dead letter (role viewer)",
    params(("id" = i64, Path)),
    responses((status = 200, description = "The dead letter", body = DeadLetterView)),
)]
pub(crate) async fn show<S: Stores>(State(api): Api<S>, Path(text): Path<String>) -> ApiResult {
    ok(&find_one(&api, &text).await?)
}

pub(crate) async fn find_one<S: Stores>(api: &ApiState<S>, text: &str) -> Result<DeadLetterView, Problem> {
    let letter = api.reader.dead_letter(id("id", text, DeadLetterId::new)?).await?;
    Ok(DeadLetterView::of(letter.ok_or_else(|| Problem::not_found("dead letter"))?))
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({"saga_id": 12}))]
pub(crate) struct Requeued {
    saga_id: i64,
}

#[utoipa::path(
    post,
    path = "/v1/dead-letters/{id}/requeue",
    tag = "dead letters",
    summary = "Make a fresh delivery from a dead letter (role operator)",
    params(("id" = i64, Path)),
    responses(
        (status = 201, description = "Made", body = Requeued),
        (status = 200, description = "Was made before", body = Requeued),
        (
            status = 409,
            description = "Its subscription was deleted",
            body = Problem,
            content_type = "application/problem+json",
        ),
    ),
)]
pub(crate) async fn requeue_one<S: Stores>(
    State(api): Api<S>,
    Extension(by): Extension<Actor>,
    Path(text): Path<String>,
) -> ApiResult {
    let (status, saga) = requeue(&api, by, &text).await?;
    json(status, &Requeued { saga_id: saga.get() })
}

/// The delivery that was made from a letter, and whether it was made now.
pub(crate) async fn requeue<S: Stores>(
    api: &ApiState<S>,
    by: Actor,
    text: &str,
) -> Result<(StatusCode, SagaId), Problem> {
    let id = id("id", text, DeadLetterId::new)?;
    let requeued = api.dead_letters.requeue_dead_letters(vec![id], by, api.clock.now()).await?;
    match requeued.first() {
        Some(Requeue::Created(saga)) => {
            api.wake_ups.wake(Stage::Admission);
            Ok((StatusCode::CREATED, *saga))
        }
        Some(Requeue::AlreadyRequeued(saga)) => Ok((StatusCode::OK, *saga)),
        Some(Requeue::SubscriptionDeleted) => {
            Err(Problem::conflict("its subscription was deleted, so nothing could ever be sent"))
        }
        Some(Requeue::NotFound) | None => Err(Problem::not_found("dead letter")),
    }
}

#[derive(Debug, Default, Serialize, ToSchema)]
#[schema(example = json!({
    "dry_run": false, "matched": 2, "requeued": 1, "already_requeued": 1, "subscription_deleted": 0, "ids": [4],
    "next_cursor": null
}))]
pub(crate) struct RequeuedMany {
    pub(crate) dry_run: bool,
    /// Dead letters that the filter found.
    pub(crate) matched: u64,
    /// Of these, how many got a fresh delivery now.
    pub(crate) requeued: u64,
    pub(crate) already_requeued: u64,
    pub(crate) subscription_deleted: u64,
    /// The first of those that matched (`dry_run`) or were requeued.
    pub(crate) ids: Vec<i64>,
    /// Send the same request with this as `cursor` to go on; null when the end was reached.
    pub(crate) next_cursor: Option<String>,
}

/// Goes through the letters oldest first, in bounded transactions. Repeating it is harmless: a letter is
/// requeued once.
#[utoipa::path(
    post,
    path = "/v1/dead-letters/requeue",
    tag = "dead letters",
    summary = "Make fresh deliveries from all that a filter finds (role operator)",
    request_body = Option<RequeueFilter>,
    responses((status = 200, description = "How many, and which", body = RequeuedMany)),
)]
pub(crate) async fn requeue_many<S: Stores>(
    State(api): Api<S>,
    Extension(by): Extension<Actor>,
    request: Request,
) -> ApiResult {
    let upload = receive_json(&api.uploads, request).await?;
    let fields = Fields::parse_optional(upload.text()?)?;
    ok(&requeue_found(&api, by, fields, REQUEUE_PAGES_MAX, EXAMINED_MAX).await?)
}

/// One call's part of the work; `next_cursor` says whether there is more.
pub(crate) async fn requeue_found<S: Stores>(
    api: &ApiState<S>,
    by: Actor,
    mut fields: Fields<'_>,
    pages_max: usize,
    examined_max: u32,
) -> Result<RequeuedMany, Problem> {
    let RequeueFilter { subscription_id, event_type, since, until, dry_run, cursor } =
        RequeueFilter::read(&mut fields)?;
    fields.finish()?;
    let filter = DeadLetterFilter { subscription_id, event_type, since, until };
    let dry_run = dry_run.unwrap_or(false);
    let mut after = cursor.map(|cursor| read_cursor(REQUEUE, &cursor)).transpose()?;
    let mut answer = RequeuedMany { dry_run, ..RequeuedMany::default() };
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
