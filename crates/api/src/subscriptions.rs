//! Lists, creates, changes and deletes subscriptions. A secret is returned only when it is created or rotated.
//! [`body`] and [`view`] define the JSON, [`edit`] and [`request`] apply a change, and [`replacement`] creates or
//! replaces a subscription by its uid. [`challenge`] sends requests to receivers, [`verification`] verifies URLs,
//! [`rotation`] replaces a secret, [`reseal`] encrypts all secrets again, and [`matching`] shows which subscriptions
//! match an event.

mod body;
pub(crate) mod challenge;
mod edit;
pub(crate) mod matching;
mod preconditions;
pub(crate) mod preview;
pub(crate) mod public_keys;
pub(crate) mod replacement;
mod request;
pub(crate) mod reseal;
pub(crate) mod rotation;
pub(crate) mod verification;
mod view;

use crate::auth::Scope;
use crate::body::{receive_json, receive_merge_patch};
use crate::fields::Fields;
use crate::problem::Problem;
use crate::query::{Listed, Query, id, ok};
use crate::state::{Api, ApiResult, ApiState};
use crate::values::parameters;
use axum::Extension;
use axum::extract::{Path, Request, State};
use axum::response::IntoResponse as _;
use body::{NewSubscriptionBody, SubscriptionChange};
use edit::{Complete, Edit};
use http::{StatusCode, Uri};
use posthaste_core::SubscriptionId;
use posthaste_core::audit::Actor;
use posthaste_core::event::EventType;
use posthaste_core::identity::{SubscriptionName, Uid};
use posthaste_core::metadata::Metadata;
use posthaste_core::ports::{
    EXAMINED_MAX, ReaderStore as _, Stores, SubscriptionFilter, SubscriptionStore as _,
};
use posthaste_core::subscription::{Secrets, Standing, Subscription};
use posthaste_core::tenant::Tenant;

pub(crate) use challenge::test;
pub(crate) use preconditions::Preconditions;
pub(crate) use reseal::reseal_secrets;
pub(crate) use rotation::{rotate, rotate_secret};
pub(crate) use verification::verify;
pub(crate) use view::SubscriptionView;

pub(crate) const LIST: &str = "subscriptions";
/// The beginning of the query parameters that filter by metadata. The name of the pair follows.
const METADATA_PREFIX: &str = "metadata.";

parameters! {
    struct Parameters(LIST) -> SubscriptionFilter {
        /// Returns only subscriptions of this tenant.
        tenant: Tenant,
        /// Returns only the subscriptions with this uid, at most one for each tenant.
        uid: Uid,
        /// Returns only subscriptions with this name.
        name: SubscriptionName,
        /// Returns only subscriptions with a pattern that matches this event type.
        event_type: EventType,
        /// Returns only subscriptions in this state.
        standing as "state": Standing,
    }
}

#[utoipa::path(
    get,
    path = "/v1/subscriptions",
    tag = "subscriptions",
    operation_id = "list_subscriptions",
    summary = "List subscriptions",
    description = "Returns subscriptions in the order of their ids, newest first. Deleted ones are left out. A \
                   parameter `metadata.NAME=VALUE` returns only subscriptions with this pair; several must all match.",
    security(("api_key" = ["viewer"])),
    params(Parameters),
    responses((status = 200, description = "A page of subscriptions", body = Listed<SubscriptionView>)),
)]
pub(crate) async fn list<S: Stores>(
    State(api): Api<S>,
    Extension(scope): Extension<Scope>,
    uri: Uri,
) -> ApiResult {
    ok(&find(&api, &scope, &uri, EXAMINED_MAX).await?)
}

/// Returns the page selected by the query parameters of `uri`.
pub(crate) async fn find<S: Stores>(
    api: &ApiState<S>,
    scope: &Scope,
    uri: &Uri,
    examined_max: u32,
) -> Result<Listed<SubscriptionView>, Problem> {
    let mut query = Query::of(uri)?;
    let metadata = read_metadata(&mut query)?;
    let (filter, page) = Parameters::read(query)?;
    let Some(tenant) = scope.restrict(filter.tenant.clone()) else {
        return Ok(Listed { items: Vec::new(), next_cursor: None });
    };
    let filter = SubscriptionFilter { tenant, metadata, ..filter };
    let found = api.reader.subscriptions(filter, page.looking_at(examined_max)).await?;
    Ok(Listed::of(LIST, found, SubscriptionView::of))
}

/// Reads the parameters that filter by metadata.
fn read_metadata(query: &mut Query) -> Result<Metadata, Problem> {
    let pairs = query.take_prefixed(METADATA_PREFIX);
    let Some((first, _)) = pairs.first() else { return Ok(Metadata::default()) };
    let parameter: String = format!("{METADATA_PREFIX}{first}").chars().take(100).collect();
    let object: serde_json::Map<_, _> = pairs.into_iter().map(|(name, value)| (name, value.into())).collect();
    let metadata = Metadata::parse(&serde_json::Value::Object(object).to_string());
    metadata.map_err(|error| Problem::invalid_parameter(&parameter, error.to_string()))
}

#[utoipa::path(
    get,
    path = "/v1/subscriptions/{id}",
    tag = "subscriptions",
    operation_id = "get_subscription",
    summary = "Get a subscription",
    description = "Returns one subscription, without its secrets. The header `ETag` identifies its state, for \
                   `If-Match` in a change.",
    security(("api_key" = ["viewer"])),
    params(("id" = i64, Path, description = "The id of the subscription.")),
    responses((status = 200, description = "The subscription", body = SubscriptionView)),
)]
pub(crate) async fn show<S: Stores>(
    State(api): Api<S>,
    Extension(scope): Extension<Scope>,
    Path(text): Path<String>,
) -> ApiResult {
    find_one(&api, &scope, &text).await?.respond(StatusCode::OK)
}

/// Returns a subscription, unless it was deleted.
pub(crate) async fn find_one<S: Stores>(
    api: &ApiState<S>,
    scope: &Scope,
    text: &str,
) -> Result<SubscriptionView, Problem> {
    let found = api.reader.subscription(subscription_id(text)?).await?;
    let found = found.filter(|found| found.deleted_at.is_none() && scope.allows(found.tenant.as_ref()));
    Ok(SubscriptionView::of(found.ok_or_else(not_found)?))
}

#[utoipa::path(
    post,
    path = "/v1/subscriptions",
    tag = "subscriptions",
    operation_id = "create_subscription",
    summary = "Create a subscription",
    description = "Subscribes a URL to types of events. The response contains the signing secret, which is shown only \
                   once. Nothing is delivered until the URL is verified.",
    security(("api_key" = ["admin"])),
    request_body = NewSubscriptionBody,
    responses(
        (status = 201, description = "Created; contains the secret", body = SubscriptionView),
        (
            status = 409,
            description = "Another subscription of the tenant has the uid",
            body = Problem,
            content_type = "application/problem+json",
        ),
    ),
)]
pub(crate) async fn create<S: Stores>(
    State(api): Api<S>,
    Extension(by): Extension<Actor>,
    Extension(scope): Extension<Scope>,
    request: Request,
) -> ApiResult {
    let upload = receive_json(&api.uploads, request).await?;
    make(&api, by, &scope, Fields::parse(upload.text()?)?).await?.respond(StatusCode::CREATED)
}

/// Creates a subscription and returns it with its secret.
pub(crate) async fn make<S: Stores>(
    api: &ApiState<S>,
    by: Actor,
    scope: &Scope,
    mut fields: Fields<'_>,
) -> Result<SubscriptionView, Problem> {
    let complete = Complete::of(api, scope, NewSubscriptionBody::read(&mut fields)?)?;
    complete.create(api, by).await?.ok_or_else(uid_taken)
}

#[utoipa::path(
    patch,
    path = "/v1/subscriptions/{id}",
    tag = "subscriptions",
    operation_id = "update_subscription",
    summary = "Change a subscription",
    description = "Applies a merge patch (RFC 7396); `metadata` and `headers` are replaced as a whole. A new callback \
                   URL must be verified again before anything is sent to it. With `If-Match`, the change is made only \
                   if the subscription still has this `ETag`.",
    security(("api_key" = ["admin"])),
    params(("id" = i64, Path, description = "The id of the subscription.")),
    request_body(
        content(
            (SubscriptionChange = "application/merge-patch+json"),
            (SubscriptionChange = "application/json"),
        ),
    ),
    responses(
        (status = 200, description = "The changed subscription", body = SubscriptionView),
        (
            status = 409,
            description = "Another subscription of the tenant has the uid, or the credentials cannot be decrypted",
            body = Problem,
            content_type = "application/problem+json",
        ),
        (
            status = 412,
            description = "`If-Match` or `If-None-Match` does not hold",
            body = Problem,
            content_type = "application/problem+json",
        ),
    ),
)]
pub(crate) async fn update<S: Stores>(
    State(api): Api<S>,
    Extension(by): Extension<Actor>,
    Extension(scope): Extension<Scope>,
    Path(text): Path<String>,
    request: Request,
) -> ApiResult {
    let id = subscription_id(&text)?;
    let conditions = Preconditions::of(request.headers())?;
    let upload = receive_merge_patch(&api.uploads, request).await?;
    let changed = change(&api, by, &scope, id, Fields::parse(upload.text()?)?, &conditions).await?;
    changed.respond(StatusCode::OK)
}

/// Applies a merge patch to a subscription and returns the result.
pub(crate) async fn change<S: Stores>(
    api: &ApiState<S>,
    by: Actor,
    scope: &Scope,
    id: SubscriptionId,
    mut fields: Fields<'_>,
    conditions: &Preconditions,
) -> Result<SubscriptionView, Problem> {
    let edit = Edit::of_change(api, scope, SubscriptionChange::read(&mut fields)?)?;
    edit::apply(api, by, scope, id, edit, conditions).await
}

#[utoipa::path(
    delete,
    path = "/v1/subscriptions/{id}",
    tag = "subscriptions",
    operation_id = "delete_subscription",
    summary = "Delete a subscription",
    description = "Deletes a subscription for good. Its unfinished deliveries are held and never sent; its history \
                   remains visible.",
    security(("api_key" = ["admin"])),
    params(("id" = i64, Path, description = "The id of the subscription.")),
    responses((status = 204, description = "Deleted")),
)]
pub(crate) async fn remove<S: Stores>(
    State(api): Api<S>,
    Extension(by): Extension<Actor>,
    Extension(scope): Extension<Scope>,
    Path(text): Path<String>,
) -> ApiResult {
    end(&api, by, &scope, subscription_id(&text)?).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Deletes a subscription. Its unfinished deliveries are held permanently.
pub(crate) async fn end<S: Stores>(
    api: &ApiState<S>,
    by: Actor,
    scope: &Scope,
    id: SubscriptionId,
) -> Result<(), Problem> {
    check_scope(api, scope, id).await?;
    let deleted = api.subscriptions.delete_subscription(id, by, api.clock.now()).await?;
    if deleted { Ok(()) } else { Err(not_found()) }
}

/// Checks that the key may see a subscription. A subscription never changes its tenant, so the result stays valid.
///
/// # Errors
///
/// Returns a problem with status 404 if the subscription belongs to another tenant.
pub(crate) async fn check_scope<S: Stores>(
    api: &ApiState<S>,
    scope: &Scope,
    id: SubscriptionId,
) -> Result<(), Problem> {
    if scope.tenant().is_none() {
        return Ok(());
    }
    let found = api.reader.subscription(id).await?;
    let is_visible = found.is_some_and(|found| scope.allows(found.tenant.as_ref()));
    if is_visible { Ok(()) } else { Err(not_found()) }
}

/// Returns a subscription with its secrets.
///
/// # Errors
///
/// Returns a problem with status 404 if it does not exist, was deleted, or belongs to another tenant.
async fn load<S: Stores>(
    api: &ApiState<S>,
    scope: &Scope,
    id: SubscriptionId,
) -> Result<(Subscription, Secrets), Problem> {
    let loaded = api.subscriptions.load_subscription(id).await?;
    loaded.filter(|(found, _)| scope.allows(found.tenant.as_ref())).ok_or_else(not_found)
}

fn uid_taken() -> Problem {
    Problem::conflict("another subscription of the tenant has this uid: use its uid, or delete it first")
}

fn not_found() -> Problem {
    Problem::not_found("subscription")
}

pub(crate) fn subscription_id(text: &str) -> Result<SubscriptionId, Problem> {
    id("id", text, SubscriptionId::new)
}
