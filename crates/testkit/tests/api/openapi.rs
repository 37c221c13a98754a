//! The API's description of itself.

use crate::roles::CALLS;
use crate::server::TestApi;
use posthaste_core::ports::Stores;
use serde_json::Value;
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
                "{method} {path} has a name that is taken"
            );
            assert!(operation["summary"].is_string(), "{method} {path}");
            if path.starts_with("/v1/") {
                // An order goes by its key.
                let path = path.replace("{idempotency_key}", "{id}");
                found.insert(format!("{} {path}", method.to_uppercase()));
                for status in ["401", "403", "503"] {
                    assert!(operation["responses"][status].is_object(), "{method} {path} {status}");
                }
            }
        }
    }
    // In the table of roles a number stands for any id.
    let call = |(method, path, _): &(&str, &str, &[&str])| {
        let part =
            |part: &str| if part.bytes().all(|b| b == b'9') { "{id}".to_owned() } else { part.to_owned() };
        let path: Vec<String> =
            path.split('/').map(|text| if text.is_empty() { String::new() } else { part(text) }).collect();
        format!("{method} {}", path.join("/"))
    };
    assert_eq!(found, CALLS.iter().map(call).collect());
}

/// The bodies that the document shows can be sent as they are.
pub(crate) async fn its_examples_work<S: Stores>(api: &TestApi<S>) {
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
    api.post(&format!("{path}/rotate-secret")).json(example("Rotation")).expect(200).await;
    api.post("/v1/dead-letters/requeue").json(example("RequeueFilter")).expect(200).await;
    let order = example("NewOrder");
    let key = &document["components"]["schemas"]["NewOrder"]["example"]["idempotency_key"];
    let key = key.as_str().expect("a key");
    api.post("/v1/orders").header("idempotency-key", key).json(order).expect(202).await;
    api.post("/v1/keys").json(example("NewKey")).expect(201).await;
}
