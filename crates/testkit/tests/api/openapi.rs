//! The OpenAPI document: it describes every call, its examples are accepted, and responses match it.

use crate::docs_page::is_call;
use crate::roles::CALLS;
use crate::server::TestApi;
use posthaste_core::ports::Stores;
use serde_json::{Value, json};
use std::collections::BTreeSet;

pub(crate) async fn the_document_describes_every_call<S: Stores>(api: &TestApi<S>) {
    let document = api.get("/openapi.json").no_key().expect(200).await;
    assert!(document["openapi"].as_str().is_some_and(|version| version.starts_with("3.1")));
    let mut found = BTreeSet::new();
    let mut names = BTreeSet::new();
    for (path, methods) in document["paths"].as_object().expect("paths") {
        for (method, operation) in methods.as_object().expect("methods") {
            assert!(
                names.insert(operation["operationId"].to_string()),
                "{method} {path} has a duplicate operation id"
            );
            assert!(operation["summary"].is_string(), "{method} {path}");
            if path.starts_with("/v1/") {
                // The path parameter of an order is its key, and a subscription has a uid.
                let path = path.replace("{idempotency_key}", "{id}").replace("{uid}", "{id}");
                found.insert(format!("{} {path}", method.to_uppercase()));
                for status in ["401", "403", "503"] {
                    assert!(operation["responses"][status].is_object(), "{method} {path} {status}");
                }
            }
        }
    }
    // In the roles table, a number represents any id.
    let call = |(method, path, _): &(&str, &str, &[&str])| {
        let part =
            |part: &str| if part.bytes().all(|b| b == b'9') { "{id}".to_owned() } else { part.to_owned() };
        let path: Vec<String> =
            path.split('/').map(|text| if text.is_empty() { String::new() } else { part(text) }).collect();
        format!("{method} {}", path.join("/"))
    };
    assert_eq!(found, CALLS.iter().map(call).collect());
}

/// Checks that the example bodies in the document are accepted unchanged.
pub(crate) async fn the_examples_are_accepted<S: Stores>(api: &TestApi<S>) {
    let document = api.get("/openapi.json").expect(200).await;
    let example = |name: &str| {
        let example = &document["components"]["schemas"][name]["example"];
        assert!(example.is_object(), "{name} has no example");
        Value::to_string(example)
    };
    api.post("/v1/events").json(example("NewEvent")).expect(202).await;
    let cloud = "application/cloudevents+json";
    api.post("/v1/events").header("content-type", cloud).body(example("CloudEvent")).expect(202).await;
    let made = api.post("/v1/subscriptions").json(example("NewSubscription")).expect(201).await;
    let path = format!("/v1/subscriptions/{}", made["id"]);
    api.call("PATCH", &path).json(example("SubscriptionChange")).expect(200).await;
    let by_uid = api.call("PUT", "/v1/subscriptions/uid/example");
    by_uid.json(example("NewSubscription")).expect(201).await;
    api.post(&format!("{path}/rotate-secret")).json(example("Rotation")).expect(200).await;
    api.post("/v1/subscriptions/reseal-secrets").json(example("ResealOptions")).expect(200).await;
    api.post("/v1/dead-letters/requeue").json(example("RequeueFilter")).expect(200).await;
    let order = example("NewOrder");
    let key = &document["components"]["schemas"]["NewOrder"]["example"]["idempotency_key"];
    let key = key.as_str().expect("a key");
    api.post("/v1/orders").header("idempotency-key", key).json(order).expect(202).await;
    api.post("/v1/keys").json(example("NewKey")).expect(201).await;
}

/// Checks that all operations, parameters, responses, schemas and properties have a description.
pub(crate) async fn everything_has_a_description<S: Stores>(api: &TestApi<S>) {
    let document = api.get("/openapi.json").expect(200).await;
    assert!(document["servers"][0]["url"].is_string(), "no servers");
    let mut missing = Vec::new();
    let mut check = |place: String, described: &Value| {
        if described["description"].as_str().is_none_or(|text| text.trim().is_empty()) {
            missing.push(place);
        }
    };
    for (path, methods) in document["paths"].as_object().expect("paths") {
        for (method, operation) in methods.as_object().expect("methods") {
            check(format!("{method} {path}"), operation);
            let id = operation["operationId"].as_str().expect("an id");
            assert!(id.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{id}");
            for parameter in operation["parameters"].as_array().into_iter().flatten() {
                check(format!("{method} {path} {}", parameter["name"]), parameter);
            }
            for (status, response) in operation["responses"].as_object().expect("responses") {
                check(format!("{method} {path} {status}"), response);
            }
        }
    }
    for (name, schema) in document["components"]["schemas"].as_object().expect("schemas") {
        check(name.clone(), schema);
        let parts = schema["allOf"].as_array().into_iter().flatten().chain([schema]);
        for (field, property) in parts.filter_map(|part| part["properties"].as_object()).flatten() {
            // A nullable reference has its description next to the reference.
            let choices = property["oneOf"].as_array().into_iter().flatten();
            let described =
                choices.clone().find(|choice| choice["description"].is_string()).unwrap_or(property);
            check(format!("{name}.{field}"), described);
        }
    }
    assert!(missing.is_empty(), "without a description: {missing:#?}");
}

/// Checks that every operation has a security requirement or an explicit empty one, and that its role is the one
/// enforced.
pub(crate) async fn roles_are_security_scopes<S: Stores>(api: &TestApi<S>) {
    let document = api.get("/openapi.json").expect(200).await;
    assert_eq!(document["components"]["securitySchemes"]["api_key"]["scheme"], "bearer");
    for (path, methods) in document["paths"].as_object().expect("paths") {
        for (method, operation) in methods.as_object().expect("methods") {
            let call =
                CALLS.iter().find(|(verb, call, _)| *verb == method.to_uppercase() && is_call(call, path));
            let expected = match call {
                None => json!([{}]),
                Some((_, _, roles)) => json!([{"api_key": [roles.first().unwrap_or(&"root")]}]),
            };
            assert_eq!(operation["security"], expected, "{method} {path}");
        }
    }
}

/// Checks that the example responses in the document match their schemas: types are correct, and no field is missing or
/// undocumented.
pub(crate) async fn responses_match_their_schemas<S: Stores>(api: &TestApi<S>) {
    let document = api.get("/openapi.json").expect(200).await;
    let schemas = document["components"]["schemas"].as_object().expect("schemas");
    for name in [
        "Accepted",
        "EventView",
        "Shown",
        "SubscriptionView",
        "SubscriptionMatch",
        "DeliveryView",
        "AttemptView",
        "DeadLetterView",
        "Requeued",
        "RequeuedMany",
        "KeyView",
        "Verified",
        "Tested",
        "Order",
        "OrderAudit",
        "OutboxLane",
        "Explanation",
        "Stats",
        "TenantStats",
        "System",
        "Problem",
    ] {
        assert!(schemas[name]["example"].is_object(), "{name} has no example");
    }
    for (name, schema) in schemas.iter().filter(|(_, schema)| !schema["example"].is_null()) {
        assert_eq!(misfits(&schema["example"], schema, &document), None, "{name}");
    }
    for (name, field, word) in [
        ("DeliveryView", "status", "PendingRetry"),
        ("AttemptView", "status", "Leased"),
        ("KeyView", "role", "operator"),
        ("Order", "status", "queued"),
        ("NewKey", "role", "viewer"),
        ("OrderTransition", "status_to", "dead"),
        ("OutboxLane", "state", "one_at_a_time"),
        ("CheckView", "status", "warning"),
        ("NotMatched", "reason", "missing"),
    ] {
        let words = schemas[name]["properties"][field]["enum"].as_array().expect("an enum");
        assert!(words.contains(&word.into()), "{name}.{field}: {words:?}");
    }
    let parameter = |path: &str, name: &str| {
        let parameters = document["paths"][path]["get"]["parameters"].as_array().expect("parameters");
        let found = parameters.iter().find(|parameter| parameter["name"] == name);
        found.unwrap_or_else(|| panic!("{path} has no {name}"))["schema"].clone()
    };
    for (path, name, word) in [
        ("/v1/deliveries", "status", "DeadLettered"),
        ("/v1/orders", "status", "dead"),
        ("/v1/subscriptions", "state", "paused"),
        ("/v1/audit", "action", "subscription_changed"),
        ("/v1/stats", "window", "24h"),
    ] {
        let words = parameter(path, name)["enum"].as_array().expect("an enum").clone();
        assert!(words.contains(&word.into()), "{path} {name}: {words:?}");
    }
    for path in ["/v1/events", "/v1/deliveries", "/v1/dead-letters", "/v1/audit"] {
        for name in ["since", "until"] {
            assert_eq!(parameter(path, name)["format"], "date-time", "{path} {name}");
        }
    }
    // The document also describes the binary mode of CloudEvents.
    let parameters = document["paths"]["/v1/events"]["post"]["parameters"].as_array().expect("parameters");
    let names: Vec<&str> = parameters.iter().filter_map(|parameter| parameter["name"].as_str()).collect();
    assert_eq!(names, ["ce-specversion", "ce-type", "ce-source", "ce-id", "posthaste-tenant"]);
    // The checker detects mismatches.
    for (broken, misfit) in [
        (json!({"id": 7}), ": duplicate is missing"),
        (json!({"id": "7", "duplicate": true}), ".id: \"7\" is no integer"),
        (json!({"id": 7, "duplicate": true, "more": 1}), ": more is not described"),
    ] {
        assert_eq!(misfits(&broken, &schemas["Accepted"], &document).as_deref(), Some(misfit));
    }
}

/// Returns the first mismatch between a value and its schema, or `None` if the value matches.
fn misfits(value: &Value, schema: &Value, document: &Value) -> Option<String> {
    if let Some(reference) = schema["$ref"].as_str() {
        let pointer = reference.strip_prefix('#').expect("a local reference");
        return misfits(value, document.pointer(pointer).expect("the referenced schema"), document);
    }
    if let Some(choices) = schema["oneOf"].as_array() {
        let is_one = choices.iter().any(|choice| misfits(value, choice, document).is_none());
        return (!is_one).then(|| format!(": no choice fits {value}"));
    }
    let several = schema["type"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let types: Vec<&str> = schema["type"].as_str().into_iter().chain(several).collect();
    let is = |name: &&str| match *name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("unknown type {other}"),
    };
    if !types.is_empty() && !types.iter().any(is) {
        return Some(format!(": {value} is no {}", types.join(" or ")));
    }
    if schema["enum"].as_array().is_some_and(|words| !words.contains(value)) {
        return Some(format!(": {value} is none of {}", schema["enum"]));
    }
    if let Some(items) = value.as_array() {
        let found = items.iter().find_map(|item| misfits(item, &schema["items"], document));
        return found.map(|misfit| format!("[]{misfit}"));
    }
    let (Some(fields), Some(known)) = (value.as_object(), schema["properties"].as_object()) else {
        return None;
    };
    let mut required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    if let Some(name) = required.find(|name| !fields.contains_key(*name)) {
        return Some(format!(": {name} is missing"));
    }
    let more = &schema["additionalProperties"];
    fields.iter().find_map(|(name, value)| match known.get(name) {
        Some(schema) => misfits(value, schema, document).map(|misfit| format!(".{name}{misfit}")),
        None if more.is_null() || *more == false => Some(format!(": {name} is not described")),
        None => None,
    })
}
