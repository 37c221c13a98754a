//! The public keys of subscriptions by their fingerprints, for receivers. Requires no API key: a public key is not
//! secret, and its fingerprint cannot be guessed.

use crate::problem::Problem;
use crate::query::ok;
use crate::state::{Api, ApiResult};
use axum::extract::{Path, State};
use posthaste_core::ports::{ReaderStore as _, Stores};
use serde::Serialize;
use utoipa::ToSchema;

/// The length of a fingerprint, in characters.
const FINGERPRINT_CHARS: usize = 22;

/// A public key.
#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({"public_key": "whpk_11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo="}))]
pub(crate) struct PublicKeyView {
    /// The key with which requests are verified: `whpk_` and base64 of its 32 bytes.
    public_key: String,
}

#[utoipa::path(
    get,
    path = "/.well-known/posthaste/keys/{fingerprint}",
    tag = "subscriptions",
    operation_id = "get_public_key",
    summary = "Get a public key by its fingerprint",
    description = "Returns the current public key of a subscription. It verifies signatures of the format \
                   `standard_ed25519`. No API key is required.",
    security(()),
    params((
        "fingerprint" = String,
        Path,
        description = "The first 22 characters of the base64url SHA-256 of the 32 bytes of the key."
    )),
    responses(
        (status = 200, description = "The key", body = PublicKeyView),
        (
            status = 404,
            description = "No subscription has a key with this fingerprint",
            body = Problem,
            content_type = "application/problem+json",
        ),
    ),
)]
pub(crate) async fn show<S: Stores>(State(api): Api<S>, Path(fingerprint): Path<String>) -> ApiResult {
    let is_possible = fingerprint.len() == FINGERPRINT_CHARS
        && fingerprint.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_');
    let found = if is_possible { api.reader.find_public_key(fingerprint).await? } else { None };
    let public_key = found.ok_or_else(|| Problem::not_found("public key"))?;
    ok(&PublicKeyView { public_key })
}
