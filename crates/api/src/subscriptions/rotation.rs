//! Replaces the signing secret of a subscription, and its Ed25519 key if requests are signed with it. The replaced keys
//! remain valid for a time: up to three secrets and three signing keys are live.

use super::view::SubscriptionView;
use super::{load, not_found, subscription_id};
use crate::auth::Scope;
use crate::body::receive_json;
use crate::fields::Fields;
use crate::problem::Problem;
use crate::state::{Api, ApiResult, ApiState};
use crate::values::{Number, body};
use axum::Extension;
use axum::extract::{Path, Request, State};
use http::StatusCode;
use posthaste_core::audit::Actor;
use posthaste_core::ports::{Rotated, SecretRotation, SigningKeyRotation, Stores, SubscriptionStore as _};
use posthaste_core::request::StoredKey;
use posthaste_core::signature::{Ed25519Key, SigningSecret};
use posthaste_core::subscription::{ExpiringSecret, SealedSecret, SecretColumn, Secrets, Subscription};
use posthaste_core::{SubscriptionId, Timestamp};
use posthaste_services::seal::UnsealError;
use std::time::Duration;

/// The default time for which a replaced secret remains valid: one day.
pub(super) const OVERLAP: Duration = Duration::from_secs(24 * 3_600);
/// The maximum time for which a replaced secret may remain valid, in seconds: 30 days.
const OVERLAP_S_MAX: u32 = 30 * 24 * 3_600;
/// How often a rotation is tried. A try fails only if another call replaces the secret at the same time.
const ROTATION_TRIES_MAX: u32 = 10;
/// The maximum number of live signing keys.
const SIGNING_KEYS_MAX: usize = 3;

body! {
    /// The options of a secret rotation.
    #[schema(example = json!({"overlap_s": 3600}))]
    struct Rotation {
        /// The time for which the replaced secret remains valid, in seconds. During this time, requests carry a
        /// signature for each secret, if the signature format allows it. With 0, all earlier secrets become invalid at
        /// once. The default is one day (86400).
        #[schema(value_type = Option<u32>, minimum = 0, maximum = 2_592_000)]
        overlap_s: Option<Number<0, OVERLAP_S_MAX>>,
        /// The new signing secret. The default is a random one.
        #[schema(value_type = Option<String>, min_length = 8, max_length = 256)]
        secret: Option<SigningSecret>,
        /// The new private key (`whsk_…`). The default is a random one if requests are signed with
        /// `standard_ed25519`; otherwise the key is kept.
        #[schema(value_type = Option<String>, max_length = 200)]
        signing_key: Option<Ed25519Key>,
    }
}

#[utoipa::path(
    post,
    path = "/v1/subscriptions/{id}/rotate-secret",
    tag = "subscriptions",
    operation_id = "rotate_subscription_secret",
    summary = "Rotate the signing secret",
    description = "Replaces the signing secret, and the key of the signature format `standard_ed25519` if it is used. \
                   The new secret is shown once. The replaced ones remain valid for a time.",
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
    Extension(scope): Extension<Scope>,
    Path(text): Path<String>,
    request: Request,
) -> ApiResult {
    let id = subscription_id(&text)?;
    let upload = receive_json(&api.uploads, request).await?;
    rotate(&api, by, &scope, id, Fields::parse_optional(upload.text()?)?).await?.respond(StatusCode::OK)
}

/// Replaces the secret and returns the subscription with the new one.
pub(crate) async fn rotate<S: Stores>(
    api: &ApiState<S>,
    by: Actor,
    scope: &Scope,
    id: SubscriptionId,
    mut fields: Fields<'_>,
) -> Result<SubscriptionView, Problem> {
    let Rotation { overlap_s, secret, signing_key } = Rotation::read(&mut fields)?;
    let overlap = overlap_s.map_or(OVERLAP, |overlap_s| Duration::from_secs(overlap_s.0.into()));
    let is_random = secret.is_none();
    let secret = secret.unwrap_or_else(|| SigningSecret::from_random(api.draw()));
    for _ in 0..ROTATION_TRIES_MAX {
        let now = api.clock.now();
        let (stored, secrets) = load(api, scope, id).await?;
        if !is_random {
            check(api, &stored, &secrets, &secret)?;
        }
        let rotation = SecretRotation {
            signing_key: new_signing_key(api, &stored, &secrets, signing_key.as_ref(), overlap, now)?,
            ..rotation(api, &secrets, &secret, overlap, now)?
        };
        match api.subscriptions.rotate_secret(id, rotation, by.clone(), now).await? {
            Rotated::Rotated(rotated) => return Ok(SubscriptionView::with_secret(*rotated, &secret)),
            Rotated::NotFound => return Err(not_found()),
            Rotated::Changed => {}
        }
    }
    Err(Problem::conflict("the secret was replaced several times during this call: try again"))
}

/// Checks a secret that was sent.
fn check<S: Stores>(
    api: &ApiState<S>,
    stored: &Subscription,
    secrets: &Secrets,
    secret: &SigningSecret,
) -> Result<(), Problem> {
    let checked = secret.check_for(&stored.signatures);
    checked.map_err(|error| Problem::invalid("secret", error.to_string()))?;
    let current = api.outgoing.sealer.open(&secrets.current, secrets.place(SecretColumn::Current));
    if current.is_ok_and(|current| current == *secret) {
        return Err(Problem::invalid(
            "secret",
            "secret must not be the current one: leave it out, or send another",
        ));
    }
    Ok(())
}

/// Returns the rotation from the stored secrets to `secret`. The replaced secrets move to other columns, so they are
/// encrypted for those columns.
pub(super) fn rotation<S: Stores>(
    api: &ApiState<S>,
    secrets: &Secrets,
    secret: &SigningSecret,
    overlap: Duration,
    now: Timestamp,
) -> Result<SecretRotation, Problem> {
    let replaced = secrets.current.clone();
    let secret = api.outgoing.sealer.seal(secret, secrets.place(SecretColumn::Current), api.draw());
    let (mut previous, mut older) = (None, None);
    if !overlap.is_zero() {
        let kept = moved(api, secrets, &replaced, SecretColumn::Current, SecretColumn::Previous)?;
        previous = Some((kept, now.after(overlap)));
        let live = secrets.previous.as_ref().filter(|(_, until)| now < *until);
        let live = live.map(|(sealed, until)| -> Result<ExpiringSecret, Problem> {
            Ok((moved(api, secrets, sealed, SecretColumn::Previous, SecretColumn::Older)?, *until))
        });
        older = live.transpose()?;
    }
    Ok(SecretRotation { replaced, secret, previous, older, signing_key: None })
}

/// Returns the stored form of a secret in another column.
fn moved<S: Stores>(
    api: &ApiState<S>,
    secrets: &Secrets,
    sealed: &SealedSecret,
    from: SecretColumn,
    to: SecretColumn,
) -> Result<SealedSecret, Problem> {
    let sealer = &api.outgoing.sealer;
    let opened = sealer.open(sealed, secrets.place(from)).map_err(|error| unreadable(&error))?;
    Ok(sealer.seal(&opened, secrets.place(to), api.draw()))
}

fn unreadable(error: &UnsealError) -> Problem {
    Problem::conflict(format!(
        "the current secret cannot remain valid, because it cannot be decrypted ({error}): correct \
         POSTHASTE_SECRET_KEY, or replace the secret at once with an overlap_s of 0"
    ))
}

/// Returns the replacement of the signing key: the requested one, or a random one if requests are signed with it.
fn new_signing_key<S: Stores>(
    api: &ApiState<S>,
    stored: &Subscription,
    secrets: &Secrets,
    requested: Option<&Ed25519Key>,
    overlap: Duration,
    now: Timestamp,
) -> Result<Option<SigningKeyRotation>, Problem> {
    let key = match requested {
        Some(key) => key.clone(),
        None if stored.signatures.uses_ed25519() => Ed25519Key::from_seed(api.draw()),
        None => return Ok(None),
    };
    if stored.public_key.as_ref() == Some(&key.public_key()) {
        let detail = "signing_key must not be the current one: leave it out, or send another";
        return Err(Problem::invalid("signing_key", detail));
    }
    let sealer = &api.outgoing.sealer;
    let mut credentials = sealer.open_credentials(secrets).map_err(|error| {
        Problem::conflict(format!(
            "the signing key cannot be replaced, because the stored credentials cannot be decrypted ({error}): correct \
             POSTHASTE_SECRET_KEY"
        ))
    })?;
    credentials.signing_keys = rotated_keys(credentials.signing_keys, &key, overlap, now);
    Ok(Some(SigningKeyRotation {
        replaced: secrets.credentials.clone(),
        credentials: sealer.seal_credentials(&credentials, secrets.secret_ref, api.draw()),
        public_key: key.public_key(),
    }))
}

/// Returns the signing keys after `new` becomes the current one, newest first. The replaced key remains valid for
/// `overlap`; expired and surplus keys are removed.
pub(super) fn rotated_keys(
    keys: Vec<StoredKey>,
    new: &Ed25519Key,
    overlap: Duration,
    now: Timestamp,
) -> Vec<StoredKey> {
    let current = StoredKey { key: new.reveal(), expires_at: None };
    let until = now.after(overlap);
    let replaced = keys.into_iter().map(|StoredKey { key, expires_at }| StoredKey {
        key,
        expires_at: Some(expires_at.map_or(until, |earlier| earlier.min(until))),
    });
    let live =
        replaced.filter(|key| key.expires_at.is_some_and(|until| now < until) && key.key != current.key);
    std::iter::once(current.clone()).chain(live).take(SIGNING_KEYS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_signing_keys_are_live_at_most() {
        let key = |byte| Ed25519Key::from_seed([byte; 32]);
        let at = |seconds: u64| Timestamp::from_micros(0).after(Duration::from_secs(seconds));
        let shown = |keys: &[StoredKey]| -> Vec<(String, Option<Timestamp>)> {
            keys.iter().map(|one| (one.key.clone(), one.expires_at)).collect()
        };
        let hour = Duration::from_secs(3_600);
        let mut keys = rotated_keys(Vec::new(), &key(1), hour, at(0));
        assert_eq!(shown(&keys), [(key(1).reveal(), None)]);
        keys = rotated_keys(keys, &key(2), hour, at(10));
        keys = rotated_keys(keys, &key(3), hour, at(20));
        let expected =
            [(key(3).reveal(), None), (key(2).reveal(), Some(at(3_620))), (key(1).reveal(), Some(at(3_610)))];
        assert_eq!(shown(&keys), expected);
        let more = rotated_keys(keys.clone(), &key(4), hour, at(30));
        assert_eq!(more.len(), 3, "the oldest one is removed");
        assert!(more.iter().all(|one| one.key != key(1).reveal()));
        let later = rotated_keys(keys.clone(), &key(4), hour, at(3_615));
        assert_eq!(later.len(), 3, "the expired one is removed");
        assert_eq!(rotated_keys(keys.clone(), &key(4), Duration::ZERO, at(30)).len(), 1);
        // A key that is used again is stored once.
        let again = rotated_keys(keys, &key(2), hour, at(30));
        assert_eq!(again.iter().filter(|one| one.key == key(2).reveal()).count(), 1);
    }
}
