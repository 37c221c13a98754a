//! Generates the OpenAPI 3.1 document from the handlers and their types. `/openapi.json` returns it. This file adds the
//! parts common to all operations: error responses, enums and the security scheme.
//!
//! Operation ids follow the paths: `list_` and `get_` for GET, `create_` for POST to a collection, `update_` for PATCH,
//! `replace_` for PUT, `delete_` for DELETE, each followed by the plural or singular of the resource. An action is
//! `<action>_<resource>`, such as `requeue_dead_letter`. A subresource has both names, such as `list_order_audit`.

use crate::problem::{Problem, ProblemKind};
use crate::{
    audit, dead_letters, deliveries, doctor, events, explain, health, keys, orders, outbox, stats,
    subscriptions, system,
};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use http::HeaderValue;
use http::header::CONTENT_TYPE;
use posthaste_core::history::Unmatched;
use posthaste_core::job::JobStatus;
use posthaste_core::lane::LaneMode;
use posthaste_core::order::OrderStatus;
use posthaste_core::ports::{KeyRole, Stage, Verified};
use posthaste_core::saga::SagaStatus;
use posthaste_core::subscription::VerificationMethod;
use posthaste_services::doctor::Status;
use std::collections::BTreeSet;
use std::sync::LazyLock;
use utoipa::Number;
use utoipa::openapi::path::{Operation, ParameterIn};
use utoipa::openapi::schema::{ArrayItems, Object, SchemaType, Type};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{Components, ContentBuilder, PathItem, Ref, RefOr, ResponseBuilder, Schema};
use utoipa::{Modify, OpenApi};

/// The name of the security scheme. The `security` attribute of each handler refers to it.
const KEY_SCHEME: &str = "api_key";
/// The description of the security scheme and its roles.
const KEY_SCHEME_DESCRIPTION: &str = "An API key in the header `Authorization: Bearer <key>`. Each key has one role. \
    An operation lists the role that it requires. The role `root` may call every operation; `operator` and `admin` may \
    also call those that require `viewer`. A key may be bound to a tenant: it then sees and changes only objects of \
    this tenant, and cannot call operations that concern the installation as a whole.";

#[derive(Debug, OpenApi)]
#[openapi(
    info(
        title = "Posthaste",
        description = "Posthaste delivers events to webhooks and orders to a broker. Times are in UTC (RFC 3339). \
                       Lists are paged: `next_cursor` is the `cursor` of the next page, and null on the last one. \
                       Errors are problem details (RFC 9457)."
    ),
    servers((url = "/", description = "The server that returned this document")),
    tags(
        (name = "events", description = "Publish events and see what became of them."),
        (name = "subscriptions", description = "Manage the webhooks that receive events."),
        (name = "deliveries", description = "See the deliveries of events to subscriptions, with their attempts."),
        (name = "dead letters", description = "See and requeue deliveries that get no further attempt."),
        (name = "orders", description = "Submit orders to the broker, and control the lane."),
        (name = "operations", description = "Observe the system and the changes made by people."),
        (name = "keys", description = "Manage API keys."),
        (name = "health", description = "Probes and metrics. They require no key."),
    ),
    paths(
        health::healthz,
        health::readyz,
        health::metrics,
        events::create,
        events::list,
        events::show,
        explain::show,
        subscriptions::create,
        subscriptions::list,
        subscriptions::show,
        subscriptions::update,
        subscriptions::remove,
        subscriptions::replacement::show,
        subscriptions::replacement::replace,
        subscriptions::matching::list,
        subscriptions::public_keys::show,
        subscriptions::rotation::rotate_secret,
        subscriptions::reseal::reseal_secrets,
        subscriptions::verification::verify,
        subscriptions::challenge::test,
        subscriptions::preview::preview,
        deliveries::list,
        deliveries::show,
        dead_letters::list,
        dead_letters::show,
        dead_letters::requeue_one,
        dead_letters::requeue_many,
        orders::create,
        orders::list,
        orders::show,
        orders::audit::list,
        outbox::show,
        outbox::resume,
        stats::show,
        system::show,
        doctor::show,
        audit::list,
        keys::list,
        keys::create,
        keys::revoke,
    ),
    components(schemas(Problem, events::CloudEvent)),
    modifiers(&Common)
)]
struct Document;

/// Adds the parts common to all operations.
#[derive(Debug)]
struct Common;

impl Modify for Common {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        let scheme =
            HttpBuilder::new().scheme(HttpAuthScheme::Bearer).description(Some(KEY_SCHEME_DESCRIPTION));
        let components = document.components.get_or_insert_default();
        components.add_security_scheme(KEY_SCHEME, SecurityScheme::Http(scheme.build()));
        refer_to_items(components);
        name_values(components);
        name_kinds(components);
        for (path, item) in &mut document.paths.paths {
            operations(item).for_each(complete_parameters);
            let has_id = path.contains('{');
            if path.starts_with("/v1/") {
                operations(item).for_each(|operation| refusals(operation, has_id));
            }
        }
    }
}

/// The prefix in the schema name of a page, followed by the schema name of its items.
const PAGE_PREFIX: &str = "Listed_";

/// Replaces the copy of the item schema in each page schema with a reference.
fn refer_to_items(components: &mut Components) {
    let names: BTreeSet<String> = components.schemas.keys().cloned().collect();
    for (name, schema) in &mut components.schemas {
        let Some(item) = name.strip_prefix(PAGE_PREFIX).filter(|item| names.contains(*item)) else {
            continue;
        };
        let RefOr::T(Schema::Object(page)) = schema else { continue };
        let Some(RefOr::T(Schema::Array(items))) = page.properties.get_mut("items") else { continue };
        items.items = ArrayItems::RefOrSchema(Box::new(RefOr::Ref(Ref::from_schema_name(item))));
    }
}

/// Adds the enum values of fields that are plain strings in the code.
fn name_values(components: &mut Components) {
    use LaneMode::{OneAtATime, Open, Paused, Throttled};
    let lane = [Open, Throttled, OneAtATime, Paused].map(LaneMode::as_str).to_vec();
    let orders = OrderStatus::ALL.map(OrderStatus::as_str).to_vec();
    let roles = KeyRole::ALL.map(KeyRole::as_str).to_vec();
    let methods = VerificationMethod::ALL.map(VerificationMethod::as_str).to_vec();
    let reasons = [
        Unmatched::CreatedLater,
        Unmatched::Deleted,
        Unmatched::OtherTenant,
        Unmatched::OtherType,
        Unmatched::Filtered,
        Unmatched::Paused,
        Unmatched::Unverified,
    ];
    let reasons =
        reasons.into_iter().map(Unmatched::as_str).chain(["changed_meanwhile", "missing"]).collect();
    let fields = [
        ("DeliveryView", "status", SagaStatus::ALL.map(SagaStatus::as_str).to_vec()),
        ("AttemptView", "status", JobStatus::ALL.map(JobStatus::as_str).to_vec()),
        ("Order", "status", orders.clone()),
        ("OrderTransition", "status_from", orders.clone()),
        ("OrderTransition", "status_to", orders),
        ("OutboxLane", "state", lane.clone()),
        ("LaneSeen", "lane", lane),
        ("KeyView", "role", roles.clone()),
        ("NewKey", "role", roles),
        ("NotMatched", "reason", reasons),
        ("VerificationRequest", "method", methods.clone()),
        ("Verified", "method", methods),
        ("CheckView", "status", [Status::Ok, Status::Warning, Status::Problem].map(Status::as_str).to_vec()),
        ("StageView", "stage", Stage::ALL.map(Stage::as_str).to_vec()),
        ("Stats", "window", vec!["1h", "24h"]),
        ("EngineView", "name", vec!["sqlite", "postgresql"]),
        ("TlsView", "verified", Verified::ALL.map(Verified::as_str).to_vec()),
        ("Healthy", "status", vec!["ok"]),
    ];
    for (schema, field, words) in fields {
        if let Some(field) = string_field(components, schema, field) {
            let null =
                (field.schema_type != SchemaType::Type(Type::String)).then_some(serde_json::Value::Null);
            field.enum_values = Some(words.into_iter().map(Into::into).chain(null).collect());
        }
    }
}

/// Lists the kinds of problems in the description of the field `type`.
fn name_kinds(components: &mut Components) {
    let kinds: Vec<String> =
        ProblemKind::ALL.iter().map(|kind| format!("`{}` ({})", kind.name(), kind.status())).collect();
    if let Some(field) = string_field(components, "Problem", "type") {
        field.description = Some(format!(
            "Identifies the kind of problem: `tag:posthaste,2026:problem/` and a name. It is not an address. The \
             names are {}.",
            kinds.join(", ")
        ));
    }
}

fn string_field<'a>(components: &'a mut Components, schema: &str, field: &str) -> Option<&'a mut Object> {
    let Some(RefOr::T(Schema::Object(object))) = components.schemas.get_mut(schema) else { return None };
    match object.properties.get_mut(field) {
        Some(RefOr::T(Schema::Object(field))) => Some(field),
        _ => None,
    }
}

fn operations(item: &mut PathItem) -> impl Iterator<Item = &mut Operation> {
    let PathItem { get, post, put, patch, delete, .. } = item;
    [get, post, put, patch, delete].into_iter().filter_map(Option::as_mut)
}

/// Sets the minimum of path ids, and allows empty query parameters, which are treated as absent.
fn complete_parameters(operation: &mut Operation) {
    for parameter in operation.parameters.iter_mut().flatten() {
        let RefOr::T(parameter) = parameter else { continue };
        if parameter.parameter_in == ParameterIn::Query {
            parameter.extensions = Some([("allowEmptyValue", true)].into_iter().collect());
        }
        let Some(RefOr::T(Schema::Object(object))) = &mut parameter.schema else { continue };
        if parameter.name == "id" && object.schema_type == SchemaType::Type(Type::Integer) {
            object.minimum = Some(Number::Int(1));
        }
    }
}

/// Adds the error responses that an operation may return.
fn refusals(operation: &mut Operation, has_id: bool) {
    let mut statuses = vec![
        (401, "The API key is missing, unknown or revoked"),
        (403, "The role of the API key does not allow this call, or the key is bound to a tenant"),
        (429, "This address has sent too many unknown API keys; try again after `Retry-After`"),
        (500, "A fault of the server"),
        (503, "The store is unavailable, or a limit is reached; try again after `Retry-After`"),
    ];
    let has_parameters = operation.parameters.as_ref().is_some_and(|list| !list.is_empty());
    if has_id || has_parameters || operation.request_body.is_some() {
        statuses.extend([
            (400, "The request is malformed"),
            (422, "A value is not valid; `errors` lists what is wrong"),
        ]);
    }
    if has_id {
        statuses.push((404, "The resource does not exist"));
    }
    if operation.request_body.is_some() {
        statuses.extend([
            (408, "The body was not received in time"),
            (413, "The request is too large"),
            (415, "The content type is not accepted, or the body is compressed"),
        ]);
    }
    for (status, description) in statuses {
        let problem = RefOr::Ref(Ref::from_schema_name("Problem"));
        let content = ContentBuilder::new().schema(Some(problem)).build();
        let response =
            ResponseBuilder::new().description(description).content(crate::problem::MEDIA_TYPE, content);
        operation.responses.responses.entry(status.to_string()).or_insert_with(|| response.build().into());
    }
}

static DOCUMENT: LazyLock<utoipa::openapi::OpenApi> = LazyLock::new(Document::openapi);

/// Returns the methods that a route supports. Routes that are not in the document are dashboard pages.
pub(crate) fn methods_of(route: &str) -> Vec<&'static str> {
    let Some(item) = DOCUMENT.paths.paths.get(route) else { return vec!["GET", "HEAD"] };
    let methods = [
        ("GET", item.get.is_some()),
        // The router serves HEAD with the GET handler.
        ("HEAD", item.get.is_some()),
        ("POST", item.post.is_some()),
        ("PUT", item.put.is_some()),
        ("PATCH", item.patch.is_some()),
        ("DELETE", item.delete.is_some()),
    ];
    methods.into_iter().filter(|(_, is_supported)| *is_supported).map(|(method, _)| method).collect()
}

/// The serialized document, shared by all responses.
static WRITTEN: LazyLock<Result<Bytes, serde_json::Error>> =
    LazyLock::new(|| serde_json::to_vec(&*DOCUMENT).map(Bytes::from));

pub(crate) async fn show() -> Result<Response, Problem> {
    let written = WRITTEN.as_ref();
    let written = written.map_err(|error| Problem::broken("the document could not be serialized", error))?;
    let media = HeaderValue::from_static("application/json");
    Ok(([(CONTENT_TYPE, media)], written.clone()).into_response())
}

/// Returns the OpenAPI document as formatted JSON.
pub fn document() -> Result<String, serde_json::Error> {
    serde_json::to_string_pretty(&*DOCUMENT)
}
