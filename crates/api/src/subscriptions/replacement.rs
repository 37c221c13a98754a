//! Subscriptions by the caller's own id: shows one, and creates or replaces one. A replacement changes no secret that
//! it does not name.

use super::body::NewSubscriptionBody;
use super::edit::{Complete, TRIES_MAX, changed_meanwhile, tenant_of};
use super::preconditions::Preconditions;
use super::rotation::{OVERLAP, rotation};
use super::view::SubscriptionView;
use super::{load, not_found};
use crate::auth::Scope;
use crate::body::receive_json;
use crate::fields::Fields;
use crate::problem::{Problem, ProblemKind};
use crate::query::Query;
use crate::state::{Api, ApiResult, ApiState};
use crate::values::{Text as _, described};
use axum::Extension;
use axum::extract::{Path, Request, State};
use http::{StatusCode, Uri};
use posthaste_core::SubscriptionId;
use posthaste_core::audit::Actor;
use posthaste_core::identity::Uid;
use posthaste_core::ports::{Rotated, Stage, Stores, SubscriptionStore as _, Updated};
use posthaste_core::signature::SigningSecret;
use posthaste_core::subscription::{SecretColumn, Secrets};
use posthaste_core::tenant::Tenant;
use utoipa::IntoParams;
use utoipa::openapi::path::{Parameter, ParameterIn};

/// The query parameter of [`show`].
#[derive(Debug)]
pub(crate) struct TenantParameter;

impl IntoParams for TenantParameter {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let help = "The tenant of the subscription. The default is that of the API key, or none.";
        vec![described("tenant", help, Tenant::text_schema())]
    }
}

#[utoipa::path(
    get,
    path = "/v1/subscriptions/uid/{uid}",
    tag = "subscriptions",
    operation_id = "get_subscription_by_uid",
    summary = "Get a subscription by its uid",
    description = "Returns the subscription of a tenant that has a uid, without its secrets.",
    security(("api_key" = ["viewer"])),
    params(("uid" = String, Path, description = "The caller's own id of the subscription."), TenantParameter),
    responses((status = 200, description = "The subscription", body = SubscriptionView)),
)]
pub(crate) async fn show<S: Stores>(
    State(api): Api<S>,
    Extension(scope): Extension<Scope>,
    Path(uid): Path<String>,
    uri: Uri,
) -> ApiResult {
    let mut query = Query::of(&uri)?;
    let tenant = query.read::<Tenant>("tenant");
    query.finish()?;
    let tenant = scope.restrict(tenant).ok_or_else(not_found)?;
    let found = api.subscriptions.find_uid(tenant, parse(uid)?).await?.ok_or_else(not_found)?;
    let (stored, _) = load(&api, &scope, found).await?;
    SubscriptionView::of(stored).respond(StatusCode::OK)
}

#[utoipa::path(
    put,
    path = "/v1/subscriptions/uid/{uid}",
    tag = "subscriptions",
    operation_id = "replace_subscription",
    summary = "Create or replace a subscription by its uid",
    description = "Creates the subscription of the tenant with this uid, or replaces all of its fields. Absent fields \
                   get their defaults. Secrets that the body does not name are kept; another `secret` than the current \
                   one is rotated in, and the current one remains valid for a day. `If-Match` with the `ETag` of the \
                   subscription replaces it only if it was not changed since, `If-None-Match: *` only creates.",
    security(("api_key" = ["admin"])),
    params(("uid" = String, Path, description = "The caller's own id of the subscription.")),
    request_body = NewSubscriptionBody,
    responses(
        (status = 200, description = "Replaced", body = SubscriptionView),
        (status = 201, description = "Created; contains the secret", body = SubscriptionView),
        (
            status = 409,
            description = "The subscription was changed at the same time, or a secret cannot be decrypted",
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
pub(crate) async fn replace<S: Stores>(
    State(api): Api<S>,
    Extension(by): Extension<Actor>,
    Extension(scope): Extension<Scope>,
    Path(uid): Path<String>,
    request: Request,
) -> ApiResult {
    let uid = parse(uid)?;
    let conditions = Preconditions::of(request.headers())?;
    let upload = receive_json(&api.uploads, request).await?;
    let mut body = NewSubscriptionBody::read(&mut Fields::parse(upload.text()?)?)?;
    if body.uid.as_ref().is_some_and(|own| *own != uid) {
        return Err(Problem::invalid("uid", "uid must be that of the path: leave it out"));
    }
    body.uid = Some(uid.clone());
    let tenant = tenant_of(&scope, body.tenant.clone())?;
    let complete = Complete::of(&api, &scope, body)?;
    for _ in 0..TRIES_MAX {
        let tried = match api.subscriptions.find_uid(tenant.clone(), uid.clone()).await? {
            None => {
                conditions.check(None)?;
                let created = complete.clone().create(&api, by.clone()).await?;
                created.map(|created| (StatusCode::CREATED, created))
            }
            Some(id) => {
                let replaced =
                    replace_one(&api, by.clone(), &scope, id, complete.clone(), &conditions).await?;
                replaced.map(|replaced| (StatusCode::OK, replaced))
            }
        };
        if let Some((status, view)) = tried {
            return view.respond(status);
        }
    }
    Err(changed_meanwhile())
}

/// Replaces a subscription, or returns `None` if it was changed or deleted since it was found.
async fn replace_one<S: Stores>(
    api: &ApiState<S>,
    by: Actor,
    scope: &Scope,
    id: SubscriptionId,
    complete: Complete,
    conditions: &Preconditions,
) -> Result<Option<SubscriptionView>, Problem> {
    let now = api.clock.now();
    let (stored, secrets) = match load(api, scope, id).await {
        Err(problem) if problem.kind == ProblemKind::NotFound => return Ok(None),
        loaded => loaded?,
    };
    conditions.check(Some(&stored))?;
    let new_secret = changed_secret(api, &secrets, complete.secret);
    // All values are checked before the secret is rotated.
    let patch = complete.edit.patch_of(api, &stored, &secrets, new_secret.as_ref(), now)?;
    let mut revision = stored.revision;
    if let Some(secret) = &new_secret {
        let rotation = rotation(api, &secrets, secret, OVERLAP, now)?;
        match api.subscriptions.rotate_secret(id, rotation, by.clone(), now).await? {
            Rotated::Rotated(rotated) if rotated.revision == revision + 1 => revision = rotated.revision,
            // The next try finds the new secret and only changes the other fields.
            Rotated::Rotated(_) | Rotated::Changed | Rotated::NotFound => return Ok(None),
        }
    }
    let updated = api.subscriptions.update_subscription(id, patch, Some(revision), by, now).await?;
    api.wake_ups.wake(Stage::Admission);
    match updated {
        Updated::Updated(replaced) => Ok(Some(match &new_secret {
            Some(secret) => SubscriptionView::with_secret(*replaced, secret),
            None => SubscriptionView::of(*replaced),
        })),
        // The uid is that by which the subscription was found, so it was given to another one in the meantime.
        Updated::OtherRevision(_) | Updated::UidTaken | Updated::NotFound => Ok(None),
    }
}

/// Returns the requested secret if it is not the current one. A current secret that cannot be decrypted counts as
/// another one; the rotation reports it.
fn changed_secret<S: Stores>(
    api: &ApiState<S>,
    secrets: &Secrets,
    requested: Option<SigningSecret>,
) -> Option<SigningSecret> {
    let current = api.outgoing.sealer.open(&secrets.current, secrets.place(SecretColumn::Current)).ok();
    requested.filter(|requested| current.as_ref() != Some(requested))
}

fn parse(uid: String) -> Result<Uid, Problem> {
    Uid::parse(uid).map_err(|error| Problem::invalid_parameter("uid", error.to_string()))
}
