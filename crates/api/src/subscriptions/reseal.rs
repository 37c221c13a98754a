//! Encrypts the secrets of all subscriptions again with the first key of this process, a batch per call. Only the API
//! and the workers have the keys; `posthaste reseal` calls this operation until all batches are done.

use crate::auth::Scope;
use crate::body::receive_json;
use crate::fields::Fields;
use crate::problem::{Problem, ProblemKind};
use crate::query::{ok, read_cursor, write_cursor};
use crate::state::{Api, ApiResult, ApiState};
use crate::values::body;
use axum::Extension;
use axum::extract::{Request, State};
use posthaste_core::SubscriptionId;
use posthaste_core::audit::Actor;
use posthaste_core::ports::{ResealedSecrets, Stores, SubscriptionStore as _};
use posthaste_core::subscription::Secrets;
use serde::Serialize;
use std::collections::BTreeSet;
use utoipa::ToSchema;

/// The list name in the cursors of this operation.
const RESEAL: &str = "reseal";
/// The number of subscriptions that a call examines and changes in one transaction.
const BATCH: u32 = 500;

body! {
    /// The options of a batch.
    #[schema(example = json!({"dry_run": true}))]
    struct ResealOptions {
        /// Whether to examine the secrets without changing them. The default is false.
        dry_run: Option<bool>,
        /// The `next_cursor` of the previous response, to continue.
        cursor: Option<String>,
    }
}

/// A subscription with a secret that cannot be decrypted.
#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({
    "subscription_id": 3, "reason": "the secret is encrypted with key 1f2e3d4c, but POSTHASTE_SECRET_KEY is not set"
}))]
pub(crate) struct Unreadable {
    /// The id of the subscription.
    subscription_id: i64,
    /// The reason why the secret cannot be decrypted.
    reason: String,
}

/// The result of a batch.
#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({
    "dry_run": false, "key_id": "72cd6e84", "examined": 500, "outdated": 480, "resealed": 480, "unreadable": [],
    "missing_keys": [], "next_cursor": null
}))]
pub(crate) struct Resealed {
    /// Whether this was a dry run, which changes nothing.
    dry_run: bool,
    /// The id of the key that encrypts secrets, which is the first key of `POSTHASTE_SECRET_KEY`. An id is the
    /// beginning of the SHA-256 digest of its key.
    key_id: String,
    /// The number of examined subscriptions.
    examined: usize,
    /// The number of subscriptions with a secret in plain text, in an earlier form, or encrypted with another key.
    outdated: usize,
    /// The number of subscriptions whose secrets this call encrypted again.
    resealed: usize,
    /// The subscriptions with a secret that cannot be decrypted. They are left unchanged.
    unreadable: Vec<Unreadable>,
    /// The ids of keys that are needed to decrypt secrets and are not in `POSTHASTE_SECRET_KEY`.
    missing_keys: BTreeSet<String>,
    /// The `cursor` of the next call; null if all subscriptions were examined.
    next_cursor: Option<String>,
}

#[utoipa::path(
    post,
    path = "/v1/subscriptions/reseal-secrets",
    tag = "subscriptions",
    operation_id = "reseal_secrets",
    summary = "Encrypt the signing secrets again",
    description = "Encrypts the secrets of up to 500 subscriptions again in the newest form, with the first key of \
                   `POSTHASTE_SECRET_KEY`. Send `next_cursor` to continue. Secrets that are up to date are skipped, so \
                   the operation may be repeated from the beginning at any time. The secrets themselves stay the same.",
    security(("api_key" = ["admin"])),
    request_body = Option<ResealOptions>,
    responses(
        (status = 200, description = "What was found and changed", body = Resealed),
        (
            status = 409,
            description = "The API has no key",
            body = Problem,
            content_type = "application/problem+json",
        ),
    ),
)]
pub(crate) async fn reseal_secrets<S: Stores>(
    State(api): Api<S>,
    Extension(by): Extension<Actor>,
    Extension(scope): Extension<Scope>,
    request: Request,
) -> ApiResult {
    if scope.tenant().is_some() {
        let detail = "this call concerns all tenants: use a key that is not bound to a tenant";
        return Err(Problem::of(ProblemKind::Forbidden, detail));
    }
    let upload = receive_json(&api.uploads, request).await?;
    let mut fields = Fields::parse_optional(upload.text()?)?;
    let ResealOptions { dry_run, cursor } = ResealOptions::read(&mut fields)?;
    let after = cursor.map(|cursor| read_cursor(RESEAL, &cursor)).transpose();
    let after = after.map_err(|problem| fields.wrong("cursor", problem.detail))?;
    ok(&reseal(&api, by, dry_run.unwrap_or(false), after.unwrap_or(0)).await?)
}

/// What a batch of stored secrets needs.
#[derive(Debug, Default)]
struct Batch {
    outdated: Vec<ResealedSecrets>,
    unreadable: Vec<Unreadable>,
    missing_keys: BTreeSet<String>,
}

async fn reseal<S: Stores>(
    api: &ApiState<S>,
    by: Actor,
    dry_run: bool,
    after: i64,
) -> Result<Resealed, Problem> {
    let Some(key_id) = api.outgoing.sealer.key_id().map(str::to_owned) else {
        return Err(Problem::conflict(
            "POSTHASTE_SECRET_KEY is not set in the process that serves the API: set it, and restart the process",
        ));
    };
    let rows = api.subscriptions.load_secrets(after, BATCH).await?;
    let Batch { outdated, mut unreadable, missing_keys } = examine(api, &rows);
    let mut ids: Vec<SubscriptionId> = rows.iter().map(|(id, _)| *id).collect();
    let outdated_ids: Vec<SubscriptionId> = outdated.iter().map(|row| row.id).collect();
    let mut outdated_count = outdated_ids.len();
    let mut next = ids.last().filter(|_| ids.len() == BATCH as usize).map(|id| id.get());
    let mut resealed = 0;
    if !dry_run && !outdated.is_empty() {
        let now = api.clock.now();
        let stored = api.subscriptions.reseal_secrets(outdated, key_id.clone(), by, now).await?;
        resealed = stored.len();
        let stored: BTreeSet<SubscriptionId> = stored.into_iter().collect();
        // A row that was changed in the meantime is examined again by the next call, with all rows after it.
        if let Some(changed) = outdated_ids.iter().copied().find(|id| !stored.contains(id)) {
            ids.retain(|id| *id < changed);
            outdated_count = resealed;
            unreadable.retain(|row| row.subscription_id < changed.get());
            next = Some(changed.get() - 1);
        }
    }
    Ok(Resealed {
        dry_run,
        key_id,
        examined: ids.len(),
        outdated: outdated_count,
        resealed,
        unreadable,
        missing_keys,
        next_cursor: write_cursor(RESEAL, next),
    })
}

/// Opens the secrets, and encrypts those that are outdated.
fn examine<S: Stores>(api: &ApiState<S>, rows: &[(SubscriptionId, Secrets)]) -> Batch {
    let mut batch = Batch::default();
    let now = api.clock.now();
    for (id, secrets) in rows {
        match api.outgoing.sealer.reseal(*id, secrets, now, || api.draw()) {
            Ok(outdated) => batch.outdated.extend(outdated),
            Err(error) => {
                batch.missing_keys.extend(error.missing_key().map(str::to_owned));
                batch.unreadable.push(Unreadable { subscription_id: id.get(), reason: error.to_string() });
            }
        }
    }
    batch
}
