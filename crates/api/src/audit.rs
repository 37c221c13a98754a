//! Lists the operator audit, and records sign-ins. All other records are written by the store in the transaction of the
//! change.

use crate::events::raw;
use crate::problem::Problem;
use crate::query::{Listed, Query, ok};
use crate::state::{Api, ApiResult, ApiState};
use crate::time::Utc;
use crate::values::parameters;
use axum::extract::State;
use http::Uri;
use posthaste_core::audit::{Actor, AuditAction, OperatorAuditEntry, OperatorAuditFilter};
use posthaste_core::ports::{EXAMINED_MAX, KeyStore as _, ReaderStore as _, Stores};
use posthaste_core::{KeyId, Timestamp};
use serde::Serialize;
use serde_json::value::RawValue;
use std::net::IpAddr;
use utoipa::ToSchema;

pub(crate) const LIST: &str = "audit";

/// An audit record of a change or a sign-in by a person.
#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({
    "id": 12, "created_at": "2026-01-31T12:00:00.000000Z", "key_id": 2, "key_name": "ann",
    "client_address": "192.0.2.7", "action": "subscription_changed", "object": "subscriptions/3",
    "before": {"active": true}, "after": {"active": false}
}))]
pub(crate) struct AuditView {
    /// The id of the record.
    pub(crate) id: i64,
    /// The time of the change.
    pub(crate) created_at: Utc,
    /// The id of the API key; null for `POSTHASTE_ROOT_KEY` and for failed sign-ins.
    pub(crate) key_id: Option<i64>,
    /// The name of the API key; `root` for `POSTHASTE_ROOT_KEY`, null for failed sign-ins.
    pub(crate) key_name: Option<String>,
    /// The client address of the request, or the address of the proxy if the proxy is not trusted.
    pub(crate) client_address: Option<String>,
    /// The kind of change.
    pub(crate) action: String,
    /// The changed object, as a path relative to `/v1`; `dashboard` for sign-ins.
    pub(crate) object: String,
    /// The previous values, without secrets. For a change to a subscription, only the fields that differ.
    #[schema(value_type = Option<serde_json::Value>)]
    pub(crate) before: Option<Box<RawValue>>,
    /// The new values, without secrets.
    #[schema(value_type = Option<serde_json::Value>)]
    pub(crate) after: Option<Box<RawValue>>,
}

impl AuditView {
    fn of(entry: OperatorAuditEntry) -> Self {
        Self {
            id: entry.id.get(),
            created_at: Utc(entry.created_at),
            key_id: entry.key_id.map(KeyId::get),
            key_name: entry.key_name,
            client_address: entry.client_address,
            action: entry.action,
            object: entry.object,
            before: entry.before.map(raw),
            after: entry.after.map(raw),
        }
    }
}

parameters! {
    struct Parameters(LIST) -> OperatorAuditFilter {
        /// Returns only changes of this kind.
        action: AuditAction,
        /// Returns only changes made at this time or later.
        since: Timestamp,
        /// Returns only changes made before this time.
        until: Timestamp,
    }
}

#[utoipa::path(
    get,
    path = "/v1/audit",
    tag = "operations",
    operation_id = "list_audit",
    summary = "List the audit",
    description = "Returns changes made by people, newest first.",
    security(("api_key" = ["admin"])),
    params(Parameters),
    responses((status = 200, description = "A page of changes", body = Listed<AuditView>)),
)]
pub(crate) async fn list<S: Stores>(State(api): Api<S>, uri: Uri) -> ApiResult {
    ok(&find(&api, &uri, EXAMINED_MAX).await?)
}

/// Returns the page selected by the query parameters of `uri`.
pub(crate) async fn find<S: Stores>(
    api: &ApiState<S>,
    uri: &Uri,
    examined_max: u32,
) -> Result<Listed<AuditView>, Problem> {
    let (filter, page) = Parameters::read(Query::of(uri)?)?;
    let found = api.reader.operator_audit(filter, page.looking_at(examined_max)).await?;
    Ok(Listed::of(LIST, found, AuditView::of))
}

/// Records a sign-in. If the store cannot write the record, the sign-in still succeeds and is logged instead.
pub(crate) async fn signed_in<S: Stores>(api: &ApiState<S>, by: Actor) {
    if let Err(error) = api.keys.record_sign_in(by.clone(), api.clock.now()).await {
        let Actor { key_id, key_name, address } = by;
        let (key_id, address) = (key_id.map(KeyId::get), address.map(tracing::field::display));
        tracing::warn!(key_id, key_name, client_address = address, %error, "sign-in could not be written to the audit");
    }
}

/// Counts a failed sign-in. Records it unless one from the same address was recorded within the last minute.
pub(crate) async fn sign_in_failed<S: Stores>(api: &ApiState<S>, address: Option<IpAddr>) {
    let now = api.clock.now();
    let Some(failed) = api.failed_sign_ins.add(address, now) else { return };
    if let Err(error) = api.keys.record_failed_sign_ins(failed, now).await {
        let address = address.map(tracing::field::display);
        tracing::warn!(client_address = address, %error, "failed sign-in could not be written to the audit yet");
        api.failed_sign_ins.put_back(failed, now);
    }
}
