//! API keys: made, listed and revoked by root. A key is shown once and kept as a hash.

use crate::auth::key_hash;
use crate::body::receive_json;
use crate::fields::Fields;
use crate::problem::Problem;
use crate::query::{Listed, id, json, ok};
use crate::state::{Api, ApiResult};
use crate::time::Utc;
use crate::values::{Text, body};
use axum::Extension;
use axum::extract::{Path, Request, State};
use axum::response::IntoResponse as _;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::StatusCode;
use posthaste_core::KeyId;
use posthaste_core::audit::Actor;
use posthaste_core::ports::{ApiKey, KeyRole, KeyStore as _, Stores};
use serde::Serialize;
use utoipa::ToSchema;

/// So that people, and programs that look for leaked keys, know one when they see it.
const KEY_PREFIX: &str = "phk_";
const NAME_CHARS_MAX: usize = 200;

#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({
    "id": 2, "name": "shop", "role": "ingest", "created_at": "2026-01-31T12:00:00.000000Z", "last_used_at": null,
    "revoked_at": null
}))]
pub(crate) struct KeyView {
    id: i64,
    name: String,
    role: &'static str,
    created_at: Utc,
    last_used_at: Option<Utc>,
    revoked_at: Option<Utc>,
    /// At creation only.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
}

impl KeyView {
    fn of(key: ApiKey) -> Self {
        Self {
            id: key.id.get(),
            name: key.name,
            role: key.role.as_str(),
            created_at: Utc(key.created_at),
            last_used_at: key.last_used_at.map(Utc),
            revoked_at: key.revoked_at.map(Utc),
            key: None,
        }
    }
}

body! {
    #[schema(as = NewKey, example = json!({"name": "shop", "role": "ingest"}))]
    struct NewKeyBody {
        #[schema(value_type = String, min_length = 1, max_length = 200)]
        name: KeyName,
        /// What the key may do.
        #[schema(value_type = String)]
        role: KeyRole,
    }
}

#[derive(Debug)]
pub(crate) struct KeyName(String);

impl Text for KeyName {
    fn read_text(name: &str, text: String) -> Result<Self, String> {
        let chars = text.chars().take(NAME_CHARS_MAX + 1).count();
        if !(1..=NAME_CHARS_MAX).contains(&chars) || text.contains('\0') {
            return Err(format!("{name} must be 1 to {NAME_CHARS_MAX} characters, none of them U+0000"));
        }
        Ok(Self(text))
    }
}

/// Keys are few: people make them.
#[utoipa::path(
    get,
    path = "/v1/keys",
    tag = "keys",
    summary = "List API keys (role root)",
    responses((status = 200, description = "All of them", body = Listed<KeyView>)),
)]
pub(crate) async fn list<S: Stores>(State(api): Api<S>) -> ApiResult {
    let keys = api.keys.list_keys().await?;
    ok(&Listed { items: keys.into_iter().map(KeyView::of).collect(), next_cursor: None })
}

#[utoipa::path(
    post,
    path = "/v1/keys",
    tag = "keys",
    summary = "Make an API key (role root)",
    request_body = NewKeyBody,
    responses((status = 201, description = "Made; the key is shown once", body = KeyView)),
)]
pub(crate) async fn create<S: Stores>(
    State(api): Api<S>,
    Extension(by): Extension<Actor>,
    request: Request,
) -> ApiResult {
    let upload = receive_json(&api.uploads, request).await?;
    let mut fields = Fields::parse(upload.text()?)?;
    let NewKeyBody { name, role } = NewKeyBody::read(&mut fields)?;
    fields.finish()?;
    let key = format!("{KEY_PREFIX}{}", URL_SAFE_NO_PAD.encode(api.draw::<32>()));
    let made = api.keys.create_key(name.0, role, key_hash(&key), by, api.clock.now()).await?;
    json(StatusCode::CREATED, &KeyView { key: Some(key), ..KeyView::of(made) })
}

#[utoipa::path(
    delete,
    path = "/v1/keys/{id}",
    tag = "keys",
    summary = "Revoke an API key (role root)",
    params(("id" = i64, Path)),
    responses((status = 204, description = "Revoked")),
)]
pub(crate) async fn revoke<S: Stores>(
    State(api): Api<S>,
    Extension(by): Extension<Actor>,
    Path(text): Path<String>,
) -> ApiResult {
    let id = id("id", &text, KeyId::new)?;
    let revoked = api.keys.revoke_key(id, by, api.clock.now()).await?;
    api.known_keys.forget(id);
    if revoked { Ok(StatusCode::NO_CONTENT.into_response()) } else { Err(Problem::not_found("API key")) }
}
