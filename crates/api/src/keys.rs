//! Creates, lists and revokes API keys. A key is returned once, when it is created; only its hash is stored.

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
use posthaste_core::tenant::Tenant;
use serde::Serialize;
use utoipa::ToSchema;

/// The prefix of every key, by which people and secret scanners recognize it.
const KEY_PREFIX: &str = "phk_";
/// The maximum length of a key's name, in characters.
const NAME_CHARS_MAX: usize = 200;

/// An API key.
#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({
    "id": 2, "name": "shop", "role": "ingest", "tenant": null, "created_at": "2026-01-31T12:00:00.000000Z", "last_used_at": null,
    "revoked_at": null
}))]
pub(crate) struct KeyView {
    /// The id of the key.
    id: i64,
    /// The name of the key.
    name: String,
    /// The role, which determines the allowed operations.
    role: &'static str,
    /// The tenant whose objects the key may see and change; null for all tenants.
    tenant: Option<String>,
    /// The time at which the key was created.
    created_at: Utc,
    /// The time of the last use, accurate to one minute; null if the key was never used.
    last_used_at: Option<Utc>,
    /// The time at which the key was revoked; null if it is valid.
    revoked_at: Option<Utc>,
    /// The key itself. Included only in the response to its creation.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
}

impl KeyView {
    fn of(key: ApiKey) -> Self {
        Self {
            id: key.id.get(),
            name: key.name,
            role: key.role.as_str(),
            tenant: key.tenant.map(Tenant::into_string),
            created_at: Utc(key.created_at),
            last_used_at: key.last_used_at.map(Utc),
            revoked_at: key.revoked_at.map(Utc),
            key: None,
        }
    }
}

body! {
    /// A new API key.
    #[schema(as = NewKey, example = json!({"name": "shop", "role": "ingest"}))]
    struct NewKeyBody {
        /// A name for display and for the audit.
        #[schema(value_type = String, min_length = 1, max_length = 200)]
        name: KeyName,
        /// The role, which determines the allowed operations.
        #[schema(value_type = String)]
        role: KeyRole,
        /// The tenant whose objects the key may see and change. Without it, the key has access to all tenants. Keys of
        /// the roles root and orders have no tenant.
        #[schema(value_type = Option<String>, min_length = 1, max_length = 200)]
        tenant: Option<Tenant>,
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

#[utoipa::path(
    get,
    path = "/v1/keys",
    tag = "keys",
    operation_id = "list_keys",
    summary = "List API keys",
    description = "Returns all keys on one page, oldest first, including revoked ones.",
    security(("api_key" = ["root"])),
    responses((status = 200, description = "All keys", body = Listed<KeyView>)),
)]
pub(crate) async fn list<S: Stores>(State(api): Api<S>) -> ApiResult {
    let keys = api.keys.list_keys().await?;
    ok(&Listed { items: keys.into_iter().map(KeyView::of).collect(), next_cursor: None })
}

#[utoipa::path(
    post,
    path = "/v1/keys",
    tag = "keys",
    operation_id = "create_key",
    summary = "Create an API key",
    description = "Creates a key. The response contains the key itself, which is shown only once. A key with a `tenant` \
                   sees and changes only the events, subscriptions, deliveries and dead letters of this tenant: every \
                   other id is 404, and calls that concern the installation as a whole are 403.",
    security(("api_key" = ["root"])),
    request_body = NewKeyBody,
    responses((status = 201, description = "Created; contains the key", body = KeyView)),
)]
pub(crate) async fn create<S: Stores>(
    State(api): Api<S>,
    Extension(by): Extension<Actor>,
    request: Request,
) -> ApiResult {
    let upload = receive_json(&api.uploads, request).await?;
    let mut fields = Fields::parse(upload.text()?)?;
    let NewKeyBody { name, role, tenant } = NewKeyBody::read(&mut fields)?;
    if tenant.is_some() && !may_be_bound(role) {
        let role = role.as_str();
        let detail = format!("tenant must be left out for the role {role}, whose calls concern all tenants");
        return Err(fields.wrong("tenant", detail));
    }
    let key = format!("{KEY_PREFIX}{}", URL_SAFE_NO_PAD.encode(api.draw::<32>()));
    let made = api.keys.create_key(name.0, role, tenant, key_hash(&key), by, api.clock.now()).await?;
    json(StatusCode::CREATED, &KeyView { key: Some(key), ..KeyView::of(made) })
}

/// Returns whether a key of this role can be bound to a tenant.
const fn may_be_bound(role: KeyRole) -> bool {
    match role {
        KeyRole::Admin | KeyRole::Operator | KeyRole::Viewer | KeyRole::Ingest => true,
        KeyRole::Root | KeyRole::Orders => false,
    }
}

#[utoipa::path(
    delete,
    path = "/v1/keys/{id}",
    tag = "keys",
    operation_id = "delete_key",
    summary = "Revoke an API key",
    description = "Revokes a key for good. Other processes accept it for up to a second.",
    security(("api_key" = ["root"])),
    params(("id" = i64, Path, description = "The id of the key.")),
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
