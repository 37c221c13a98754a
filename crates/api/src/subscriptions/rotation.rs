//! Replaces the signing secret of a subscription. The previous secret remains valid for a time.

use super::{SubscriptionView, not_found, subscription_id};
use crate::body::receive_json;
use crate::fields::Fields;
use crate::problem::Problem;
use crate::query::ok;
use crate::state::{Api, ApiResult, ApiState};
use crate::values::{Number, body};
use axum::Extension;
use axum::extract::{Path, Request, State};
use posthaste_core::audit::Actor;
use posthaste_core::ports::{Rotated, SecretRotation, Stores, SubscriptionStore as _};
use posthaste_core::signature::SigningSecret;
use posthaste_core::subscription::{SecretColumn, Secrets};
use posthaste_core::{SubscriptionId, Timestamp};
use std::time::Duration;

/// The default time for which the previous secret remains valid after a rotation, in seconds: one day.
const OVERLAP_S: u32 = 24 * 3_600;
/// The maximum time for which the previous secret may remain valid, in seconds: 30 days.
const OVERLAP_S_MAX: u32 = 30 * 24 * 3_600;
/// How often a rotation is tried. A try fails only if another call replaces the secret at the same time.
const ROTATION_TRIES_MAX: u32 = 10;

body! {
    /// The options of a secret rotation.
    #[schema(example = json!({"overlap_s": 3600}))]
    struct Rotation {
        /// The time for which the previous secret remains valid, in seconds. During this time, requests carry a
        /// signature for each secret. The default is one day (86400).
        #[schema(value_type = Option<u32>, minimum = 0, maximum = 2_592_000)]
        overlap_s: Option<Number<0, OVERLAP_S_MAX>>,
    }
}

#[utoipa::path(
    post,
    path = "/v1/subscriptions/{id}/rotate-secret",
    tag = "subscriptions",
    operation_id = "rotate_subscription_secret",
    summary = "Rotate the signing secret",
    description = "Creates a new signing secret, which is shown once. The previous secret remains valid for a time.",
    security(("api_key" = ["admin"])),
    params(("id" = i64, Path, description = "The id of the subscription.")),
    request_body = Option<Rotation>,
    responses(
        (status = 200, description = "The subscription with its new secret", body = SubscriptionView),
        (
            status = 409,
            description = "The current secret cannot be decrypted, so it cannot remain valid",
            body = Problem,
            content_type = "application/problem+json",
        ),
    ),
)]
pub(crate) async fn rotate_secret<S: Stores>(
    State(api): Api<S>,
    Extension(by): Extension<Actor>,
    Path(text): Path<String>,
    request: Request,
) -> ApiResult {
    let id = subscription_id(&text)?;
    let upload = receive_json(&api.uploads, request).await?;
    ok(&rotate(&api, by, id, Fields::parse_optional(upload.text()?)?).await?)
}

/// Replaces the secret and returns the subscription with the new one.
pub(crate) async fn rotate<S: Stores>(
    api: &ApiState<S>,
    by: Actor,
    id: SubscriptionId,
    mut fields: Fields<'_>,
) -> Result<SubscriptionView, Problem> {
    let overlap_s = Rotation::read(&mut fields)?.overlap_s.map_or(OVERLAP_S, |overlap_s| overlap_s.0);
    let overlap = Duration::from_secs(overlap_s.into());
    let secret = SigningSecret::from_random(api.draw());
    for _ in 0..ROTATION_TRIES_MAX {
        let now = api.clock.now();
        let (_, secrets) = api.subscriptions.load_subscription(id).await?.ok_or_else(not_found)?;
        let rotation = rotation(api, &secrets, &secret, overlap, now)?;
        match api.subscriptions.rotate_secret(id, rotation, by.clone(), now).await? {
            Rotated::Rotated(rotated) => return Ok(SubscriptionView::with_secret(rotated, &secret)),
            Rotated::NotFound => return Err(not_found()),
            Rotated::Changed => {}
        }
    }
    Err(Problem::conflict("the secret was replaced several times during this call: try again"))
}

/// Returns the rotation from the stored secrets to `secret`. The replaced secret moves to another column, so it is
/// encrypted for that column.
fn rotation<S: Stores>(
    api: &ApiState<S>,
    secrets: &Secrets,
    secret: &SigningSecret,
    overlap: Duration,
    now: Timestamp,
) -> Result<SecretRotation, Problem> {
    let sealer = &api.outgoing.sealer;
    let (current, previous) = (secrets.place(SecretColumn::Current), secrets.place(SecretColumn::Previous));
    let replaced = secrets.current.clone();
    let secret = sealer.seal(secret, current, api.draw());
    if overlap.is_zero() {
        return Ok(SecretRotation { replaced, secret, previous: None, older: None, signing_key: None });
    }
    let opened = sealer.open(&replaced, current).map_err(|error| {
        Problem::conflict(format!(
            "the current secret cannot remain valid, because it cannot be decrypted ({error}): correct \
             POSTHASTE_SECRET_KEY, or replace the secret at once with an overlap_s of 0"
        ))
    })?;
    let kept = (sealer.seal(&opened, previous, api.draw()), now.after(overlap));
    Ok(SecretRotation { replaced, secret, previous: Some(kept), older: None, signing_key: None })
}
