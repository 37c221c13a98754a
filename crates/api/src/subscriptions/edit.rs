//! Applies requests to subscriptions: creates one, or changes one if it is still as it was read. The bodies are parsed
//! by [`body`](super::body); the parts that concern secrets are in [`request`](super::request).

use super::body::{NewSubscriptionBody, SubscriptionChange, event_types};
use super::preconditions::Preconditions;
use super::request::{RequestEdit, RequestSettings, StoredSecrets, check_live_secrets};
use super::view::SubscriptionView;
use super::{load, not_found, uid_taken};
use crate::auth::Scope;
use crate::problem::{Problem, ProblemKind};
use crate::state::ApiState;
use posthaste_core::audit::Actor;
use posthaste_core::pattern::EventTypePatterns;
use posthaste_core::ports::{Created, Stage, Stores, SubscriptionStore as _, Updated};
use posthaste_core::signature::SigningSecret;
use posthaste_core::subscription::{
    CallbackUrl, NewSubscription, SecretColumn, SecretPlace, Secrets, Subscription, SubscriptionPatch,
};
use posthaste_core::tenant::Tenant;
use posthaste_core::{SecretRef, SubscriptionId, Timestamp};
use posthaste_services::sender::Sender;
use std::time::Duration;

/// How often a change is tried. A try fails only if another call changes the subscription at the same time.
pub(super) const TRIES_MAX: u32 = 10;

/// A requested change. A field that is `None` is unchanged.
#[derive(Debug, Clone)]
pub(super) struct Edit {
    /// The fields without secrets.
    patch: SubscriptionPatch,
    request: RequestEdit,
}

impl Edit {
    /// Returns the change of a merge patch. Null resets a field to its default.
    pub(super) fn of_change<S: Stores>(
        api: &ApiState<S>,
        scope: &Scope,
        body: SubscriptionChange,
    ) -> Result<Self, Problem> {
        let event_types = event_types(body.event_types.0, body.event_type.0)?;
        event_types.as_ref().map_or(Ok(()), |types| check_operational(scope, types))?;
        let callback_url = body.callback_url.0.map(|url| allowed_url(&url, &api.outgoing.sender));
        let patch = SubscriptionPatch {
            uid: body.uid,
            name: body.name,
            metadata: body.metadata.map(Option::unwrap_or_default),
            event_types,
            filter: body.filter,
            callback_url: callback_url.transpose()?,
            active: body.active.map(|active| active.unwrap_or(true)),
            max_retry_limit: body.max_retry_limit.map(|limit| limit.map(|limit| limit.0)),
            timeout: body.timeout.map(|timeout| timeout_of(api, timeout)).transpose()?,
            description: body.description.map(|text| text.map(|text| text.0)),
            envelope: body.envelope.map(Option::unwrap_or_default),
            ..SubscriptionPatch::default()
        };
        let request = RequestEdit {
            signatures: body.signatures.map(Option::unwrap_or_default),
            headers: body.headers.map(Option::unwrap_or_default),
            auth: body.auth,
            signing_key: None,
        };
        Ok(Self { patch, request })
    }

    /// Returns whether the change depends on stored secrets, or decides where they are sent.
    const fn concerns_secrets(&self) -> bool {
        self.patch.callback_url.is_some() || !self.request.is_empty()
    }

    /// Returns the patch for a subscription as it is stored. `secret` is the signing secret that the caller rotates in.
    pub(super) fn patch_of<S: Stores>(
        self,
        api: &ApiState<S>,
        stored: &Subscription,
        secrets: &Secrets,
        secret: Option<&SigningSecret>,
        now: Timestamp,
    ) -> Result<SubscriptionPatch, Problem> {
        if !self.concerns_secrets() {
            return Ok(self.patch);
        }
        let before = RequestSettings::of(api, stored, secrets)?;
        let usable = StoredSecrets::after(&stored.callback_url, self.patch.callback_url.as_ref());
        let after = before.clone().edited(api, self.request, usable, now)?;
        match secret {
            Some(secret) => check_secret(secret, &after)?,
            None if after.signatures != before.signatures => {
                check_live_secrets(api, &after.signatures, secrets, now)?;
            }
            None => {}
        }
        let is_changed = after.credentials != before.credentials;
        Ok(SubscriptionPatch {
            credentials: is_changed.then(|| after.sealed(api, secrets.secret_ref)),
            signatures: Some(after.signatures),
            public_key: Some(after.public_key),
            headers: Some(after.headers),
            auth: Some(after.auth),
            ..self.patch
        })
    }
}

/// A complete subscription as it was requested.
#[derive(Debug, Clone)]
pub(super) struct Complete {
    pub(super) tenant: Option<Tenant>,
    pub(super) event_types: EventTypePatterns,
    pub(super) callback_url: CallbackUrl,
    pub(super) secret: Option<SigningSecret>,
    /// All fields, except the tenant and the secret.
    pub(super) edit: Edit,
}

impl Complete {
    /// Returns the subscription of a body. Absent fields get their defaults.
    pub(super) fn of<S: Stores>(
        api: &ApiState<S>,
        scope: &Scope,
        body: NewSubscriptionBody,
    ) -> Result<Self, Problem> {
        let event_types = event_types(body.event_types, body.event_type)?.ok_or_else(|| {
            Problem::invalid(
                "event_type",
                "event_type is required, or event_types for several types and patterns",
            )
        })?;
        check_operational(scope, &event_types)?;
        let callback_url = allowed_url(&body.callback_url, &api.outgoing.sender)?;
        let patch = SubscriptionPatch {
            uid: Some(body.uid),
            name: Some(body.name),
            metadata: Some(body.metadata.unwrap_or_default()),
            event_types: Some(event_types.clone()),
            filter: Some(body.filter),
            callback_url: Some(callback_url.clone()),
            active: Some(body.active.unwrap_or(true)),
            max_retry_limit: Some(body.max_retry_limit.map(|limit| limit.0)),
            timeout: Some(timeout_of(api, body.timeout)?),
            description: Some(body.description.map(|text| text.0)),
            envelope: Some(body.envelope.unwrap_or_default()),
            ..SubscriptionPatch::default()
        };
        let request = RequestEdit {
            signatures: Some(body.signatures.unwrap_or_default()),
            headers: Some(body.headers.unwrap_or_default()),
            auth: Some(body.auth),
            signing_key: body.signing_key,
        };
        Ok(Self {
            tenant: tenant_of(scope, body.tenant)?,
            event_types,
            callback_url,
            secret: body.secret,
            edit: Edit { patch, request },
        })
    }

    /// Creates the subscription and returns it with its secret, or `None` if another one has its uid.
    pub(super) async fn create<S: Stores>(
        self,
        api: &ApiState<S>,
        by: Actor,
    ) -> Result<Option<SubscriptionView>, Problem> {
        let now = api.clock.now();
        let secret = self.secret.unwrap_or_else(|| SigningSecret::from_random(api.draw()));
        let secret_ref = SecretRef::from_bits(u128::from_be_bytes(api.draw()));
        let place = SecretPlace { secret_ref, column: SecretColumn::Current };
        let Edit { patch, request } = self.edit;
        let request = RequestSettings::default().edited(api, request, StoredSecrets::Usable, now)?;
        check_secret(&secret, &request)?;
        let sealed = api.outgoing.sealer.seal(&secret, place, api.draw());
        let credentials = request.sealed(api, secret_ref);
        let new = NewSubscription {
            tenant: self.tenant,
            uid: patch.uid.flatten(),
            name: patch.name.flatten(),
            metadata: patch.metadata.unwrap_or_default(),
            filter: patch.filter.flatten(),
            active: patch.active.unwrap_or(true),
            max_retry_limit: patch.max_retry_limit.flatten(),
            timeout: patch.timeout.flatten(),
            description: patch.description.flatten(),
            envelope: patch.envelope.unwrap_or_default(),
            signatures: request.signatures,
            public_key: request.public_key,
            headers: request.headers,
            auth: request.auth,
            credentials,
            ..NewSubscription::new(self.event_types, self.callback_url, secret_ref, sealed)
        };
        match api.subscriptions.create_subscription(new, by, now).await? {
            Created::Created(made) => Ok(Some(SubscriptionView::with_secret(*made, &secret))),
            Created::UidTaken => Ok(None),
        }
    }
}

/// Changes a subscription if the conditions hold, and returns the result. A change that depends on stored secrets is
/// repeated if another call changes the subscription at the same time.
pub(super) async fn apply<S: Stores>(
    api: &ApiState<S>,
    by: Actor,
    scope: &Scope,
    id: SubscriptionId,
    edit: Edit,
    conditions: &Preconditions,
) -> Result<SubscriptionView, Problem> {
    for _ in 0..TRIES_MAX {
        let now = api.clock.now();
        let (stored, secrets) = load(api, scope, id).await?;
        conditions.check(Some(&stored))?;
        let is_fenced = edit.concerns_secrets() || !conditions.is_empty();
        let expected = is_fenced.then_some(stored.revision);
        let patch = edit.clone().patch_of(api, &stored, &secrets, None, now)?;
        let updated = api.subscriptions.update_subscription(id, patch, expected, by.clone(), now).await?;
        // Held deliveries may be due now.
        api.wake_ups.wake(Stage::Admission);
        match updated {
            Updated::Updated(changed) => return Ok(SubscriptionView::of(*changed)),
            Updated::UidTaken => return Err(uid_taken()),
            Updated::NotFound => return Err(not_found()),
            // The conditions are checked again.
            Updated::OtherRevision(_) => {}
        }
    }
    Err(changed_meanwhile())
}

pub(super) fn changed_meanwhile() -> Problem {
    Problem::conflict("the subscription was changed several times during this call: try again")
}

fn check_secret(secret: &SigningSecret, request: &RequestSettings) -> Result<(), Problem> {
    secret.check_for(&request.signatures).map_err(|error| Problem::invalid("secret", error.to_string()))
}

/// Returns the tenant of a new subscription: that of the key, if it is bound to one.
pub(super) fn tenant_of(scope: &Scope, requested: Option<Tenant>) -> Result<Option<Tenant>, Problem> {
    scope.restrict(requested).ok_or_else(|| {
        let detail = "tenant must be that of the API key, which is bound to another one: leave it out";
        Problem::invalid("tenant", detail)
    })
}

/// Checks that the key may subscribe to operational events, which describe all tenants.
fn check_operational(scope: &Scope, event_types: &EventTypePatterns) -> Result<(), Problem> {
    if event_types.are_operational() && scope.tenant().is_some() {
        let detail =
            "event types below posthaste. concern all tenants: use a key that is not bound to a tenant";
        return Err(Problem::of(ProblemKind::Forbidden, detail));
    }
    Ok(())
}

fn timeout_of<S: Stores>(api: &ApiState<S>, text: Option<String>) -> Result<Option<Duration>, Problem> {
    let parsed = text.map(|text| api.outgoing.timeouts.parse(&text)).transpose();
    parsed.map_err(|error| Problem::invalid("timeout", error.to_string()))
}

/// Parses a URL and checks the parts of the address policy that need no DNS lookup. The resolved addresses are checked
/// when a request is sent.
fn allowed_url(text: &str, sender: &Sender) -> Result<CallbackUrl, Problem> {
    let wrong = |detail: String| Problem::invalid("callback_url", detail);
    let url =
        CallbackUrl::parse(text, sender.policy().allow_http).map_err(|error| wrong(error.to_string()))?;
    let checked = sender.check_url(url.as_str());
    checked.map_err(|error| wrong(format!("callback_url is not allowed: {error}")))?;
    Ok(url)
}
