//! The description of this API in OpenAPI 3.1, made from the handlers and the types they answer with. What
//! every call may be refused with is added in one place.

use crate::problem::Problem;
use crate::query::ITEMS_MAX;
use crate::{
    audit, dead_letters, deliveries, doctor, events, explain, health, keys, orders, outbox, stats,
    subscriptions, system,
};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use http::HeaderValue;
use http::header::CONTENT_TYPE;
use posthaste_core::job::JobStatus;
use posthaste_core::order::OrderStatus;
use posthaste_core::ports::KeyRole;
use posthaste_core::saga::SagaStatus;
use std::sync::LazyLock;
use utoipa::Number;
use utoipa::openapi::path::Operation;
use utoipa::openapi::schema::{SchemaType, Type};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{Components, ContentBuilder, PathItem, Ref, RefOr, ResponseBuilder, Schema};
use utoipa::{Modify, OpenApi};

const KEY_SCHEME: &str = "api_key";

#[derive(Debug, OpenApi)]
#[openapi(
    info(
        title = "Posthaste",
        description = "Every event to every webhook that subscribed to it, every order to its broker. \
                       Errors are application/problem+json (RFC 9457) and say what to do."
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
        subscriptions::rotate_secret,
        subscriptions::challenge::verify,
        subscriptions::challenge::test,
        deliveries::list,
        deliveries::show,
        dead_letters::list,
        dead_letters::show,
        dead_letters::requeue_one,
        dead_letters::requeue_many,
        orders::create,
        orders::list,
        orders::show,
        orders::audit,
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

/// What holds for every call.
#[derive(Debug)]
struct Common;

impl Modify for Common {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        let scheme = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build();
        let components = document.components.get_or_insert_default();
        components.add_security_scheme(KEY_SCHEME, SecurityScheme::Http(scheme));
        name_values(components);
        for (path, item) in &mut document.paths.paths {
            operations(item).for_each(name);
            operations(item).for_each(bound_numbers);
            let has_id = path.contains('{');
            if path.starts_with("/v1/") {
                operations(item).for_each(|operation| refusals(operation, has_id));
            }
        }
    }
}

/// Fields that hold one of a few words: the words are those of the core.
fn name_values(components: &mut Components) {
    let fields = [
        ("DeliveryView", "status", SagaStatus::ALL.map(SagaStatus::as_str).to_vec()),
        ("AttemptView", "status", JobStatus::ALL.map(JobStatus::as_str).to_vec()),
        ("Order", "status", OrderStatus::ALL.map(OrderStatus::as_str).to_vec()),
        ("KeyView", "role", KeyRole::ALL.map(KeyRole::as_str).to_vec()),
        ("NewKey", "role", KeyRole::ALL.map(KeyRole::as_str).to_vec()),
    ];
    for (schema, field, words) in fields {
        let Some(RefOr::T(Schema::Object(object))) = components.schemas.get_mut(schema) else { continue };
        let Some(RefOr::T(Schema::Object(field))) = object.properties.get_mut(field) else { continue };
        field.enum_values = Some(words.into_iter().map(Into::into).collect());
    }
}

fn operations(item: &mut PathItem) -> impl Iterator<Item = &mut Operation> {
    let PathItem { get, post, patch, delete, .. } = item;
    [get, post, patch, delete].into_iter().filter_map(Option::as_mut)
}

/// Handlers are named within their resource; the names of operations must differ.
fn name(operation: &mut Operation) {
    let tag = operation.tags.iter().flatten().next().map(|tag| tag.replace(' ', "_"));
    if let (Some(tag), Some(handler)) = (tag, &operation.operation_id) {
        operation.operation_id = Some(format!("{tag}_{handler}"));
    }
}

/// Ids begin at one, and a page has its largest size.
fn bound_numbers(operation: &mut Operation) {
    for parameter in operation.parameters.iter_mut().flatten() {
        let RefOr::T(parameter) = parameter else { continue };
        let Some(RefOr::T(Schema::Object(object))) = &mut parameter.schema else { continue };
        if object.schema_type == SchemaType::Type(Type::Integer) {
            let is_id = parameter.name == "id" || parameter.name.ends_with("_id");
            let is_limit = parameter.name == "limit";
            object.minimum = (is_id || is_limit).then_some(Number::Int(1)).or(object.minimum.take());
            object.maximum = is_limit.then_some(Number::UInt(ITEMS_MAX as usize)).or(object.maximum.take());
        }
    }
}

fn refusals(operation: &mut Operation, has_id: bool) {
    operation.security = Some(vec![SecurityRequirement::new(KEY_SCHEME, Vec::<String>::new())]);
    let mut statuses = vec![
        (401, "No API key, or one that is not known"),
        (403, "A key of another role"),
        (429, "Too many unknown keys from this address: try again after Retry-After"),
        (500, "A fault of ours"),
        (503, "The store is away or busy, or too much waits: try again after Retry-After"),
    ];
    let has_parameters = operation.parameters.as_ref().is_some_and(|list| !list.is_empty());
    if has_id || has_parameters || operation.request_body.is_some() {
        statuses.extend([(400, "Cannot be read"), (422, "Can be read and is wrong; names the field")]);
    }
    if has_id {
        statuses.push((404, "There is no such thing"));
    }
    if operation.request_body.is_some() {
        statuses.extend([
            (408, "The body came too slowly"),
            (413, "Too large"),
            (415, "Not JSON, or compressed"),
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

/// What a route answers to. The few that the document leaves out are pages to look at.
pub(crate) fn methods_of(route: &str) -> Vec<&'static str> {
    let Some(item) = DOCUMENT.paths.paths.get(route) else { return vec!["GET", "HEAD"] };
    let there = [
        ("GET", item.get.is_some()),
        // Whoever answers with a body can leave it out.
        ("HEAD", item.get.is_some()),
        ("POST", item.post.is_some()),
        ("PATCH", item.patch.is_some()),
        ("DELETE", item.delete.is_some()),
    ];
    there.into_iter().filter(|(_, is_there)| *is_there).map(|(method, _)| method).collect()
}

/// Written once: every response shares these bytes, also those that nobody reads.
static WRITTEN: LazyLock<Result<Bytes, serde_json::Error>> =
    LazyLock::new(|| serde_json::to_vec(&*DOCUMENT).map(Bytes::from));

pub(crate) async fn show() -> Result<Response, Problem> {
    let written = WRITTEN.as_ref();
    let written = written.map_err(|error| Problem::broken("the description could not be written", error))?;
    let media = HeaderValue::from_static("application/json");
    Ok(([(CONTENT_TYPE, media)], written.clone()).into_response())
}

/// The document as text, for whoever keeps a copy.
pub fn document() -> Result<String, serde_json::Error> {
    serde_json::to_string_pretty(&*DOCUMENT)
}
